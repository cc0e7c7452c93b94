"""The count of a step against counts by hand, and the floor that follows from it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode
from torch_geometric.nn import APPNP, SAGEConv, SGConv

from fasthop.errors import InvalidConfig, NotApplicable
from fasthop.graph.graph import Graph
from fasthop.kernels.sparse_linear.features import SparseFeatures
from fasthop.kernels.spmm.adjacency import Adjacency
from fasthop.kernels.stack.ops import Activation, Add, Aggregate, Bias, Constant, Dropout, Head, Linear
from fasthop.machine.peaks import MachinePeaks, Peak, last_level_cache_bytes
from fasthop.rewrites.exact.build import build_fast_model
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.search.cost import (
    COPY_SIZES,
    Cost,
    Count,
    Operand,
    StepCost,
    copy_rate,
    floor_ms,
    measure_copy_rates,
)
from fasthop.search.step_cost import built_cost, stack_cost, step_cost, step_floor
from fasthop.train.models import GAT, GCN, GIN, GraphSAGE
from fasthop.train.setup import Setup
from fasthop.train.task import Task
from tests.train.graphs import digraph

N, F_IN, HIDDEN = 60, 5, 4


def peaks(*, gflops: float = 100.0, copy: float = 10.0, gather: float = 5.0) -> MachinePeaks:
    def exactly(value: float) -> Peak:
        return Peak(median=value, low=value, high=value)

    return MachinePeaks(
        copy_gb_per_s=exactly(copy),
        gather_gb_per_s=exactly(gather),
        matmul_fp32_gflops=exactly(gflops),
        matmul_bf16_gflops=exactly(gflops),
        operator_us=exactly(1.0),
        device="cpu",
        num_threads=1,
    )


def matrix(rows: int, cols: int, per_row: int, *, value: bool) -> Adjacency:
    """The same number of entries in each row; every column is read."""
    entries = rows * per_row
    return Adjacency(
        rowptr=torch.arange(rows + 1) * per_row,
        col=(torch.arange(entries) % cols).int(),
        num_cols=cols,
        value=torch.ones(entries) * 0.5 if value else None,
    )


def weight(num_out: int, num_in: int) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.ones(num_out, num_in))


@pytest.fixture(scope="module")
def graph() -> Graph:
    """A digraph with self-loops, parallel edges and isolated nodes."""
    return digraph(dtype=torch.float32)


def built(graph: Graph, model: torch.nn.Module, *rungs: str):
    assert graph.x is not None
    return build_fast_model(
        model.train(),
        x=graph.x,
        edge_index=graph.edge_index,
        edge_weight=None,
        train_mask=graph.train_mask,
        options=ExactOptions.of("csr_spmm", *rungs),
    )


def with_loops(graph: Graph) -> int:
    """Entries of GCN's matrix: a self-loop for each node, those that are there replaced."""
    source, target = graph.edge_index
    return int((source != target).sum()) + graph.num_nodes


def num_sources(graph: Graph) -> int:
    return int(graph.edge_index[0].unique().numel())


def picked(graph: Graph, channels: int) -> float:
    """Bytes of picking the training rows out of all, and of their gradient, which is written for all."""
    n, rows = graph.num_nodes, int(graph.train_mask.sum())
    return 4 * 2 * rows * channels + 4 * rows + 8 * rows + (4 * (rows + n) * channels + 4 * rows + 8 * n)


def ending(graph: Graph, channels: int, num_parameters: int) -> tuple[float, float]:
    """(flops, bytes) of picking rows, the loss, and Adam."""
    rows = int(graph.train_mask.sum())
    flops = 2 * rows * channels + 5 * rows * channels + 12 * num_parameters
    return flops, picked(graph, channels) + 2 * 4 * rows * channels + 8 * rows + 7 * 4 * num_parameters


def agrees(total: Cost, flops: float, num_bytes: float) -> bool:
    return abs(total.flops - flops) <= 0.02 * flops and abs(total.bytes - num_bytes) <= 0.02 * num_bytes


def product(rows: int, num_in: int, num_out: int, *, input_grad: bool, gated: bool = False):
    """(flops, bytes) of a dense product, its weight's gradient and perhaps its input's."""
    times = 3 if input_grad else 2
    moved = rows * num_in + num_in * num_out + rows * num_out
    return times * 2 * rows * num_in * num_out, 4 * (times * moved + (rows * num_in if gated else 0))


def aggregation(n: int, entries: int, channels: int, *, value: bool, grad: bool, read: int | None = None):
    """(flops, bytes) of a square matrix times x, and of its transpose times the gradient."""
    structure = entries * (8 if value else 4) + 8 * n
    moved = 4 * channels * ((n if read is None else read) + n) + structure
    back = 4 * channels * 2 * n + structure if grad else 0
    return (2 if value else 1) * entries * channels * (2 if grad else 1), moved + back


def total_of(*parts: tuple[float, float]) -> tuple[float, float]:
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


def test_a_stack_small_enough_to_count():
    # x [4, 3] W1 [2, 3], A [4, 4] of 8 valued entries, bias, ReLU, W2 [5, 2]; all float32.
    ops = [
        Constant(features=torch.ones(4, 3)),
        Linear(source=0, weight=weight(2, 3)),
        Aggregate(source=1, adj=matrix(4, 4, 2, value=True)),
        Bias(source=2, bias=torch.nn.Parameter(torch.zeros(2))),
        Activation(source=3, kind="relu"),
        Linear(source=4, weight=weight(5, 2)),
    ]
    step = stack_cost(ops)
    # 2 * 24 twice; 2 * 16 twice; one a number for bias and ReLU; 2 * 40 three times; loss 5 * 20; Adam 12 * 18
    assert step.total.flops == 96 + 64 + 8 + 240 + 100 + 216
    first = 4 * (12 + 6 + 8) * 2
    adjacency = 2 * (4 * (8 + 8) + 8 * 8 + 8 * 4)
    second = 4 * (8 + 10 + 20) * 3 + 4 * 8  # the gradient through the ReLU reads its output
    loss = 4 * 2 * 20 + 8 * 4
    assert step.total.bytes == first + adjacency + second + loss + 4 * 7 * 18
    assert step.total.gathered_bytes == 0


def test_what_is_joined_to_a_pass_writes_nothing():
    def ops(*more):
        return [Constant(features=torch.ones(40, 3)), Linear(source=0, weight=weight(2, 3)), *more]

    plain = stack_cost(ops()).total.bytes
    relu = Activation(source=1, kind="relu")
    assert stack_cost(ops(relu)).total.bytes == plain
    assert stack_cost(ops(relu, Dropout(source=2, p=0.5))).total.bytes == plain
    twice = stack_cost(ops(Linear(source=0, weight=weight(2, 3)), Add(a=1, b=2))).total.bytes
    of_loss = 2 * 4 * 80 + 8 * 40
    assert twice == 2 * (plain - of_loss) + of_loss + 4 * 80  # the sum reads its other term


def test_no_gradient_below_the_first_parameter_and_none_for_a_frozen_weight():
    adj = matrix(6, 6, 2, value=False)
    head = [Constant(features=torch.ones(6, 3)), Aggregate(source=0, adj=adj)]
    names = [name for name, _ in stack_cost([*head, Linear(source=1, weight=weight(2, 3))]).operations]
    assert names == ["aggregate", "linear", "linear: gradient of the weight", "loss", "optimizer"]
    frozen = torch.nn.Parameter(torch.ones(2, 3), requires_grad=False)
    ops = [*head, Linear(source=1, weight=frozen), Linear(source=2, weight=weight(4, 2))]
    names = [name for name, _ in stack_cost(ops).operations]
    assert names.count("linear: gradient of the weight") == 1
    assert "linear: gradient of the input" not in names


def test_sparse_features_are_counted_by_their_non_zeros():
    x = torch.zeros(50, 30)
    x[:, :2] = 3.0
    features = SparseFeatures.from_tensor(x)
    step = stack_cost([Constant(features=features), Linear(source=0, weight=weight(4, 30))])
    costs = dict(step.operations)
    assert costs["linear of non-zeros"].flops == 2 * 100 * 4
    assert costs["linear of non-zeros"].bytes == 4 * (2 + 50) * 4 + 100 * 8 + 8 * 50
    assert costs["linear of non-zeros: gradient of the weight"].bytes == 4 * (50 + 30) * 4 + 100 * 8 + 8 * 30
    cut = stack_cost(
        [Constant(features=features), Head(source=0, num_rows=10), Linear(source=1, weight=weight(4, 30))]
    )
    assert dict(cut.operations)["linear of non-zeros"].flops == 2 * 20 * 4


def test_gcn_by_hand(graph):
    c = graph.num_classes
    step = built_cost(built(graph, GCN(graph.num_features, HIDDEN, c)), graph.train_mask)
    n, entries = graph.num_nodes, with_loops(graph)
    flops, moved = total_of(
        product(n, graph.num_features, HIDDEN, input_grad=False),
        aggregation(n, entries, HIDDEN, value=True, grad=True),
        (n * HIDDEN, 0),
        product(n, HIDDEN, c, input_grad=True, gated=True),
        aggregation(n, entries, c, value=True, grad=True),
        (n * c, 0),
        ending(graph, c, (graph.num_features + 1) * HIDDEN + (HIDDEN + 1) * c),
    )
    assert agrees(step.total, flops, moved)


def test_graphsage_by_hand(graph):
    c, f, n, entries = graph.num_classes, graph.num_features, graph.num_nodes, graph.num_edges
    step = built_cost(built(graph, GraphSAGE(f, HIDDEN, c)), graph.train_mask)
    read = num_sources(graph)
    last = product(n, HIDDEN, c, input_grad=True)
    flops, moved = total_of(
        aggregation(n, entries, f, value=True, grad=False, read=read),
        product(n, f, HIDDEN, input_grad=False),
        product(n, f, HIDDEN, input_grad=False),
        (2 * n * HIDDEN, 4 * n * HIDDEN),  # the root's term is read into the sum
        aggregation(n, entries, HIDDEN, value=True, grad=True, read=read),
        last,
        last,
        (2 * n * c, 4 * n * c),
        (0, 2 * 4 * n * HIDDEN),  # two gradients meet at the ReLU: one read of the other, one of the output
        ending(graph, c, 2 * f * HIDDEN + HIDDEN + 2 * HIDDEN * c + c),
    )
    assert agrees(step.total, flops, moved)


def test_gin_by_hand(graph):
    c, f, n = graph.num_classes, graph.num_features, graph.num_nodes
    entries = graph.num_edges + n
    step = built_cost(built(graph, GIN(f, HIDDEN, c)), graph.train_mask)
    flops, moved = total_of(
        aggregation(n, entries, f, value=False, grad=False),
        product(n, f, HIDDEN, input_grad=False),
        product(n, HIDDEN, HIDDEN, input_grad=True, gated=True),
        (2 * n * HIDDEN, 0),
        aggregation(n, entries, HIDDEN, value=False, grad=True),
        (0, 4 * n * HIDDEN),
        product(n, HIDDEN, HIDDEN, input_grad=True),
        product(n, HIDDEN, c, input_grad=True, gated=True),
        (n * HIDDEN + n * c, 0),
        ending(graph, c, (f + 1 + 2 * (HIDDEN + 1)) * HIDDEN + (HIDDEN + 1) * c),
    )
    assert agrees(step.total, flops, moved)


class SGC(torch.nn.Module):
    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.conv = SGConv(num_in, num_out, K=2)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


def test_sgc_by_hand(graph):
    c, f, n, entries = graph.num_classes, graph.num_features, graph.num_nodes, with_loops(graph)
    hop = aggregation(n, entries, f, value=True, grad=False)
    linear = product(n, f, c, input_grad=False)
    step = built_cost(built(graph, SGC(f, c)), graph.train_mask)
    flops, moved = total_of(hop, hop, linear, (n * c, 0), ending(graph, c, (f + 1) * c))
    assert agrees(step.total, flops, moved)
    kept = built_cost(built(graph, SGC(f, c), "first_hop"), graph.train_mask)
    flops, moved = total_of(linear, (n * c, 0), ending(graph, c, (f + 1) * c))
    assert agrees(kept.total, flops, moved)


@pytest.mark.parametrize("make", [GCN, GraphSAGE, GIN])
def test_products_against_torch_s_own_counter(graph, make):
    model = make(graph.num_features, HIDDEN, graph.num_classes, num_layers=3)
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(model(graph.x, graph.edge_index), graph.y.clamp(min=0)).backward()
    step = built_cost(built(graph, model), graph.train_mask)
    assert sum(cost.flops for name, cost in step.operations if name.startswith("linear")) == (
        counter.get_total_flops()
    )


def test_attention_by_hand(graph):
    heads, c, f, n, entries = 3, graph.num_classes, graph.num_features, graph.num_nodes, with_loops(graph)
    model = GAT(f, HIDDEN, c, heads=heads)
    operations = built_cost(built(graph, model), graph.train_mask).operations
    forward, backward = (
        [cost for name, cost in operations if name == kind] for kind in ("attention", "attention: gradients")
    )
    size = heads * HIDDEN
    assert forward[0].flops == entries * (2 * size + 6 * heads) + 4 * n * size
    assert backward[0].flops == entries * (4 * size + 8 * heads) + 8 * n * size
    small = 2 * 2 * n * heads + 2 * n * heads  # scores and their reading, and each row's softmax
    assert forward[0].bytes == 4 * (2 * n * size + small + entries) + 8 * n
    assert backward[0].bytes == 4 * (4 * n * size + small + entries) + 8 * n
    assert forward[1].flops == entries * (2 * c + 6) + 4 * n * c


class MaxSAGE(torch.nn.Module):
    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(
            [SAGEConv(num_in, HIDDEN, aggr="max"), SAGEConv(HIDDEN, num_out, aggr="max")]
        )

    def forward(self, x, edge_index):
        return self.convs[1](F.dropout(self.convs[0](x, edge_index).relu(), 0.5, self.training), edge_index)


def test_a_maximum_is_counted_in_a_program(graph):
    c, f, n, entries = graph.num_classes, graph.num_features, graph.num_nodes, graph.num_edges
    operations = built_cost(built(graph, MaxSAGE(f, c)), graph.train_mask).operations
    costs = [cost for name, cost in operations if name == "aggregate"]
    assert [cost.flops for cost in costs[:2]] == [entries * f, entries * HIDDEN]
    gradient = next(cost for name, cost in operations if name == "aggregate: gradient")
    # The gradient reads x and the result again, to find who was the largest, and x for its ReLU.
    moved = 2 * n * HIDDEN + (num_sources(graph) + n) * HIDDEN + n * HIDDEN
    assert gradient.bytes == 4 * (moved + entries) + 8 * n
    kept = built_cost(built(graph, MaxSAGE(f, c), "first_hop"), graph.train_mask).operations
    assert next(cost.flops for name, cost in kept if name == "aggregate") == entries * HIDDEN


def test_cutting_to_the_receptive_field_costs_less(graph):
    model = GCN(graph.num_features, HIDDEN, graph.num_classes)
    whole = built_cost(built(graph, model), graph.train_mask).total
    cut = built_cost(built(graph, model, "receptive_field"), graph.train_mask).total
    assert cut.flops < whole.flops
    assert cut.bytes < whole.bytes


class Propagating(torch.nn.Module):
    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.lin, self.prop = torch.nn.Linear(num_in, num_out), APPNP(2, 0.1)

    def forward(self, x, edge_index):
        return self.prop(self.lin(x), edge_index)


def test_what_is_not_counted_is_named(graph):
    made = built(graph, Propagating(graph.num_features, graph.num_classes))
    with pytest.raises(NotApplicable, match=r"APPNP|Linear|linear"):
        built_cost(made, graph.train_mask)
    task = Task(graph=graph, make_model=lambda: GCN(graph.num_features, HIDDEN, graph.num_classes))
    setup = Setup.baseline(task, seed=0, device=torch.device("cpu"))
    with pytest.raises(NotApplicable, match="none"):
        step_cost(setup)


def test_the_floor_of_a_recipe(graph):
    from fasthop.rewrites.csr_spmm import CsrSpmm
    from fasthop.rewrites.fused_step import FusedStepRung
    from fasthop.rewrites.ladder import Recipe

    task = Task(graph=graph, make_model=lambda: GCN(graph.num_features, HIDDEN, graph.num_classes))
    setup = Setup.baseline(task, seed=0, device=torch.device("cpu"))
    setup = Recipe(name="exact", rungs=(CsrSpmm(), FusedStepRung())).on(setup)
    assert step_floor(setup, peaks()) == pytest.approx(floor_ms(step_cost(setup), peaks()))
    assert step_floor(setup, peaks(gflops=1e9, copy=20.0)) < step_floor(setup, peaks(gflops=1e9))


def test_an_operation_takes_the_longer_of_its_flops_and_its_bytes():
    at = peaks(gflops=100.0, copy=10.0, gather=5.0)
    assert floor_ms(Cost(flops=1e9, bytes=1e6), at) == pytest.approx(10.0)
    assert floor_ms(Cost(flops=1e6, bytes=1e9), at) == pytest.approx(100.0)
    assert floor_ms(Cost(bytes=1e9, gathered_bytes=1e9), at) == pytest.approx(300.0)
    both = StepCost(
        operations=(("a", Cost(flops=1e9, bytes=1e6)), ("b", Cost(flops=1e6, bytes=1e9))), resident_bytes=1e9
    )
    assert floor_ms(both, at) == pytest.approx(110.0)
    assert both.total == Cost(flops=1e9 + 1e6, bytes=1e9 + 1e6)


def test_a_small_working_set_moves_at_the_rate_of_a_small_copy():
    rates = {1 << 20: 100.0, 1 << 22: 50.0, 1 << 24: 4.0}
    at = peaks(copy=10.0)
    assert [copy_rate(size, at, rates) for size in (5, 1 << 21, 1 << 22, 1 << 25, 1 << 26)] == [
        100,
        100,
        50,
        10,
        10,
    ]
    small = StepCost(operations=(("a", Cost(bytes=1e6)),), resident_bytes=1e6)
    assert floor_ms(small, at, copy_rates=rates) == pytest.approx(0.01)
    assert floor_ms(small, at) == pytest.approx(0.1)


def test_rows_that_cannot_stay_in_the_cache_are_gathered_again():
    # 8 rows of 4 numbers are 128 bytes; 6 entries read row 0, one each reads rows 1 to 7, and three more row 7.
    col = torch.tensor([0] * 6 + list(range(1, 8)) + [7] * 3)
    rowptr = torch.tensor([0, *range(1, 17)])
    adj = Adjacency(rowptr=rowptr, col=col, num_cols=8)
    found = {}
    for cache_bytes in (None, 128, 32, 16, 0):
        count = Count(cache_bytes=cache_bytes)
        count.aggregate(Operand(rows=8, channels=4), adj)
        found[cache_bytes] = count.step.total.gathered_bytes
    # A cache of one or two rows keeps row 0, and row 7 too; without any all repeated reads are counted.
    assert found == {None: 0, 128: 0, 32: 0, 16: 3 * 16, 0: (5 + 3) * 16}


@given(
    n=st.integers(2, 40),
    channels=st.integers(1, 20),
    per_row=st.integers(1, 6),
    factor=st.integers(2, 4),
    what=st.sampled_from(["n", "channels", "per_row"]),
)
def test_more_costs_more(n, channels, per_row, factor, what):
    def cost(n: int, channels: int, per_row: int) -> tuple[float, float, float]:
        ops = [
            Constant(features=torch.ones(n, 3)),
            Linear(source=0, weight=weight(channels, 3)),
            Aggregate(source=1, adj=matrix(n, n, per_row, value=True)),
            Linear(source=2, weight=weight(2, channels)),
        ]
        step = stack_cost(ops, cache_bytes=64)
        return step.total.flops, step.total.bytes, floor_ms(step, peaks())

    def attention(n: int, channels: int, per_row: int) -> tuple[float, float, float]:
        count = Count()
        x = Operand(rows=n, channels=2 * channels, needs_grad=True)
        count.attention(x, matrix(n, n, per_row, value=False), 2)
        return count.step.total.flops, count.step.total.bytes, floor_ms(count.step, peaks())

    sizes = {"n": n, "channels": channels, "per_row": per_row}
    larger = sizes | {what: sizes[what] * factor}
    for of in (cost, attention):
        assert all(less < more for less, more in zip(of(**sizes)[:2], of(**larger)[:2], strict=True))
        assert of(**sizes)[2] < of(**larger)[2]


def test_optimisers():
    count = Count()
    count.update(100, "sgd")
    assert count.step.total == Cost(flops=200, bytes=1200)
    with pytest.raises(InvalidConfig, match="rmsprop"):
        count.update(100, "rmsprop")


def test_float64_moves_twice_the_bytes():
    ops = [
        Constant(features=torch.ones(40, 3)),
        Linear(source=0, weight=torch.nn.Parameter(torch.ones(2, 3, dtype=torch.float64))),
    ]
    single = [ops[0], Linear(source=0, weight=weight(2, 3))]
    labels = 8 * 40
    assert stack_cost(ops).total.bytes - labels == 2 * (stack_cost(single).total.bytes - labels)


def test_what_this_machine_says():
    rates = measure_copy_rates()
    assert tuple(rates) == COPY_SIZES
    assert all(rate > 0 for rate in rates.values())
    size = last_level_cache_bytes()
    assert size is None or size > 1 << 14
