"""A proof's cost is foreseen: on a graph too large for the budget only a part of it is ever run."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch_geometric.nn import GCNConv

from fasthop.errors import InvalidConfig
from fasthop.exactness import Exactness
from fasthop.verify.budget import (
    PROBE_SIZE,
    SPARE_BYTES,
    Budget,
    Cost,
    fitting_subgraph,
    measure_cost,
)
from fasthop.verify.judge import check
from fasthop.verify.subgraph import NODE_SIZE, Reach
from tests.verify.models import Net, data, gcn, maker
from tests.verify.test_judge import transposed

GB = 1 << 30


def share(budget: Budget, step_s: float, peak_bytes: int = 0, num_candidates: int = 1) -> float:
    cost = Cost(step_s=step_s, peak_bytes=peak_bytes)
    return budget.share(cost, num_steps=3, num_candidates=num_candidates)


def test_the_share_of_the_graph_follows_time_and_memory():
    assert share(Budget(), 0.005) == 1.0
    # 2 + 2 sides x 3 steps x (1 + 3) = 26 steps' worth.
    assert share(Budget(), 12.2) == pytest.approx(10 / (26 * 12.2))
    assert share(Budget(seconds=20), 12.2) == pytest.approx(20 / (26 * 12.2))
    assert share(Budget(), 12.2, num_candidates=7) < share(Budget(), 12.2)
    # Float64 needs twice the memory of the original, whose own is the limit, but from half a GB up.
    assert share(Budget(), 0.001, 4 * GB) == pytest.approx(0.5)
    assert share(Budget(), 0.001, SPARE_BYTES // 2) == 1.0
    assert share(Budget(peak_bytes=2 * GB), 0.001, 4 * GB) == pytest.approx(0.25)


@pytest.mark.parametrize("wrong", [{"seconds": 0.0}, {"seconds": float("nan")}, {"peak_bytes": 0}])
def test_a_budget_of_nothing_is_refused(wrong):
    with pytest.raises(InvalidConfig, match="more than 0"):
        Budget(**wrong)


LARGE = data(num_nodes=12_000, num_edges=150_000)
REACH = Reach(edge_index=LARGE.edge_index, num_nodes=12_000, seeds=LARGE.rows, num_hops=3)


def sizes_of(model: torch.nn.Module, call=gcn):
    """A maker and the numbers of nodes that it was asked for."""
    sizes: list[int] = []
    make = maker(model, LARGE, call)

    def counted(dtype, part):
        sizes.append(12_000 if part is None else part.num_nodes)
        return make(dtype, part)

    return counted, sizes


def test_a_large_graph_is_never_run_whole_to_learn_what_it_costs():
    make, sizes = sizes_of(Net(GCNConv))
    cost = measure_cost(make, dtype=torch.float32, reach=REACH, seed=0)
    assert sizes
    assert max(sizes) < 12_000 / 2
    assert cost.step_s > 0
    # Scaled to the whole graph: at least its messages in one layer, 8 channels of 4 bytes.
    assert cost.peak_bytes > 12_000 * 8 * 4


def test_a_small_graph_is_run_as_it_is():
    graph = data()
    reach = Reach(edge_index=graph.edge_index, num_nodes=60, seeds=graph.rows, num_hops=2)
    parts = []
    make = maker(Net(GCNConv), graph)

    def counted(dtype, part):
        parts.append(part)
        return make(dtype, part)

    measure_cost(counted, dtype=torch.float32, reach=reach, seed=0)
    assert parts == [None]
    assert reach.size < PROBE_SIZE


@pytest.mark.parametrize("call", [gcn, transposed])
def test_beyond_the_budget_a_stated_closed_subgraph_is_compared(call):
    model = Net(GCNConv)
    reference, original_sizes = sizes_of(model, lambda m, x, e: m(x, e))
    candidate, candidate_sizes = sizes_of(model, call)
    cost = Cost(step_s=10.0, peak_bytes=GB)
    verdict = check(
        "part",
        reference,
        candidate,
        exactness=Exactness.REASSOCIATED,
        reach=REACH,
        cost=cost,
        budget=Budget(seconds=26),
    )
    assert verdict.passed == (call is gcn)
    assert max(original_sizes + candidate_sizes) < 12_000 // 3
    scope = verdict.scope
    assert scope.kind == "subgraph"
    assert scope.num_nodes == original_sizes[0]
    assert scope.num_edges is not None
    assert scope.num_edges + NODE_SIZE * scope.num_nodes <= REACH.size // 10
    assert scope.num_hops == scope.needed_hops == 3
    assert scope.num_seeds is not None
    assert 0 < scope.num_seeds < LARGE.rows.numel()
    if verdict.passed:
        assert f"on a closed subgraph ({scope.num_nodes:,} nodes" in verdict.sentence["en"]
        assert "封闭子图" in verdict.sentence["zh"]


def hubs() -> Reach:
    """Two hops from every seed lie 300 nodes (but for one lonely seed), one hop 10."""
    sources, targets = [], []
    for seed in range(8):
        for near in range(8 + 10 * seed, 18 + 10 * seed):
            sources += [near, *range(100, 400)]
            targets += [seed] + [near] * 300
    sources.append(400)
    targets.append(401)
    edge_index = torch.tensor([sources, targets])
    return Reach(edge_index=edge_index, num_nodes=402, seeds=torch.tensor([*range(8), 401]), num_hops=2)


def test_where_neighbourhoods_are_too_large_fewer_hops_are_closed_and_said():
    reach = hubs()
    part = fitting_subgraph(reach, max_size=1_200, seed=0)
    assert part is not None
    assert part.num_hops == 1
    assert part.num_edges >= 40
    assert fitting_subgraph(reach, max_size=40_000, seed=0).num_hops == 2  # type: ignore[union-attr]
    assert fitting_subgraph(reach, max_size=5, seed=0) is None
    graph = data(num_nodes=402)
    make = maker(Net(GCNConv), dataclasses.replace(graph, edge_index=reach.edge_index, rows=reach.seeds))
    cost = Cost(step_s=10 / 26 / 0.15, peak_bytes=0)
    verdict = check("tiny", make, make, exactness=Exactness.REASSOCIATED, reach=reach, cost=cost)
    assert verdict.passed
    assert "closed over 1 of 2 hops" in verdict.sentence["en"]
    assert "2 跳中的 1 跳" in verdict.sentence["zh"]


def test_a_cost_that_cannot_be_measured_is_the_originals_failure():
    def broken(dtype, part):
        raise ValueError("no such graph")

    verdict = check("x", broken, broken, exactness=Exactness.REASSOCIATED)
    assert "the original cannot be run for the proof: ValueError: no such graph" in verdict.sentence["en"]
