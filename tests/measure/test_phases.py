"""Where time goes, on tasks made so that the answer is known by a wide margin, and on traces written by hand."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GCNConv

from fasthop.errors import InvalidConfig
from fasthop.machine.trace import Event
from fasthop.measure import phases as module
from fasthop.measure.operators import kind_of
from fasthop.measure.phases import measure_phases, quieter_half, stages_ms, without_wrappers
from fasthop.measure.recording import EPOCH, FUSED_STEP, LOADER, SAMPLE, Elsewhere, recorded
from fasthop.measure.shares import OperatorCosts, device_shares, edge_rows, host_shares
from fasthop.measure.stages import stretches

NODE = "autograd::engine::evaluate_function: "


@pytest.fixture(autouse=True)
def one_thread():
    """Two threads on a busy machine wait for each other, inside of operators."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def gcn_epoch(num_nodes, num_edges, channels, num_layers=2):
    """An epoch of PyG's layers on a random graph; warmed up."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_nodes, channels[0], generator=generator)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=generator)
    y = torch.randint(channels[-1], (num_nodes,), generator=generator)
    sizes = [channels[0], *[channels[1]] * (num_layers - 1), channels[-1]]
    layers = [GCNConv(a, b) for a, b in itertools.pairwise(sizes)]
    optimizer = torch.optim.SGD([p for layer in layers for p in layer.parameters()], lr=0.01)

    def epoch():
        optimizer.zero_grad()
        out = x
        for layer in layers:
            out = layer(out, edge_index).relu()
        F.cross_entropy(out, y).backward()
        optimizer.step()

    for _ in range(3):
        epoch()
    return epoch


def causes(found):
    """An epoch's time by cause: kinds of operators over both passes, and the stages that have no kinds."""
    kinds = {
        kind: found[f"forward.{kind}"] + found[f"backward.{kind}"]
        for kind in ("aggregate", "transform", "elementwise", "overhead")
    }
    return kinds | {
        "loader": found["sample"] + found["gather"],
        "step": found["step"],
        "other": found["other"],
    }


def check_adds_up(found):
    whole = sum(ms for key, ms in found.items() if "." not in key and key != "epoch")
    assert whole == pytest.approx(found["epoch"], rel=0.05)
    for stage in ("forward", "backward"):
        parts = sum(ms for key, ms in found.items() if key.startswith(stage + "."))
        assert parts == pytest.approx(found[stage], rel=0.05, abs=1e-9)
    assert all(ms >= 0 for ms in found.values())


@pytest.mark.parametrize(
    ("cause", "num_nodes", "num_edges", "channels", "num_layers"),
    [
        ("transform", 1000, 100, (3000, 128, 8), 2),
        ("aggregate", 400, 60_000, (4, 64, 4), 3),
        ("overhead", 10, 20, (4, 4, 3), 4),
    ],
)
def test_the_largest_share_is_the_true_cause(cause, num_nodes, num_edges, channels, num_layers):
    found = measure_phases(gcn_epoch(num_nodes, num_edges, channels, num_layers), device="cpu")
    check_adds_up(found)
    shares = causes(found)
    assert max(shares, key=shares.get) == cause, shares
    assert found["forward"] > 0
    assert found["backward"] > 0
    assert found["step"] > 0
    assert "fused" not in found


@pytest.mark.parametrize("num_threads", [0, 1])
def test_a_sampler_that_holds_everything_up_is_named(num_threads):
    from fasthop.train.neighbor_loader import NeighborLoader

    data = random_data(num_nodes=20_000, num_edges=400_000, num_features=2)
    loader = NeighborLoader(data, [20, 20], batch_size=2000, num_threads=num_threads)
    layer = torch.nn.Linear(2, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)

    def epoch():
        for batch in loader:
            optimizer.zero_grad()
            F.cross_entropy(layer(batch.x[: batch.batch_size]), batch.y[: batch.batch_size]).backward()
            optimizer.step()

    epoch()
    found = measure_phases(epoch, device="cpu")
    check_adds_up(found)
    shares = causes(found)
    assert max(shares, key=shares.get) == "loader", shares
    assert found["sample"] > 0
    assert found["gather"] > 0


def random_data(num_nodes, num_edges, num_features):
    from torch_geometric.data import Data

    generator = torch.Generator().manual_seed(0)
    return Data(
        x=torch.randn(num_nodes, num_features, generator=generator),
        edge_index=torch.randint(num_nodes, (2, num_edges), generator=generator),
        y=torch.randint(3, (num_nodes,), generator=generator),
    )


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_torchs_sparse_products_and_our_own_are_aggregation_in_both_passes():
    from fasthop.kernels.spmm.adjacency import Adjacency
    from fasthop.kernels.spmm.op import product
    from fasthop.kernels.spmm.transpose import transpose

    num_nodes = 3000
    generator = torch.Generator().manual_seed(0)
    col = torch.randint(num_nodes, (300_000,), generator=generator)
    rowptr = torch.arange(0, 300_001, 100)
    x = torch.randn(num_nodes, 32, generator=generator, requires_grad=True)
    adj = torch.sparse_csr_tensor(rowptr, col, torch.ones(300_000), (num_nodes, num_nodes))
    ours = Adjacency(rowptr=rowptr, col=col.int(), num_cols=num_nodes)
    flipped = transpose(ours.rowptr, ours.col, num_nodes)

    def theirs_epoch():
        (adj @ x).sum().backward()

    def our_epoch():
        product(x, ours.rowptr, ours.col, None, *flipped, None, "sum", "numba").sum().backward()

    for epoch in (theirs_epoch, our_epoch):
        epoch()
        # The quietest of three: what else runs on the machine is overhead to a trace.
        passes = [measure_phases(epoch, device="cpu") for _ in range(3)]
        found = min(passes, key=lambda one: one["epoch"])
        assert found["forward.aggregate"] > 0.5 * found["forward"], found
        assert found["backward.aggregate"] > 0.5 * found["backward"], found
        assert found["forward.transform"] == found["backward.transform"] == 0.0


def small_fused_step():
    from fasthop.train.batching import Batch
    from fasthop.train.fused import FusedStep
    from fasthop.train.models import GCN
    from fasthop.train.task import OptimizerConfig
    from tests.train.test_fused import NUM_LABELLED, NUM_NODES, as_stack, random_edges

    torch.manual_seed(0)
    x, y = torch.randn(NUM_NODES, 16), torch.randint(7, (NUM_NODES,))
    batch = Batch(x, random_edges(NUM_NODES, 150, 0), None, y, NUM_LABELLED)
    return FusedStep(as_stack(GCN(16, 16, 7), batch), y[:NUM_LABELLED], OptimizerConfig())


def test_a_fused_step_is_told_apart_by_its_passes():
    step = small_fused_step()
    step()
    found = measure_phases(step, device="cpu")
    check_adds_up(found)
    assert "fused" not in found
    for key in ("forward.aggregate", "backward.aggregate", "step"):
        assert found[key] > 0, key


def test_passes_one_by_one_are_the_same_step():
    together, apart = small_fused_step(), small_fused_step()
    for seed in range(3):
        torch.manual_seed(seed)
        expected = together()
        torch.manual_seed(seed)
        with recorded():
            assert torch.equal(apart(), expected)


def test_what_is_wrapped_is_put_back_even_after_an_error():
    from fasthop.kernels.sample.cpu import NeighborSampler
    from fasthop.kernels.spmm import dispatch
    from fasthop.kernels.stack.walk import Walk
    from fasthop.train.batching import SampledBatches

    def state():
        return (dispatch.run, NeighborSampler.sample, Walk.__call__, SampledBatches.__iter__)

    before = state()

    def epoch():
        assert all(now is not then for now, then in zip(state(), before, strict=True))
        raise ZeroDivisionError("mine")

    def plain_then_error():
        plain_then_error.calls += 1
        if plain_then_error.calls == 2:
            epoch()

    plain_then_error.calls = 0
    with pytest.raises(ZeroDivisionError, match="mine"):
        measure_phases(plain_then_error, device="cpu")
    assert state() == before


def test_an_epoch_of_nothing_adds_up():
    found = measure_phases(lambda: None, device="cpu")
    check_adds_up(found)


def test_a_running_profiler_is_named():
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
        pytest.raises(InvalidConfig, match="torch profiler is running"),
    ):
        measure_phases(lambda: None, device="cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("cause", ["transform", "aggregate"])
def test_cuda_finds_the_cause_too(cause):
    num_nodes, num_edges, size = (8000, 100, 2000) if cause == "transform" else (2000, 2_000_000, 64)
    x = torch.randn(num_nodes, size, device="cuda", requires_grad=True)
    weight = torch.randn(size, size, device="cuda", requires_grad=True)
    index = torch.randint(num_nodes, (num_edges,), device="cuda")

    def epoch():
        if cause == "transform":
            (x @ weight).sum().backward()
        else:
            torch.zeros_like(x).index_add_(0, index, x[index]).sum().backward()

    epoch()
    found = measure_phases(epoch, device="cuda")
    check_adds_up(found)
    shares = causes(found)
    assert max(shares, key=shares.get) == cause, shares


# Traces by hand, in ns.


def epoch_of(*events, end=1000):
    return [Event(EPOCH, 0, end), *events]


def test_the_pass_before_a_backward_pass_is_its_forward_pass():
    events = epoch_of(
        Event("Optimizer.zero_grad#SGD.zero_grad", 50, 100),
        Event("aten::mm", 100, 300),
        Event(NODE + "MmBackward0", 400, 500),
        Event("aten::mm", 410, 490),
        Event(NODE + "torch::autograd::AccumulateGrad", 520, 600),
        Event("aten::mul", 620, 640),
        Event("Optimizer.step#SGD.step", 700, 800),
    )
    assert [(s.start_ns, s.end_ns, s.stage) for s in stretches(events)] == [
        (0, 50, "forward"),
        (50, 100, "step"),
        (100, 400, "forward"),
        (400, 600, "backward"),
        (600, 700, "other"),
        (700, 800, "step"),
        (800, 1000, "other"),
    ]
    shares = host_shares(events, OperatorCosts())
    assert shares["forward", "transform"] == 200
    assert shares["forward", "overhead"] == 150
    assert shares["backward", "transform"] == 80
    assert shares["backward", "overhead"] == 120
    assert shares["step", ""] == 150
    assert sum(shares.values()) == 1000


def test_without_a_backward_pass_all_is_forward():
    shares = host_shares(epoch_of(Event("aten::relu", 100, 400)), OperatorCosts())
    assert shares == {("forward", "overhead"): 700, ("forward", "elementwise"): 300}


def test_two_backward_passes_with_work_between_are_two():
    events = epoch_of(
        Event("aten::mm", 0, 100),
        Event(NODE + "MmBackward0", 100, 200),
        Event("aten::mm", 300, 400),
        Event(NODE + "MmBackward0", 400, 500),
    )
    assert [s.stage for s in stretches(events)] == ["forward", "backward", "forward", "backward", "other"]


def test_a_loaders_stages_are_innermost():
    events = epoch_of(
        Event(LOADER, 100, 400),
        Event(SAMPLE, 150, 300),
        Event("aten::index_select", 200, 250),
        Event(NODE + "MmBackward0", 500, 600),
    )
    shares = host_shares(events, OperatorCosts())
    assert (shares["loader", ""], shares["sample", ""]) == (150, 150)
    told = module._with_loader_told_apart(shares, Elsewhere({SAMPLE: 30, "fasthop_range::gather": 10}))
    assert told["sample", ""] == 150 + 150 * 0.75
    assert told["gather", ""] == 150 * 0.25
    assert module._with_loader_told_apart(shares, Elsewhere())["gather", ""] == 150


def test_what_lies_in_an_aggregation_or_a_product_belongs_to_it():
    events = epoch_of(
        Event("aten::index_select_backward", 0, 400),
        Event("aten::new_zeros", 10, 50),
        Event("aten::index_add_", 50, 350),
        Event("aten::linear", 500, 700),
        Event("aten::t", 500, 550),
        Event("aten::addmm", 560, 690),
        Event("aten::copy_", 570, 590),
    )
    shares = host_shares(events, OperatorCosts())
    assert shares["forward", "aggregate"] == 400
    assert shares["forward", "transform"] == 130
    assert ("forward", "elementwise") not in shares or shares["forward", "elementwise"] == 0


def test_what_has_a_row_for_each_edge_belongs_to_the_aggregation():
    events = epoch_of(
        Event("aten::mul", 0, 100, rows=(50, 50)),
        Event("aten::mul", 100, 300, rows=(10, 1)),
        Event("aten::scatter_add_", 300, 600, rows=(10, 50, 50)),
        Event("aten::scatter_add_", 600, 700, rows=(10, 10, 10)),
    )
    assert edge_rows(events) == {50}
    shares = host_shares(events, OperatorCosts())
    assert (shares["forward", "aggregate"], shares["forward", "elementwise"]) == (500, 200)


def test_a_product_that_looks_into_a_sparse_matrix_is_an_aggregation():
    events = epoch_of(
        Event("aten::addmm", 0, 400),
        Event("aten::crow_indices", 10, 20),
        Event("aten::addmm", 500, 700),
    )
    shares = host_shares(events, OperatorCosts())
    assert (shares["forward", "aggregate"], shares["forward", "transform"]) == (400, 200)


def test_the_call_of_an_operator_is_overhead_and_so_is_its_recording_taken_off():
    events = epoch_of(Event("aten::mul", 100, 150), Event("aten::mul", 200, 400))
    shares = host_shares(events, OperatorCosts(recorded=30, by_kind={"elementwise": 60}))
    assert shares["forward", "elementwise"] == 250 - 50 - 60
    assert shares["forward", "overhead"] == 750 - 2 * 30 + 110


def test_a_fused_step_whose_passes_are_not_seen_is_one_stage():
    step = Event(FUSED_STEP, 100, 900)
    assert [s.stage for s in stretches(epoch_of(step))] == ["forward", "fused", "forward"]
    names = ("aggregate", "cross_entropy", "outer", "adam")
    passes = [Event("fasthop_stack::" + name, 200 + 100 * i, 300 + 100 * i) for i, name in enumerate(names)]
    assert [(s.end_ns, s.stage) for s in stretches(epoch_of(step, *passes))] == [
        (400, "forward"),
        (500, "backward"),
        (600, "step"),
        (1000, "other"),
    ]


def test_on_a_device_time_is_its_kernels_and_the_rest_the_hosts_overhead():
    events = sorted(
        [
            Event(EPOCH, 0, 1000),
            Event("aten::mm", 100, 150, correlation=1),
            Event("ampere_sgemm", 200, 500, correlation=1, on_device=True),
            Event(NODE + "ScatterAddBackward0", 300, 400, thread=2),
            Event("aten::gather", 310, 390, thread=2, correlation=2),
            Event("vectorized_kernel", 500, 600, correlation=2, on_device=True),
            Event("another stream's", 550, 650, correlation=2, on_device=True),
            Event("Memcpy HtoD (Pageable -> Device)", 700, 800, correlation=9, on_device=True),
        ],
        key=lambda event: (event.start_ns, -event.end_ns),
    )
    shares = device_shares(events, added_ns=0)
    assert shares["forward", "transform"] == 300
    assert shares["backward", "aggregate"] == 150
    assert shares["transfer", ""] == 100
    assert shares["forward", "overhead"] == 200
    assert sum(shares.values()) == 1000
    less = device_shares(events, added_ns=225)
    assert less["forward", "overhead"] == pytest.approx(100)
    assert less["forward", "transform"] == 300
    assert sum(device_shares(events, added_ns=1e9).values()) == 550


def test_shares_are_scaled_to_the_untraced_epoch():
    found = stages_ms({("forward", "transform"): 3e6, ("forward", "overhead"): 1e6, ("step", ""): 4e6}, 4.0)
    assert found["epoch"] == 4.0
    assert (found["forward"], found["forward.transform"], found["step"]) == (2.0, 1.5, 2.0)
    assert found["sample"] == found["backward.aggregate"] == 0.0
    check_adds_up(found)


def test_ranges_of_our_own_take_off_no_more_than_they_cost():
    shares = {("forward", "overhead"): 50_000.0, ("forward", "transform"): 60_000.0}
    events = [Event("fasthop_stack::outer", 0, 1)] * 4
    assert without_wrappers(shares, events, 100_000)["forward", "overhead"] == 40_000
    assert without_wrappers(shares, events, 10_000)["forward", "overhead"] == 30_000
    assert without_wrappers(shares, events, 200_000) == shares


def test_the_quieter_half_is_kept():
    traced = [(epoch_of(end=length), Elsewhere()) for length in (30, 10, 20)]
    assert [events[0].end_ns for events, _ in quieter_half(traced)] == [10, 20]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::scatter_add_", "aggregate"),
        ("aten::_index_put_impl_", "aggregate"),
        ("fasthop::gat_grad", "aggregate"),
        ("_DirectProductBackward", "aggregate"),
        ("torch_sparse::spmm_sum", "aggregate"),
        ("aten::addmm", "transform"),
        ("aten::linear", "overhead"),
        ("aten::_log_softmax", "elementwise"),
        ("aten::native_batch_norm", "elementwise"),
        ("aten::view", "overhead"),
        ("aten::expand", "overhead"),
        ("aten::empty", "overhead"),
        ("MulBackward0", "overhead"),
        (NODE + "MulBackward0", "overhead"),
        ("somebody::operator", "elementwise"),
        ("## Call CompiledFxGraph abc ##", "fused"),
        ("triton_poi_fused_scatter_add_0", "aggregate"),
        ("triton_poi_fused_relu_0", "elementwise"),
        ("fasthop_stack::product", "transform"),
        (SAMPLE, "overhead"),
    ],
)
def test_operators_are_known_by_name(name, kind):
    assert kind_of(name) == kind
