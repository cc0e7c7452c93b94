"""What lives at the peak, against counts by hand."""

from __future__ import annotations

import gc

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from fasthop.errors import InvalidConfig
from fasthop.machine.live import live_ranges, num_bytes
from fasthop.machine.memory import measure_peak
from fasthop.measure.memory_kinds import KINDS, measure_memory_kinds
from fasthop.measure.residents import Residents

CPU = torch.device("cpu")
NUM_NODES, NUM_EDGES, NUM_FEATURES, HIDDEN, CLASSES = 2000, 60_000, 50, 16, 7
PYTHON_BYTES = 60_000  # Python's own objects of a step, which tracemalloc counts with NumPy's arrays


def whole(found):
    return sum(num_bytes for kind, num_bytes in found.kinds.items() if "." not in kind)


class Training:
    """PyG's two-layer GCN on a random graph without self-loops; calling it is an epoch."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(NUM_NODES, NUM_FEATURES, generator=generator)
        row = torch.randint(NUM_NODES, (NUM_EDGES,), generator=generator)
        shift = torch.randint(1, NUM_NODES, (NUM_EDGES,), generator=generator)
        self.edge_index = torch.stack([row, (row + shift) % NUM_NODES])
        self.y = torch.randint(CLASSES, (NUM_NODES,), generator=generator)
        self.layers = torch.nn.ModuleList([GCNConv(NUM_FEATURES, HIDDEN), GCNConv(HIDDEN, CLASSES)])
        self.optimizer = torch.optim.Adam(self.layers.parameters())
        for _ in range(2):
            self()

    def __call__(self):
        self.optimizer.zero_grad()
        hidden = self.layers[0](self.x, self.edge_index).relu()
        F.cross_entropy(self.layers[1](hidden, self.edge_index), self.y).backward()
        self.optimizer.step()

    @property
    def inputs(self):
        return [self.x, self.edge_index, self.y]


def test_kinds_add_up_to_the_peak_and_agree_with_a_count_by_hand():
    gc.collect()
    left_by_others = num_bytes(
        live_ranges(torch.device("cpu"))
    )  # what other modules of tests keep for theirs
    training = Training()
    peak = measure_peak(training, resident=training.inputs, device="cpu")
    found = measure_memory_kinds(
        training, device="cpu", features=[training.x], graph=[training.edge_index, training.y]
    )
    kinds = found.kinds
    inputs = sum(one.nbytes for one in training.inputs)
    assert whole(found) == found.peak_bytes
    assert found.peak_bytes - inputs == pytest.approx(peak.peak_bytes, rel=0.05)

    num_parameters = (NUM_FEATURES + 1) * HIDDEN + (HIDDEN + 1) * CLASSES
    assert kinds["features"] == training.x.nbytes
    graph = training.edge_index.nbytes + training.y.nbytes
    assert graph <= kinds["graph"] <= graph + left_by_others
    assert kinds["optimizer_state"] == pytest.approx(2 * 4 * num_parameters, rel=0.01)

    # Highest in the first layer: in its forward pass when the sum is about to start (beside the messages and what they
    # were gathered as lie the nodes' rows and the sum), or in its backward pass when the gradient of the messages has just been
    # multiplied (beside both lie the gradient of the sum and what relu keeps). The two differ by less than 1 %.
    edges = NUM_EDGES + NUM_NODES
    assert found.operator in ("forward: aten::new_zeros", "backward: aten::mul")
    messages, nodes = 2 * edges * HIDDEN * 4, NUM_NODES * HIDDEN * 4
    edges_with_loops_and_normalisation = 2 * edges * 8 + edges * 4
    assert kinds["temporaries.messages"] == messages
    assert kinds["temporaries"] + kinds["activations"] == pytest.approx(
        messages + 2 * nodes + edges_with_loops_and_normalisation, rel=0.02
    )
    assert kinds["temporaries"] == pytest.approx(messages + 1.5 * nodes, abs=0.6 * nodes)
    assert kinds["activations.messages"] == 0


def test_inputs_are_found_where_nobody_names_them():
    training = Training()
    found = measure_memory_kinds(training, device="cpu")
    assert found.kinds["features"] >= training.x.nbytes
    assert found.kinds["graph"] >= training.edge_index.nbytes
    assert whole(found) == found.peak_bytes
    data = Data(x=torch.zeros(4000, 30), edge_index=torch.zeros(2, 9, dtype=torch.int64), y=torch.zeros(4000))
    residents = Residents(CPU)
    assert residents.kind_at(data.x.data_ptr()) == "features"
    assert residents.kind_at(data.y.data_ptr()) == "graph"
    assert residents.kind_at(training.layers[0].lin.weight.data_ptr()) == "parameters"
    assert residents.kind_at(training.layers[0].lin.weight.grad.data_ptr()) == "gradients"


def test_what_is_kept_for_the_backward_pass_is_told_from_what_passes():
    weight = torch.ones(1000, requires_grad=True)

    def step():
        scratch = torch.empty(250_000)  # 1 MB, gone before anything is kept
        del scratch
        kept = (weight * torch.ones(1000)).expand(1000, 1000) * 2.0  # 4 MB
        kept = kept.exp()  # 4 MB, and exp keeps it
        loss = (kept * kept).sum()
        del kept
        loss.backward()
        weight.grad = None

    step()
    found = measure_memory_kinds(step, device="cpu")
    assert found.kinds["activations"] == pytest.approx(4_000_000, rel=0.05)
    assert found.kinds["temporaries"] >= 4_000_000
    assert found.kinds["temporaries.messages"] == 0


def test_gradients_that_live_on_are_gradients():
    weight = torch.nn.Parameter(torch.ones(1_000_000))
    scratch = []

    def step():
        weight.grad = None
        (weight * 2.0).sum().backward()
        scratch.append(torch.empty(2_000_000))  # the peak stands here, after the backward pass
        scratch.clear()

    step()
    found = measure_memory_kinds(step, device="cpu")
    assert found.kinds["gradients"] >= 4_000_000
    assert found.kinds["temporaries"] >= 8_000_000
    assert found.operator is not None
    assert found.operator.startswith("other: ")


def test_freed_memory_at_rest_is_taken_off_its_kind():
    holder = {"x": torch.zeros(1000, 1000)}

    def step():
        holder["x"] = None
        holder["y"] = torch.empty(3000, 1000)
        holder["y"] = None
        holder["x"] = torch.zeros(1000, 1000)

    step()
    before = Residents(CPU).num_bytes()["features"]
    found = measure_memory_kinds(step, device="cpu")
    assert found.kinds["features"] == before - 4_000_000


def test_a_step_that_allocates_nothing_has_no_operator():
    found = measure_memory_kinds(lambda: None, device="cpu")
    assert found.operator is None
    assert set(KINDS) <= set(found.kinds)
    assert found.kinds["activations"] == 0
    assert found.kinds["temporaries"] == 0
    rest = Residents(CPU).num_bytes()
    assert found.peak_bytes == pytest.approx(sum(rest.values()), abs=PYTHON_BYTES)


def test_memory_that_several_hold_counts_once_and_for_the_first_kind():
    before = sum(Residents(CPU).num_bytes().values())
    x = torch.zeros(1000, 1000)
    views = [x[i:] for i in range(5)]
    residents = Residents(CPU, features=[x[:500]], graph=[x])
    assert residents.kind_at(views[4].data_ptr()) == "features"
    assert sum(residents.num_bytes().values()) - before == 4_000_000
    part = dict(residents.cut(x.data_ptr() - 100, 1100))
    assert part["features"] == 1000


def test_a_fused_steps_memory_and_state_are_known():
    from tests.measure.test_phases import small_fused_step

    step = small_fused_step()
    step()
    found = measure_memory_kinds(step, device="cpu", features=(), graph=())
    assert found.kinds["fused"] > 0
    moments = step.training._moments
    assert moments is not None
    assert found.kinds["optimizer_state"] >= sum(one.nbytes for one in moments)


def test_batches_are_a_kind_of_their_own():
    from fasthop.train.neighbor_loader import NeighborLoader

    data = Data(x=torch.randn(5000, 40), edge_index=torch.randint(5000, (2, 50_000)))
    loader = NeighborLoader(data, [5, 5], batch_size=500, reuse_buffers=False)

    def epoch():
        for batch in loader:
            batch.x.sum()

    epoch()
    found = measure_memory_kinds(epoch, device="cpu")
    assert found.kinds["batches"] > 100_000
    assert whole(found) == found.peak_bytes


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(InvalidConfig, match="'meta'"):
        measure_memory_kinds(lambda: None, device="meta")
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
        pytest.raises(InvalidConfig, match="torch profiler is running"),
    ):
        measure_memory_kinds(lambda: None, device="cpu")


@pytest.mark.gpu
def test_cuda_knows_the_kinds_too():
    x = torch.randn(100_000, 50, device="cuda")
    layer = torch.nn.Linear(50, 400).cuda()
    optimizer = torch.optim.Adam(layer.parameters())

    def step():
        optimizer.zero_grad()
        layer(x).exp().sum().backward()
        optimizer.step()

    step()
    peak = measure_peak(step, resident=[x], device="cuda")
    found = measure_memory_kinds(step, device="cuda", features=[x], graph=())
    assert found.peak_bytes - x.nbytes == pytest.approx(peak.peak_bytes, rel=0.05)
    assert found.kinds["activations"] == pytest.approx(100_000 * 400 * 4, rel=0.05)
