"""What was trained and on what: the task and the machine of a Result, each as one line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fasthop.measure.run import Result
from fasthop.report.figures import size
from fasthop.report.words import LANGUAGES, in_language, line, phrase

MODEL_NAMES = {"gcn": "GCN", "sage": "GraphSAGE", "gat": "GAT", "gin": "GIN"}
SHORT_TASK = (
    "data",
    "model",
    "num_nodes",
    "num_edges",
    "num_features",
    "hidden",
    "layers",
    "epochs",
    "seeds",
    "batch_size",
    "num_neighbors",
)
PACKAGES = ("python", "torch", "torch_geometric", "numba")


def subject(result: Result) -> dict[str, str]:
    """The model and the graph of a task by name."""
    model = line(result.task.get("model", "?"))
    return {"model": MODEL_NAMES.get(model, model), "data": line(result.task.get("data", "?"))}


def task_line(result: Result, lang: str = "en") -> str:
    """What was trained: the graph, the model, and every figure of the task."""
    parts = [subject(result)["data"], subject(result)["model"]]
    for key, value in result.task.items():
        if key in ("data", "model", "notes") or value is None or value is False or value in ("", (), [], {}):
            continue
        text = _text(value)
        known = f"task.{key}" in LANGUAGES[lang]
        parts.append(phrase(f"task.{key}", lang, value=text) if known else f"{line(key)} {text}")
    return _joined(parts, lang)


def short_task_line(result: Result, lang: str = "en") -> str:
    """What decides most about the figures: the graph with its sizes, the model with its own, how long it trains."""
    task = {key: value for key, value in result.task.items() if key in SHORT_TASK}
    return task_line(dataclasses.replace(result, task=task), lang)


def task_notes(result: Result, lang: str = "en") -> list[str]:
    """What was said of the graph when it was read, a sentence each."""
    notes = result.task.get("notes") or ()
    return [in_language(note, lang) for note in notes]


def machine_line(result: Result, lang: str = "en") -> str:
    """What it ran on: processor, cores, threads, memory, GPUs, system and versions, as far as known."""
    machine = result.machine
    cpu, threads = _tree(machine, "cpu"), _tree(machine, "threads")
    limits, system, versions = _tree(machine, "limits"), _tree(machine, "os"), _tree(machine, "versions")
    figures = (
        ("physical", cpu.get("physical_cores")),
        ("usable", cpu.get("usable_cores")),
        ("cpu_limit", limits.get("cpus")),
        ("threads", result.task.get("threads") or threads.get("torch")),
        ("memory", _size(machine.get("memory_bytes"))),
        ("limit", _size(limits.get("memory_bytes"))),
    )
    parts = [_text(cpu["model"])] if cpu.get("model") else []
    parts += [phrase(f"machine.{key}", lang, value=value) for key, value in figures if value is not None]
    for gpu in machine.get("gpus") or ():
        names = (gpu.get("name"), _size(gpu.get("memory_bytes")), gpu.get("cuda") and f"CUDA {gpu['cuda']}")
        parts.append(" ".join(line(name) for name in names if name))
    parts.append(
        " ".join(line(system[key]) for key in ("system", "release", "architecture") if system.get(key))
    )
    parts += [f"{name} {line(versions[name])}" for name in PACKAGES if versions.get(name)]
    if machine.get("on_battery"):
        parts.append(phrase("machine.battery", lang))
    return _joined([part for part in parts if part], lang)


def short_machine_line(result: Result, lang: str = "en") -> str:
    """Processor or GPU, threads and torch."""
    machine = result.machine
    versions = _tree(machine, "versions")
    short = {
        "cpu": {"model": _tree(machine, "cpu").get("model")},
        "threads": machine.get("threads"),
        "memory_bytes": machine.get("memory_bytes"),
        "gpus": machine.get("gpus"),
        "versions": {"torch": versions.get("torch")},
        "on_battery": machine.get("on_battery"),
    }
    return machine_line(dataclasses.replace(result, machine=short), lang)


def _tree(machine: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = machine.get(key)
    return value if isinstance(value, Mapping) else {}


def _size(value: Any) -> str | None:
    return size(value) if isinstance(value, int | float) else None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ",".join(line(entry) for entry in value)
    return line(value)


def _joined(parts: list[str], lang: str) -> str:
    return ("，" if lang == "zh" else ", ").join(parts)
