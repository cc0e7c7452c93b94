"""A profile in words: a few lines that a person reads, in English or Chinese."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING

from fasthop.errors import InvalidConfig
from fasthop.measure.compare import is_significant
from fasthop.measure.run import Interval

if TYPE_CHECKING:
    from fasthop.measure.profile import Comparison, Profile

_WORDS: dict[str, dict[str, str]] = {
    "en": {
        "title": "{name} on {device}: {epochs} epochs timed after the first call and {warmup} for warm-up",
        "time": "time per epoch",
        "first": "first call",
        "total": "all calls",
        "peak": "peak memory",
        "peak_over": "{peak} over {resident} alive between epochs",
        "reserved": "{reserved} reserved",
        "process": "process peak",
        "against": "against {name}",
        "turns": "{count} steps in turns on {device}, {epochs} epochs each in {rounds} rounds",
        "same": "no significant change",
        "faster": "faster",
        "slower": "slower",
        "interval": " (95 % interval {low} to {high})",
        "cut": "Cut short: this is what was measured until then.",
        "step": "step",
        "join": ", ",
        "stages": "time by stage",
        "kinds": "within both",
        "memory": "at the peak",
        "messages": "of it messages",
        "operator": "operator there",
        "stage.sample": "sample",
        "stage.gather": "gather",
        "stage.transfer": "transfer",
        "stage.forward": "forward",
        "stage.backward": "backward",
        "stage.step": "optimiser step",
        "stage.fused": "fused step",
        "stage.other": "other",
        "kind.aggregate": "aggregate",
        "kind.transform": "transform",
        "kind.elementwise": "elementwise",
        "kind.fused": "compiled",
        "kind.overhead": "overhead",
        "memory.inputs": "inputs",
        "memory.model": "model",
        "memory.activations": "activations",
        "memory.temporaries": "temporaries",
        "memory.other": "other",
    },
    "zh": {
        "title": "{name}（{device}）：首次调用和 {warmup} 次预热之后计时 {epochs} 轮（epoch）",
        "time": "每轮用时",
        "first": "首次调用",
        "total": "全部调用",
        "peak": "峰值内存",
        "peak_over": "{peak}（在轮间常驻的 {resident} 之上）",
        "reserved": "已保留 {reserved}",
        "process": "进程峰值",
        "against": "相对 {name}",
        "turns": "{count} 个步骤在 {device} 上轮流运行，各 {epochs} 轮，分 {rounds} 组",
        "same": "无显著变化",
        "faster": "更快",
        "slower": "更慢",
        "interval": "（95 % 区间 {low} 至 {high}）",
        "cut": "提前中断：以上为中断前测得的结果。",
        "step": "步骤",
        "join": "，",
        "stages": "各阶段用时",
        "kinds": "两者之内",
        "memory": "峰值构成",
        "messages": "其中消息",
        "operator": "峰值算子",
        "stage.sample": "采样",
        "stage.gather": "取特征",
        "stage.transfer": "传输",
        "stage.forward": "前向",
        "stage.backward": "反向",
        "stage.step": "优化器更新",
        "stage.fused": "融合步骤",
        "stage.other": "其他",
        "kind.aggregate": "聚合",
        "kind.transform": "矩阵乘",
        "kind.elementwise": "逐元素",
        "kind.fused": "编译后的算子",
        "kind.overhead": "框架开销",
        "memory.inputs": "输入",
        "memory.model": "模型",
        "memory.activations": "激活值",
        "memory.temporaries": "临时张量",
        "memory.other": "其他",
    },
}


def profile_text(profile: Profile, lang: str) -> str:
    """One step's profile: a title and a line for each figure."""
    words = _words(lang)
    title = words["title"].format(
        name=profile.name, device=profile.device, epochs=profile.num_epochs, warmup=profile.num_warmup
    )
    rows = [
        (words["time"], _interval_text(profile.time_per_epoch_ms, _duration, words)),
        (words["first"], _duration(profile.first_call_s * 1e3)),
        (words["total"], _duration(profile.total_s * 1e3)),
    ]
    if profile.peak_bytes is not None and profile.resident_bytes is not None:
        peak, resident = _size(profile.peak_bytes), _size(profile.resident_bytes)
        parts = [words["peak_over"].format(peak=peak, resident=resident)]
        if profile.peak_reserved_bytes is not None:
            parts.append(words["reserved"].format(reserved=_size(profile.peak_reserved_bytes)))
        rows.append((words["peak"], words["join"].join(parts)))
    if profile.process_peak_bytes is not None:
        rows.append((words["process"], _size(profile.process_peak_bytes)))
    rows += _share_rows(profile, words)
    width = max(_width(label) for label, _ in rows)
    lines = [title, *(f"  {_pad(label, width)}  {value}" for label, value in rows)]
    return "\n".join(lines if profile.finished else [*lines, words["cut"]])


# What the rows name whatever it is, so that two profiles have the same rows; all else is named where there is some of it.
_ALWAYS = ("forward", "backward", "step", "other", "aggregate", "transform", "elementwise", "overhead")
_GROUPS = {
    "inputs": ("features", "graph", "batches"),
    "model": ("parameters", "gradients", "optimizer_state"),
    "activations": ("activations",),
    "temporaries": ("temporaries", "fused"),
    "other": ("other",),
}


def _share_rows(profile: Profile, words: dict[str, str]) -> list[tuple[str, str]]:
    """Where time goes, and what the memory is at the peak."""
    rows = []
    times, memory = profile.stages_ms, profile.memory_kinds
    if times is not None and times["epoch"] > 0:
        stages = {key: ms for key, ms in times.items() if "." not in key and key != "epoch"}
        kinds: dict[str, float] = {}
        for key, ms in times.items():
            _, dot, kind = key.partition(".")
            if dot:
                kinds[kind] = kinds.get(kind, 0.0) + ms
        for label, prefix, parts in (("stages", "stage.", stages), ("kinds", "kind.", kinds)):
            shown = (
                f"{words[prefix + name]} {ms / times['epoch']:.0%}"
                for name, ms in parts.items()
                if ms or name in _ALWAYS
            )
            rows.append((words[label], words["join"].join(shown)))
    if memory is not None:
        groups = {name: sum(memory.get(kind, 0) for kind in held) for name, held in _GROUPS.items()}
        shown = (f"{words[f'memory.{name}']} {_size(num_bytes)}" for name, num_bytes in groups.items())
        rows.append((words["memory"], words["join"].join(shown)))
        messages = sum(num_bytes for kind, num_bytes in memory.items() if kind.endswith(".messages"))
        if messages:
            rows.append((words["messages"], _size(messages)))
        if profile.peak_operator is not None:
            rows.append((words["operator"], profile.peak_operator))
    return rows


def comparison_text(comparison: Comparison, lang: str) -> str:
    """Several steps: a table with a line for each, and what its ratio to the first one says."""
    words = _words(lang)
    first = comparison.profiles[0]
    title = words["turns"].format(
        count=len(comparison.profiles),
        device=first.device,
        epochs=first.num_epochs,
        rounds=comparison.num_rounds,
    )
    table = [
        (
            words["step"],
            words["time"],
            words["first"],
            words["peak"],
            words["against"].format(name=first.name),
        )
    ]
    for entry in comparison.profiles:
        ratio = comparison.ratios.get(entry.name)
        table.append(
            (
                entry.name,
                _duration(entry.time_per_epoch_ms.median),
                _duration(entry.first_call_s * 1e3),
                "-" if entry.peak_bytes is None else _size(entry.peak_bytes),
                "-" if ratio is None else ratio_text(ratio, lang),
            )
        )
    widths = [max(_width(cell) for cell in column) for column in zip(*table, strict=True)]
    lines = [title]
    for row in table:
        cells = [_pad(cell, width) for cell, width in zip(row, widths, strict=True)]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines if comparison.finished else [*lines, words["cut"]])


def ratio_text(ratio: Interval, lang: str = "en") -> str:
    """A paired ratio in words: "1.84x, faster (95 % interval 1.79x to 1.88x)", or "no significant
    change" where the interval holds 1."""
    words = _words(lang)
    if not is_significant(ratio):
        verdict = words["same"]
    else:
        verdict = words["faster"] if ratio.median > 1 else words["slower"]
    # An interval from 1.001 to 1.003 must not be shown as one from 1.00 to 1.00, and yet as faster.
    near_one = is_significant(ratio) and "1.00" in (f"{ratio.low:.2f}", f"{ratio.high:.2f}")
    median, low, high = (
        _times(value, 4 if near_one else 2) for value in (ratio.median, ratio.low, ratio.high)
    )
    return f"{median}{words['join']}{verdict}{words['interval'].format(low=low, high=high)}"


def _words(lang: str) -> dict[str, str]:
    if lang not in _WORDS:
        raise InvalidConfig(f"lang is one of {', '.join(map(repr, _WORDS))}, and got {lang!r}.")
    return _WORDS[lang]


def _times(ratio: float, num_decimals: int) -> str:
    return f"{ratio:.{num_decimals}f}x" if 0.1 <= ratio < 10 else f"{ratio:.3g}x"


def _interval_text(interval: Interval, show: Callable[[float], str], words: dict[str, str]) -> str:
    low, high = show(interval.low), show(interval.high)
    return show(interval.median) + words["interval"].format(low=low, high=high)


def _duration(milliseconds: float) -> str:
    """Three digits that matter, in the unit that fits."""
    if milliseconds < 1:
        return f"{milliseconds * 1e3:.3g} us"
    if milliseconds < 1e3:
        return f"{milliseconds:.3g} ms"
    return f"{milliseconds / 1e3:.3g} s" if milliseconds < 1e6 else f"{milliseconds / 1e3:.0f} s"


def _size(num_bytes: int) -> str:
    """Three digits that matter, in powers of ten: 6.51 MB."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB"):
        if value < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1e3
    return f"{value:.3g} GB" if value < 999.5 else f"{value:.0f} GB"


def _width(text: str) -> int:
    """Columns on a terminal: a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _width(text))
