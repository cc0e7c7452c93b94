"""A diagnosis as text: the findings, worst first, and the graph's figures, in English or Chinese."""

from __future__ import annotations

from fasthop.graph.diagnosis import Diagnosis
from fasthop.graph.stats import GraphStats
from fasthop.report.words import line

LEVELS = {
    "error": ("error", "错误"),
    "warning": ("warning", "警告"),
    "note": ("note", "说明"),
}
MENDABLE = ("--fix repairs it", "--fix 可修复")
LABELS = {
    "nodes": ("nodes", "节点"),
    "edges": ("edges", "边"),
    "in": ("in-degree (least, median, most)", "入度（最小、中位、最大）"),
    "out": ("out-degree (least, median, most)", "出度（最小、中位、最大）"),
    "isolated": ("isolated nodes", "孤立节点"),
    "loops": ("self-loops", "自环"),
    "parallel": ("parallel edges", "平行边"),
    "components": ("components", "连通分量"),
    "homophily": ("edge homophily", "边同质性"),
    "features": ("features", "特征"),
    "classes": ("labels", "标签"),
    "split": ("split", "划分"),
}
# So many classes are shown with their counts; of more, the smallest and the largest.
MOST_CLASSES = 12


def diagnosis_text(diagnosis: Diagnosis, lang: str) -> str:
    """The findings and the statistics, a line each."""
    zh = lang == "zh"
    pick = 1 if zh else 0
    order = list(LEVELS)
    lines = []
    for found in sorted(diagnosis.findings, key=lambda one: order.index(one.level)):
        mark = f" [{MENDABLE[pick]}]" if found.is_mendable and found.level == "error" else ""
        colon = "：" if zh else ": "
        lines.append(f"{LEVELS[found.level][pick]}{colon}{found.text(lang)}{mark}")
    counts = [sum(found.level == level for found in diagnosis.findings) for level in order]
    if zh:
        said = f"{diagnosis.name}：{counts[0]} 个错误，{counts[1]} 个警告，{counts[2]} 条说明。"
    else:
        plural = [f"{n} {level}{'' if n == 1 else 's'}" for n, level in zip(counts, order, strict=True)]
        said = f"{diagnosis.name}: {', '.join(plural)}."
    rows = statistics_rows(diagnosis.stats, lang)
    return "\n".join([*lines, said, *rows]) + "\n"


def statistics_rows(stats: GraphStats, lang: str) -> list[str]:
    """The figures that are known, in columns."""
    from rich.cells import cell_len

    zh = lang == "zh"
    pairs = [(LABELS[key][1 if zh else 0], value) for key, value in _figures(stats, zh).items() if value]
    width = max((cell_len(name) for name, _ in pairs), default=0)
    return [f"  {name}{' ' * (width - cell_len(name) + 2)}{value}" for name, value in pairs]


def _figures(stats: GraphStats, zh: bool) -> dict[str, str]:
    comma = "，" if zh else ", "
    found: dict[str, str] = {}
    if stats.num_nodes is not None:
        found["nodes"] = f"{stats.num_nodes:,}"
    if stats.num_edges is not None:
        kind = (
            ("有向" if stats.directed else "无向") if zh else ("directed" if stats.directed else "undirected")
        )
        found["edges"] = f"{stats.num_edges:,}{comma}{kind}"
        found["in"] = f"{stats.min_degree:,}{comma}{stats.median_degree:,}{comma}{stats.max_degree:,}"
        found["out"] = (
            f"{stats.min_out_degree:,}{comma}{stats.median_out_degree:,}{comma}{stats.max_out_degree:,}"
        )
        found["isolated"] = f"{stats.num_isolated:,}"
        found["loops"] = f"{stats.num_self_loops:,}"
        found["parallel"] = f"{stats.num_parallel:,}"
        largest = "最大的含" if zh else "the largest with"
        unit = "个节点" if zh else "nodes"
        found["components"] = f"{stats.num_components:,}{comma}{largest} {stats.largest_component:,} {unit}"
    if stats.homophily is not None:
        found["homophily"] = f"{stats.homophily:.3f}"
    if stats.num_features is not None:
        share = "" if stats.x_density is None else f"{100 * stats.x_density:.3g} %"
        nonzero = f"{comma}{'非零' if zh else 'non-zero'} {share}" if share else ""
        found["features"] = f"{stats.num_features:,}{nonzero}"
    if stats.class_counts is not None:
        found["classes"] = _balance(stats, zh)
    sizes = [
        f"{name} {value:,}"
        for name, value in zip(
            ("训练", "验证", "测试") if zh else ("train", "val", "test"),
            (stats.num_train, stats.num_val, stats.num_test),
            strict=True,
        )
        if value is not None
    ]
    found["split"] = comma.join(sizes)
    return found


def _balance(stats: GraphStats, zh: bool) -> str:
    counts = stats.class_counts or ()
    missing = f"；{stats.num_unlabelled:,} 个无标签" if zh else f"; {stats.num_unlabelled:,} without"
    ends = missing if stats.num_unlabelled else ""
    if not counts:
        return "0" + ends
    if len(counts) > MOST_CLASSES:
        smallest, largest = min(counts), max(counts)
        if zh:
            return f"{len(counts):,} 类，每类 {smallest:,} 到 {largest:,} 个节点{ends}"
        return f"{len(counts):,} classes of {smallest:,} to {largest:,} nodes{ends}"
    names = stats.class_names or tuple(map(str, range(len(counts))))
    each = ", ".join(f"{line(name)}: {count:,}" for name, count in zip(names, counts, strict=True))
    return f"{each}{ends}"
