"""Made-up Results with all that the page can show."""

from __future__ import annotations

from dataclasses import replace

from fasthop.measure.run import Result, Run
from fasthop.verify.verdict import Leg, Scope, Verdict
from tests.report import results

PEAKS = {
    "cpu": {
        "copy_gb_per_s": {"median": 18.2, "low": 17.9, "high": 18.4},
        "gather_gb_per_s": {"median": 9.6, "low": 9.1, "high": 9.9},
        "matmul_fp32_gflops": {"median": 141.0, "low": 139.0, "high": 143.0},
        "matmul_bf16_gflops": {"median": 702.0, "low": 690.0, "high": 710.0},
        "operator_us": {"median": 1.9, "low": 1.8, "high": 2.0},
    }
}
STAGES = {
    "forward": 2.0, "forward.aggregate": 1.2, "forward.transform": 0.5, "forward.overhead": 0.1,
    "backward": 2.6, "backward.aggregate": 1.9, "backward.transform": 0.7, "step": 0.5, "epoch": 5.6,
}  # fmt: skip
KINDS = {
    "features": 15_500_000,
    "parameters": 92_252,
    "activations": 2_100_000,
    "activations.messages": 700_000,
    "temporaries": 300_000,
}
HOSTILE = '<script>alert("x")</script>\'" onmouseover=alert(1) \x1b[31m\u202e</style>$ink & co'


def verdict(passed: bool = True) -> Verdict:
    leg = Leg(
        kind="float64", dtype="float64", error=2.2e-14 if passed else 0.02, tolerance=1e-9, worst="conv.weight.grad",
        num_tensors=5, num_steps=3,
    )  # fmt: skip
    reason = None if passed else {"en": "A gradient differs.", "zh": "有一个梯度不同。"}
    return Verdict(
        name="csr_spmm", exactness="reassociated", passed=passed, legs=(leg,), scope=Scope(kind="whole"), reason=reason,
        time_s=0.4,
    )  # fmt: skip


def curve(
    start: float, step: float, best: float, seeds: int = 3
) -> tuple[tuple[tuple[float, float], ...], ...]:
    return tuple(
        tuple((start + step * place, best * (1 - 0.5**place) + 0.1 * seed) for place in range(1, 31))
        for seed in range(seeds)
    )


def full() -> Result:
    """A run of schema 2 with every field that the page shows."""
    baseline = replace(
        results.BASELINE, stages_ms=STAGES, memory_kinds=KINDS, peak_operator="aten::index_select", flops=1.6e9,
        moved_bytes=1.2e8, floor_ms=0.9, curve=curve(0.02, 0.01, 79.5),
    )  # fmt: skip
    fast = replace(
        results.FAST, stages_ms={"forward.aggregate": 0.4, "backward.aggregate": 0.3, "epoch": 0.9},
        memory_kinds={"parameters": 92_252, "activations": 700_000}, flops=1.1e9, moved_bytes=4e7, floor_ms=0.4,
        predicted_ratio=5.1, verdict=verdict().to_json(), proof_s=0.4, curve=curve(2.0, 0.002, 79.6),
    )  # fmt: skip
    refuted = replace(
        results.COMPILE, verdict=verdict(passed=False).to_json(), proof_s=1.25, curve=curve(28.0, 0.01, 79.4)
    )
    machine = {**results.MACHINE, "peaks": PEAKS}
    return results.result(baseline, fast, results.SAMPLE, refuted, results.SKIPPED, machine=machine)


def hostile() -> Result:
    """Every text of the file that a person could have put in is an attack."""
    words = {"en": HOSTILE, "zh": HOSTILE}

    def attacked(run: Run) -> Run:
        return replace(
            run, name=HOSTILE, rungs=(HOSTILE,), exactness=HOSTILE, notes=(words,), peak_operator=HOSTILE
        )

    runs = [attacked(run) for run in full().runs]
    runs[0] = replace(runs[0], rungs=())
    runs[1] = replace(runs[1], stages_ms={HOSTILE: 1.0, "epoch": 2.0}, memory_kinds={HOSTILE: 5})
    runs[4] = replace(runs[4], skipped=HOSTILE, skipped_words=words)
    machine = {
        **results.MACHINE,
        "peaks": PEAKS,
        "cpu": {"model": HOSTILE},
        "versions": {"torch": HOSTILE},
    }
    task = {**results.TASK, "data": HOSTILE, "model": HOSTILE, "notes": [words], HOSTILE: HOSTILE}
    return results.result(
        *runs, machine=machine, task=task, ladder=HOSTILE, created=HOSTILE, fasthop_version=HOSTILE
    )
