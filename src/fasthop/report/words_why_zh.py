"""The Chinese phrases that say why, with the keys and fields of `words_why_en`."""

from __future__ import annotations

PHRASES: dict[str, str] = {
    "list.comma": "、",
    "list.and": "{first} 和 {last}",
    "explain.the_baseline": "基线",
    # causes and stages within a sentence
    "cause.aggregate": "聚合",
    "cause.transform": "矩阵乘法",
    "cause.elementwise": "逐元素运算",
    "cause.overhead": "框架开销",
    "cause.fused": "编译生成的内核",
    "cause.sample": "采样与取特征",
    "cause.transfer": "向设备传输",
    "cause.step": "优化器更新",
    "cause.other": "其他工作",
    "cause.all_but_products": "矩阵乘法以外的全部工作",
    "alone.sample": "邻居采样",
    "alone.gather": "批次取特征",
    "alone.fused": "重放的计算图",
    "within.forward": "前向的{part}",
    "within.backward": "反向的{part}",
    # where an epoch goes
    "where.parts": "时间分布：{parts}。",
    "where.item": "{part}占 {share}%",
    "where.dominant": "大部分是{part}。",
    "where.spread": "没有哪一部分占到一半，最多的是{part}。",
    "rate.transform": "全部运算合计达到 {speed} GFLOP/s，而本机的 float32 矩阵乘法可达 {peak} GFLOP/s。",
    "rate.aggregate": (
        "每个 epoch 须搬运 {moved}，实际速率为 {speed} GB/s；本机随机取行的速率为 {gather} GB/s，顺序复制为 {copy} GB/s。"
    ),
    "rate.overhead": "{time} ms 的框架开销，相当于在本机调用最小的算子约 {count} 次（每次 {us} µs）。",
    "floor.share": "按本机实测峰值，它的运算与数据搬运至少需要 {floor} ms：目前达到这一下限的 {share}%。",
    "floor.met": "按运算量与搬运量计，它已达到本机实测峰值所允许的速度（{floor} ms）。",
    # beside the row that a recipe is built on
    "beside.faster": "速度是 {before} 的 {ratio} 倍（95% 区间 {ratio_span}）。",
    "beside.slower": "比 {before} 慢，速度只有它的 {ratio} 倍（95% 区间 {ratio_span}）。",
    "beside.same": "与 {before} 相比无显著变化（速度比的 95% 区间 {ratio_span} 包含 1）。",
    "moved.main": "与 {before} 相比，{parts}。",
    "moved.against": "同时，{parts}。",
    "moved.balanced": "与 {before} 相比，{fell}，但{rose}。",
    "moved.none": "各阶段与 {before} 相差都不超过一个 epoch 的 {percent}%。",
    "moved.fell": "{part}从 {before} 降到 {after} ms",
    "moved.rose": "{part}从 {before} 升到 {after} ms",
    "moved.new": "{part}新增 {after} ms",
    "moved.gone": "{part}从 {before} ms 降到零",
    "moved.of_gain": "（占所省时间的 {share}%）",
    "moved.of_loss": "（占新增时间的 {share}%）",
    "moved.share": "（{share}%）",
    # why
    "explain.idea": "思路：{why}",
    "lead.slower": "在这里没有帮助：",
    "lead.same": "在这里没有差别：",
    "why.hit": "它针对的是{target}（占 {before} 一个 epoch 的 {share}%），收益也正在此处：从 {from_ms} 降到 {to_ms} ms。",
    "why.partly": (
        "它针对的是{target}（占 {before} 一个 epoch 的 {share}%），这部分从 {from_ms} 变为 {to_ms} ms，只占所省时间的 {part}%。"
    ),
    "why.beside": "它所针对的{target}并没有变快（原为 {from_ms} ms，现为 {to_ms} ms）：收益来自别处。",
    "why.small": (
        "{before} 的一个 epoch 有 {largest_share}% 花在{largest}上，而它所针对的{target}只占 {share}%（{from_ms} → {to_ms} ms）。"
    ),
    "why.kept": "它也没有让{largest}变快（{from_ms} → {to_ms} ms）。",
    "why.unhelped": "它所针对的{target}占 {before} 一个 epoch 的 {share}%，原为 {from_ms} ms，现为 {to_ms} ms。",
    "why.eaten": "它所针对的{target}从 {from_ms} 降到 {to_ms} ms，但其余部分从 {rest_from} 升到 {rest_to} ms。",
    "why.little": "它所针对的{target}从 {from_ms} 降到 {to_ms} ms，这点变化淹没在一个 epoch 的波动之中。",
    # when it would pay
    "outlook.bound": "即使{target}完全不花时间，{before} 的 epoch 速度也最多变为 {most} 倍。",
    "outlook.larger": "图若大 {times} 倍，这部分不变而其余工作增为 {times} 倍，则最多为 {most} 倍。",
    "outlook.format": "本机 bfloat16 矩阵乘法为 {bf16} GFLOP/s，是 float32（{fp32} GFLOP/s）的 {times} 倍。",
    "outlook.format_same": (
        "本机的矩阵乘法在 bfloat16 下为 {bf16} GFLOP/s，在 float32 下为 {fp32} GFLOP/s，换格式几乎没有好处；"
        "换用带 16 位矩阵单元的处理器才可能有。"
    ),
    "outlook.format_bound": "即使每次乘法都快这么多，{before} 的 epoch 速度也最多变为 {most} 倍。",
    "outlook.loader": (
        "它的一个 epoch 有 {share}% 花在采样与取特征上；即使这部分不花时间，一个 epoch 也要 {left} ms，速度是基线的 {ratio} 倍。"
    ),
    "outlook.fits": "全批次连同输入在这里占 {full}（共 {total}）：图要大到约 {times} 倍，才会因内存而需要采样。",
    "outlook.nearly_full": "全批次连同输入在这里占 {full}（共 {total}）：图大到 {times} 倍就会占满内存，那时就需要采样。",
    "outlook.receptive": "它之所以划算，是因为训练节点少：{nodes} 个节点中只有 {trained} 个（{share}%）；训练节点越多，省得越少。",
    # memory at the peak
    "kinds.at_peak": "峰值时刻，除输入之外内存中有：{parts}。",
    "kinds.item": "{kind}占 {memory}",
    "kinds.moved": "峰值时刻，{parts}。",
    "kinds.less": "{kind}从 {before} 降到 {after}",
    "kinds.more": "{kind}从 {before} 升到 {after}",
    "kinds.new": "{kind}新增 {after}",
    "kinds.gone": "{kind}从 {before} 降到零",
    "kinds.operator": "当时的算子是 {operator}。",
    # costs
    "cost.proof": "证明用时 {proof} s。",
    "dominated.compile": (
        "编译与准备用了 {paid} s，而要训练的 {epochs} 个 epoch 只需 {trained} s：全部时间的 {share}% 花在第一个 epoch 之前。"
    ),
    "dominated.prepare": (
        "准备用了 {paid} s，而要训练的 {epochs} 个 epoch 只需 {trained} s：全部时间的 {share}% 花在第一个 epoch 之前。"
    ),
    # the whole ladder
    "head.whole": "整个阶梯说明了什么",
    "whole.baseline": "基线的一个 epoch 需要 {time} ms。",
    "whole.faster": "epoch 比基线快的有：{names}。",
    "whole.same": "无显著变化的有：{names}。",
    "whole.slower": "epoch 比基线慢的有：{names}。",
    "whole.item": "{name}（{ratio} 倍）",
    "whole.item_aim": "{name}（{ratio} 倍；针对{target}，占 {before} 一个 epoch 的 {share}%）",
    "whole.item_same": "{name}（针对{target}，占 {before} 一个 epoch 的 {share}%）",
    "whole.compile": "编译比全部 {epochs} 个 epoch 还久的有：{names}。",
    "whole.most": "即使{part}完全不花时间，速度也最多变为 {most} 倍。",
    "whole.next_none": "步数相同的方案都没有让 epoch 变短：首先要缩短的仍是{part}（{share}%）。",
    "whole.next": "步数相同者中 epoch 最短的是 {name}（{time} ms），它的时间现在最多花在{part}上（{share}%）：下一步应从这里入手。",
    # the recommendation
    "best.bitwise": "{name} 与基线逐位一致。",
    "best.reassociated": "{name} 的计算与基线相同，只是求和次序不同。",
    "best.statistical": "{name} 与基线只在统计意义上等价：还要看它的准确率。",
    "best.memory": "最省内存的是 {name}：峰值 {memory}（{chosen} 为 {other}），每个 epoch {time} ms。",
    # the terminal
    "brief.legend": "（a–b）为 95% 区间，速度按轮次配对。",
    "brief.target": "达标用时：验证集达到 {target}%，含全部前期开销。",
    "brief.in_full": "完整报告：fasthop report {folder} --full",
    "brief.here": "这里的最佳方案",
}
