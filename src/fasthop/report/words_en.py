"""The English phrases. `words_zh` has the same keys with the same fields."""

from __future__ import annotations

PHRASES: dict[str, str] = {
    # the table; | is where a narrow header breaks
    "col.recipe": "recipe",
    "col.exactness": "exactness",
    "col.steps": "steps /|epoch",
    "col.time": "time /|epoch (ms)",
    "col.ratio": "× baseline|speed",
    "col.first": "first|epoch|(s)",
    "col.compile": "compile|(s)",
    "col.memory": "peak|memory",
    "col.accuracy": "test|accuracy|(%)",
    "col.to_accuracy": "time to|accuracy|(s)",
    "exactness.bitwise": "bitwise",
    "exactness.reassociated": "reassociated",
    "exactness.statistical": "statistical",
    "table.same": "no significant change",
    "table.one_step": "1 step",
    "table.num_steps": "{steps} steps",
    "table.skipped": "{name} was not measured: {reason}",
    "table.incomplete": "{name} was measured in part: {reason}",
    "table.unfinished": "This run was cut short: it holds what was measured until then.",
    "table.no_baseline": "The baseline was not measured, so nothing can be compared with it.",
    "table.legend": (
        "Ranges are 95 % intervals; × baseline speed is paired round by round, above 1 is faster. "
        "± is the standard deviation over seeds. 1 MB is 1,000,000 bytes."
    ),
    "table.target": "Time to accuracy counts to {target} % validation accuracy, everything paid beforehand included.",
    "table.steps": (
        "The recipes take different numbers of steps an epoch, so the time of an epoch alone does not say "
        "which one trains faster; time to accuracy does."
    ),
    # the head of a report
    "head.title": "{model} on {data}: what each optimisation does",
    "head.task": "Task",
    "head.machine": "Machine",
    "head.made": "Measured with fasthop {version}, {created}, ladder “{ladder}”.",
    "head.table": "Measurements",
    "head.chart": "Time and memory of every recipe, on logarithmic scales",
    "head.meaning": "What the figures say",
    "head.best": "What is best here",
    "task.data": "graph",
    "task.model": "model",
    "task.num_nodes": "{value} nodes",
    "task.num_edges": "{value} directed edges",
    "task.num_features": "{value} features",
    "task.num_classes": "{value} classes",
    "task.num_train": "{value} training nodes",
    "task.hidden": "{value} hidden channels",
    "task.layers": "{value} layers",
    "task.dropout": "dropout {value}",
    "task.lr": "learning rate {value}",
    "task.weight_decay": "weight decay {value}",
    "task.epochs": "{value} epochs",
    "task.seeds": "{value} seeds",
    "task.rounds": "{value} rounds",
    "task.num_neighbors": "num_neighbors {value}",
    "task.batch_size": "batch size {value}",
    "task.device": "device {value}",
    "task.num_parameters": "{value} parameters",
    "task.transform": "transform {value}",
    "task.optimizer": "optimiser {value}",
    "task.threads": "{value} threads",
    "task.seed": "first seed {value}",
    "task.deterministic": "deterministic algorithms",
    "machine.physical": "{value} physical cores",
    "machine.usable": "{value} usable cores",
    "machine.threads": "{value} threads",
    "machine.memory": "{value} of memory",
    "machine.limit": "limited to {value}",
    "machine.cpu_limit": "limited to {value} cores",
    "machine.battery": "on battery",
    # the interpretation
    "explain.baseline": "PyG on the full batch, exactly as written: what all others are compared with.",
    "explain.combination": "Combines {rungs}.",
    "explain.added": "Adds {rung} to what {before} has.",
    "explain.skipped": "Not measured: {reason}",
    "time.none": "Its time was not measured.",
    "time.alone": "An epoch takes {time} ms ({span}).",
    "time.faster": (
        "An epoch takes {time} ms ({span}): {ratio}× as fast as the baseline (95 % interval {ratio_span})."
    ),
    "time.slower": (
        "An epoch takes {time} ms ({span}): slower, at {ratio}× the baseline's speed (95 % interval {ratio_span})."
    ),
    "time.same": (
        "An epoch takes {time} ms ({span}): no significant change (the 95 % interval of the ratio, "
        "{ratio_span}, holds 1)."
    ),
    "time.steps": (
        "That epoch holds {steps} steps of {step_time} ms, where the baseline's holds {baseline_steps}: "
        "the two epochs are not the same amount of training."
    ),
    "predicted.right": "Predicted before measuring: {predicted}× the baseline's speed, {error} % off.",
    "predicted.wrong": (
        "Predicted before measuring: {predicted}× the baseline's speed, {error} % off and in the wrong direction."
    ),
    "predicted.median": (
        "Speeds predicted before measuring are off by {error} % in the median over {count} recipes; the direction "
        "(faster, slower, within 10 %) was right for {right} of them."
    ),
    "memory.alone": "Peak memory: {memory}.",
    "memory.same": "Peak memory is {memory}, about the same as the baseline's.",
    "memory.less": "Peak memory is {memory}, {times}× the baseline's {baseline}: less.",
    "memory.more": "Peak memory is {memory}, {times}× the baseline's {baseline}: more.",
    "memory.reserved": "The CUDA allocator reserved {reserved}.",
    "memory.process": "The whole process peaked at {process}.",
    "accuracy.alone": "Test accuracy: {accuracy}.",
    "accuracy.higher": (
        "Test accuracy is {accuracy}: {difference} points above the baseline (95 % interval {low} to {high})."
    ),
    "accuracy.lower": (
        "Test accuracy is {accuracy}: {difference} points below the baseline (95 % interval {low} to {high})."
    ),
    "accuracy.equal": "Test accuracy is {accuracy}, the same as the baseline's on every seed.",
    "accuracy.undecided": (
        "Test accuracy is {accuracy}: these seeds leave the difference from the baseline undecided "
        "({difference} points, 95 % interval {low} to {high})."
    ),
    "accuracy.one_seed": (
        "Test accuracy is {accuracy}, {difference} points from the baseline's: undecided, because "
        "a difference needs at least two seeds on either side."
    ),
    "accuracy.value": "{mean} % ± {std} over {count} seeds",
    "accuracy.value_one": "{mean} % on one seed",
    "cost.prepare": "Preparing took {prepare} s.",
    "cost.compile": "Compiling took {compile} s.",
    "cost.both": "Preparing took {prepare} s and compiling {compile} s.",
    "cost.break_even": "What was paid beforehand is earned back after {epochs} epochs.",
    "cost.too_late": (
        "What was paid beforehand is earned back only after {epochs} epochs, more than the {trained} "
        "trained here."
    ),
    "cost.free": "It costs no more beforehand than the baseline, so it pays from the first epoch.",
    "cost.never": "Its epochs are not shown to be faster, so nothing paid beforehand is earned back by them.",
    "compile.recompiles": "Recompilations by torch.compile: {count}.",
    "compile.breaks": "Graph breaks in torch.compile: {count}.",
    "scaler.skipped": "Optimiser steps skipped because gradients were not finite: {count}.",
    "to_accuracy.reached": "It reached {target} % validation accuracy after {seconds} s.",
    "to_accuracy.missed": "It did not reach {target} % validation accuracy within the epochs trained.",
    "best.recipe": (
        "{name} was first at the target of {target} % validation accuracy: {seconds} s, "
        "against the baseline's {baseline} s."
    ),
    "best.alone": (
        "{name} was first at the target of {target} % validation accuracy: {seconds} s. There is no such figure for the baseline."
    ),
    "best.baseline": (
        "The baseline itself was first at the target of {target} % validation accuracy: {seconds} s. "
        "No recipe of this ladder got there sooner."
    ),
    "best.close": (
        "{name} needed {seconds} s, within {percent} % of that. Such a figure carries no interval, so take "
        "the two as level."
    ),
    "best.unknown": "Time to the baseline's accuracy was not measured, so no recipe is called best.",
    "best.epoch": (
        "Shortest epoch with as many steps as the baseline's: {name}, {time} ms, {ratio}× as fast "
        "(95 % interval {ratio_span})."
    ),
    "best.no_epoch": "No recipe with as many steps an epoch as the baseline has a significantly shorter epoch.",
    # the chart
    "chart.time": "time per epoch (ms)",
    "chart.memory": "peak memory (MB)",
    "chart.lower": "log scale, shorter is better",
    "chart.title": "{model} on {data}",
    "chart.baseline": "baseline",
    "chart.better": "better",
    "chart.worse": "worse",
    "chart.same": "no clear change",
    "chart.steps": "{steps} steps / epoch",
    "chart.not_significant": "n.s.",
    "chart.alone": "not compared",
    "chart.skipped": "not measured",
    "chart.error": "bars: median with 95 % interval; (×): speed against the baseline, paired; n.s.: not significant",
    "chart.unfinished": "cut short",
    # progress
    "phase.start": "starting",
    "phase.prepare": "preparing",
    "phase.prove": "proving",
    "phase.first_epoch": "first epoch",
    "phase.timing": "timing",
    "phase.memory": "memory",
    "phase.accuracy": "accuracy",
    "phase.waiting": "waiting",
    "progress.start": "Measuring {count} recipes: {names}",
    "progress.done": "done",
    "progress.saved": "Saved in {folder}; in full: fasthop report {folder} --full",
    # the command line
    "cli.interrupted": "Stopped. What was measured until then is saved in {folder}.",
    "cli.interrupted_empty": "Stopped before anything was measured.",
    "cli.no_baseline": "The baseline could not be measured: {reason}",
    "cli.drawn": "Drawn again: {files}",
    "doctor.title": "fasthop {version} on this machine",
    "doctor.versions": "Versions",
    "doctor.hardware": "Hardware",
    "doctor.peaks": "Measured peaks",
    "doctor.caches": "Caches",
    "doctor.rungs": "Rungs",
    "doctor.compiler": "C++ compiler",
    "doctor.compiler_none": "none found; torch.compile on the CPU needs one (for example: apt install g++)",
    "doctor.compiler_broken": "{path} does not compile a file: {reason}",
    "doctor.gpu": "GPU",
    "doctor.gpu_none": "none that PyTorch can use",
    "doctor.cpu": "CPU",
    "doctor.cores": "cores",
    "doctor.threads": "PyTorch threads",
    "doctor.missing_package": "not installed",
    "doctor.ready": "ready",
    "doctor.lacks": "lacks: {reason}",
    "doctor.needs": "needs {needs}",
    "doctor.memory": "memory",
    "doctor.root": "folder",
    "doctor.cached": "measured earlier on this machine",
    "doctor.peaks_of": "{device}, {threads} threads",
    "peak.copy_gb_per_s": "copy (GB/s)",
    "peak.gather_gb_per_s": "gather of rows of 512 bytes (GB/s)",
    "peak.gather_64_gb_per_s": "gather of rows of 64 bytes (GB/s)",
    "peak.matmul_fp16_gflops": "float16 matrix product (GFLOP/s)",
    "peak.matmul_fp32_gflops": "float32 matrix product (GFLOP/s)",
    "peak.matmul_bf16_gflops": "bfloat16 matrix product (GFLOP/s)",
    "peak.operator_us": "one operator call (µs)",
    "peak.autograd_us": "the same under autograd (µs)",
    "doctor.spread": "Medians, with their quartiles.",
    "doctor.clear_hint": "Clear them with: fasthop doctor --clear-caches",
    "doctor.cleared": "Cleared {size} of caches.",
    "doctor.empty": "empty",
    "doctor.remeasure_hint": "Measure them again with: fasthop doctor --remeasure",
    "doctor.unknown": "could not be found out: {reason}",
}
