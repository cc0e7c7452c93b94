"""The options that say what is trained, shared by the commands that train: the names are those of `TaskConfig`."""

from __future__ import annotations

import argparse
import ast
from typing import Any

MODELS = ("gcn", "sage", "gat", "gin")
LOSSES = ("cross_entropy", "nll", "bce")
METRICS = ("accuracy", "macro_f1", "roc_auc", "average_precision")
OPTIMIZERS = ("adam", "adamw", "sgd")


def add_model_options(group: Any) -> None:
    """Adds the options of a model and its training to a group of a parser; none of them has a default here."""
    group.add_argument(
        "--model",
        metavar="NAME",
        help=f"a reference model ({', '.join(MODELS)}), or your own function or class: path/to/file.py:name or "
        "package.module:name; its file is code that you choose to run (default: gcn)",
    )
    group.add_argument(
        "--model-arg",
        action=_Pairs,
        dest="model_args",
        metavar="NAME=VALUE",
        help="an argument of your function or class, such as hidden_channels=64; may be given again. What it asks for by "
        "the names in_channels, out_channels, num_classes and the like comes from the graph",
    )
    group.add_argument(
        "--forward-arg",
        action=_Pairs,
        dest="forward_args",
        metavar="NAME=VALUE",
        help="an argument of the model's forward: the name of an attribute of the graph, or a number; an attribute of the "
        "same name is found without",
    )
    group.add_argument(
        "--output",
        type=_output,
        metavar="N",
        help="which of the values that the model returns is the logits: a number, or a name of a dict (default: the first)",
    )
    group.add_argument(
        "--head",
        action="store_true",
        help="put a linear layer to the classes behind a model that returns embeddings",
    )
    group.add_argument("--hidden", type=int, metavar="N", help="hidden channels (default: 16)")
    group.add_argument("--layers", type=int, metavar="N", help="layers (default: 2)")
    group.add_argument("--dropout", type=float, metavar="P", help="dropout probability (default: 0.0)")
    group.add_argument(
        "--loss",
        choices=LOSSES,
        help="the loss (default: cross_entropy; bce where nodes have several labels)",
    )
    group.add_argument(
        "--class-weight",
        type=_class_weight,
        metavar="W,W",
        help="a weight for each class, or balanced; with bce the weight of a positive",
    )
    group.add_argument("--label-smoothing", type=float, metavar="S", help="label smoothing (default: 0.0)")
    group.add_argument(
        "--metric",
        choices=METRICS,
        help="what is compared, in percent (default: accuracy; roc_auc where nodes have several labels)",
    )
    group.add_argument("--optimizer", choices=OPTIMIZERS, help="the optimiser (default: adam)")
    group.add_argument("--lr", type=float, metavar="RATE", help="learning rate (default: 0.01)")
    group.add_argument("--weight-decay", type=float, metavar="RATE", help="weight decay (default: 0.0005)")


class _Pairs(argparse.Action):
    """NAME=VALUE, given again and again, as a dict; a value that is no literal of Python is a string."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        name, equals, text = str(values).partition("=")
        if not equals or not name.isidentifier():
            parser.error(f"argument {option_string}: {values!r} is not of the form NAME=VALUE")
        found = dict(getattr(namespace, self.dest, None) or {})
        if name in found:
            parser.error(f"argument {option_string}: {name} is given twice")
        setattr(namespace, self.dest, {**found, name: literal(text)})


def literal(text: str) -> Any:
    """A number, True, None, a list or a quoted string as Python reads it; else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _output(text: str) -> int | str:
    return int(text) if text.removeprefix("-").isdecimal() else text


def _class_weight(text: str) -> str | tuple[float, ...]:
    if text == "balanced":
        return text
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither 'balanced' nor numbers with commas between, such as 1,2.5"
        ) from None
