"""Made-up Results for the tests of report/ and cli/: every shape that a measured one can take."""

from __future__ import annotations

from dataclasses import replace

from fasthop.measure.run import Accuracy, Interval, Result, Run

MACHINE = {
    "machine_id": "0123456789ab",
    "cpu": {
        "model": "Example CPU 9000",
        "logical_cores": 4,
        "physical_cores": 2,
        "usable_cores": 2,
        "capability": "AVX2",
    },
    "memory_bytes": 16_000_000_000,
    "limits": {"memory_bytes": None, "cpus": None},
    "threads": {"torch": 2, "environment": {}},
    "gpus": [],
    "os": {"system": "Linux", "release": "6.1", "architecture": "x86_64"},
    "versions": {
        "python": "3.12.4",
        "torch": "2.13.0",
        "torch_geometric": "2.8.1",
        "numba": "0.68.0",
        "triton": None,
    },
    "compiler": None,
    "on_battery": None,
}
GPU = {
    "name": "Example GPU",
    "memory_bytes": 80_000_000_000,
    "capability": "9.0",
    "cuda": "12.8",
    "driver": "570",
}
TASK = {
    "data": "cora",
    "model": "gcn",
    "num_nodes": 2708,
    "num_edges": 10556,
    "num_features": 1433,
    "num_classes": 7,
    "hidden": 16,
    "layers": 2,
    "dropout": 0.0,
    "lr": 0.01,
    "weight_decay": 0.0005,
    "epochs": 200,
    "seeds": 5,
    "rounds": 10,
    "num_neighbors": [10, 5],
    "batch_size": 128,
    "device": "cpu",
    "threads": 2,
    "notes": [{"en": "2 parallel edges were merged.", "zh": "合并了 2 条平行边。"}],
}


def interval(median: float, spread: float = 0.02) -> Interval:
    return Interval(median=median, low=median * (1 - spread), high=median * (1 + spread))


def accuracy(mean: float, std: float = 0.6, count: int = 5) -> Accuracy:
    return Accuracy(mean=mean, std=std, count=count, low=mean - std, high=mean + std)


BASELINE = Run(
    name="baseline",
    rungs=(),
    exactness="bitwise",
    num_steps_per_epoch=1,
    time_per_epoch_ms=interval(5.41),
    ratio_to_baseline=Interval(median=1.0, low=1.0, high=1.0),
    prepare_s=0.01,
    first_epoch_s=0.231,
    compile_s=0.0,
    break_even_epochs=0.0,
    peak_bytes=12_345_678,
    process_peak_bytes=512_000_000,
    accuracy=accuracy(80.1),
    time_to_accuracy_s=0.61,
)
SAMPLE = replace(
    BASELINE,
    name="sample",
    rungs=("sample",),
    exactness="statistical",
    num_steps_per_epoch=2,
    time_per_epoch_ms=interval(9.87),
    ratio_to_baseline=interval(0.548),
    break_even_epochs=None,
    peak_bytes=4_100_000,
    accuracy=accuracy(79.8),
    time_to_accuracy_s=0.58,
)
AMP = replace(
    SAMPLE,
    name="sample+amp",
    rungs=("sample", "amp"),
    time_per_epoch_ms=interval(17.2),
    ratio_to_baseline=interval(0.314),
    peak_bytes=3_900_000,
    accuracy=accuracy(77.0, 0.4),
    time_to_accuracy_s=None,
    notes=({"en": "bf16 autocast on the CPU.", "zh": "在 CPU 上使用 bf16 autocast。"},),
)
COMPILE = replace(
    BASELINE,
    name="compile",
    rungs=("compile",),
    exactness="reassociated",
    time_per_epoch_ms=interval(5.38, 0.03),
    ratio_to_baseline=Interval(median=1.006, low=0.97, high=1.03),
    compile_s=27.3,
    first_epoch_s=27.6,
    num_recompiles=1,
    num_graph_breaks=0,
    break_even_epochs=None,
    peak_bytes=12_400_000,
    time_to_accuracy_s=28.1,
)
FAST = replace(
    COMPILE,
    name="csr_spmm",
    rungs=("csr_spmm",),
    time_per_epoch_ms=interval(0.91),
    ratio_to_baseline=interval(5.94),
    compile_s=0.0,
    num_recompiles=None,
    prepare_s=2.1,
    first_epoch_s=0.05,
    break_even_epochs=465.0,
    peak_bytes=1_900_000,
    time_to_accuracy_s=2.3,
)
SKIPPED = Run(
    name="compile+sample+amp",
    rungs=("compile", "sample", "amp"),
    exactness="statistical",
    skipped="there is no C++ compiler on this machine, and torch.compile needs one.",
    skipped_words={
        "en": "there is no C++ compiler on this machine, and torch.compile needs one.",
        "zh": "这台机器上没有 C++ 编译器，而 torch.compile 需要它。",
    },
)


def result(*runs: Run, **changes) -> Result:
    return replace(
        Result(
            machine=MACHINE,
            task=TASK,
            runs=runs,
            ladder="tutorial",
            created="2025-01-02T03:04:05+00:00",
            fasthop_version="0.1.0",
            target_accuracy=79.0,
        ),
        **changes,
    )


def normal() -> Result:
    """The tutorial's ladder with one recipe skipped, one that changes nothing and two slower ones."""
    return result(BASELINE, SAMPLE, AMP, COMPILE, SKIPPED)


def with_faster() -> Result:
    return result(BASELINE, FAST, SAMPLE, COMPILE)


def unfinished() -> Result:
    half = replace(SAMPLE, ratio_to_baseline=None, accuracy=None, time_to_accuracy_s=None, peak_bytes=None)
    return result(BASELINE, half, replace(SKIPPED, skipped="the run was stopped before it."), finished=False)


def no_accuracy() -> Result:
    runs = [replace(run, accuracy=None, time_to_accuracy_s=None) for run in (BASELINE, SAMPLE, COMPILE)]
    return result(*runs, target_accuracy=None)


def no_baseline() -> Result:
    lost = Run(name="baseline", rungs=(), exactness="bitwise", skipped="the worker ran out of memory.")
    return result(lost, replace(SAMPLE, ratio_to_baseline=None))


def cuda() -> Result:
    runs = [replace(run, peak_reserved_bytes=2 * (run.peak_bytes or 0)) for run in (BASELINE, SAMPLE, FAST)]
    return result(*runs, machine={**MACHINE, "gpus": [GPU]}, task={**TASK, "device": "cuda"})


def large() -> Result:
    """Figures as wide as they get: an epoch of minutes, gigabytes, a long name."""
    big = replace(
        BASELINE,
        time_per_epoch_ms=interval(123_456.0),
        first_epoch_s=1234.5,
        peak_bytes=65_432_100_000,
        time_to_accuracy_s=12_345.6,
    )
    slow = replace(
        big,
        name="compile:reduce-overhead",
        rungs=("compile", "sample", "amp"),
        exactness="statistical",
        num_steps_per_epoch=1_234,
        ratio_to_baseline=interval(0.0123),
        compile_s=2345.6,
    )
    fast = replace(
        slow, name="receptive_field", rungs=("receptive_field",), ratio_to_baseline=interval(1234.0)
    )
    return result(big, slow, fast)


ALL = {
    "normal": normal,
    "with_faster": with_faster,
    "unfinished": unfinished,
    "no_accuracy": no_accuracy,
    "no_baseline": no_baseline,
    "cuda": cuda,
    "large": large,
}
