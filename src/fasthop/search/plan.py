"""A Plan: a chosen recipe with all that is needed to train with it again, and the evidence for it, as `plan.json`."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fasthop import __version__
from fasthop.errors import InvalidConfig
from fasthop.files import write_file
from fasthop.graph.graph import Graph
from fasthop.graph.note import Note
from fasthop.measure.schema import check_fields
from fasthop.rewrites.ladder import Recipe
from fasthop.search.plan_differences import graph_differences, machine_differences
from fasthop.search.plan_recipe import recipe_from_json

SCHEMA_VERSION = 1
MOST_BYTES = 16 << 20  # a plan is some 10 kB
MOST_DEPTH = 32
# What a field of `training` may hold: its kind, the least and the most. None stands for "not set" in all of them.
TRAINING: dict[str, tuple[type | tuple[type, ...], float, float]] = {
    "lr": ((int, float), 0.0, 1e6),
    "weight_decay": ((int, float), 0.0, 1e6),
    "epochs": (int, 1, 2**31 - 1),
    "batch_size": (int, 1, 2**31 - 1),
    "num_neighbors": (list, 1, 1000),
    "threads": (int, 1, 1024),
    "seed": (int, 0, 2**31 - 1),
    "seeds": (int, 0, 2**31 - 1),
    "optimizer": (str, 1, 100),
    "loss": (str, 1, 1000),
    "metric": (str, 1, 1000),
    "device": (str, 1, 100),
    "label_smoothing": ((int, float), 0.0, 1.0),
    "class_weight": ((list, str), 1, 1e6),
    "deterministic": (bool, 0, 1),
}
DATA: dict[str, type | tuple[type, ...]] = {
    "data": str,
    "name": str,
    "root": str,
    "split": (int, str),
    "transform": str,
    "seed": int,
}
MODEL: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "args": dict,
    "hidden": int,
    "layers": int,
    "dropout": (int, float),
    "output": (int, str),
    "head": bool,
    "forward_args": dict,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A chosen recipe with its evidence.

    recipe_name, rungs: the recipe, the rungs as JSON (`plan_recipe.rungs_to_json`); `recipe()` makes it.
    model: name (a reference model, path.py:callable or package.module:callable; None where it was an object in Python, which
        a file cannot hold), args, hidden, layers, dropout, output, head, forward_args: as `train.task_config.TaskConfig`
        has them, `args` being its model_args.
    data: what `fasthop.load_graph` is called with: data, root, split, transform, seed; data is None for an object.
    training: lr, weight_decay, epochs, batch_size, num_neighbors, threads, loss, metric, optimizer, device, seed.
    evidence: what was measured of it, for people and programs to read: see docs/design/tune.md.
    graph_fingerprint: of `graph.fingerprint.graph_fingerprint`. machine: of `machine.fingerprint.fingerprint`.

    Raises InvalidConfig where a field is of the wrong kind or holds what it cannot.
    """

    recipe_name: str
    rungs: tuple[dict[str, Any], ...]
    model: dict[str, Any]
    data: dict[str, Any]
    training: dict[str, Any]
    graph_fingerprint: str
    machine: dict[str, Any]
    evidence: dict[str, Any] = field(default_factory=dict)
    created: str = ""
    fasthop_version: str = __version__
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        try:
            check_fields(self, "plan")
            if self.schema_version != SCHEMA_VERSION:
                raise ValueError(f"plan.schema_version is {self.schema_version}")
            _check_plain(dataclasses.asdict(self), "plan", MOST_DEPTH)
            _check_entries(self.data, DATA, "plan.data")
            _check_training(self.training)
            _check_entries(self.model, MODEL, "plan.model")
        except ValueError as error:
            raise InvalidConfig(f"The plan has a field of the wrong kind: {error}.") from None
        self.recipe()

    def recipe(self) -> Recipe:
        """The recipe that was chosen, ready to be applied to a Setup."""
        return recipe_from_json(self.recipe_name, list(self.rungs))

    def save(self, path: Path | str) -> None:
        """Writes the plan as strict JSON, beside its place first. Raises CannotWrite, with what stood there as it was."""
        write_file(Path(path), self.to_json().encode())

    def to_json(self) -> str:
        """The text of `plan.json`."""
        return (
            json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False, allow_nan=False, default=list)
            + "\n"
        )

    @classmethod
    def load(cls, path: Path | str) -> Plan:
        """The plan of a file. It is read as data alone: nothing in it is run or unpickled.

        Raises InvalidConfig, in a sentence, where the file cannot be read, is no plan, is damaged, or is of another version.
        """
        path = Path(path)
        try:
            if not path.is_file():
                raise InvalidConfig(f"There is no plan at {path}; `fasthop tune` writes plan.json.")
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise InvalidConfig(f"{path} cannot be read ({error.strerror or error}).") from None
        if len(content) > MOST_BYTES:
            raise InvalidConfig(
                f"{path} is larger than {MOST_BYTES >> 20} MiB, which no plan of fasthop is; name another file."
            )
        return cls.from_json(content, path)

    @classmethod
    def from_json(cls, text: str | bytes, source: Path | str = "plan.json") -> Plan:
        """Reads what `to_json` wrote. Raises InvalidConfig as `load` does."""
        try:
            tree = json.loads(text, parse_constant=_refuse_constant)
            version = tree["schema_version"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            reason = " ".join(str(error).split())[:120] or type(error).__name__
            raise InvalidConfig(
                f"{source} is not a plan of fasthop ({reason}); run `fasthop tune` to make one."
            ) from None
        if isinstance(version, bool) or version != SCHEMA_VERSION:
            raise InvalidConfig(
                f"{source} has schema version {str(version)[:40]!r}, and this fasthop reads version {SCHEMA_VERSION}; "
                "run `fasthop tune` again, or read it with the fasthop that wrote it."
            )
        unknown = [name for name in tree if name not in {f.name for f in dataclasses.fields(cls)}]
        if unknown:
            raise InvalidConfig(
                f"{source} is damaged: it has the field {unknown[0][:40]!r}, which no plan has."
            )
        try:
            rungs = tree.pop("rungs")
            if not isinstance(rungs, list):
                raise InvalidConfig("rungs is no list.")
            return cls(rungs=tuple(rungs), **tree)
        except (TypeError, KeyError) as error:
            raise InvalidConfig(f"{source} is damaged: it misses a field ({error}).") from None
        except InvalidConfig as error:
            raise InvalidConfig(f"{source} is damaged: {error}") from None

    def differences(self, graph: Graph | None, machine: dict[str, Any] | None) -> list[Note]:
        """What is otherwise than when the plan was made, a sentence each; empty where its figures should hold.

        graph: what will be trained on, or None to leave it out. machine: `machine.fingerprint.fingerprint()`, likewise.
        """
        found = [] if graph is None else graph_differences(self.graph_fingerprint, graph)
        return found + ([] if machine is None else machine_differences(self.machine, machine))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number that a plan may hold")


def _check_plain(value: Any, place: str, depth: int) -> None:
    """Raises ValueError unless this is made of what JSON has, finite and not too deep."""
    if depth == 0:
        raise ValueError(f"{place} is nested more than {MOST_DEPTH} deep")
    if isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{place} has the key {key!r}")
            _check_plain(entry, f"{place}.{key[:40]}", depth - 1)
    elif isinstance(value, list | tuple):
        for entry in value:
            _check_plain(entry, place, depth - 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place} is {value}")
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        raise ValueError(f"{place} is a number of {len(hex(value)) - 2} hexadecimal digits")
    elif value is not None and not isinstance(value, str | int | float):
        raise ValueError(f"{place} is {type(value).__name__}")


def _check_entries(tree: dict[str, Any], kinds: dict[str, type | tuple[type, ...]], place: str) -> None:
    for name, value in tree.items():
        if name not in kinds:
            raise ValueError(f"{place} has {name[:40]!r}, which is not known")
        if value is None:
            continue
        if not isinstance(value, kinds[name]) or (isinstance(value, bool) and kinds[name] is not bool):
            raise ValueError(f"{place}.{name} is {_shown(value)}")


def _check_training(tree: dict[str, Any]) -> None:
    """Known fields are held to their kind and range; others may be there for whoever wrote them."""
    for name, value in tree.items():
        if name not in TRAINING or value is None:
            continue
        kind, least, most = TRAINING[name]
        size = len(value) if isinstance(value, list | str) else value
        is_flag = isinstance(value, bool)
        if not isinstance(value, kind) or (is_flag and kind is not bool) or not least <= size <= most:
            raise ValueError(f"plan.training.{name} is {_shown(value)}")
        if name == "lr" and value == 0:
            raise ValueError("plan.training.lr is 0")
        if name == "num_neighbors" and isinstance(value, list) and not all(map(_is_fan_out, value)):
            raise ValueError(f"plan.training.num_neighbors is {_shown(value)}")


def _is_fan_out(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and (value == -1 or value >= 1)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
