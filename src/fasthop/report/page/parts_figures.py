"""The figures of parts of a whole: the stages of an epoch, and the kinds of memory at the peak."""

from __future__ import annotations

from fasthop.measure.run import Result
from fasthop.report.figures import fixed, number, size
from fasthop.report.page.figure import Figure, tip
from fasthop.report.page.ladder_figures import recipe_names
from fasthop.report.page.specs import part_colors, stacked
from fasthop.report.parts import kind_name, leaf_kinds, leaf_stages, stage_name
from fasthop.report.rows import header_line
from fasthop.report.words import phrase

ORDER = ("sample", "gather", "transfer", "forward", "backward", "step", "fused", "other")
# What a part does has a colour, full in the forward pass and lighter in the backward pass; the rest are apart.
_WORK_COLORS = {"aggregate": 1, "transform": 2, "elementwise": 3, "overhead": 6, "fused": 7}
_STAGE_COLORS = {
    "sample": "$series5", "gather": "$light5", "transfer": "$light4", "step": "$series4",
    "fused": "$series7",
    "forward": "$series1", "backward": "$light1", "forward.other": "$light0", "backward.other": "$light0",
    "other": "$series0",
}  # fmt: skip


def stage_order(keys: list[str]) -> list[str]:
    """Stages in the order in which an epoch has them, unknown ones last."""
    places = {stage: place for place, stage in enumerate(ORDER)}
    return sorted(keys, key=lambda key: places.get(key.partition(".")[0], len(ORDER)))


def stage_colors(keys: list[str]) -> list[str]:
    """The colours of stages; of those that are not known, the next ones in turn."""
    found = []
    for key, usual in zip(keys, part_colors(len(keys)), strict=True):
        stage, _, work = key.partition(".")
        if stage in ("forward", "backward") and work in _WORK_COLORS:
            found.append(f"${'series' if stage == 'forward' else 'light'}{_WORK_COLORS[work]}")
        else:
            found.append(_STAGE_COLORS.get(key, usual))
    return found


def stages_figure(result: Result, lang: str) -> Figure | None:
    """The shares of an epoch; None where no recipe has them."""
    found = {
        name: leaves
        for name, run in zip(recipe_names(result), result.runs, strict=True)
        if (leaves := leaf_stages(run))
    }
    if not found:
        return None
    order = stage_order(list(dict.fromkeys(key for leaves in found.values() for key in leaves)))
    data, rows = [], []
    for name, leaves in found.items():
        whole = sum(leaves.values())
        for key, value in leaves.items():
            stage, share = stage_name(key, lang), fixed(100 * value / whole)
            fields = {"name": name, "stage": stage, "time": number(value), "share": share}
            said = phrase("page.stage_said", lang, epoch=number(whole), **fields)
            place = order.index(key)
            data.append(
                {
                    "recipe": name, "part": stage, "order": place, "share": value / whole,
                    "tip": tip(said), "said": said,
                }
            )  # fmt: skip
            rows.append((name, stage, number(value), share))
    colors = dict(zip((stage_name(key, lang) for key in order), stage_colors(order), strict=True))
    axis = {"format": ".0%"}
    return Figure(
        key="stages",
        title=phrase("page.stages", lang),
        note=phrase("page.stages_note", lang),
        spec=stacked(
            phrase("page.share_axis", lang),
            field="share",
            axis=axis,
            parts=list(colors),
            colors=list(colors.values()),
            num_rows=len(found),
        ),
        datasets={"parts": data},
        head=(
            header_line("recipe", lang),
            *(phrase(f"col.{key}", lang) for key in ("stage", "stage_time", "share")),
        ),
        rows=rows,
        left=2,
    )


def kinds_figure(result: Result, lang: str) -> Figure | None:
    """Memory at the peak by kind; None where no recipe has it."""
    found = {
        name: (run, kinds)
        for name, run in zip(recipe_names(result), result.runs, strict=True)
        if (kinds := leaf_kinds(run))
    }
    if not found:
        return None
    order = list(dict.fromkeys(key for _, kinds in found.values() for key in kinds))
    data, rows = [], []
    for name, (run, kinds) in found.items():
        whole = sum(kinds.values())
        operator = run.peak_operator or ""
        for key, value in kinds.items():
            kind, share = kind_name(key, lang), fixed(100 * value / whole)
            fields = {"name": name, "kind": kind, "memory": size(value), "share": share}
            first = phrase("page.kind_said", lang, whole=size(whole), **fields)
            second = phrase("page.operator_said", lang, operator=operator) if operator else ""
            data.append(
                {
                    "recipe": name, "part": kind, "order": order.index(key), "memory": value / 1e6,
                    "tip": tip(first, second), "said": first,
                }
            )  # fmt: skip
            rows.append((name, kind, operator, size(value), share))
    names = list(dict.fromkeys(kind_name(key, lang) for key in order))
    axis = {"format": ",~r"}
    columns = ("kind", "peak_operator", "bytes", "share")
    return Figure(
        key="kinds",
        title=phrase("page.kinds", lang),
        note=phrase("page.kinds_note", lang),
        spec=stacked(
            phrase("page.memory_axis", lang),
            field="memory",
            axis=axis,
            parts=names,
            colors=part_colors(len(names)),
            num_rows=len(found),
        ),
        datasets={"parts": data},
        head=(header_line("recipe", lang), *(phrase(f"col.{key}", lang) for key in columns)),
        rows=rows,
        left=3,
    )
