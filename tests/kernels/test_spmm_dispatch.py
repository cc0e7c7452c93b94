"""Which implementation serves: equal results, one measurement a machine, pins, and damaged caches."""

from __future__ import annotations

import json
import time

import pytest
import torch

from fasthop.errors import InvalidConfig
from fasthop.kernels import device
from fasthop.kernels.spmm import cpu, dispatch, mkl, reference, team
from fasthop.kernels.spmm.adjacency import Adjacency, spmm
from tests.kernels.graphs import by_target, random_edges

needs_mkl = pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="this torch has no MKL")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """A cache of the test's own, and no choices from before."""
    monkeypatch.setenv("FASTHOP_CACHE", str(tmp_path))
    dispatch.forget()
    yield tmp_path
    dispatch.forget()


@pytest.fixture
def adj() -> Adjacency:
    rowptr, col, _ = by_target(random_edges(50, 400, 2), 50)
    value = torch.rand(400, generator=torch.Generator().manual_seed(1))
    return Adjacency(rowptr=rowptr, col=col.int(), num_cols=50, value=value)


@needs_mkl
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_mkl_equals_the_reference(adj, reduce, dtype, is_weighted):
    if not is_weighted:
        adj.value = None
    x = torch.randn(50, 6, dtype=dtype, requires_grad=True)
    got = spmm(adj, x, reduce=reduce, implementation="mkl")
    value = None if adj.value is None else adj.value.to(dtype)
    torch.testing.assert_close(got, reference.spmm(x, adj.rowptr, adj.col, value, reduce))
    cotangent = torch.randn_like(got)
    (mine,) = torch.autograd.grad(got, x, cotangent)
    (theirs,) = torch.autograd.grad(reference.spmm(x, adj.rowptr, adj.col, value, reduce), x, cotangent)
    torch.testing.assert_close(mine, theirs)


@needs_mkl
def test_the_quicker_one_is_chosen_once_and_kept(adj, own_cache, monkeypatch):
    x = torch.randn(50, 6)
    calls = {"mkl": 0}
    plain = mkl.spmm

    def counted(*args):
        calls["mkl"] += 1
        return plain(*args)

    monkeypatch.setattr(mkl, "spmm", counted)
    choice = dispatch.choose(x, adj.rowptr, adj.col, adj.value, "sum")
    assert choice.implementation in ("numba", "mkl")
    assert set(choice.time_us) == {"numba", "mkl"}
    measured = calls["mkl"]
    assert measured >= 2
    dispatch.forget()  # as a new process would find it
    assert dispatch.choose(x, adj.rowptr, adj.col, adj.value, "sum") == choice
    assert calls["mkl"] == measured
    (kept,) = (own_cache / "spmm").glob("*.json")
    assert json.loads(kept.read_text())[0]["shape"] == choice.shape


@needs_mkl
@pytest.mark.parametrize(("slow", "winner"), [("numba", "mkl"), ("mkl", "numba")])
def test_what_is_slower_is_not_chosen(adj, monkeypatch, slow, winner):
    module = {"numba": cpu, "mkl": mkl}[slow]
    plain = module.spmm

    def slowed(*args):
        time.sleep(0.2)
        return plain(*args)

    monkeypatch.setattr(module, "spmm", slowed)
    x = torch.randn(50, 6)
    assert dispatch.choose(x, adj.rowptr, adj.col, adj.value, "sum").implementation == winner


@needs_mkl
@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '[{"shape": "s", "implementation": "abacus", "time_us": {}}]']
)
def test_a_damaged_cache_is_measured_anew(adj, text):
    x = torch.randn(50, 6)
    path = dispatch._path()
    assert path is not None
    path.write_text(text)
    choice = dispatch.choose(x, adj.rowptr, adj.col, adj.value, "sum")
    dispatch.forget()
    assert dispatch._choices() == {choice.shape: choice}


def test_where_mkl_does_not_serve_nothing_is_measured(adj, own_cache):
    for x, reduce in (
        (torch.randn(50, 6), "max"),
        (torch.randn(50, 6).bfloat16(), "sum"),
        (torch.randn(50, 0), "sum"),
    ):
        choice = dispatch.choose(x, adj.rowptr, adj.col, adj.value, reduce)
        assert (choice.implementation, choice.time_us) == ("numba", {})
    assert not list((own_cache / "spmm").glob("*.json")) if (own_cache / "spmm").exists() else True


@pytest.mark.parametrize("implementation", ["triton", "cusparse"])
def test_an_implementation_of_another_device_is_refused(adj, implementation):
    with pytest.raises(InvalidConfig, match=rf"{implementation}.*cuda tensors.*cpu"):
        spmm(adj, torch.randn(50, 6), implementation=implementation)


def test_without_triton_the_kernels_for_gpus_say_so(monkeypatch):
    def absent(name):
        raise ModuleNotFoundError("No module named 'triton'", name="triton")

    monkeypatch.setattr(device.importlib, "import_module", absent)
    with pytest.raises(InvalidConfig, match=r"package triton.*not installed"):
        device.gpu_kernels.__wrapped__("fasthop.kernels.spmm.gpu")


@pytest.mark.gpu
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_cusparse_equals_the_reference_and_keeps_out_of_deterministic_runs(adj, reduce):
    there = Adjacency(rowptr=adj.rowptr.cuda(), col=adj.col.cuda(), num_cols=50, value=adj.value.cuda())
    x = torch.randn(50, 6)
    got = spmm(there, x.cuda(), reduce=reduce, implementation="cusparse")
    torch.testing.assert_close(got.cpu(), reference.spmm(x, adj.rowptr, adj.col, adj.value, reduce))
    choice = dispatch.choose(x.cuda(), there.rowptr, there.col, there.value, reduce)
    assert choice.implementation in ("triton", "cusparse")
    torch.use_deterministic_algorithms(True)
    try:
        assert dispatch.choose(x.cuda(), there.rowptr, there.col, there.value, reduce).time_us == {}
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_choice_names_what_there_is():
    with pytest.raises(InvalidConfig, match="'abacus'"):
        dispatch.Choice(shape="any", implementation="abacus", time_us={})


def test_without_an_openmp_library_python_threads_give_the_same_bits(adj, monkeypatch):
    x = torch.randn(50, 6)
    one = cpu.spmm(x, adj.rowptr, adj.col, adj.value, "sum", num_threads=1)
    monkeypatch.setattr(team, "gomp_parallel", lambda: None)
    assert torch.equal(cpu.spmm(x, adj.rowptr, adj.col, adj.value, "sum", num_threads=3), one)


def test_several_threads_may_ask_for_teams_at_once(adj):
    from concurrent.futures import ThreadPoolExecutor

    x = torch.randn(50, 6)
    one = cpu.spmm(x, adj.rowptr, adj.col, adj.value, "sum", num_threads=1)
    with ThreadPoolExecutor(4) as pool:
        calls = [
            pool.submit(cpu.spmm, x, adj.rowptr, adj.col, adj.value, "sum", num_threads=2) for _ in range(40)
        ]
        assert all(torch.equal(call.result(), one) for call in calls)
