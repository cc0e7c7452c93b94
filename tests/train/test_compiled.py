"""torch.compile: what it does is counted, and its failure is a reason and no crash."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from fasthop.errors import InvalidConfig
from fasthop.rewrites.base import Inapplicable
from fasthop.rewrites.compile import Compile
from fasthop.train import compiled
from fasthop.train.compiled import CompiledForward, CompileWatch, missing_compiler
from fasthop.train.loop import run_epoch
from fasthop.train.models import GCN
from fasthop.train.setup import Setup
from fasthop.train.task import Task
from tests.train.graphs import digraph

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _fresh_dynamo(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Elementwise(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 3)

    def forward(self, x, edge_index):
        return torch.tanh(self.lin(x)) * 2.0


def test_an_unknown_mode_is_refused_by_name():
    with pytest.raises(InvalidConfig, match="no compile mode 'fast'"):
        CompiledForward(Elementwise(), "fast")


@pytest.mark.slow
def test_recompiles_over_six_batch_shapes_are_counted_and_dynamic_shapes_need_none():  # case 19
    counts = {}
    for dynamic in (False, True):
        torch._dynamo.reset()
        model = Elementwise()
        forward = CompiledForward(model, "default", dynamic=dynamic)
        with CompileWatch() as watch:
            for num_rows in (4, 7, 9, 12, 20, 33):
                x = torch.randn(num_rows, 8)
                assert torch.allclose(forward(x, None), model(x, None), atol=1e-6)
        counts[dynamic] = watch.num_recompiles
        assert forward.failure is None
        assert watch.seconds > 0.0
    assert counts == {False: 5, True: 0}


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # torch's tracer warns of its own reading of .grad
def test_a_gcn_compiles_to_the_same_losses_and_its_graph_breaks_are_counted():  # cases 19 and 20
    graph = digraph(dtype=torch.float32)
    task = Task(graph=graph, make_model=lambda: GCN(8, 4, 3))
    plain = Setup.baseline(task, seed=1, device=CPU)
    compiled_setup = Compile().on(Setup.baseline(task, seed=1, device=CPU))
    steps = plain.step(), compiled_setup.step()
    with CompileWatch() as watch:
        for _ in range(5):
            want = run_epoch(steps[0], plain.batches).item()
            got = run_epoch(steps[1], compiled_setup.batches).item()
            assert got == pytest.approx(want, abs=1e-5)
    # PyG takes self-loops out by a mask, whose number of entries depends on data.
    assert watch.num_graph_breaks > 0
    assert compiled_setup.compiled.failure is None
    assert list(compiled_setup.original.state_dict()) == list(plain.original.state_dict())


def test_a_failing_compiler_falls_back_with_the_reason(caplog):  # case 19
    from torch._dynamo.exc import BackendCompilerFailed

    def fails(gm, inputs):
        raise ValueError("no kernel for this")

    model = Elementwise()
    forward = CompiledForward(model, "default")
    forward._compiled = torch.compile(model, backend=fails)
    x = torch.randn(5, 8)
    with caplog.at_level("WARNING", logger="fasthop"):
        out = forward(x, None)
    assert torch.equal(out, model(x, None))
    assert "no kernel for this" in forward.failure
    assert "going on without it" in caplog.text
    assert issubclass(BackendCompilerFailed, compiled.compiler_errors())


def test_an_error_of_the_model_itself_is_not_taken_for_the_compilers():
    class Raises(torch.nn.Module):
        def forward(self, x, edge_index):
            return F.linear(x, torch.zeros(3, 99))

    class Calls:
        def __call__(self, *args):
            return Raises()(*args)

    forward = CompiledForward(Raises(), "default")
    forward._compiled = Calls()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        forward(torch.randn(5, 8), None)


def test_a_missing_compiler_is_a_reason(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    assert "no C++ compiler was found" in missing_compiler(CPU)
    setup = Setup.baseline(
        Task(graph=digraph(dtype=torch.float32), make_model=lambda: GCN(8, 4, 3)), seed=0, device=CPU
    )
    with pytest.raises(Inapplicable, match="no C\\+\\+ compiler was found"):
        Compile().on(setup)


def test_compiling_twice_is_refused_and_the_cpu_mode_is_explained(monkeypatch):
    setup = Setup.baseline(
        Task(graph=digraph(dtype=torch.float32), make_model=lambda: GCN(8, 4, 3)), seed=0, device=CPU
    )
    once = Compile(mode="reduce-overhead").on(setup)
    assert any("CUDA graphs" in note["en"] for note in once.notes)
    with pytest.raises(Inapplicable, match="compiled already"):
        Compile().on(once)
    assert dataclasses.replace(once).original is setup.original
