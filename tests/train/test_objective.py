"""Losses by name against torch's own, and what an output must be for them."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F

from fasthop.errors import InvalidConfig
from fasthop.train.objective import Objective, check_output_for, loss_name, loss_of
from tests.train.graphs import digraph, several_labels

LOGITS = torch.randn(9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = torch.arange(9) % 3


def test_the_plain_losses_are_torchs_own_functions():
    """By their identity the compiled step knows them."""
    graph = digraph()
    assert loss_of(None, graph, None, 0.0) == (F.cross_entropy, ())
    assert loss_of("cross_entropy", graph, None, 0.0)[0] is F.cross_entropy
    assert loss_of("nll", graph, None, 0.0)[0] is F.nll_loss
    assert loss_of(None, several_labels(), None, 0.0)[0] is F.binary_cross_entropy_with_logits
    own = lambda logits, y: logits.sum()  # noqa: E731
    assert loss_of(own, graph, None, 0.0)[0] is own
    assert [loss_name(loss) for loss in (F.cross_entropy, F.nll_loss, own, Objective("bce", None, 0.1))] == [
        "cross_entropy", "nll", "<lambda>", "bce"
    ]  # fmt: skip


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weight", [None, (1.0, 0.5, 3.0)])
def test_cross_entropy_and_nll_are_what_torch_defines(weight, smoothing):
    graph = digraph()
    tensor = None if weight is None else torch.tensor(weight, dtype=torch.float64)
    want = F.cross_entropy(LOGITS, Y, weight=tensor, label_smoothing=smoothing)
    loss, notes = loss_of("cross_entropy", graph, weight, smoothing)
    assert loss(LOGITS, Y).item() == pytest.approx(want.item(), rel=1e-6)
    nll, _ = loss_of("nll", graph, weight, smoothing)
    assert nll(LOGITS.log_softmax(1), Y).item() == pytest.approx(want.item(), rel=1e-6)
    assert notes == ()


def test_bce_with_weights_and_smoothing_is_the_formula():
    graph = several_labels()
    y = (torch.rand(9, 3, generator=torch.Generator().manual_seed(1)) < 0.4).float()
    weight, s = (1.0, 2.0, 4.0), 0.1
    loss, _ = loss_of("bce", graph, weight, s)
    p, t = LOGITS.sigmoid(), y.double() * (1 - s) + s / 2
    want = -(t * p.log() * torch.tensor(weight, dtype=torch.float64) + (1 - t) * (1 - p).log()).mean()
    assert loss(LOGITS, y).item() == pytest.approx(want.item(), rel=1e-6)


def test_balanced_weights_are_those_of_the_training_nodes():
    graph = digraph()
    train = graph.y[graph.train_mask]
    loss, notes = loss_of(None, graph, "balanced", 0.0)
    assert isinstance(loss, Objective)
    count = torch.bincount(train, minlength=3)
    assert torch.allclose(loss.class_weight, train.numel() / (3 * count).float())
    assert notes == ()

    several = several_labels()
    y = several.y[several.train_mask]
    loss, _ = loss_of(None, several, "balanced", 0.0)
    assert isinstance(loss, Objective)
    assert torch.allclose(loss.class_weight, (1 - y).sum(0) / y.sum(0))


def test_balanced_weights_without_a_class_among_the_training_nodes_are_finite_and_said():
    graph = dataclasses.replace(digraph(), num_classes=4)
    loss, notes = loss_of(None, graph, "balanced", 0.0)
    assert "1 of the 4 classes have no training node" in notes[0]["en"]
    assert math.isfinite(loss(torch.randn(9, 4), Y).item())
    several = several_labels()
    y = several.y.clone()
    y[:, 1] = 0
    loss, notes = loss_of(None, dataclasses.replace(several, y=y), "balanced", 0.0)
    assert isinstance(loss, Objective)
    assert bool(loss.class_weight.isfinite().all())
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("loss", "several", "weight", "words"),
    [
        ("cross_entropy", True, None, r"takes one class a node, and y has shape \[60, 3\]"),
        ("nll", True, None, "use bce"),
        ("bce", False, None, r"y has shape \[60\], one class a node; use cross_entropy"),
        (None, False, (1.0, 2.0), "class_weight has 2 numbers and the graph has 3 classes"),
        (None, False, (0.0, 0.0, 0.0), "is 0 for every class"),
    ],
)
def test_losses_that_do_not_fit_the_labels_are_refused(loss, several, weight, words):
    with pytest.raises(InvalidConfig, match=words):
        loss_of(loss, several_labels() if several else digraph(), weight, 0.0)


def test_log_probabilities_are_said_under_cross_entropy_and_needed_by_nll():
    graph, logits = digraph(), torch.randn(60, 3)
    assert check_output_for(F.cross_entropy, logits, graph) == ()
    (said,) = check_output_for(F.cross_entropy, logits.log_softmax(1), graph)
    assert "returns log-probabilities; their cross-entropy is their nll" in said["en"]
    assert check_output_for(F.nll_loss, logits.log_softmax(1), graph) == ()
    for objective in (F.nll_loss, Objective("nll", None, 0.1)):
        with pytest.raises(InvalidConfig, match=r"exponentials of a row sum to .*not to 1.*log_softmax"):
            check_output_for(objective, logits, graph)


def test_probabilities_under_bce_are_said():
    logits = torch.randn(60, 3)
    graph = several_labels()
    assert check_output_for(F.binary_cross_entropy_with_logits, logits, graph) == ()
    (said,) = check_output_for(F.binary_cross_entropy_with_logits, logits.sigmoid(), graph)
    assert "applies the sigmoid itself" in said["en"]
