"""Cases from the field, by number, where they reach a model: 10, 11, 12, 20 and 26 (6 stands in tests/train/test_arguments.py)."""

from __future__ import annotations

import copy

import pytest
import torch
from torch_geometric.data import Data

import fasthop
from fasthop.graph.graph import Graph
from fasthop.rewrites.compile import Compile
from fasthop.rewrites.ladder import EXACT, Recipe
from fasthop.search.proof import prove_setup
from fasthop.train.evaluate import evaluate
from fasthop.train.loop import run_epoch
from fasthop.train.setup import Setup
from fasthop.train.task_config import TaskConfig, make_task
from tests.train.graphs import digraph

CPU = torch.device("cpu")


def data() -> Data:
    return copy.copy(digraph(dtype=torch.float32).to_data())


def losses(graph: Graph, **options) -> tuple[list[float], Setup]:
    setup = Setup.baseline(make_task(TaskConfig(**{"hidden": 4, **options}), graph), seed=0, device=CPU)
    step = setup.step()
    return [run_epoch(step, setup.batches).item() for _ in range(4)], setup


@pytest.mark.parametrize("form", ["uint8", "index"])
def test_case_10_a_mask_in_another_form_trains_the_same_rows(form):
    want, _ = losses(Graph.from_data(data()))
    other = data()
    mask = other.train_mask
    other.train_mask = mask.to(torch.uint8) if form == "uint8" else mask.nonzero().flatten()
    assert losses(Graph.from_data(other))[0] == want


def test_case_10_an_integer_mask_of_zeros_and_ones_is_never_taken_for_indices():
    other = data()
    other.train_mask = other.train_mask.long()
    try:
        graph = Graph.from_data(other)
    except fasthop.InvalidGraph as error:
        assert "train_mask" in str(error)  # noqa: PT017
        return
    assert graph.notes
    assert losses(graph)[0] == losses(Graph.from_data(data()))[0]


def test_case_11_labels_of_one_column_are_squeezed_once_and_said():
    other = data()
    other.y = other.y.unsqueeze(1)
    got, setup = losses(Graph.from_data(other))
    assert got == losses(Graph.from_data(data()))[0]
    assert any("[N, 1]" in said["en"] or "[60, 1]" in said["en"] for said in setup.notes)


@pytest.mark.parametrize("label", [-1, 3, 7])
def test_case_12_a_node_without_a_label_in_the_mask_ends_it_before_a_model_is_made(label):
    other = data()
    node = int(other.train_mask.nonzero()[2])
    other.y[node] = label

    def never():
        raise AssertionError("a model was made")

    with pytest.raises(fasthop.InvalidGraph, match=rf"train_mask.*node {node}\b"):
        losses(Graph.from_data(other, num_classes=3), model=never)


def test_case_20_a_proof_is_with_dropout_off_and_training_with_it_on_is_judged_by_the_metric():
    graph = digraph(dtype=torch.float32)
    recipe = Recipe(name="all", rungs=tuple(rung() for rung in EXACT))
    _, baseline = losses(graph, dropout=0.5, hidden=16, lr=0.05)
    setup = recipe.on(baseline)
    verdict = prove_setup(setup, recipe, budget_s=30.0, seed=0)
    assert verdict is not None
    assert verdict.passed, verdict.sentence["en"]
    setup.restart(0)
    step = setup.step()
    trained = [run_epoch(step, setup.batches).item() for _ in range(60)]
    assert sum(trained[-10:]) < sum(trained[:10])
    assert evaluate(setup) == evaluate(setup)


def test_case_20_a_compiled_models_state_dict_has_the_models_own_names():
    _, setup = losses(digraph(dtype=torch.float32), dropout=0.5)
    names = list(setup.original.state_dict())
    compiled = Recipe(name="compile", rungs=(Compile(),))
    if compiled.rungs[0].missing(CPU) is not None:
        pytest.skip("no C++ compiler")
    again = compiled.on(setup)
    assert list(again.original.state_dict()) == list(again.model.state_dict()) == names
    assert not any("_orig_mod" in name for name in names)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
def test_case_26_features_of_another_type_are_cast_and_said(dtype):
    other = data()
    other.x = (10 * other.x).round().to(dtype)
    plain = data()
    plain.x = other.x.float()
    got, setup = losses(Graph.from_data(other))
    assert got == losses(Graph.from_data(plain))[0]
    assert any("float32" in said["en"] for said in setup.notes)


def test_case_26_without_features_an_embedding_is_offered():
    other = data()
    del other.x
    graph = Graph.from_data(other)
    assert any("embedding" in said["en"] for said in graph.notes)
    with pytest.raises(fasthop.InvalidConfig, match="no node features x"):
        losses(graph)
