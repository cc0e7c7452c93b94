"""Objectives: the losses that go by name, with class weights and label smoothing, and what a model's output must be for them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.graph.graph import Graph
from fasthop.graph.note import Note, note
from fasthop.train.task import Loss

# Of log-probabilities the exponentials of a row sum to 1: logsumexp is 0 up to rounding.
LOG_ONE = 1e-3


class Objective:
    """A loss by name that has class weights or label smoothing; the mean over rows as torch defines it.

    name: "cross_entropy", "nll" or "bce". class_weight: [C] or None; for bce what a positive of each label counts.
    label_smoothing: Szegedy et al. 2016, section 7: the target becomes (1 - s) y + s / C; for bce (1 - s) y + s / 2.
    """

    def __init__(self, name: str, class_weight: Tensor | None, label_smoothing: float) -> None:
        self.name, self.class_weight, self.label_smoothing = name, class_weight, label_smoothing

    def __call__(self, logits: Tensor, y: Tensor) -> Tensor:
        weight = self.class_weight
        if logits.dtype in (
            torch.bfloat16,
            torch.float16,
        ):  # under autocast: weights of 8 bits would be others
            logits = logits.float()
        if weight is not None and weight.dtype != logits.dtype:
            weight = weight.to(logits.dtype)
        if self.name == "bce":
            y = y.to(logits.dtype)
            if self.label_smoothing:
                y = y * (1.0 - self.label_smoothing) + self.label_smoothing / 2
            return F.binary_cross_entropy_with_logits(logits, y, pos_weight=weight)
        if self.name == "nll" and not self.label_smoothing:
            return F.nll_loss(logits, y, weight=weight)
        # The log-softmax of log-probabilities is themselves, so that smoothing is the same for both.
        return F.cross_entropy(logits, y, weight=weight, label_smoothing=self.label_smoothing)

    @property
    def is_plain(self) -> bool:
        """Whether there are neither weights nor smoothing."""
        return self.class_weight is None and not self.label_smoothing

    @property
    def __name__(self) -> str:
        return self.name


# By name without weights and smoothing: torch's own functions, by which a compiled step knows them.
PLAIN: dict[str, Loss] = {
    "cross_entropy": F.cross_entropy,
    "nll": F.nll_loss,
    "bce": F.binary_cross_entropy_with_logits,
}


def loss_of(
    loss: str | Loss | None,
    graph: Graph,
    class_weight: str | tuple[float, ...] | None,
    label_smoothing: float,
) -> tuple[Loss, tuple[Note, ...]]:
    """The loss of a task on the graph's labels, and what is to be said of it.

    loss: a name, a callable, or None: cross_entropy, and bce for a multi-label graph. Without weights and smoothing
    torch's own function comes back. class_weight "balanced": n / (C n_c) of the training nodes; for bce negatives over
    positives. Raises InvalidConfig where loss and labels, or weights and classes, do not belong together.
    """
    name = loss if loss is not None else ("bce" if graph.is_multilabel else "cross_entropy")
    if not isinstance(name, str):
        return name, ()
    if graph.is_multilabel and name != "bce":
        raise InvalidConfig(
            f"loss is {name!r}, which takes one class a node, and y has shape {list(graph.y.shape)}: a node may have "
            "several labels; use bce."
        )
    if not graph.is_multilabel and name == "bce":
        raise InvalidConfig(
            f"loss is 'bce', which takes y of shape [num_nodes, C] with 0 or 1 for each label, and y has shape "
            f"{list(graph.y.shape)}, one class a node; use cross_entropy."
        )
    weight, notes = _weight(class_weight, graph)
    objective = Objective(name, weight, label_smoothing)
    return (PLAIN[name] if objective.is_plain else objective), notes


def loss_name(loss: Any) -> str:
    """The name of a loss: of torch's own functions that of PLAIN."""
    for name, function in PLAIN.items():
        if loss is function:
            return name
    return getattr(loss, "__name__", type(loss).__name__)


def check_output_for(loss: Loss, out: Tensor, graph: Graph) -> tuple[Note, ...]:
    """What is to be said of a model's output [N, C] under this loss.

    Raises InvalidConfig for nll on rows that are no log-probabilities: it has no lower bound there, and trains nonsense
    without an error.
    """
    name = loss_name(loss)
    if name not in PLAIN or out.numel() == 0 or not bool(out.isfinite().all()):
        return ()
    if name == "bce":
        low, high = (float(end) for end in torch.aminmax(out))
        if low >= 0.0 and high <= 1.0 and low < high:
            return (
                note(
                    "All outputs lie between 0 and 1, as after a sigmoid; the loss bce takes logits and applies the sigmoid "
                    "itself.",
                    "所有输出都在 0 与 1 之间，像是经过了 sigmoid；损失 bce 的输入应为 logits，它自己会做 sigmoid。",
                ),
            )
        return ()
    rows = out.double().logsumexp(dim=1)
    log_probabilities = bool((rows.abs() < LOG_ONE).all()) and out.size(1) > 1
    if name == "nll" and not log_probabilities:
        worst = float(rows[rows.abs().argmax()])
        raise InvalidConfig(
            "loss is 'nll', which takes log-probabilities, and the model returns something else: the exponentials of a row "
            f"sum to {torch.tensor(worst).exp().item():.3g}, not to 1, so that the loss could fall without end. Use "
            "cross_entropy, or let the model end in log_softmax(dim=-1)."
        )
    if name == "cross_entropy" and log_probabilities:
        return (
            note(
                "The model returns log-probabilities; their cross-entropy is their nll, so that nothing changes.",
                "模型返回对数概率；其交叉熵等于 nll，因此没有影响。",
            ),
        )
    return ()


def _weight(
    class_weight: str | tuple[float, ...] | None, graph: Graph
) -> tuple[Tensor | None, tuple[Note, ...]]:
    if class_weight is None:
        return None, ()
    num_classes, device = graph.num_classes, graph.y.device
    if not isinstance(class_weight, str):
        if len(class_weight) != num_classes:
            raise InvalidConfig(
                f"class_weight has {len(class_weight)} numbers and the graph has {num_classes} classes; give one each."
            )
        if not any(class_weight):
            raise InvalidConfig("class_weight is 0 for every class, which leaves nothing to train on.")
        return torch.tensor(class_weight, dtype=torch.float32, device=device), ()
    y = graph.y[graph.train_mask]
    if graph.is_multilabel:
        positives = y.sum(dim=0)
        # A label without a positive has none that the weight could act on.
        weight = (y.size(0) - positives) / positives.clamp(min=1)
        weight[positives == 0] = 1.0
        missing = int((positives == 0).sum())
    else:
        count = torch.bincount(y, minlength=num_classes).double()
        weight = (y.numel() / (num_classes * count.clamp(min=1))).float()
        missing = int((count == 0).sum())
    if not missing:
        return weight, ()
    return weight, (
        note(
            f"{missing} of the {num_classes} classes have no training node, so that balanced weights do nothing for them.",
            f"{num_classes} 个类别中有 {missing} 个没有训练节点，平衡权重对它们不起作用。",
        ),
    )
