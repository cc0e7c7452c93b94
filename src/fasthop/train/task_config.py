"""TaskConfig: the names and numbers that say what is trained, and `make_task`, which makes the Task of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from fasthop.errors import InvalidConfig

if TYPE_CHECKING:  # torch is imported when a task is made: options are checked before that
    from fasthop.graph.graph import Graph
    from fasthop.train.task import Task

MODELS = ("gcn", "sage", "gat", "gin")
LOSSES = ("cross_entropy", "nll", "bce")
METRICS = ("accuracy", "macro_f1", "roc_auc", "average_precision")
OPTIMIZER_NAMES = ("adam", "adamw", "sgd")
MOST = 2**31 - 1  # beyond these torch overflows
MOST_LAYERS = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskConfig:
    """What is trained on a graph, by name and figure; the graph itself is not in it.

    model: the name of a reference model, "path/to/file.py:name" or "package.module:name" of a function or class that
        makes one, an `nn.Module`, or a callable that makes one. What of the graph it asks for by name (in_channels,
        out_channels, num_features, num_classes and their kin) is handed to it.
    model_args: further arguments of that function or class, by name.
    hidden, layers, dropout: shape the reference models; handed to a model that is named by its place where it asks for
        them (hidden_channels, num_layers, dropout).
    optimizer: "adam", "adamw" or "sgd", with lr and weight_decay.
    loss: "cross_entropy", "nll" (for models that end in log_softmax), "bce" (multi-label, over logits), or a callable
        (logits [n, C], y) to a scalar; None is cross_entropy, and bce where the graph is multi-label.
    class_weight: a number for each class, or "balanced" (from the training nodes' labels); for bce the weight of a
        positive. label_smoothing: from 0 to below 1.
    metric: "accuracy", "macro_f1", "roc_auc", "average_precision", or a callable (logits, y) to a number in percent,
        higher is better; None is accuracy, and roc_auc where the graph is multi-label.
    output: which element of a tuple (by number) or dict (by name) the model's forward returns is the logits; None is the
        first. head: a linear layer from what the model returns to the classes is put behind it.
    forward_args: further arguments of the model's forward: the name of an attribute of the graph, a number, or a tensor.
        What the forward asks for under the name of one of the graph's attributes it is given without being told.
    Raises InvalidConfig for what cannot work whatever the graph is.
    """

    model: str | Callable[..., Any] = "gcn"
    model_args: Mapping[str, Any] = field(default_factory=dict)
    hidden: int = 16
    layers: int = 2
    dropout: float = 0.0
    lr: float = 0.01
    weight_decay: float = 5e-4
    optimizer: str = "adam"
    loss: str | Callable[..., Any] | None = None
    class_weight: str | tuple[float, ...] | None = None
    label_smoothing: float = 0.0
    metric: str | Callable[..., Any] | None = None
    output: int | str | None = None
    head: bool = False
    forward_args: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_model(self.model)
        for name in ("model_args", "forward_args"):
            _check_arguments(name, getattr(self, name))
        if self.model_args and (_is_module(self.model) or self.model in MODELS):
            raise InvalidConfig(
                f"model_args is {dict(self.model_args)!r}, and {_short(self.model)} takes none: it is for a function or a "
                "class that makes the model; hidden, layers and dropout shape the reference models."
            )
        check_int("hidden", self.hidden, 1)
        check_int("layers", self.layers, 1, MOST_LAYERS)
        for name in ("dropout", "lr", "weight_decay", "label_smoothing"):
            check_number(name, getattr(self, name))
        if not 0.0 <= self.dropout < 1.0:
            raise InvalidConfig(f"dropout is {self.dropout}; it is at least 0 and below 1.")
        if not 0.0 < self.lr < float("inf"):
            raise InvalidConfig(f"lr is {self.lr}; it is a positive number.")
        if not 0.0 <= self.weight_decay < float("inf"):
            raise InvalidConfig(f"weight_decay is {self.weight_decay}; it is at least 0.")
        if not 0.0 <= self.label_smoothing < 1.0:
            raise InvalidConfig(f"label_smoothing is {self.label_smoothing}; it is at least 0 and below 1.")
        _check_choice("optimizer", self.optimizer, OPTIMIZER_NAMES, may_be_callable=False)
        _check_choice("loss", self.loss, LOSSES)
        _check_choice("metric", self.metric, METRICS)
        self._check_class_weight()
        if not isinstance(self.head, bool):
            raise InvalidConfig(f"head is {self.head!r}; it is True or False.")
        if not isinstance(self.output, int | str | None) or isinstance(self.output, bool):
            raise InvalidConfig(
                f"output is {self.output!r}; it is a number (of a tuple) or a name (of a dict)."
            )

    def _check_class_weight(self) -> None:
        weight = self.class_weight
        if weight is not None and weight != "balanced":
            if isinstance(weight, str) or not hasattr(weight, "__iter__"):
                raise InvalidConfig(
                    f"class_weight is {weight!r}; it is 'balanced' or one number for each class."
                )
            numbers = tuple(weight.tolist() if hasattr(weight, "tolist") else weight)  # type: ignore[union-attr]
            for number in numbers:
                check_number("a class_weight", number)
                if not 0.0 <= number < float("inf"):
                    raise InvalidConfig(f"a class_weight is {number}; each is a finite number of at least 0.")
            object.__setattr__(self, "class_weight", numbers)
        if callable(self.loss) and (weight is not None or self.label_smoothing):
            raise InvalidConfig(
                "class_weight and label_smoothing belong to the losses that are there by name; a callable loss has its own."
            )


def make_task(config: TaskConfig, graph: Graph) -> Task:
    """The Task of a config on a graph, which lies on its device already.

    The model is made once, to see what its forward asks for; the caller's generators stay where they are.
    Raises InvalidConfig for a model that cannot be found, made or called, or a loss or metric that does not fit the
    labels, and DoesNotFit where a reference model is larger than the machine's memory.
    """

    from fasthop.train.arguments import ForwardCall, with_tensors
    from fasthop.train.metric import metric_of
    from fasthop.train.model_maker import model_maker
    from fasthop.train.objective import loss_of
    from fasthop.train.task import OptimizerConfig, Task

    if graph.num_features == 0:
        raise InvalidConfig(
            f"The graph {graph.name!r} has no node features x, which the model needs as input; give x of shape [num_nodes, F], "
            "for example torch.eye(num_nodes) for a small graph, or what a torch.nn.Embedding of the nodes would hold."
        )
    make, notes = model_maker(config, graph)
    graph, arguments = with_tensors(graph, config.forward_args)
    loss, said = loss_of(config.loss, graph, config.class_weight, config.label_smoothing)
    return Task(
        graph=graph,
        make_model=make,
        loss=loss,
        metric=metric_of(config.metric, graph),
        optimizer=OptimizerConfig(name=config.optimizer, lr=config.lr, weight_decay=config.weight_decay),
        call=ForwardCall(arguments=arguments, output=config.output, head=config.head),
        notes=(*notes, *said),
    )


def model_name(model: Any) -> str:
    """The name of a config's model in reports: of a file no folders, of an object its own or its type's name."""
    if isinstance(model, str):
        place, colon, name = model.rpartition(":")
        return f"{place.replace(chr(92), '/').rpartition('/')[2]}:{name}" if colon else model
    if _is_module(model):
        return type(model).__name__
    return getattr(model, "__name__", type(model).__name__)


def task_settings(config: TaskConfig, graph: Graph) -> dict[str, Any]:
    """The settings as JSON takes them, for results and plans: names and numbers, callables by their name."""
    multilabel = graph.is_multilabel
    default_loss, default_metric = ("bce", "roc_auc") if multilabel else ("cross_entropy", "accuracy")
    found: dict[str, Any] = {"model": model_name(config.model)}
    for entry in fields(config):
        if entry.name != "model":
            found[entry.name] = _plain(getattr(config, entry.name))
    found["loss"] = found["loss"] or default_loss
    found["metric"] = found["metric"] or default_metric
    return found


def check_model(model: Any) -> None:
    """Raises InvalidConfig for what is no name of a model, place of one, module or callable."""
    if isinstance(model, str):
        if model in MODELS or ":" in model:
            return
        raise InvalidConfig(
            f"There is no reference model named {model!r}; there are {', '.join(MODELS)}, and your own is named by its "
            "place: path/to/file.py:name or package.module:name (in Python also a module or a callable that makes one)."
        )
    if not callable(model):
        raise InvalidConfig(
            f"model is {model!r}, which is neither a name nor a module nor a callable that makes one."
        )


def check_int(name: str, value: object, least: int, most: int = MOST) -> None:
    """Raises InvalidConfig unless it is an int from least to most."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidConfig(f"{name} is {value!r}; it is a whole number of at least {least}.")
    if value > most:
        raise InvalidConfig(f"{name} is {value!r}; it is a whole number of at most {most:,}.")


def check_number(name: str, value: object) -> None:
    """Raises InvalidConfig unless it is an int or float."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidConfig(f"{name} is {value!r}; it is a number.")


def _check_choice(name: str, value: Any, names: tuple[str, ...], *, may_be_callable: bool = True) -> None:
    if value is None and may_be_callable:
        return
    if isinstance(value, str) and value in names:
        return
    if callable(value) and may_be_callable:
        return
    also = ", or in Python a callable" if may_be_callable else ""
    raise InvalidConfig(f"{name} is {value!r}; it is one of {', '.join(names)}{also}.")


def _check_arguments(name: str, value: Any) -> None:
    if not isinstance(value, Mapping) or not all(
        isinstance(key, str) and key.isidentifier() for key in value
    ):
        raise InvalidConfig(f"{name} is {value!r}; it is a dict of values by the names of arguments.")


def _is_module(model: Any) -> bool:
    """Whether it is an nn.Module; without importing torch for what cannot be one."""
    return any(kind.__module__ == "torch.nn.modules.module" for kind in type(model).__mro__)


def _short(model: Any) -> str:
    return repr(model) if isinstance(model, str) else f"the module {type(model).__name__}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, str | int | float | None):
        return value
    if hasattr(value, "shape"):
        return f"{type(value).__name__} of shape {list(value.shape)}"
    return getattr(value, "__name__", type(value).__name__)
