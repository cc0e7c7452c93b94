"""Predictions: the rehearsal has the true graph's operators, and what follows from them goes the right way."""

from __future__ import annotations

import collections
import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fasthop.graph.graph import Graph
from fasthop.rewrites.ladder import Recipe, ladder
from fasthop.search import predict_bench
from fasthop.search.atomic_rate import atomic_add_rows
from fasthop.search.direction import direction
from fasthop.search.fresh_memory import fresh_bytes
from fasthop.search.predict import foresee, predict_recipes, predict_setup
from fasthop.search.predict_rates import KINDS, NARROW, NUMBERS, WIDTHS, Rates, machine_rates
from fasthop.search.predict_rehearsal import Sizes, rehearse_step
from fasthop.search.predict_sample import batch_sizes
from fasthop.search.predict_time import Machine, joined, step_ms
from fasthop.search.predict_trace import Call, Shape, record_step
from fasthop.train.models import REFERENCE_MODELS
from fasthop.train.neighbor_loader import NeighborLoader
from fasthop.train.setup import Setup
from fasthop.train.task import Task
from tests.search.test_cost import peaks
from tests.train.graphs import digraph

CPU = torch.device("cpu")
RECIPES = {recipe.name: recipe for recipe in ladder("full", num_neighbors=(3, 2), batch_size=7)}


def products(gflops: float) -> tuple[tuple[float, ...], ...]:
    return tuple((gflops,) * len(NARROW) for _ in KINDS)


def rates(**changed: Any) -> Rates:
    """Of a machine on which every number takes a nanosecond, but for what is changed."""
    table = tuple((1.0,) * len(WIDTHS) for _ in NUMBERS)
    line = (1.0,) * len(NUMBERS)
    plain = Rates(
        elementwise=line, scaled=table, gather=table, gather_wide=table, scatter=table, index_add=table, scatter_max=table, spmm=table, spmm_t=table, sort=line, cast_bf16=line,
        gather_bf16=line, scatter_bf16=line, product_gflops=products(100.0), product_bf16_gflops=products(100.0), forward_us=1.0, backward_us=1.0, optimizer_us=1.0, bf16_shape_us=0.0, atomic_ns=0.0, page_us=0.0, copy_gb_per_s=(10.0,) * 4, device="cpu",
        num_threads=1,
    )  # fmt: skip
    return dataclasses.replace(plain, **changed)


def machine(*, gflops: float = 100.0, **changed: Any) -> Machine:
    return Machine(peaks=peaks(gflops=gflops), rates=rates(product_gflops=products(gflops), **changed))


def everywhere(value: float) -> tuple[tuple[float, ...], ...]:
    return tuple((value,) * len(WIDTHS) for _ in NUMBERS)


def task(graph: Graph, name: str = "gcn", hidden: int = 4, **options: Any) -> Task:
    def make() -> torch.nn.Module:
        return REFERENCE_MODELS[name](graph.num_features, hidden, graph.num_classes, **options)

    return Task(graph=graph, make_model=make)


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Without self-loops: a rehearsal has none either."""
    return digraph(num_nodes=90, num_edges=400, dtype=torch.float32, loops=False)


def ratios(graph: Graph, on: Machine, name: str = "gcn", **options: Any) -> dict[str, float]:
    """Predicted ratios over the baseline, by recipe."""
    found = predict_recipes(task(graph, name, **options), tuple(RECIPES.values()), on)
    return {key: found["baseline"].time_ms / value.time_ms for key, value in found.items()}


@pytest.mark.parametrize("name", REFERENCE_MODELS)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_rehearsal_has_the_operators_and_shapes_of_the_true_graph(graph, name, dropout):
    the_task = task(graph, name, dropout=dropout)
    setup = Setup.baseline(the_task, seed=0, device=CPU)
    (batch,) = setup.batches
    true = record_step(setup, batch)
    rows = int(graph.train_mask.sum())
    rehearsed = rehearse_step(the_task, RECIPES["baseline"], 0).at(
        Sizes(num_nodes=graph.num_nodes, num_edges=graph.num_edges, num_rows=rows)
    )

    def counted(calls):
        return collections.Counter(
            (call.name, call.phase, tuple(s.size for s in call.reads), tuple(s.size for s in call.writes))
            for call in calls
        )

    assert counted(rehearsed) == counted(true)


@pytest.mark.parametrize("name", REFERENCE_MODELS)
def test_flops_of_products_are_torchs(graph, name):
    the_task = task(graph, name)
    setup = Setup.baseline(the_task, seed=0, device=CPU)
    (batch,) = setup.batches
    step = setup.step()
    with FlopCounterMode(display=False) as counter:
        step(batch)
    calls = rehearse_step(the_task, RECIPES["baseline"], 0).at(
        Sizes(num_nodes=graph.num_nodes, num_edges=graph.num_edges, num_rows=int(graph.train_mask.sum()))
    )
    assert sum(call.flops for call in calls if call.is_product) == counter.get_total_flops()


def test_bytes_of_an_expanded_index_are_those_in_memory(graph):
    calls = rehearse_step(task(graph), RECIPES["baseline"], 0).calls
    scatter = next(c for c in calls if c.name.startswith("aten::scatter_add") and len(c.writes[0].size) == 2)
    index = next(shape for shape in scatter.reads if shape.dtype is torch.int64 and len(shape.size) == 2)
    assert index.size[1] == 4
    assert index.num_bytes == 8 * index.size[0]


@pytest.mark.parametrize("num_neighbors", [(3, 2), (-1, -1), (50,)])
def test_batches_are_as_large_as_the_loaders(num_neighbors):
    graph = digraph(num_nodes=600, num_edges=4000, dtype=torch.float32)
    size = 50
    loader = NeighborLoader(
        graph, num_neighbors, graph.train_mask, batch_size=size, shuffle=True, merge_last_single=True
    )
    true = [(data.num_nodes, data.edge_index.size(1), data.batch_size) for data in loader]
    found = [
        sizes
        for count, sizes in batch_sizes(graph, num_neighbors=num_neighbors, batch_size=size)
        for _ in range(count)
    ]
    assert [sizes.num_rows for sizes in found] == [rows for _, _, rows in true]
    for place, attribute in enumerate(("num_nodes", "num_edges")):
        total = sum(getattr(sizes, attribute) for sizes in found)
        assert total == pytest.approx(sum(entry[place] for entry in true), rel=0.1)


@pytest.mark.parametrize("size", [19, 10, 30])
def test_a_last_batch_of_one_is_joined_to_the_one_before(size):
    graph = digraph(num_nodes=60, num_edges=300, dtype=torch.float32)
    assert int(graph.train_mask.sum()) == 20
    loader = NeighborLoader(graph, (2,), graph.train_mask, batch_size=size, merge_last_single=True)
    found = batch_sizes(graph, num_neighbors=(2,), batch_size=size)
    assert [sizes.num_rows for count, sizes in found for _ in range(count)] == [
        data.batch_size for data in loader
    ]


def test_a_slow_scatter_favours_the_sparse_product(graph):
    slow = machine(scatter=everywhere(1000.0), index_add=everywhere(1000.0))
    assert ratios(graph, slow)["pyg_sparse"] > 3
    quick = machine(spmm=everywhere(1000.0), spmm_t=everywhere(1000.0))
    assert ratios(graph, quick)["pyg_sparse"] < 0.5


def test_what_casts_cost_decides_on_amp(graph):
    dear = machine(cast_bf16=(1e4,) * len(NUMBERS))
    assert ratios(graph, dear)["amp"] < 0.7
    free = Machine(
        peaks=peaks(gflops=1e-3),
        rates=rates(product_gflops=products(1e-3), product_bf16_gflops=products(1.0)),
    )
    assert ratios(graph, free)["amp"] > 3


def test_compiled_code_scatters_by_atomic_additions(graph):
    assert ratios(graph, machine(atomic_ns=1e4, num_threads=2))["compile"] < 0.1
    assert (
        ratios(graph, machine(atomic_ns=1e-3, num_threads=2))["compile"] > ratios(graph, machine())["compile"]
    )


def test_kept_memory_saves_what_pages_cost(graph):
    assert ratios(graph, machine())["keep_memory"] == 1
    made = rehearse_step(task(graph, "gcn"), RECIPES["baseline"], 0).at(
        Sizes(num_nodes=10**5, num_edges=10**6, num_rows=10)
    )
    assert fresh_bytes(made) > 10**6
    dear = machine(page_us=1e3)
    kept, anew = (step_ms(made, dear, compiled=False, new_shapes=False, kept=kept) for kept in (True, False))
    assert anew > 2 * kept


def test_blocks_that_a_step_needs_anew_are_its_peak_less_what_glibc_keeps():
    def call(reads: tuple[int, ...], writes: tuple[int, ...], megabytes: int) -> Call:
        def shape(memory: int) -> Shape:
            size = (megabytes << 18,)
            return Shape(size=size, stored=size, dtype=torch.float32, memory=memory)

        return Call(
            name="aten::mul",
            phase="forward",
            reads=tuple(map(shape, reads)),
            writes=tuple(map(shape, writes)),
            is_view=False,
        )

    # 0 is an input; 1 to 4 are alive at once; twice the largest stays.
    held = [call((0,), (1,), 1), call((0,), (2,), 1), call((0,), (3,), 1), call((1, 2, 3), (4,), 1)]
    assert fresh_bytes(held) == 2 << 20
    assert fresh_bytes([call((0,), (1,), 1), call((1,), (2,), 1)]) == 0
    assert fresh_bytes([call((0,), (1,), 64), call((1,), (2,), 64)]) == 0  # in the operators' own rates


def test_rows_that_two_threads_add_at_once_are_all_there():
    index = np.random.default_rng(0).integers(
        3, size=200_000
    )  # three rows, so that threads meet all the time
    x = np.ones((index.size, 16), np.float32)
    out = np.zeros((3, 16), np.float32)
    halves = list(zip(np.array_split(index, 2), np.array_split(x, 2), strict=True))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda half: atomic_add_rows()(out, *half), halves))
    assert np.array_equal(out, np.repeat(np.bincount(index)[:, None], 16, axis=1))


@pytest.mark.parametrize(
    ("sizes", "kind"), [((16, 900, 800), 0), ((900, 16, 800), 1), ((900, 800, 16), 2), ((900, 800, 1), 2)]
)
def test_a_product_has_the_rate_of_its_least_side(sizes, kind):
    table = tuple(
        tuple(100.0 * (row + 1) + place for place in range(len(NARROW))) for row in range(len(KINDS))
    )
    found = rates(product_gflops=table, product_bf16_gflops=products(7.0))
    assert found.gflops(*sizes, half=False) == table[kind][0]
    assert found.gflops(*sizes, half=True) == 7.0


def test_the_sizes_of_products_are_read_from_their_operands(graph):
    calls = rehearse_step(task(graph, "gcn"), RECIPES["baseline"], 0)
    n, features = calls.sizes.num_nodes, graph.num_features
    found = {call.product_sizes for call in calls.calls if call.is_product}
    assert {(n, features, 4), (4, n, features)} <= found  # x W^T, and the gradient of W


def test_new_shapes_cost_a_sampled_bf16_step_alone(graph):
    dear = machine(bf16_shape_us=1e6)
    found = ratios(graph, dear)
    assert found["sample+amp"] < 0.1 * found["sample"]
    assert found["amp"] > 0.5


def test_cached_norm_saves_what_the_graph_alone_decides(graph):
    found = ratios(graph, machine())
    assert found["cache_norm"] > 1.2


def test_joined_operators_move_no_more_and_keep_the_rest(graph):
    calls = rehearse_step(task(graph, "gat"), RECIPES["baseline"], 0).calls
    after = joined(calls)
    assert len(after) < sum(not call.is_view for call in calls)
    assert sum(call.num_bytes for call in after) < sum(call.num_bytes for call in calls)
    assert sum(call.is_product for call in after) == sum(call.is_product for call in calls)


@pytest.mark.parametrize("name", REFERENCE_MODELS)
def test_a_built_setup_is_predicted_without_running_it(graph, name):
    setup = Setup.baseline(task(graph, name), seed=0, device=CPU)
    for key in ("+csr_spmm", "+receptive_field"):
        built = RECIPES[key].on(setup)
        before = [parameter.clone() for parameter in setup.original.parameters()]
        state = torch.random.get_rng_state()
        found = predict_setup(built, RECIPES[key], machine())
        assert found is not None
        assert found.time_ms > found.floor_ms > 0
        assert found.flops > 0
        assert found.moved_bytes > 0
        assert torch.equal(torch.random.get_rng_state(), state)
        for parameter, old in zip(setup.original.parameters(), before, strict=True):
            assert torch.equal(parameter, old)


def test_what_is_fused_calls_less(graph):
    setup = Setup.baseline(task(graph), seed=0, device=CPU)
    slow_calls = machine(forward_us=100.0, backward_us=100.0, optimizer_us=100.0)
    before, after = "+transform_order", "+fused_step"
    times = {}
    for key in (before, after):
        try:
            found = predict_setup(RECIPES[key].on(setup), RECIPES[key], slow_calls)
        except Exception:  # the rung before finds nothing to do on this model
            key, found = (
                "+receptive_field",
                predict_setup(RECIPES["+receptive_field"].on(setup), RECIPES["+receptive_field"], slow_calls),
            )
        assert found is not None
        times[key] = found.time_ms
    fused = times.pop(after)
    assert fused < 0.1 * next(iter(times.values()))


class OfItsGraph(torch.nn.Module):
    """Has a row for each node of one graph, and says so."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.rows = torch.nn.Parameter(torch.zeros(graph.num_nodes, graph.num_classes))

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        print("called")
        return self.rows + x[:, : self.rows.size(1)]


def test_what_cannot_be_rehearsed_is_left_out_in_silence(graph, capsys):
    state = torch.random.get_rng_state()
    the_task = Task(graph=graph, make_model=lambda: OfItsGraph(graph))
    assert predict_recipes(the_task, tuple(RECIPES.values()), machine()) == {}
    assert capsys.readouterr().out == ""
    assert torch.equal(torch.random.get_rng_state(), state)


def test_no_machine_no_prediction(graph, monkeypatch):
    def fails(*_: object) -> Machine:
        raise RuntimeError("not enough memory")

    monkeypatch.setattr("fasthop.search.predict.known_machine", fails)
    found = foresee(task(graph), (Recipe(name="baseline"),), CPU, 1)
    assert (found.machine, found.predictions) == (None, {})


def test_directions():
    assert [direction(ratio) for ratio in (0.5, 0.95, 1.0, 1.05, 1.2)] == [
        "slower",
        "same",
        "same",
        "same",
        "faster",
    ]


def test_rates_between_the_measured_ones():
    found = rates(gather=tuple((float(place + 1),) * len(WIDTHS) for place in range(len(NUMBERS))))
    assert found.ns("gather", 1) == 1.0
    assert found.ns("gather", NUMBERS[1]) == pytest.approx(2.0)
    assert 1.0 < found.ns("gather", NUMBERS[0] * 2) < 2.0
    assert found.ns("gather", 10 * NUMBERS[-1]) == len(NUMBERS)


def test_rates_are_measured_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTHOP_CACHE", str(tmp_path))
    monkeypatch.setattr(predict_bench, "_SECONDS", 0.0)
    monkeypatch.setattr(predict_bench, "NUMBERS", (1 << 8, 1 << 9, 1 << 10, 1 << 12))
    first = machine_rates()
    assert machine_rates() == first
    (path,) = (tmp_path / "peaks").glob("rates-*.json")
    tree = json.loads(path.read_text())
    for damaged in (
        "{",
        json.dumps({**tree, "schema_version": -1}),
        json.dumps({**tree, "forward_us": -1.0}),
    ):
        path.write_text(damaged)
        assert machine_rates().forward_us > 0
        assert json.loads(path.read_text())["schema_version"] == tree["schema_version"]
