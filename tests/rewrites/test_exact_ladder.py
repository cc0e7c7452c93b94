"""The exact ladder's recipes: their golden loss traces, and what each row of the ladder is made of."""

from __future__ import annotations

import dataclasses
import itertools
import json

import pytest
import torch
import torch.nn.functional as F

from fasthop.rewrites.base import Inapplicable
from fasthop.rewrites.fused_step import FusedStepRung
from fasthop.rewrites.ladder import EXACT, Recipe, ladder
from fasthop.rewrites.sample import Sample
from fasthop.train.fused import FusedStep
from fasthop.train.models import REFERENCE_MODELS
from fasthop.train.setup import Setup
from tests.golden.make_loss_traces import PATH, golden_task, losses

CPU = torch.device("cpu")
GOLDEN = json.loads(PATH.read_text(encoding="utf-8"))
ALL = tuple(rung() for rung in EXACT)


def baseline(name, optimizer="adam"):
    return Setup.baseline(golden_task(name, optimizer), seed=0, device=CPU)


def farthest(found, want):
    return max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(found, want, strict=True))


def test_every_reference_model_has_a_golden_trace():
    assert set(GOLDEN) == set(REFERENCE_MODELS)
    assert all(len(trace) == 50 and trace[0] > trace[-1] for trace in GOLDEN.values())


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_pyg_gives_the_golden_trace(name):
    assert farthest(losses(baseline(name)), GOLDEN[name]) < 1e-7


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_the_exact_rungs_give_pyg_s_trace(name):
    want = losses(baseline(name))
    # The last rung of a recipe must act, and reorder_nodes always does where rows may be moved.
    setup = Recipe(name="all", rungs=ALL).on(baseline(name))
    assert farthest(losses(setup), want) < 1e-9
    assert setup.exact.acted >= {"csr_spmm", "receptive_field", "reorder_nodes"}


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("name", ["gcn", "sage", "gin"])
def test_the_fused_step_gives_pyg_s_trace(name, optimizer):
    want = losses(baseline(name, optimizer))
    setup = Recipe(name="fused", rungs=(*ALL, FusedStepRung())).on(baseline(name, optimizer))
    assert isinstance(setup.step(), FusedStep)
    assert farthest(losses(setup), want) < 1e-9
    # The user's own parameters were trained.
    twin = baseline(name, optimizer)
    losses(twin)
    for own, other in zip(setup.original.parameters(), twin.original.parameters(), strict=True):
        assert torch.allclose(own, other, rtol=1e-7, atol=1e-9)
        assert own.grad is None


def test_the_fused_step_without_receptive_field_picks_the_rows_of_the_loss():
    want = losses(baseline("gcn"))
    rungs = [rung for rung in ALL if rung.name in ("csr_spmm", "reorder_nodes")]
    setup = Recipe(name="fused", rungs=(*rungs, FusedStepRung())).on(baseline("gcn"))
    assert setup.exact.order.is_whole
    assert farthest(losses(setup), want) < 1e-9


def test_a_seed_starts_the_fast_model_anew():
    setup = Recipe(name="fused", rungs=(*ALL, FusedStepRung())).on(baseline("sage"))
    first = losses(setup, 5)
    setup.restart(0)
    assert losses(setup, 5) == first
    setup.restart(1)
    assert losses(setup, 5) != first


def test_attention_has_no_fused_step():
    with pytest.raises(Inapplicable, match="GATConv"):
        Recipe(name="fused", rungs=(*ALL, FusedStepRung())).on(baseline("gat"))


def test_the_fused_step_says_why_it_does_not_stand():
    with pytest.raises(Inapplicable, match="built of the exact rungs"):
        FusedStepRung().on(baseline("gcn"))
    task = dataclasses.replace(
        golden_task("gcn"), loss=lambda out, y: F.cross_entropy(out, y, label_smoothing=0.1)
    )
    setup = Recipe(name="all", rungs=ALL).on(Setup.baseline(task, seed=0, device=CPU))
    with pytest.raises(Inapplicable, match="cross-entropy"):
        FusedStepRung().on(setup)


def test_exact_rungs_need_the_full_batch():
    setup = Sample(num_neighbors=(3, 3, 3), batch_size=16).on(baseline("sage"))
    with pytest.raises(Inapplicable, match="full batch"):
        ALL[1].on(setup)


def test_the_ladder_adds_a_rung_a_row():
    rows = ladder("exact", num_neighbors=None, batch_size=128)
    assert [row.name for row in rows[:3]] == ["baseline", "cache_norm", "+csr_spmm"]
    for before, after in itertools.pairwise(rows[1:-1]):
        assert after.rungs[:-1] == before.rungs
    assert rows[-1].rungs[-1].name == "cuda_graph"  # beside fused_step, not after it
    assert {row.name for row in ladder("full", num_neighbors=None, batch_size=128)} >= {
        row.name for row in rows
    }


def test_a_rung_that_finds_nothing_to_do_refuses_its_own_row_only():
    norm, spmm = ALL[0], ALL[1]
    with pytest.raises(Inapplicable, match="normalises"):
        Recipe(name="cache_norm", rungs=(norm,)).on(baseline("sage"))
    setup = Recipe(name="+csr_spmm", rungs=(norm, spmm)).on(baseline("sage"))
    assert any("cache_norm found nothing to do" in note["en"] for note in setup.notes)
