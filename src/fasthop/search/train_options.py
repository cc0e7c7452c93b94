"""Options of a training: one flat table by name, from defaults, a plan, a run that is gone on with, and what is given."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from fasthop.errors import InvalidConfig
from fasthop.search.config import BenchConfig
from fasthop.search.plan import Plan
from fasthop.train.task_config import MODELS, TaskConfig
from fasthop.train.training_config import TrainConfig


class TrainOptions(TypedDict, total=False):
    """The options of `fasthop.train`: those of `TaskConfig` and `TrainConfig`, and where the graph and the work lie.

    split, transform, root: see `fasthop.load_graph`. batch_size, num_neighbors: of recipes that sample. device: "auto", "cpu" or
    "cuda". threads: PyTorch's, None leaves them. class_names: one for each class, for the predictions. prove_budget_s: what the
    proof of exact rungs may take; 0 skips it. unsafe_pickle: load a whole pickled object from a .pt file, which may run any code.
    """

    epochs: int
    patience: int | None
    min_delta: float
    monitor: str
    schedule: str
    warmup_epochs: int
    step_epochs: int
    gamma: float
    plateau_patience: int
    clip_grad_norm: float | None
    evaluate_every: int
    checkpoint_every: int | None
    checkpoint_s: float
    keep: int
    tensorboard: bool
    max_skipped_in_a_row: int
    seed: int
    model_args: Mapping[str, Any]
    hidden: int
    layers: int
    dropout: float
    lr: float
    weight_decay: float
    optimizer: str
    loss: str | Callable[..., Any] | None
    class_weight: str | tuple[float, ...] | None
    label_smoothing: float
    metric: str | Callable[..., Any] | None
    output: int | str | None
    head: bool
    forward_args: Mapping[str, Any]
    split: int | str | None
    transform: str | None
    root: str | None
    unsafe_pickle: bool
    batch_size: int
    num_neighbors: tuple[int, ...] | None
    device: str
    threads: int | None
    class_names: Sequence[str] | None
    prove_budget_s: float


# What may be another when a run is gone on with; all else decides what the numbers are.
CHANGEABLE = {
    "epochs", "patience", "checkpoint_every", "checkpoint_s", "keep", "tensorboard", "memory", "root", "threads",
    "class_names", "prove_budget_s", "max_skipped_in_a_row", "unsafe_pickle",
}  # fmt: skip
_OTHERS: dict[str, Any] = {
    "split": None,
    "transform": None,
    "root": None,
    "unsafe_pickle": False,
    "batch_size": 128,
    "num_neighbors": None,
    "device": "auto",
    "threads": None,
    "class_names": None,
    "prove_budget_s": 10.0,
    "recipe": None,
    "memory": None,
}
_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def defaults() -> dict[str, Any]:
    """Every option with its default; model and data have none."""
    task = {field.name: _default(field) for field in dataclasses.fields(TaskConfig) if field.name != "model"}
    train = {field.name: field.default for field in dataclasses.fields(TrainConfig)}
    return {**task, **train, **_OTHERS}


def check_names(options: Mapping[str, Any]) -> None:
    """Raises InvalidConfig for an option that is none."""
    import difflib

    known = defaults()
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise InvalidConfig(f"There is no option {name!r} of train.{hint}")


def of_plan(plan: Plan) -> dict[str, Any]:
    """What a plan says, by the options' names."""
    model, arguments = plan.model.get("name"), dict(plan.model.get("args") or {})
    found: dict[str, Any] = {}
    if model is not None:
        found["model"] = model
    if model in MODELS:
        found |= {name: arguments.pop(name) for name in ("hidden", "layers", "dropout") if name in arguments}
    if arguments:
        found["model_args"] = arguments
    known = defaults()
    # A plan of tune has these beside `args`.
    shapes = ("hidden", "layers", "dropout", "output", "head", "forward_args")
    found |= {name: plan.model[name] for name in shapes if plan.model.get(name) is not None and name in known}
    found |= {name: value for name, value in plan.training.items() if name in known and value is not None}
    for name in ("data", "root", "split", "transform"):
        if plan.data.get(name) is not None:
            found[name] = plan.data[name]
    for name in ("num_neighbors", "class_weight"):
        if isinstance(found.get(name), list):
            found[name] = tuple(found[name])
    return found


def gone_on_with(saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run with those that may change replaced. Raises InvalidConfig where another is given than the run had,
    or where one was an object that only its owner has."""
    options = dict(saved)
    for name, value in given.items():
        was = options.get(name)
        if isinstance(was, dict) and "object" in was:  # a file cannot hold it: it is what it is given as
            options[name] = value
        elif name not in CHANGEABLE and to_json(value) != was:
            raise InvalidConfig(
                f"This run was begun with {name} = {was!r}, and got {to_json(value)!r}: going on would mix two runs. Leave it out, "
                "or start a new run in another folder."
            )
        else:
            options[name] = value
    for name, value in options.items():
        if isinstance(value, dict) and set(value) == {"object"}:
            raise InvalidConfig(
                f"This run was begun with {name} = {value['object']}, an object in Python, which run.json cannot hold; hand it "
                "over again."
            )
    for name in ("num_neighbors", "class_weight"):
        if isinstance(options.get(name), list):
            options[name] = tuple(options[name])
    return options


def to_json(value: Any) -> Any:
    """An option as JSON knows it; what it does not know is {"object": its name}."""
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return {"object": getattr(value, "__name__", type(value).__name__)}


def task_config(options: Mapping[str, Any]) -> TaskConfig:
    """The TaskConfig among the options. Raises InvalidConfig."""
    return TaskConfig(**{field.name: options[field.name] for field in dataclasses.fields(TaskConfig)})


def train_config(options: Mapping[str, Any]) -> TrainConfig:
    """The TrainConfig among the options. Raises InvalidConfig."""
    return TrainConfig(**{field.name: options[field.name] for field in dataclasses.fields(TrainConfig)})


def check_others(options: Mapping[str, Any]) -> None:
    """Raises InvalidConfig where batch_size, num_neighbors, device, threads, split or prove_budget_s cannot work; they are what
    they are for `bench`."""
    fan_outs = options["num_neighbors"]
    names = ("batch_size", "num_neighbors", "device", "threads", "prove_budget_s", "split", "root", "seed")
    layers = len(fan_outs) if isinstance(fan_outs, list | tuple) and fan_outs else 2
    BenchConfig(layers=layers, **{name: options[name] for name in names})
    class_names = options["class_names"]
    if class_names is not None and (
        isinstance(class_names, str) or not all(isinstance(name, str) for name in class_names)
    ):
        raise InvalidConfig(f"class_names is {class_names!r}; it is a list with a name for each class.")


def parse_bytes(value: int | float | str | None) -> int | None:
    """A limit such as "2GiB", "500MB" or a number of bytes. Raises InvalidConfig."""
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        number, unit = float(value), ""
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", str(value).lower())
        if match is None or match[2] not in _UNITS:
            raise InvalidConfig(
                f"memory is {value!r}; it is a size such as 2GiB, 500MB or a number of bytes."
            )
        number, unit = float(match[1]), match[2]
    num_bytes = number * _UNITS[unit]
    if not 1 <= num_bytes < 2**62:
        raise InvalidConfig(f"memory is {value!r}; it is a size of at least one byte, such as 2GiB.")
    return int(num_bytes)


def _default(field: Any) -> Any:
    return field.default if field.default is not dataclasses.MISSING else field.default_factory()
