"""Metrics in percent: against their definitions by counting, and where they are not defined."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fasthop.errors import InvalidConfig
from fasthop.train.evaluate import accuracies_of
from fasthop.train.metric import ACCURACY, BY_NAME, metric_of
from tests.train.graphs import digraph, several_labels

GENERATOR = torch.Generator().manual_seed(3)
LOGITS = torch.randn(80, 4, generator=GENERATOR)
Y = torch.randint(0, 4, (80,), generator=GENERATOR)
LABELS = (torch.rand(80, 4, generator=GENERATOR) < 0.3).float()


def area(score, true):
    """The share of pairs of a positive and a negative in the right order."""
    pairs = score[true.bool()][:, None] - score[~true.bool()][None, :]
    return ((pairs > 0).double() + 0.5 * (pairs == 0).double()).mean().item()


def precision_of_ranks(score, true):
    """The mean over positives of the precision at their place."""
    order = score.argsort(descending=True)
    hits = true[order].double().cumsum(0) / torch.arange(1, true.numel() + 1)
    return hits[true[order].bool()].mean().item()


def f1(predicted, true):
    both = (predicted & true).sum().item()
    return 2 * both / (predicted.sum().item() + true.sum().item())


def test_one_class_a_node_as_the_definitions_count():
    p, predicted = LOGITS.double().softmax(1), LOGITS.argmax(1)
    want = {
        "accuracy": (predicted == Y).double().mean().item(),
        "macro_f1": np.mean([f1(predicted == c, c == Y) for c in range(4)]),
        "roc_auc": np.mean([area(p[:, c], c == Y) for c in range(4)]),
        "average_precision": np.mean([precision_of_ranks(p[:, c], c == Y) for c in range(4)]),
    }
    for name, value in want.items():
        assert metric_of(name, digraph())(LOGITS, Y) == pytest.approx(100 * value, rel=1e-5), name


def test_several_labels_a_node_as_the_definitions_count():
    predicted, true = LOGITS > 0, LABELS.bool()
    want = {
        "accuracy": (predicted == true).double().mean().item(),
        "macro_f1": np.mean([f1(predicted[:, c], true[:, c]) for c in range(4)]),
        "roc_auc": np.mean([area(LOGITS[:, c], true[:, c]) for c in range(4)]),
        "average_precision": np.mean([precision_of_ranks(LOGITS[:, c], true[:, c]) for c in range(4)]),
    }
    for name, value in want.items():
        assert metric_of(name, several_labels())(LOGITS, LABELS) == pytest.approx(100 * value, rel=1e-5), name


def test_accuracy_is_to_the_bit_what_it_was():
    graph = digraph()
    out = torch.randn(60, 3, generator=GENERATOR)
    right = out.argmax(dim=-1) == graph.y
    want = [
        100.0 * right[m].double().mean().item() for m in (graph.train_mask, graph.val_mask, graph.test_mask)
    ]
    got = accuracies_of(out, graph)
    assert [got.train, got.val, got.test] == want
    assert metric_of(None, graph).compute is ACCURACY.compute


def test_logits_beyond_the_sigmoids_range_keep_their_order():
    """Through a float32 sigmoid all of these would be 1."""
    logits, y = torch.tensor([[40.0], [41.0], [42.0], [43.0]]), torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    assert metric_of("roc_auc", several_labels())(logits, y) == 100.0


def test_ties_count_half():
    logits, y = torch.zeros(4, 1), torch.tensor([[0.0], [1.0], [1.0], [0.0]])
    assert metric_of("roc_auc", several_labels())(logits, y) == 50.0


@pytest.mark.parametrize("name", BY_NAME)
def test_no_rows_have_no_metric(name):
    assert math.isnan(metric_of(name, digraph())(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)))


def test_a_label_of_one_kind_is_left_out_and_where_all_are_there_is_no_area():
    labels = LABELS.clone()
    labels[:, 2] = 0
    kept = [0, 1, 3]
    metric = metric_of("roc_auc", several_labels())
    assert metric(LOGITS, labels) == pytest.approx(metric(LOGITS[:, kept], labels[:, kept]))
    assert math.isnan(metric(LOGITS, torch.zeros(80, 4)))
    assert math.isnan(metric_of("average_precision", digraph())(LOGITS, torch.zeros(80, dtype=torch.int64)))
    assert math.isnan(metric_of("macro_f1", several_labels())(-LOGITS.abs(), torch.zeros(80, 4)))


def test_outputs_that_are_not_finite_have_no_area():
    logits = LOGITS.clone()
    logits[5, 1] = float("nan")
    assert math.isnan(metric_of("roc_auc", digraph())(logits, Y))


def test_an_output_wider_than_the_classes_is_judged_all_the_same():
    wide = torch.cat([LOGITS, torch.full((80, 3), -50.0)], dim=1)
    for name in BY_NAME:
        metric = metric_of(name, digraph())
        assert metric(wide, Y) == pytest.approx(metric(LOGITS, Y)), name


def test_a_callable_is_a_metric_by_its_name():
    def luck(logits, y):
        return 7.0

    metric = metric_of(luck, digraph())
    assert (metric.name, metric(LOGITS, Y)) == ("luck", 7.0)
    assert metric_of(None, several_labels()).name == "roc_auc"
    with pytest.raises(InvalidConfig, match="metric is 3; it is one of accuracy, macro_f1"):
        metric_of(3, digraph())  # type: ignore[arg-type]
