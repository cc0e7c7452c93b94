"""The English phrases that say why. `words_why_zh` has the same keys with the same fields."""

from __future__ import annotations

PHRASES: dict[str, str] = {
    "list.comma": ", ",
    "list.and": "{first} and {last}",
    "explain.the_baseline": "the baseline",
    # causes and stages within a sentence
    "cause.aggregate": "aggregation",
    "cause.transform": "matrix products",
    "cause.elementwise": "elementwise work",
    "cause.overhead": "framework overhead",
    "cause.fused": "compiled kernels",
    "cause.sample": "sampling and gathering batches",
    "cause.transfer": "copies to the device",
    "cause.step": "the optimiser step",
    "cause.other": "other work",
    "cause.all_but_products": "all but matrix products",
    "alone.sample": "sampling neighbors",
    "alone.gather": "gathering the batches' rows",
    "alone.fused": "the replayed graph",
    "within.forward": "{part} in the forward pass",
    "within.backward": "{part} in the backward pass",
    # where an epoch goes
    "where.parts": "Its time goes into {parts}.",
    "where.item": "{part} ({share} %)",
    "where.dominant": "Most of it is {part}.",
    "where.spread": "Nothing has half of it; the largest part is {part}.",
    "rate.transform": "All its operations together run at {speed} GFLOP/s, where float32 products reach {peak} on this machine.",
    "rate.aggregate": (
        "It has to move {moved} an epoch and does so at {speed} GB/s; this machine gathers random rows at {gather} GB/s and "
        "copies at {copy} GB/s."
    ),
    "rate.overhead": (
        "{time} ms of framework overhead is what about {count} calls of the smallest operator take here ({us} µs each)."
    ),
    "floor.share": (
        "At this machine's measured peaks its operations and traffic need at least {floor} ms: it reaches {share} % of that floor."
    ),
    "floor.met": "It is as fast as this machine's measured peaks allow by count ({floor} ms).",
    # beside the row that a recipe is built on
    "beside.faster": "That is {ratio}× as fast as {before} (95 % interval {ratio_span}).",
    "beside.slower": "That is slower than {before}, at {ratio}× its speed (95 % interval {ratio_span}).",
    "beside.same": "Against {before} that is no significant change (the 95 % interval of the ratio, {ratio_span}, holds 1).",
    "moved.main": "Against {before}, {parts}.",
    "moved.against": "At the same time, {parts}.",
    "moved.balanced": "Against {before}, {fell}, but {rose}.",
    "moved.none": "No stage of an epoch differs from {before}'s by more than {percent} % of it.",
    "moved.fell": "{part} fell from {before} to {after} ms",
    "moved.rose": "{part} rose from {before} to {after} ms",
    "moved.new": "{part} came on top with {after} ms",
    "moved.gone": "{part} fell from {before} ms to nothing",
    "moved.of_gain": " ({share} % of what was gained)",
    "moved.of_loss": " ({share} % of what was added)",
    "moved.share": " ({share} %)",
    # why
    "explain.idea": "The idea: {why}",
    "lead.slower": "It did not help here: ",
    "lead.same": "It made no difference here: ",
    "why.hit": "It is meant for {target}, {share} % of {before}'s epoch, and gained there: from {from_ms} to {to_ms} ms.",
    "why.partly": (
        "It is meant for {target}, {share} % of {before}'s epoch, which went from {from_ms} to {to_ms} ms: only {part} % of "
        "what was gained."
    ),
    "why.beside": (
        "What it is meant for, {target}, did not get faster ({from_ms} ms before, {to_ms} ms now): the gain came from elsewhere."
    ),
    "why.small": (
        "{largest_share} % of {before}'s epoch goes into {largest}, and only {share} % into {target}, which it is meant for "
        "({from_ms} → {to_ms} ms)."
    ),
    "why.kept": "Nor did it speed up {largest} ({from_ms} → {to_ms} ms).",
    "why.unhelped": (
        "{target}, which it is meant for ({share} % of {before}'s epoch), took {from_ms} ms before and {to_ms} ms with it."
    ),
    "why.eaten": (
        "{target}, which it is meant for, fell from {from_ms} to {to_ms} ms, but all the rest rose from {rest_from} to {rest_to} ms."
    ),
    "why.little": "{target}, which it is meant for, fell from {from_ms} to {to_ms} ms, and that is lost in the noise of an epoch.",
    # when it would pay
    "outlook.bound": "Were all {target} free, {before}'s epoch would become at most {most}× as fast.",
    "outlook.larger": (
        "On a graph {times} times as large, with as much of it and {times} times the other work, that would be at most {most}×."
    ),
    "outlook.format": (
        "This machine multiplies matrices {times}× as fast in bfloat16 ({bf16} GFLOP/s) as in float32 ({fp32} GFLOP/s)."
    ),
    "outlook.format_same": (
        "This machine multiplies matrices at {bf16} GFLOP/s in bfloat16 and at {fp32} GFLOP/s in float32, so there is "
        "next to nothing to gain from the format; on a processor with 16-bit matrix units there may be."
    ),
    "outlook.format_bound": "Were every product that much faster, {before}'s epoch would become at most {most}× as fast.",
    "outlook.loader": (
        "{share} % of its epoch goes into sampling and gathering; were that free, an epoch would take {left} ms, "
        "{ratio}× the baseline's speed."
    ),
    "outlook.fits": (
        "With its inputs the full batch takes {full} of {total} here: memory calls for sampling only on graphs about "
        "{times} times as large."
    ),
    "outlook.nearly_full": (
        "With its inputs the full batch takes {full} of {total} here: a graph {times} times as large fills the memory, and then "
        "sampling is needed."
    ),
    "outlook.receptive": (
        "It pays because few nodes are trained on, {trained} of {nodes} ({share} %); the more there are, the less it saves."
    ),
    # memory at the peak
    "kinds.at_peak": "At the peak, beside the inputs, memory holds {parts}.",
    "kinds.item": "{memory} of {kind}",
    "kinds.moved": "At the peak {parts}.",
    "kinds.less": "{kind} fell from {before} to {after}",
    "kinds.more": "{kind} rose from {before} to {after}",
    "kinds.new": "{kind} came on top with {after}",
    "kinds.gone": "{kind} fell from {before} to nothing",
    "kinds.operator": "The operator there is {operator}.",
    # costs
    "cost.proof": "The proof took {proof} s.",
    "dominated.compile": (
        "Compiling and preparing took {paid} s, the {epochs} epochs asked for take {trained} s: {share} % of the whole is "
        "spent before the first epoch."
    ),
    "dominated.prepare": (
        "Preparing took {paid} s, the {epochs} epochs asked for take {trained} s: {share} % of the whole is spent before the "
        "first epoch."
    ),
    # the whole ladder
    "head.whole": "What the ladder shows",
    "whole.baseline": "An epoch of the baseline takes {time} ms.",
    "whole.faster": "Faster epochs than the baseline's: {names}.",
    "whole.same": "No significant change: {names}.",
    "whole.slower": "Slower epochs: {names}.",
    "whole.item": "{name} ({ratio}×)",
    "whole.item_aim": "{name} ({ratio}×; meant for {target}, {share} % of {before}'s epoch)",
    "whole.item_same": "{name} (meant for {target}, {share} % of {before}'s epoch)",
    "whole.compile": "Compilation takes longer than all {epochs} epochs in: {names}.",
    "whole.most": "Were all {part} free, an epoch would become at most {most}× as fast.",
    "whole.next_none": "No recipe with as many steps made the epoch shorter: what is left to shorten first is {part} ({share} %).",
    "whole.next": "The shortest epoch of equal steps, {name} with {time} ms, now goes into {part} most ({share} %): there the next gain lies.",
    # the recommendation
    "best.bitwise": "{name} gives the same bits as the baseline.",
    "best.reassociated": "{name} computes the same as the baseline, with sums in another order.",
    "best.statistical": "{name} is equal to the baseline only statistically: look at its accuracy.",
    "best.memory": "Least memory: {name}, with a peak of {memory} against {chosen}'s {other}, at {time} ms an epoch.",
    # the terminal
    "brief.legend": "(a–b): 95 % intervals, speed paired.",
    "brief.target": "Time to accuracy: {target} % in validation, costs included.",
    "brief.in_full": "In full: fasthop report {folder} --full",
    "brief.here": "Best here",
}
