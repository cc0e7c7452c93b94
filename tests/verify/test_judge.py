"""Right rewrites pass with errors of rounding; planted errors are caught, each with its reason."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GATConv, GCNConv, GraphNorm, SAGEConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import dropout_edge

from fasthop.errors import InvalidConfig
from fasthop.exactness import Exactness
from fasthop.kernels.spmm.adjacency import spmm
from fasthop.verify.budget import Budget, Cost
from fasthop.verify.judge import Judge, check
from fasthop.verify.subject import Maker, Subject
from fasthop.verify.verdict import Verdict
from tests.verify.models import REWRITTEN, Net, adjacency, as_written, data, gcn, maker

GRAPH = data()
CHEAP = Cost(step_s=1e-3, peak_bytes=1 << 20)


def judged(reference: Maker, candidate: Maker, exactness=Exactness.REASSOCIATED, **options) -> Verdict:
    return check("mutant", reference, candidate, exactness=exactness, cost=CHEAP, **options)


def altered(make: Maker, change: Callable[[Subject], Subject]) -> Maker:
    return lambda dtype, part: change(make(dtype, part))


def after_backward(make: Maker, change: Callable[[Subject], None]) -> Maker:
    """The subject with something done to its gradients."""

    def changed(subject: Subject) -> Subject:
        def backward(out: Tensor, cotangent: Tensor) -> None:
            out.backward(cotangent)
            change(subject)

        return dataclasses.replace(subject, backward=backward)

    return altered(make, changed)


# --- what is right ---


@pytest.mark.parametrize("conv", [GCNConv, SAGEConv, GATConv])
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_right_rewrite_is_proven_in_both_legs(conv, norm, dropout):
    options = {"attention_dropout": 0.4} if conv is GATConv else {}
    model = Net(conv, norm=norm, dropout=dropout, **options)
    verdict = judged(maker(model, GRAPH), maker(model, GRAPH, REWRITTEN[conv]))
    assert verdict.passed, verdict.sentence["en"]
    exact, run = verdict.legs
    assert exact.kind == "float64"
    # A bias before BatchNorm has a true gradient of 0, and its rounding is measured against 1e-6 of all.
    assert exact.error < (1e-9 if norm else 1e-12)
    assert (run.kind, run.dtype) == ("run precision", "float32")
    assert exact.num_steps == run.num_steps == 3
    num_buffers = 3 if norm else 0
    assert exact.num_tensors == 1 + len(list(model.parameters())) + num_buffers
    assert run.reference_error is not None
    assert verdict.reason is None
    assert verdict.scope.kind == "whole"


def test_edges_in_another_order_pass_on_a_large_graph_whose_gradients_jump_at_kinks():
    graph = data(num_nodes=6_000, num_edges=40_000)
    model = Net(GCNConv, norm=True)
    order = torch.randperm(40_000, generator=torch.Generator().manual_seed(3))
    shuffled = dataclasses.replace(graph, edge_index=graph.edge_index[:, order])
    assert judged(maker(model, graph), maker(model, shuffled)).passed
    assert judged(maker(model, graph), maker(model, graph, gcn)).passed


def test_bfloat16_as_the_run_precision():
    model = Net(SAGEConv)
    verdict = judged(maker(model, GRAPH), maker(model, GRAPH, REWRITTEN[SAGEConv]), dtype=torch.bfloat16)
    assert verdict.passed, verdict.sentence["en"]
    assert verdict.legs[1].dtype == "bfloat16"
    assert 1e-5 < verdict.legs[1].error < 0.2


def test_a_model_in_float64_needs_one_leg():
    model = Net(GCNConv)
    verdict = judged(maker(model, GRAPH), maker(model, GRAPH, gcn), dtype=torch.float64)
    assert verdict.passed
    assert [leg.kind for leg in verdict.legs] == ["float64"]


def test_an_unused_parameter_has_no_gradient_on_either_side():
    model = Net(GCNConv)
    model.spare = torch.nn.Parameter(torch.ones(2))
    assert judged(maker(model, GRAPH), maker(model, GRAPH, gcn)).passed

    def zeros(subject: Subject) -> None:
        subject.parameters["spare"].grad = torch.zeros_like(subject.parameters["spare"])

    verdict = judged(maker(model, GRAPH), after_backward(maker(model, GRAPH), zeros))
    assert verdict.is_refuted
    assert "only the candidate has spare.grad" in verdict.sentence["en"]
    assert "spare.grad" in verdict.sentence["zh"]


# --- mutants: the forward pass ---


def normalised(edge_index: Tensor, x: Tensor, **options) -> tuple[Tensor, Tensor]:
    edges, weight = gcn_norm(edge_index, None, x.size(0), dtype=x.dtype, **options)
    assert weight is not None
    return edges, weight


def transposed(model, x, edge_index):
    edges, weight = normalised(edge_index, x)
    matrix = adjacency(edges.flip(0), x.size(0), weight)
    return model.over(x, lambda conv, h: spmm(matrix, conv.lin(h)) + conv.bias)


def without_loops(model, x, edge_index):
    edges, weight = normalised(edge_index, x, add_self_loops=False)
    matrix = adjacency(edges, x.size(0), weight)
    return model.over(x, lambda conv, h: spmm(matrix, conv.lin(h)) + conv.bias)


def wrong_degree(model, x, edge_index):
    edges, weight = normalised(edge_index, x)
    by_source = normalised(edge_index.flip(0), x)[1]
    matrix = adjacency(edges, x.size(0), by_source)
    assert not torch.allclose(weight, by_source)
    return model.over(x, lambda conv, h: spmm(matrix, conv.lin(h)) + conv.bias)


def stale_normalisation(model, x, edge_index):
    other = data(seed=5).edge_index
    return gcn(model, x, other)


def without_parallel_edges(model, x, edge_index):
    return gcn(model, x, edge_index.unique(dim=1))


def swapped_rows(model, x, edge_index):
    out = gcn(model, x, edge_index)
    order = torch.arange(out.size(0))
    first, second = GRAPH.rows[0], GRAPH.rows[1]
    order[first], order[second] = second, first
    return out[order]


def in_float32(model, x, edge_index):
    edges, weight = normalised(edge_index, x)
    matrix = adjacency(edges, x.size(0), weight.float())
    return model.over(x, lambda conv, h: spmm(matrix, conv.lin(h).float()).to(x.dtype) + conv.bias)


@pytest.mark.parametrize(
    "mutant",
    [
        transposed,
        without_loops,
        wrong_degree,
        stale_normalisation,
        without_parallel_edges,
        swapped_rows,
        in_float32,
    ],
)
def test_a_wrong_aggregation_is_caught_in_float64(mutant):
    model = Net(GCNConv)
    verdict = judged(maker(model, GRAPH), maker(model, GRAPH, mutant))
    assert not verdict.passed
    assert verdict.is_refuted
    [leg] = verdict.legs
    assert leg.kind == "float64"
    assert leg.error > leg.tolerance
    assert leg.worst == "out"
    assert "in float64, out is off by" in verdict.sentence["en"]
    assert "at step 1" in verdict.sentence["en"]
    assert verdict.sentence["zh"].startswith("错误：float64 下，out 在第 1 步的误差为")


def test_an_output_in_float32_where_float64_was_asked_is_named():
    model = Net(GCNConv)
    verdict = judged(maker(model, GRAPH), maker(model, GRAPH, lambda m, x, e: gcn(m, x, e).float()))
    assert "out is float32 where float64 was asked for" in verdict.sentence["en"]


def test_bfloat16_where_float32_was_asked_is_caught_in_run_precision():
    model = Net(GCNConv)

    def quick(model, x, edge_index):
        if x.dtype == torch.float64:
            return gcn(model, x, edge_index)
        edges, weight = normalised(edge_index, x)
        matrix = adjacency(edges, x.size(0), weight)
        return model.over(x, lambda conv, h: spmm(matrix, conv.lin(h).bfloat16()).to(x.dtype) + conv.bias)

    verdict = judged(maker(model, GRAPH), maker(model, GRAPH, quick))
    assert verdict.is_refuted
    exact, run = verdict.legs
    assert exact.passed
    assert not run.passed
    assert run.reference_error is not None
    assert run.error > 100 * run.reference_error
    assert "in float32, out is off by" in verdict.sentence["en"]


def test_a_gradient_of_low_precision_is_caught_in_run_precision():
    model = Net(GCNConv)

    def rounded(subject: Subject) -> None:
        for parameter in subject.parameters.values():
            if parameter.grad is not None and parameter.dtype == torch.float32:
                parameter.grad = parameter.grad.bfloat16().float()

    verdict = judged(maker(model, GRAPH), after_backward(maker(model, GRAPH, gcn), rounded))
    assert [leg.passed for leg in verdict.legs] == [True, False]
    assert verdict.legs[1].worst.endswith(".grad")


def test_rows_missing_are_named_by_their_shapes():
    model = Net(GCNConv)
    fewer = dataclasses.replace(GRAPH, rows=GRAPH.rows[1:])
    verdict = judged(maker(model, GRAPH), maker(model, fewer))
    assert "out has shape [29, 3] where the original's has [30, 3]" in verdict.sentence["en"]
    assert "[29, 3]" in verdict.sentence["zh"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_not_a_number_fails_unless_the_original_has_it_there_too(value):
    model = Net(GCNConv)

    def broken(place):
        def call(model, x, edge_index):
            out = model(x, edge_index)
            spoiled = torch.zeros_like(out)
            spoiled[GRAPH.rows[place]] = value
            return out + spoiled

        return call

    verdict = judged(maker(model, GRAPH), maker(model, GRAPH, broken(0)))
    assert "NaN or infinite values at other places" in verdict.sentence["en"]
    assert verdict.legs[0].error == float("inf")
    moved = judged(maker(model, GRAPH, broken(1)), maker(model, GRAPH, broken(0)))
    assert not moved.passed
    assert judged(maker(model, GRAPH, broken(0)), maker(model, GRAPH, broken(0))).passed


# --- mutants: norms, dropout, buffers ---


class Normed(Net):
    """A norm over all rows between the layers."""

    def __init__(self, norm: type[torch.nn.Module]) -> None:
        super().__init__(SAGEConv)
        self.norm = norm(8)


@pytest.mark.parametrize("norm", [torch.nn.BatchNorm1d, GraphNorm])
def test_a_norm_over_pruned_rows_is_caught(norm):
    """The receptive field of the rows: right for the layers, wrong for a norm that reaches over all rows."""
    from torch_geometric.utils import k_hop_subgraph

    def pruned(model, x, edge_index):
        nodes, edges, _, _ = k_hop_subgraph(
            GRAPH.rows[:5], 2, edge_index, relabel_nodes=True, num_nodes=x.size(0)
        )
        return x.new_zeros(x.size(0), 3).index_copy(0, nodes, model(x[nodes], edges))

    few = dataclasses.replace(GRAPH, rows=GRAPH.rows[:5])
    right = Net(SAGEConv)
    assert judged(maker(right, few), maker(right, few, pruned)).passed
    model = Normed(norm)
    assert judged(maker(model, few), maker(model, few, pruned)).is_refuted


def test_a_buffer_that_is_not_updated_is_caught():
    model = Net(SAGEConv, norm=True)

    def frozen(model, x, edge_index):
        model.norm.momentum = 0.0
        return model(x, edge_index)

    verdict = judged(maker(model, GRAPH), maker(model, GRAPH, frozen))
    assert verdict.is_refuted
    assert verdict.legs[0].worst.startswith("norm.")

    def counted_twice(model, x, edge_index):
        model.norm.num_batches_tracked += 1
        return model(x, edge_index)

    verdict = judged(maker(model, GRAPH), maker(model, GRAPH, counted_twice))
    assert "norm.num_batches_tracked holds other whole numbers" in verdict.sentence["en"]


def test_a_buffer_that_the_candidate_lacks_is_caught():
    model = Net(SAGEConv, norm=True)
    make = altered(maker(model, GRAPH), lambda subject: dataclasses.replace(subject, buffers=dict))
    verdict = judged(maker(model, GRAPH), make)
    assert "only the original has norm.running_mean" in verdict.sentence["en"]


def test_a_dropout_that_is_not_intercepted_is_caught():
    model = Net(GCNConv, dropout=0.5)

    def own_dropout(model, x, edge_index):
        keep = (torch.rand_like(x) > 0.5).to(x.dtype) * 2
        return gcn(model, x * keep, edge_index)

    assert judged(maker(model, GRAPH), maker(model, GRAPH, own_dropout)).is_refuted


# --- mutants: gradients ---


def test_a_gradient_that_is_missing_is_caught():
    model = Net(GCNConv)

    def drop(subject: Subject) -> None:
        subject.parameters["conv2.bias"].grad = None

    verdict = judged(maker(model, GRAPH), after_backward(maker(model, GRAPH, gcn), drop))
    assert "only the original has conv2.bias.grad (step 1)" in verdict.sentence["en"]


@pytest.mark.parametrize("name", ["conv1.lin.weight", "conv2.bias"])
def test_a_gradient_off_by_a_millionth_is_caught(name):
    model = Net(GCNConv)

    def scale(subject: Subject) -> None:
        subject.parameters[name].grad *= 1 + 1e-6

    verdict = judged(maker(model, GRAPH), after_backward(maker(model, GRAPH, gcn), scale))
    assert verdict.is_refuted
    [leg] = verdict.legs
    assert leg.worst == f"{name}.grad"
    assert leg.error == pytest.approx(1e-6, rel=1e-2)


def test_a_product_of_parameters_kept_from_the_first_step_is_caught_at_the_second():
    model = Net(GCNConv)

    def stale(subject: Subject) -> Subject:
        weight = subject.parameters["conv1.lin.weight"]
        first = weight.detach().clone()

        def forward() -> Tensor:
            moved = weight.detach().clone()
            with torch.no_grad():
                weight.copy_(first)
            out = subject.forward()
            with torch.no_grad():
                weight.data = moved
            return out

        return dataclasses.replace(subject, forward=forward)

    verdict = judged(maker(model, GRAPH), altered(maker(model, GRAPH), stale))
    assert verdict.is_refuted
    assert "at step 2" in verdict.sentence["en"]
    assert verdict.legs[0].error > 1e-3


# --- what cannot be proven ---


def test_a_model_that_draws_edges_cannot_be_proven():
    class DropEdge(Net):
        def forward(self, x, edge_index):
            return super().forward(x, dropout_edge(edge_index, p=0.3, training=self.training)[0])

    model = DropEdge(GCNConv)
    verdict = judged(maker(model, GRAPH), maker(model, GRAPH))
    assert not verdict.passed
    assert not verdict.is_refuted
    assert verdict.legs == ()
    assert "draws random numbers that are no dropout: out differs" in verdict.sentence["en"]
    assert verdict.sentence["zh"].startswith("未能证明：")
    # Bit for bit the same seeds are set on both sides, so there it can be.
    assert judged(maker(model, GRAPH), maker(model, GRAPH), exactness=Exactness.BITWISE).passed


def failing(*_):
    raise RuntimeError("no kernel for this\nand a second line")


def test_what_either_side_raises_is_the_reason():
    model = Net(GCNConv)
    verdict = judged(maker(model, GRAPH), maker(model, GRAPH, failing))
    assert verdict.sentence["en"] == "Not proven: the candidate failed: RuntimeError: no kernel for this"
    verdict = judged(maker(model, GRAPH, failing), maker(model, GRAPH))
    assert (
        "the original cannot be run for the proof: RuntimeError: no kernel for this" in verdict.sentence["en"]
    )
    tuples = maker(model, GRAPH)
    make = altered(tuples, lambda subject: dataclasses.replace(subject, forward=lambda: (1, 2)))
    assert "returned tuple" in judged(maker(model, GRAPH), make).sentence["en"]


def test_other_parameters_to_start_from_are_said():
    model, other = Net(GCNConv), Net(GCNConv)
    with torch.no_grad():
        other.conv2.bias[0] += 1e-3
    verdict = judged(maker(model, GRAPH), maker(other, GRAPH))
    assert "does not start from the original's parameters: conv2.bias differs" in verdict.sentence["en"]
    other.conv1.bias = None
    verdict = judged(maker(model, GRAPH), maker(other, GRAPH))
    assert "conv1.bias differs" in verdict.sentence["en"]


def test_an_output_without_a_finite_number_proves_nothing():
    model = Net(GCNConv)
    nan = maker(model, GRAPH, lambda m, x, e: m(x, e) * float("nan"))
    verdict = judged(nan, nan)
    assert not verdict.passed


def test_statistical_rewrites_are_not_for_this_judge():
    model = maker(Net(GCNConv), GRAPH)
    with pytest.raises(InvalidConfig, match="statistical"):
        judged(model, model, exactness=Exactness.STATISTICAL)
    with pytest.raises(InvalidConfig, match="int64"):
        judged(model, model, dtype=torch.int64)
    with pytest.raises(InvalidConfig, match="num_steps"):
        judged(model, model, num_steps=0)


# --- bit for bit, generators, one original for many ---


def test_bitwise_candidates_are_compared_bit_for_bit_with_dropout_on():
    model = Net(GCNConv, norm=True, dropout=0.5)
    verdict = judged(maker(model, GRAPH), maker(model, GRAPH), exactness=Exactness.BITWISE)
    assert verdict.passed
    assert verdict.sentence["en"] == "Proven on the whole graph: equal bits in float32 over 3 steps."
    # The same mathematics in another order is not equal bits, nor is another draw.
    assert judged(maker(model, GRAPH), maker(model, GRAPH, gcn), exactness=Exactness.BITWISE).is_refuted

    def another_draw(model, x, edge_index):
        torch.rand(1)
        return model(x, edge_index)

    mutant = maker(model, GRAPH, another_draw)
    assert judged(maker(model, GRAPH), mutant, exactness=Exactness.BITWISE).is_refuted


def test_a_zero_of_another_sign_is_not_equal_bits():
    model = Net(GCNConv)
    plus = maker(model, GRAPH, lambda m, x, e: torch.cat([m(x, e), x.new_zeros(x.size(0), 1)], 1))
    minus = maker(model, GRAPH, lambda m, x, e: torch.cat([m(x, e), -x.new_zeros(x.size(0), 1)], 1))
    assert judged(plus, plus, exactness=Exactness.BITWISE).passed
    verdict = judged(plus, minus, exactness=Exactness.BITWISE)
    assert verdict.is_refuted
    assert "other bits" in verdict.sentence["en"]


def test_generators_and_gradients_are_left_as_they_were():
    model = Net(GCNConv, dropout=0.5)
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    expected = torch.rand(1), np.random.rand(), random.random()
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with torch.no_grad():
        assert judged(maker(model, GRAPH), maker(model, GRAPH, gcn)).passed
    assert (torch.rand(1), np.random.rand(), random.random()) == expected
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])
        assert parameter.grad is None


def test_the_original_is_traced_once_for_all_candidates():
    model = Net(GCNConv)
    made = []
    reference = maker(model, GRAPH)

    def counted(dtype, part):
        made.append(dtype)
        return reference(dtype, part)

    judge = Judge(counted, cost=CHEAP, num_candidates=3)
    names = ["csr_spmm", "wrong", "as written"]
    calls = [gcn, transposed, as_written]
    verdicts = [
        judge.check(name, maker(model, GRAPH, call), exactness=Exactness.REASSOCIATED)
        for name, call in zip(names, calls, strict=True)
    ]
    assert [verdict.passed for verdict in verdicts] == [True, False, True]
    assert [verdict.name for verdict in verdicts] == names
    assert made.count(torch.float64) == 1


def test_the_prediction_in_eval_mode_is_compared_where_both_have_one():
    model = Net(GCNConv, norm=True, dropout=0.5)

    def predicting(call, order=slice(None)) -> Maker:
        def make(dtype, part):
            import copy

            own = copy.deepcopy(model).to(dtype)
            x = GRAPH.x.to(dtype)

            def predict() -> Tensor:
                own.eval()
                return call(own, x, GRAPH.edge_index)[order]

            own.train()
            return Subject.of(own, lambda: call(own, x, GRAPH.edge_index)[GRAPH.rows], predict=predict)

        return make

    assert judged(predicting(as_written), predicting(gcn)).passed
    verdict = judged(predicting(as_written), predicting(gcn, torch.arange(59, -1, -1)))
    assert verdict.legs[0].worst == "prediction"
    assert verdict.is_refuted


def test_a_backward_pass_of_its_own_is_used():
    weight = torch.randn(4, 3)
    x = torch.randn(10, 4)

    def make(by_hand: bool) -> Maker:
        def subject(dtype, part):
            own = torch.nn.Parameter(weight.to(dtype, copy=True))
            data = x.to(dtype)

            def backward(out: Tensor, cotangent: Tensor) -> None:
                own.grad = data.t() @ (cotangent * (out > 0))

            forward = lambda: F.relu(data @ own)  # noqa: E731
            return Subject(
                forward=forward,
                parameters={"weight": own},
                buffers=dict,
                backward=backward if by_hand else None,
            )

        return subject

    assert judged(make(False), make(True)).passed


# --- the budget ---


def test_a_budget_too_small_for_anything_says_so():
    model = Net(GCNConv)
    dear = Cost(step_s=1e4, peak_bytes=1 << 40)
    verdict = check(
        "dear",
        maker(model, GRAPH),
        maker(model, GRAPH),
        exactness=Exactness.REASSOCIATED,
        cost=dear,
        budget=Budget(),
    )
    assert not verdict.passed
    assert not verdict.is_refuted
    assert "the budget of 10 s pays for 0.00% of the graph" in verdict.sentence["en"]
