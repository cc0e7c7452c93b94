"""Peaks against counts made by hand."""

from __future__ import annotations

import gc
import os
import sys
import threading

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv

from fasthop.errors import InvalidConfig
from fasthop.machine.live import live_ranges, live_tensors, num_bytes, resident_ranges
from fasthop.machine.memory import PeakMemory, measure_peak

CPU = torch.device("cpu")
PYTHON_BYTES = 60_000  # Python's own objects of a step, which tracemalloc counts with NumPy's arrays


def of_torch(peak: PeakMemory) -> int:
    return peak.transient_bytes - peak.numpy_bytes


def test_a_block_that_is_made_and_freed_is_seen_to_the_byte():
    def step():
        scratch = torch.empty(25_000_000)  # 100 MB
        del scratch

    peak = measure_peak(step, device="cpu")
    assert of_torch(peak) == 100_000_000
    assert peak.numpy_bytes < PYTHON_BYTES
    assert peak.peak_bytes == peak.rest_bytes + peak.transient_bytes
    assert peak.peak_reserved_bytes is None


def test_the_peak_is_of_what_lives_at_once():
    def step():
        first = torch.empty(1_000_000)
        del first
        second = torch.empty(1_500_000)
        third = torch.empty(500_000)
        del second, third
        torch.empty(1_900_000)

    assert of_torch(measure_peak(step, device="cpu")) == 4 * 2_000_000


def test_views_add_nothing():
    base = torch.zeros(1_000_000)
    views = [base[i:] for i in range(10)]

    def step():
        scratch = torch.empty(1_000_000)
        more = [scratch.view(1000, 1000), scratch[5:], scratch.view(1000, 1000).T]
        del more

    with_views = measure_peak(step, device="cpu")
    assert of_torch(with_views) == 4_000_000
    del views
    assert with_views.rest_bytes == measure_peak(step, device="cpu").rest_bytes


def test_a_block_that_replaces_itself_counts_once_at_rest_and_once_in_the_step():
    holder = {"buffer": torch.empty(1_000_000)}

    def step():
        holder["buffer"] = torch.empty(1_000_000)  # the new one is there before the old one goes

    peak = measure_peak(step, device="cpu")
    assert of_torch(peak) == 4_000_000
    assert measure_peak(step, device="cpu", resident=[torch.empty(0)]).rest_bytes == peak.rest_bytes
    assert peak.rest_bytes >= 4_000_000


def test_a_block_freed_first_and_made_again_is_no_rise():
    holder: dict[str, torch.Tensor | None] = {"buffer": torch.empty(1_000_000)}

    def step():
        holder["buffer"] = None
        holder["buffer"] = torch.empty(1_000_000)

    assert of_torch(measure_peak(step, device="cpu")) == 0


def test_a_leak_shows_in_the_step_and_then_at_rest():
    leaked: list[torch.Tensor] = []

    def step():
        leaked.append(torch.empty(250_000))  # 1 MB a call

    before = num_bytes(live_ranges(CPU))
    peak = measure_peak(step, device="cpu")
    assert of_torch(peak) == 1_000_000
    assert peak.rest_bytes - before == pytest.approx(1_000_000, abs=1000)


def test_numpy_is_counted_too():
    def step():
        scratch = np.ones(2_500_000)  # 20 MB
        scratch = scratch * 2  # and 20 MB more while both live
        return float(scratch[0])

    peak = measure_peak(step, device="cpu")
    assert peak.numpy_bytes == pytest.approx(40_000_000, abs=PYTHON_BYTES)
    assert of_torch(peak) == 0


def test_numpy_at_rest_is_counted_once_even_where_a_tensor_shares_it():
    before = measure_peak(lambda: None, device="cpu").rest_bytes
    array = np.zeros(1_000_000, dtype=np.float32)
    tensor = torch.from_numpy(array)[1000:]
    view = array.reshape(1000, 1000)
    after = measure_peak(lambda: None, device="cpu").rest_bytes
    assert after - before == pytest.approx(4_000_000, abs=1000)
    assert measure_peak(lambda: None, device="cpu", resident=[array]).rest_bytes == pytest.approx(
        before, abs=1000
    )
    assert view.base is array
    assert tensor.numel() == 999_000


@pytest.mark.filterwarnings("ignore:Sparse CS[RC] tensor support is in beta:UserWarning")
def test_resident_inputs_are_not_counted_but_their_gradients_are():
    x = torch.ones(500_000, requires_grad=True)
    adj = torch.eye(1000).to_sparse_csr()
    before = measure_peak(lambda: None, device="cpu", resident=[x, x[5:].detach(), adj]).rest_bytes
    (x * 2).sum().backward()
    after = measure_peak(lambda: None, device="cpu", resident=[x, adj]).rest_bytes
    assert after - before == pytest.approx(2_000_000, abs=1000)


@pytest.mark.filterwarnings("ignore:Sparse CS[RC] tensor support is in beta:UserWarning")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_all_parts_of_a_sparse_tensor_count(layout):
    sparse = torch.eye(1000).to_sparse(layout=layout)
    ranges = resident_ranges([sparse], CPU)
    # torch makes the plain indices of a compressed tensor as a row of a (2, 1000) tensor, which stays whole.
    compressed = 1000 * 8 if layout is torch.sparse_coo else 1001 * 8 + 1000 * 8
    assert num_bytes(ranges) == 1000 * 4 + 1000 * 8 + compressed


def test_the_union_of_ranges():
    assert num_bytes([]) == 0
    assert num_bytes([(10, 20), (15, 25), (30, 40), (31, 32), (10, 20)]) == 25


def test_an_error_of_the_step_passes_and_leaves_nothing_on():
    import tracemalloc

    def step():
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        measure_peak(step, device="cpu")
    assert not tracemalloc.is_tracing()
    assert of_torch(measure_peak(lambda: torch.empty(1000), device="cpu")) == 4000


def test_a_running_tracemalloc_is_left_running():
    import tracemalloc

    tracemalloc.start()
    try:
        measure_peak(lambda: None, device="cpu")
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def test_a_running_profiler_is_named():
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
        pytest.raises(InvalidConfig, match="torch profiler is running"),
    ):
        measure_peak(lambda: None, device="cpu")


def test_a_device_without_a_count_is_refused():
    with pytest.raises(InvalidConfig, match="'meta'"):
        measure_peak(lambda: None, device="meta")


def test_what_a_step_writes_to_the_standard_error_is_kept_and_the_profilers_lines_are_not(capfd):
    kept = [torch.empty(1000) for _ in range(10)]

    def step():
        for place in range(10):
            kept[place] = torch.empty(1000)  # frees of blocks that the profiler has not seen
        print("from Python", file=sys.stderr)
        os.write(2, b"from C\n")

    measure_peak(step, device="cpu")
    err = capfd.readouterr().err
    assert err.count("from Python") == 2
    assert err.count("from C") == 2
    assert "USDT" not in err
    assert "unknown size" not in err


def test_a_block_that_another_thread_keeps_counts_at_rest():
    before = measure_peak(lambda: None, device="cpu").rest_bytes
    kept = []
    thread = threading.Thread(target=lambda: kept.append(torch.empty(1_000_000)))
    thread.start()
    thread.join()
    after = measure_peak(lambda: None, device="cpu").rest_bytes
    assert after - before == pytest.approx(4_000_000, abs=1000)


def test_fake_tensors_hold_nothing():
    from torch._subclasses.fake_tensor import FakeTensorMode

    before = num_bytes(live_ranges(CPU))
    with FakeTensorMode():
        fake = torch.empty(10_000_000)
    assert num_bytes(live_ranges(CPU)) - before < 1000
    assert fake.numel() == 10_000_000


def test_fake_tensors_are_no_live_inputs():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(4, 4)
    found = live_tensors()
    assert found
    assert not any(tensor is fake for tensor in found)
    resident_ranges(found, torch.device("cpu"))  # torch warns where a fake one's address is asked for


def gcn(num_features: int, hidden_channels: int, num_classes: int):
    first, second = GCNConv(num_features, hidden_channels), GCNConv(hidden_channels, num_classes)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01)
    return first, second, optimizer


@pytest.mark.parametrize(("num_nodes", "num_edges"), [(2000, 40_000), (500, 60_000)])
def test_the_baselines_peak_agrees_with_a_count_by_hand(num_nodes, num_edges):
    num_features, hidden_channels, num_classes = 50, 16, 7
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_nodes, num_features, generator=generator)
    row = torch.randint(num_nodes, (num_edges,), generator=generator)
    col = (row + torch.randint(1, num_nodes, (num_edges,), generator=generator)) % num_nodes  # no self-loop
    edge_index = torch.stack([row, col])
    del row, col
    y = torch.randint(num_classes, (num_nodes,), generator=generator)
    train_mask = torch.rand(num_nodes, generator=generator) < 0.5
    resident = [x, edge_index, y, train_mask]
    gc.collect()
    others = num_bytes(live_ranges(CPU)) - num_bytes(resident_ranges(resident, CPU))  # other tests' leavings
    first, second, optimizer = gcn(num_features, hidden_channels, num_classes)

    def step():
        optimizer.zero_grad()
        out = second(first(x, edge_index).relu(), edge_index)
        torch.nn.functional.cross_entropy(out[train_mask], y[train_mask]).backward()
        optimizer.step()

    step()
    peak = measure_peak(step, device="cpu", resident=resident)

    # At rest: weights and biases, four times over (parameter, gradient, Adam's two moments), float32.
    num_parameters = (num_features + 1) * hidden_channels + (hidden_channels + 1) * num_classes
    at_rest = 4 * 4 * num_parameters

    # Highest in the first layer's backward pass, when the gradient of its messages has just been
    # multiplied by the normalisation. E counts the edges and one self-loop a node.
    e = num_edges + num_nodes
    edge_index_with_loops = 2 * e * 8  # saved by the gather and the scatter, int64
    normalisation = e * 4  # saved by the product
    gradient_of_messages = e * hidden_channels * 4  # gathered from the gradient of the layer's output
    gradient_of_x_j = e * hidden_channels * 4  # the same times the normalisation
    relu_output = num_nodes * hidden_channels * 4  # saved by relu and the second layer's weights
    gradient_of_output = num_nodes * hidden_channels * 4
    in_step = (
        edge_index_with_loops
        + normalisation
        + gradient_of_messages
        + gradient_of_x_j
        + relu_output
        + gradient_of_output
    )
    assert of_torch(peak) == pytest.approx(in_step, rel=0.02)
    assert peak.rest_bytes - others == pytest.approx(at_rest, abs=1000)
    assert peak.peak_bytes - others == pytest.approx(at_rest + in_step, rel=0.10)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_counts_its_own_memory():
    kept = torch.empty(1_000_000, device="cuda")

    def step():
        torch.empty(25_000_000, device="cuda")

    peak = measure_peak(step, device="cuda", resident=[kept])
    assert peak.transient_bytes == pytest.approx(100_000_000, rel=0.01)
    assert peak.numpy_bytes == 0
    assert peak.peak_reserved_bytes is not None
    assert peak.peak_reserved_bytes >= peak.transient_bytes
