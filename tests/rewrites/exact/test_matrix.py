"""Every model of the matrix: which rungs act, which refuse and why, and the judge's verdict on each that acts."""

from __future__ import annotations

import warnings

import pytest
import torch

from fasthop.exactness import Exactness
from fasthop.rewrites.ladder import EXACT
from tests.rewrites.exact.graphs import ALL, build, candidate, data, judge, predict, randomise
from tests.rewrites.exact.matrix import CASES

RUNGS = {rung.name: rung() for rung in EXACT}


def model_of(name):
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyG's own about lstm
        return randomise(CASES[name].make()).train()


def test_there_are_enough_models():
    assert len(CASES) >= 40
    assert set(RUNGS) == set(ALL)
    for name in ALL:
        assert any(name in case.acts for case in CASES.values()) or name == "transform_order"
        assert any(name in case.refuses for case in CASES.values()) or name in (
            "transform_order",
            "sparse_features",
        )


@pytest.mark.parametrize("name", CASES)
def test_the_rungs_that_must_act_do_and_the_others_say_why(name):
    case, given = CASES[name], data(weighted=CASES[name].weighted)
    built = build(model_of(name), given)
    built.observe(*given.call)
    assert set(case.acts) <= built.acted, built.acted
    assert not built.acted & case.refuses.keys(), built.acted
    for rung, reason in case.refuses.items():
        said = RUNGS[rung].refusal(built)
        assert reason in said["en"]
        assert said["zh"]


@pytest.mark.parametrize("name", CASES)
def test_what_acts_is_proven(name):
    """All rungs together and in parts: outputs, every gradient and buffers over 2 steps, then all rows in eval mode."""
    given, model = data(weighted=CASES[name].weighted), model_of(name)
    judged = judge(model, given)
    for names in (ALL, ("cache_norm", "sparse_features"), ("csr_spmm", "receptive_field")):
        found = judged.check("all", candidate(model, given, *names), exactness=Exactness.REASSOCIATED)
        assert found.passed, f"{names}: {found.reason}"
        assert found.legs[0].num_steps == 2


@pytest.mark.parametrize(
    "name", ["gcn", "gat, attention dropped", "gin, GraphNorm", "gcn, more heads", "gcn shared"]
)
def test_the_users_model_is_as_it_was(name):
    given, model = data(), model_of(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    attributes = {path: set(vars(part)) for path, part in model.named_modules()}
    modes = [part.training for part in model.modules()]
    generator = torch.get_rng_state()
    expected = predict(model, given)
    built = build(model, given)
    built.observe(*given.call)
    assert torch.equal(generator, torch.get_rng_state())
    assert list(built.model.state_dict()) == list(before)
    assert list(dict(built.model.named_parameters())) == list(dict(model.named_parameters()))
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert attributes == {path: set(vars(part)) for path, part in model.named_modules()}
    assert modes == [part.training for part in model.modules()]
    assert torch.equal(expected, predict(model, given))


@pytest.mark.parametrize(
    "name", ["gcn, x dropped", "sage, x dropped", "gat, attention dropped", "gcn, dropout"]
)
def test_20_dropout_keeps_its_mean_and_draws_anew(name):
    """With dropout on, the mean over many draws is the original's, and no two draws are the same."""
    given, model = data(), model_of(name)
    built = build(model, given)
    with torch.no_grad():
        torch.manual_seed(3)
        ours = torch.stack([built.model(*given.call) for _ in range(150)])
        theirs = torch.stack([model(*given.call)[given.train_mask] for _ in range(150)])
    assert not torch.equal(ours[0], ours[1])
    error = (ours.var(0) / 150 + theirs.var(0) / 150).sqrt() + 1e-9
    assert float(((ours.mean(0) - theirs.mean(0)).abs() / error).max()) < 5.5
    assert not any("_orig_mod" in key for key in built.model.state_dict())
