"""Metrics: what a model is judged by, over logits and labels of a mask's nodes, in percent; torchmetrics counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.graph.graph import Graph


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A metric of logits [n, C] and labels ([n] int64, or [n, C] of 0 and 1), in percent; higher is better.

    NaN for no rows, and where it is not defined on these labels.
    """

    name: str
    compute: Callable[[Tensor, Tensor], float]

    def __call__(self, logits: Tensor, y: Tensor) -> float:
        if y.size(0) == 0:
            return math.nan
        return float(self.compute(logits, y))


def accuracy(logits: Tensor, y: Tensor) -> float:
    """Percent of the nodes whose largest logit is at their label; of several labels, percent of all that are right
    (above 0 stands for 1)."""
    if y.dim() == 1:
        return 100.0 * (logits.argmax(dim=-1) == y).double().mean().item()
    from torchmetrics.functional.classification import binary_accuracy

    return 100.0 * binary_accuracy((logits > 0).int().flatten(), y.int().flatten()).item()


def macro_f1(logits: Tensor, y: Tensor) -> float:
    """The mean over classes of F1, the harmonic mean of precision and recall, in percent; classes that are neither
    there nor predicted are left out."""
    if y.dim() == 1:
        from torchmetrics.functional.classification import multiclass_f1_score

        num_classes = max(logits.size(1), int(y.max()) + 1, 2)
        return (
            100.0
            * multiclass_f1_score(logits.argmax(dim=-1), y, num_classes=num_classes, average="macro").item()
        )
    from torchmetrics.functional.classification import binary_f1_score

    predicted, true = (logits > 0).int(), y.int()
    there = (predicted | true).any(dim=0).nonzero().flatten().tolist()
    if not there:
        return math.nan
    return 100.0 * math.fsum(binary_f1_score(predicted[:, c], true[:, c]).item() for c in there) / len(there)


def roc_auc(logits: Tensor, y: Tensor) -> float:
    """The mean over classes (one against the rest, by softmax) or labels of the area under the ROC curve, in percent;
    over those that have both kinds of nodes."""
    from torchmetrics.functional.classification import binary_auroc

    return _over_classes(lambda score, true: binary_auroc(score, true).item(), logits, y)


def average_precision(logits: Tensor, y: Tensor) -> float:
    """The mean over classes (one against the rest, by softmax) or labels of the average precision, in percent; over those
    that have both kinds of nodes."""
    from torchmetrics.functional.classification import binary_average_precision

    return _over_classes(lambda score, true: binary_average_precision(score, true).item(), logits, y)


BY_NAME: dict[str, Callable[[Tensor, Tensor], float]] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "roc_auc": roc_auc,
    "average_precision": average_precision,
}
ACCURACY = Metric(name="accuracy", compute=accuracy)


def metric_of(metric: str | Callable[[Tensor, Tensor], float] | None, graph: Graph) -> Metric:
    """The metric of a task: by name, a callable's, or by the labels: accuracy, and roc_auc for several labels a node."""
    if isinstance(metric, Metric):
        return metric
    if metric is None:
        metric = "roc_auc" if graph.is_multilabel else "accuracy"
    if isinstance(metric, str):
        return Metric(name=metric, compute=BY_NAME[metric])
    if not callable(metric):
        raise InvalidConfig(f"metric is {metric!r}; it is one of {', '.join(BY_NAME)}, or a callable.")
    return Metric(name=getattr(metric, "__name__", type(metric).__name__), compute=metric)


def _over_classes(area: Callable[[Tensor, Tensor], float], logits: Tensor, y: Tensor) -> float:
    if not bool(logits.isfinite().all()):
        return math.nan
    if y.dim() == 1:
        logits = logits.double().softmax(dim=-1)
        classes = torch.arange(logits.size(1), device=y.device)
        y = y.unsqueeze(1) == classes
    true = y.int()
    count = true.sum(dim=0)
    both = ((count > 0) & (count < true.size(0))).nonzero().flatten().tolist()
    if not both:
        return math.nan
    return 100.0 * math.fsum(area(_ranks(logits[:, c]), true[:, c]) for c in both) / len(both)


def _ranks(score: Tensor) -> Tensor:
    """Scores from 0 to 1 in the same order. torchmetrics would put logits through a sigmoid, which makes all beyond 17 equal
    in float32."""
    values, rank = torch.unique(score, return_inverse=True)
    return rank.double() / max(values.numel() - 1, 1)
