"""What a tune found in plain text: the plan with its evidence, the table of trials, why it stopped; in English or Chinese."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

from fasthop.errors import InvalidConfig
from fasthop.graph.note import Note, note
from fasthop.search.amounts import bytes_text, seconds_text

if TYPE_CHECKING:
    from fasthop.search.attempt import Attempt
    from fasthop.search.tuned import Tuned

OUTCOMES: dict[str, Note] = {
    "measured": note("measured", "已测量"),
    "halved": note("left behind", "被淘汰"),
    "foreseen": note("cannot win", "不可能胜出"),
    "does_not_fit": note("does not fit", "内存放不下"),
    "inapplicable": note("does not apply", "不适用"),
    "failed": note("failed", "失败"),
    "unfinished": note("unfinished", "未完成"),
}
HEADINGS = (
    note("candidate", "候选方案"),
    note("outcome", "结果"),
    note("ms/epoch", "毫秒/epoch"),
    note("peak", "内存峰值"),
    note("why", "原因"),
)
MOST_NAME = 44


def tuned_text(tuned: Tuned, lang: str = "en") -> str:
    """Some lines for the terminal. Raises InvalidConfig for a language that there is not."""
    if lang not in ("en", "zh"):
        raise InvalidConfig(f"lang is {lang!r}; it is one of en, zh.")
    lines = [said[lang] for said in _plan(tuned)]
    table = _table(tuned.attempts, lang)
    if table:
        lines += ["", *table]
    lines += ["", *(said.get(lang, said["en"]) for said in tuned.notes)]
    if tuned.stopped is not None:
        lines.append(tuned.stopped.get(lang, tuned.stopped["en"]))
    spent, budget = seconds_text(tuned.spent_s), seconds_text(tuned.budget_s)
    lines.append(
        note(
            f"It took {spent} of {budget}; everything is in {tuned.folder}.",
            f"用时 {spent}，预算 {budget}；全部结果在 {tuned.folder}。",
        )[lang]
    )
    return "\n".join(lines)


def _plan(tuned: Tuned) -> list[Note]:
    plan = tuned.plan
    if plan is None:
        return [note("fasthop tune: no plan fits the limits.", "fasthop tune：没有满足限制的计划。")]
    evidence = plan.evidence
    model, data = plan.model.get("name") or "the model", plan.data.get("data") or plan.data.get("name")
    training = plan.training
    knobs = ", ".join(
        f"{name}={training[name]}"
        for name in ("threads", "lr", "batch_size", "num_neighbors")
        if training.get(name)
    )
    said = [
        note(
            f"fasthop tune: the plan for {model} on {data} is {plan.recipe_name} ({knobs}).",
            f"fasthop tune：{data} 上 {plan.model.get('name') or '该模型'} 的计划是 {plan.recipe_name}（{knobs}）。",
        )
    ]
    ratio, times = evidence.get("ratio_to_baseline"), evidence.get("time_per_epoch_ms") or {}
    if ratio:
        figure = f"{ratio['median']:.2f}x [{ratio['low']:.2f}, {ratio['high']:.2f}]"
        said.append(
            note(
                f"An epoch is {figure} as fast as the baseline's, by turns over {evidence['num_rounds']} rounds"
                f"{_times(times)}.",
                f"每个 epoch 的速度是基线的 {figure}，轮流测量 {evidence['num_rounds']} 轮{_times(times)}。",
            )
        )
    peaks = evidence.get("peak_bytes") or {}
    if peaks.get("plan") is not None:
        limit = evidence.get("memory_bytes")
        base = peaks.get("baseline")
        en = [f"the baseline's {bytes_text(base)}"] if base is not None else []
        zh = [f"基线 {bytes_text(base)}"] if base is not None else []
        if limit is not None:
            en.append(f"the limit {bytes_text(limit)}")
            zh.append(f"上限 {bytes_text(limit)}")
        beside_en, beside_zh = f" ({', '.join(en)})" if en else "", f"（{'，'.join(zh)}）" if zh else ""
        said.append(
            note(
                f"Its peak is {bytes_text(peaks['plan'])} beside the graph{beside_en}.",
                f"除图本身外，其内存峰值为 {bytes_text(peaks['plan'])}{beside_zh}。",
            )
        )
    reach = evidence.get("time_to_accuracy_s") or {}
    if reach.get("plan") is not None:
        base = seconds_text(reach["baseline"]) if reach.get("baseline") is not None else None
        said.append(
            note(
                f"It reaches {evidence['target']:.2f} % in {seconds_text(reach['plan'])}, all that is paid beforehand "
                f"included{f'; the baseline in {base}' if base else ''}.",
                f"达到 {evidence['target']:.2f} % 需要 {seconds_text(reach['plan'])}（含事先的全部开销）"
                f"{f'；基线需要 {base}' if base else ''}。",
            )
        )
    verdict = evidence.get("verdict") or {}
    judged = (verdict.get("sentence"), (evidence.get("accuracy") or {}).get("sentence"))
    said += [sentence for sentence in judged if isinstance(sentence, dict)]
    said += [
        entry["sentence"] for entry in evidence.get("rungs") or () if isinstance(entry.get("sentence"), dict)
    ]
    return [_both(line) for line in said]


def _table(attempts: tuple[Attempt, ...], lang: str) -> list[str]:
    rows = [[heading[lang] for heading in HEADINGS]]
    for attempt in attempts:
        epoch = attempt.epoch_ms
        rows.append(
            [
                attempt.candidate.name[:MOST_NAME],
                OUTCOMES[attempt.outcome][lang],
                "-" if epoch is None else f"{epoch:.4g}",
                "-" if attempt.peak_bytes is None else bytes_text(attempt.peak_bytes),
                "" if attempt.reason is None else attempt.reason.get(lang, attempt.reason["en"]),
            ]
        )
    if len(rows) == 1:
        return []
    widths = [max(_width(row[place]) for row in rows) for place in range(4)]
    return [
        "  ".join([*(_padded(row[place], widths[place]) for place in range(4)), row[4]]).rstrip()
        for row in rows
    ]


def _times(times: dict[str, Any]) -> str:
    plan, base = times.get("plan"), times.get("baseline")
    return f" ({plan['median']:.4g} ms, {base['median']:.4g} ms)" if plan and base else ""


def _both(said: Note) -> Note:
    return {"en": said.get("en", ""), "zh": said.get("zh", said.get("en", ""))}


def _width(text: str) -> int:
    """Columns on a terminal: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))
