"""Exactness under losses, labels and forwards of one's own: a rung computes the baseline's numbers, or says why it does not apply."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GATConv, SAGEConv

import fasthop
from fasthop.rewrites.base import Inapplicable
from fasthop.rewrites.fused_step import FusedStepRung
from fasthop.rewrites.ladder import EXACT, Recipe
from fasthop.rewrites.reorder_nodes import ReorderNodes
from fasthop.search.proof import prove_setup
from fasthop.train.fused import FusedStep
from fasthop.train.loop import run_epoch
from fasthop.train.models import GCN
from fasthop.train.setup import Setup
from fasthop.train.task_config import TaskConfig, make_task
from tests.train.graphs import digraph, several_labels

CPU = torch.device("cpu")
EXACT_RUNGS = Recipe(name="all", rungs=tuple(rung() for rung in EXACT))
FUSED = Recipe(name="fused", rungs=(*EXACT_RUNGS.rungs, FusedStepRung()))


def setup_of(graph=None, model=None, **options):
    graph = graph or digraph(dtype=torch.float32)
    config = TaskConfig(model=model or (lambda: GCN(8, 6, graph.num_classes)), lr=0.05, **options)
    return Setup.baseline(make_task(config, graph), seed=0, device=CPU)


def losses(setup, num_epochs=6):
    setup.restart(0)
    step = setup.step()
    return torch.tensor([run_epoch(step, setup.batches).item() for _ in range(num_epochs)])


def check_exact(make, recipe=EXACT_RUNGS, acted=("csr_spmm", "receptive_field")):
    """The rewritten setup's losses are the baseline's, and the judge passes it on the whole graph."""
    want = losses(make())
    setup = recipe.on(make())
    assert setup.exact.acted >= set(acted)
    got = losses(setup)
    assert torch.allclose(got, want, rtol=1e-4)
    assert want[-1] < want[0]
    verdict = prove_setup(setup, recipe, budget_s=30.0, seed=0)
    assert verdict is not None
    assert verdict.passed, verdict.sentence["en"]
    assert verdict.scope.kind == "whole"
    return setup


class EndsInLogSoftmax(GCN):
    def forward(self, x, edge_index):
        return F.log_softmax(super().forward(x, edge_index), dim=-1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"class_weight": (1.0, 0.2, 3.0)}, "without class weights and label smoothing"),
        ({"class_weight": "balanced", "label_smoothing": 0.1}, "without class weights and label smoothing"),
        ({"label_smoothing": 0.3}, "without class weights and label smoothing"),
    ],
)
def test_weights_and_smoothing_are_exact_in_the_exact_rungs_and_no_fused_step(options, reason):
    check_exact(lambda: setup_of(**options))
    with pytest.raises(Inapplicable, match=reason):
        FUSED.on(setup_of(**options))


def test_several_labels_are_exact_in_the_exact_rungs_and_no_fused_step():
    for options in ({}, {"class_weight": "balanced"}):
        setup = check_exact(lambda options=options: setup_of(several_labels(), **options))
        (batch,) = setup.batches
        assert batch.labels().shape == (20, 3)
        with pytest.raises(Inapplicable, match="has the cross-entropy only, and the loss is bce"):
            FUSED.on(setup_of(several_labels(), **options))


@pytest.mark.parametrize("loss", ["nll", "cross_entropy"])
def test_a_model_that_ends_in_log_softmax_takes_the_fused_step_under_both_losses(loss):
    setup = check_exact(lambda: setup_of(model=lambda: EndsInLogSoftmax(8, 6, 3), loss=loss), FUSED)
    assert isinstance(setup.step(), FusedStep)


def spread(logits, y):
    """No sum over rows: each row meets the mean of all that enter the loss, and the last one counts twice."""
    apart = (logits - logits.mean(dim=0)).square().mean()
    return F.cross_entropy(logits, y) + 0.1 / (apart + 1.0) + 0.01 * logits[-1].square().sum()


def test_a_loss_that_ties_rows_together_sees_the_same_rows_in_the_same_order():
    """The loss is handed the training nodes' rows and nothing else, by the baseline and by receptive_field alike."""
    check_exact(lambda: setup_of(loss=spread))
    check_exact(
        lambda: setup_of(loss=spread), Recipe(name="reordered", rungs=(*EXACT_RUNGS.rungs, ReorderNodes()))
    )
    with pytest.raises(Inapplicable, match="the loss is spread"):
        FUSED.on(setup_of(loss=spread))


class Several(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = SAGEConv(8, 6), SAGEConv(6, 3)

    def forward(self, x, edge_index):
        hidden = self.first(x, edge_index).relu()
        return self.last(hidden, edge_index), hidden


class Embeds(Several):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index)[1]


def test_one_of_several_outputs_and_a_head_are_traced_through():
    """What is not the logits is not computed, and the fused step stands."""
    for options in ({"model": Several}, {"model": Embeds, "head": True}):
        setup = check_exact(lambda options=options: setup_of(**options), FUSED)
        assert isinstance(setup.step(), FusedStep)
        assert setup.exact.untraceable is None


class Attends(torch.nn.Module):
    """Edge features in one layer, positions after it, and a covered layer at the end."""

    def __init__(self):
        super().__init__()
        self.first, self.last = GATConv(8, 5, edge_dim=2), SAGEConv(5 + 2, 3)

    def forward(self, x, edge_index, edge_attr, pos):
        hidden = torch.cat([self.first(x, edge_index, edge_attr).relu(), pos], dim=1)
        return self.last(hidden, edge_index)


class AddsPositions(Several):
    def forward(self, x, edge_index, pos):
        hidden = self.first(x, edge_index).relu() + pos.sum(dim=1, keepdim=True)
        return self.last(hidden, edge_index)


def rich():
    graph = digraph(dtype=torch.float32)
    generator = torch.Generator().manual_seed(3)
    extras = {
        "edge_attr": torch.rand(graph.num_edges, 2, generator=generator),
        "pos": torch.rand(graph.num_nodes, 2, generator=generator),
    }
    return dataclasses.replace(graph, extras=extras)


@pytest.mark.parametrize("model", [Attends, AddsPositions])
def test_rows_of_further_arguments_are_never_cut_or_moved_away_from_their_nodes(model):
    make = lambda: setup_of(rich(), model)  # noqa: E731
    want = losses(make())
    recipe = Recipe(name="csr", rungs=EXACT_RUNGS.rungs[:2])
    setup = check_exact(make, recipe, acted=("csr_spmm",))
    assert setup.exact.order.is_whole
    for rung in EXACT_RUNGS.rungs[4:]:
        try:
            rewritten = Recipe(name="more", rungs=(*recipe.rungs, rung)).on(make())
        except Inapplicable:
            continue
        assert torch.allclose(losses(rewritten), want, rtol=1e-4), rung.name


class TwoOutputs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = SAGEConv(8, 6), SAGEConv(6, 3)

    def forward(self, x, edge_index):
        hidden = self.first(x, edge_index).relu()
        logits = self.last(hidden, edge_index)
        return {"logits": logits, "hidden": hidden, "penalty": hidden.square().mean()}


def test_accelerate_proves_all_that_a_model_returns():
    torch.manual_seed(0)
    graph, model = digraph(dtype=torch.float32), TwoOutputs()
    fast = fasthop.accelerate(model, graph)
    assert "csr_spmm" in fast.used
    assert all(verdict.passed for verdict in fast.verdicts.values())
    want, got = model(graph.x, graph.edge_index), fast.model(fast.data.x, fast.data.edge_index)
    assert list(got) == list(want)
    for name, value in want.items():
        assert torch.allclose(got[name], value, atol=1e-5), name
    trained = fast.train(epochs=5, lr=0.05)
    assert trained.losses[-1] < trained.losses[0]
    out = model.eval()(graph.x, graph.edge_index)["logits"]
    right = (out.argmax(1) == graph.y)[graph.test_mask].double().mean().item()
    assert fast.evaluate().test == pytest.approx(100 * right)


def test_accelerate_trains_and_judges_several_labels():
    torch.manual_seed(0)
    graph, model = several_labels(), GCN(8, 6, 3)
    fast = fasthop.accelerate(model, graph)
    trained = fast.train(epochs=8, lr=0.05)
    assert trained.losses[-1] < trained.losses[0]
    assert not trained.fused
    assert fast.evaluate() == fast.evaluate("roc_auc")
    assert fast.evaluate("accuracy") != fast.evaluate("macro_f1")


def test_accelerate_tells_what_a_forward_asks_for_beyond_its_means():
    with pytest.raises(
        fasthop.InvalidConfig, match=r"Attends\.forward.*missing a required argument: 'edge_attr'"
    ):
        fasthop.accelerate(Attends(), rich())
