"""The proof of a recipe in a ladder: its figure is in the run, and what is refuted is no row."""

from __future__ import annotations

import pytest
import torch

from fasthop.rewrites.compile import Compile
from fasthop.rewrites.fused_step import FusedStepRung
from fasthop.rewrites.ladder import EXACT, Recipe
from fasthop.search.proof import prove_setup
from fasthop.search.resident import Resident
from fasthop.verify.verdict import Verdict
from tests.golden.make_loss_traces import golden_task

CPU = torch.device("cpu")
RECIPE = Recipe(name="all", rungs=(*(rung() for rung in EXACT), FusedStepRung()))


def prepared(recipe, name="gcn"):
    resident = Resident(golden_task(name), recipe, 0, CPU)
    resident.prepare()
    return resident


@pytest.mark.parametrize("name", ["gcn", "sage", "gin"])
def test_a_resident_proves_its_own_recipe(name):
    verdict = prepared(RECIPE, name).prove(budget_s=30.0)
    assert verdict is not None
    assert verdict.passed
    assert verdict.scope.kind == "whole"
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_what_claims_nothing_exact_has_no_verdict():
    for recipe in (Recipe(name="baseline"), Recipe(name="compile", rungs=(Compile(),))):
        resident = Resident(golden_task("gcn"), recipe, 0, CPU)
        assert not recipe.is_exact
        assert prove_setup(resident.setup, recipe, budget_s=1.0, seed=0) is None


def test_a_planted_error_is_refuted(monkeypatch):
    from fasthop.rewrites.exact import build

    real = build.KnownGraph._sorted

    def a_little_off(self, edge_index, value):
        csr, value = real(self, edge_index, value)
        return csr, None if value is None else value * (1 + 1e-6)

    monkeypatch.setattr(build.KnownGraph, "_sorted", a_little_off)
    verdict = prepared(RECIPE).prove(budget_s=30.0)
    assert verdict is not None
    assert verdict.is_refuted


def test_the_proof_leaves_parameters_and_generators_alone():
    resident = prepared(RECIPE)
    before = [parameter.clone() for parameter in resident.setup.original.parameters()]
    state = torch.random.get_rng_state()
    resident.prove(budget_s=30.0)
    assert torch.equal(torch.random.get_rng_state(), state)
    for parameter, value in zip(resident.setup.original.parameters(), before, strict=True):
        assert torch.equal(parameter, value)
        assert parameter.grad is None
