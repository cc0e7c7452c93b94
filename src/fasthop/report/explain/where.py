"""Where the time of an epoch goes, and what that means on this machine."""

from __future__ import annotations

from fasthop.measure.run import Result, Run
from fasthop.report.explain.cause import bottleneck, causes
from fasthop.report.explain.listing import cause_words, listed, percent
from fasthop.report.figures import is_measured, measured, number, size
from fasthop.report.peaks import peaks_of
from fasthop.report.words import phrase

NAMED = 5
NOTICED = 0.05  # of an epoch


def where_sentences(run: Run, lang: str) -> list[str]:
    """The causes with their shares, the largest first, and whether one of them dominates."""
    found = causes(run)
    main = bottleneck(run)
    if not found or main is None:
        return []
    total = sum(found.values())
    items = [
        phrase("where.item", lang, part=cause_words(kind, lang), share=percent(ms / total))
        for kind, ms in list(found.items())[:NAMED]
        if ms >= NOTICED * total
    ]
    parts = [phrase("where.parts", lang, parts=listed(items, lang))] if items else []
    key = "where.dominant" if main.is_dominant else "where.spread"
    return [*parts, phrase(key, lang, part=cause_words(main.kind, lang))]


def rate_sentences(run: Run, result: Result, lang: str) -> list[str]:
    """What the bottleneck comes down to at the machine's measured peaks."""
    main, time, peaks = bottleneck(run), measured(run.time_per_epoch_ms), peaks_of(result)
    if main is None or time is None or not time.median:
        return []
    if main.kind == "transform" and is_measured(run.flops) and run.flops and "matmul_fp32_gflops" in peaks:
        fields = {"speed": number(run.flops / time.median / 1e6), "peak": number(peaks["matmul_fp32_gflops"])}
        return [phrase("rate.transform", lang, **fields)]
    if (
        main.kind == "aggregate"
        and is_measured(run.moved_bytes)
        and run.moved_bytes
        and {"copy_gb_per_s", "gather_gb_per_s"} <= set(peaks)
    ):
        fields = {"moved": size(run.moved_bytes), "speed": number(run.moved_bytes / time.median / 1e6)}
        fields |= {"gather": number(peaks["gather_gb_per_s"]), "copy": number(peaks["copy_gb_per_s"])}
        return [phrase("rate.aggregate", lang, **fields)]
    if main.kind == "overhead" and "operator_us" in peaks:
        count = number(float(f"{1e3 * main.ms / peaks['operator_us']:.2g}"))
        fields = {"time": number(main.ms), "us": number(peaks["operator_us"]), "count": count}
        return [phrase("rate.overhead", lang, **fields)]
    return []
