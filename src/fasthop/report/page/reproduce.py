"""How to make a Result again: the command and the versions, as far as the result knows them."""

from __future__ import annotations

import inspect
import re
import shlex
from typing import Any

from fasthop.measure.run import Result
from fasthop.report.circumstances import MODEL_NAMES
from fasthop.report.page.markup import plain
from fasthop.report.words import phrase
from fasthop.train.task_config import METRICS

OPTIONS = (
    "data", "transform", "model", "hidden", "layers", "dropout", "loss", "class_weight", "label_smoothing", "metric", "output",
    "optimizer", "lr", "weight_decay", "epochs", "seeds", "num_neighbors",
    "batch_size", "rounds", "device", "threads",
)  # fmt: skip
# A task has a loss and a metric where none was asked for, too; a callable's name is none that an option takes.
ASKED_FOR = {"loss": ("nll",), "metric": METRICS[1:]}
ALWAYS = ("data", "model", "device", "threads")
PACKAGES = ("torch", "torch_geometric", "numba", "numpy", "scipy")


def command(result: Result) -> str:
    """`fasthop bench` with every option of the task that is not the default, quoted for a shell."""
    from fasthop.report.bench import bench

    defaults = {name: option.default for name, option in inspect.signature(bench).parameters.items()}
    words = ["fasthop", "bench"]
    for name in OPTIONS:
        value = result.task.get(name)
        if value is None or (name not in ALWAYS and value == defaults[name]):
            continue
        if name in ASKED_FOR and value not in ASKED_FOR[name]:
            continue
        if name == "model" and value not in MODEL_NAMES and ":" not in str(value):
            continue
        words += [f"--{name.replace('_', '-')}", _text(value)]
    for name in ("head", "undirected", "deterministic"):
        if result.task.get(name) is True:
            words.append(f"--{name}")
    named = ":" in str(result.task.get("model"))
    for name in ("model_args", "forward_args"):
        values = result.task.get(name) if named else None
        for key, value in (values if isinstance(values, dict) else {}).items():
            words += [f"--{name[:-5].replace('_', '-')}-arg", f"{_text(key)}={_text(value)}"]
    if result.ladder != defaults["ladder"]:
        words += ["--ladder", _text(result.ladder)]
    return " ".join(shlex.quote(word) for word in words)


def installation(result: Result) -> str:
    """The versions as pip takes them."""
    versions = result.machine.get("versions")
    found = dict(versions) if isinstance(versions, dict) else {}
    # What stands behind a plus says how a package was built, and is not on PyPI.
    parts = [f"{name}=={_text(found[name]).partition('+')[0]}" for name in PACKAGES if found.get(name)]
    return " ".join(
        shlex.quote(word) for word in ["pip", "install", f"fasthop=={_text(result.fasthop_version)}", *parts]
    )


def cautions(result: Result, lang: str) -> list[str]:
    """What the command lacks, a sentence each."""
    found = []
    if result.task.get("model") not in MODEL_NAMES:
        found.append(phrase("reproduce.own_model", lang))
    if not re.fullmatch(r"cora|(planetoid|ogb|pyg|synthetic):.*", str(result.task.get("data"))):
        found.append(phrase("reproduce.own_data", lang))
    return [*found, phrase("reproduce.not_known", lang)]


def _text(value: Any) -> str:
    """An option's value on one line."""
    if isinstance(value, list | tuple):
        value = ",".join(str(entry) for entry in value)
    return " ".join(plain(value).split())
