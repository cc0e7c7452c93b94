"""A plan keeps what it was given, is read strictly and says what differs; nothing damaged or hostile gets through."""

from __future__ import annotations

import dataclasses
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fasthop.errors import InvalidConfig
from fasthop.graph.fingerprint import graph_fingerprint
from fasthop.machine.fingerprint import fingerprint
from fasthop.rewrites.amp import Amp
from fasthop.rewrites.compile import Compile
from fasthop.rewrites.csr_spmm import CsrSpmm
from fasthop.rewrites.ladder import RUNGS, Recipe
from fasthop.rewrites.pyg_sparse import PygSparse
from fasthop.rewrites.sample import Sample
from fasthop.search.plan import MOST_BYTES, Plan
from fasthop.search.plan_recipe import recipe_from_json, rungs_to_json
from tests.train.graphs import digraph

RECIPE = Recipe(
    name="sample+amp+compile",
    rungs=(Sample(num_neighbors=(7, -1), batch_size=33), Amp(dtype="bfloat16"), Compile(mode="max-autotune")),
)
MACHINE = {
    "machine_id": "0123456789ab",
    "cpu": {"model": "An old one", "usable_cores": 2},
    "memory_bytes": 2**33,
    "gpus": [],
    "versions": {"torch": "2.9.0", "fasthop": "0.1.0"},
}


def a_plan(**changes):
    fields = {
        "recipe_name": RECIPE.name,
        "rungs": tuple(rungs_to_json(RECIPE.rungs)),
        "model": {"name": "gcn", "args": {"hidden_channels": 16}},
        "data": {"data": "cora", "root": None, "split": None, "transform": None, "seed": 0},
        "training": {"lr": 0.01, "epochs": 200, "batch_size": 33, "num_neighbors": [7, -1], "threads": 2},
        "evidence": {"ratio_to_baseline": {"median": 2.0, "low": 1.5, "high": 2.5}},
        "graph_fingerprint": "ab" * 32,
        "machine": MACHINE,
        "created": "2026-01-01T00:00:00+00:00",
    }
    return Plan(**{**fields, **changes})


def test_a_plan_comes_back_as_it_was_saved(tmp_path):
    plan = a_plan()
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again == plan
    assert again.recipe() == RECIPE
    assert again.to_json() == plan.to_json()
    assert json.loads(plan.to_json())["schema_version"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_every_rung_goes_there_and_back():
    for kind in RUNGS:
        recipe = Recipe(name=kind.name, rungs=(kind(),))
        text = json.dumps(rungs_to_json(recipe.rungs))
        assert recipe_from_json(kind.name, json.loads(text)) == recipe
    both = Recipe(name="two", rungs=(CsrSpmm(), PygSparse(form="adj_t")))
    assert recipe_from_json("two", rungs_to_json(both.rungs)) == both


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ("sample", "is a list"),
        ([{"rung": "speed_up"}], "no rung named 'speed_up'; there are sample, amp"),
        ([{"rung": ["sample"]}], "no rung named"),
        ([{"rung": "sample", "knobs": {"batch": 3}}], "no knob 'batch'; it has num_neighbors, batch_size"),
        ([{"rung": "first_hop", "knobs": {"x": 1}}], "it has none"),
        ([{"rung": "sample", "knobs": {"batch_size": "128"}}], "batch_size is '128'"),
        ([{"rung": "sample", "knobs": {"batch_size": True}}], "batch_size is True"),
        ([{"rung": "sample", "knobs": {"batch_size": 0}}], "batch_size is 0"),
        ([{"rung": "sample", "knobs": {"num_neighbors": [3, 0]}}], "the entry 0"),
        ([{"rung": "sample", "knobs": {"num_neighbors": []}}], "has 0 entries"),
        ([{"rung": "amp", "knobs": {"dtype": "int8"}}], "one of auto, bfloat16, float16"),
        ([{"rung": "compile", "knobs": {"mode": "fast"}}], "compile.mode is 'fast'"),
        ([{"rung": "amp"}, {"rung": "amp"}], "is there 2 times"),
        ([{"rung": "amp", "code": "import os"}], "is no rung"),
        ([None], "is no rung"),
    ],
)
def test_a_recipe_with_a_fault_is_refused(entries, reason):
    with pytest.raises(InvalidConfig, match=reason.replace("[", r"\[")):
        recipe_from_json("x", entries)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema_version": 2}, "schema version '2', and this fasthop reads version 1"),
        ({"schema_version": True}, "schema version"),
        ({"rungs": "sample"}, "rungs is no list"),
        ({"recipe_name": 3}, "recipe_name is 3"),
        ({"training": {"lr": "fast"}}, "plan.training.lr is 'fast'"),
        ({"training": {"lr": -1.0}}, "plan.training.lr is -1.0"),
        ({"training": {"lr": 0}}, "plan.training.lr is 0"),
        ({"training": {"epochs": 1.5}}, "plan.training.epochs is 1.5"),
        ({"training": {"num_neighbors": [3, "4"]}}, "plan.training.num_neighbors"),
        ({"training": []}, "plan.training is"),
        ({"model": {"name": 3}}, "plan.model.name is 3"),
        ({"data": {"data": "cora", "unsafe": True}}, "has 'unsafe', which is not known"),
        ({"machine": "here"}, "plan.machine is 'here'"),
        ({"evidence": {"n": 10**40}}, "hexadecimal digits"),
        ({"surprise": 1}, "the field 'surprise'"),
    ],
)
def test_a_changed_file_is_refused_in_a_sentence(tmp_path, change, reason):
    tree = json.loads(a_plan().to_json()) | change
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(tree))
    with pytest.raises(InvalidConfig, match=reason.replace("[", r"\[")):
        Plan.load(path)


class Hostile:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe\x00",
        pickle.dumps(Hostile()),
        b'{"schema_version": NaN}',
        b"[" * 100_000,
        b'{"schema_version": 1}',
        b'{"schema_version": 1, "rungs": []}',
        b" " * (MOST_BYTES + 1),
    ],
)
def test_what_is_no_plan_is_refused_in_a_sentence(tmp_path, content):
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(InvalidConfig, match=r"plan\.json .*\.$") as error:
        Plan.load(path)
    assert "\n" not in str(error.value)


def test_a_truncated_plan_is_refused_wherever_it_ends(tmp_path):
    text = a_plan().to_json().encode()
    path = tmp_path / "plan.json"
    for end in range(0, len(text) - 2, 7):
        path.write_bytes(text[:end])
        with pytest.raises(InvalidConfig):
            Plan.load(path)


def test_nesting_has_an_end():
    deep: dict = {}
    for _ in range(100):
        deep = {"a": deep}
    with pytest.raises(InvalidConfig, match="nested more than"):
        a_plan(evidence=deep)


def test_a_plan_that_is_not_there_or_a_folder(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InvalidConfig, match="no plan at"):
            Plan.load(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([f.name for f in dataclasses.fields(Plan)]), st.text(max_size=10), json_values)
def test_any_value_in_any_field_is_a_plan_or_a_sentence(name, key, value):
    for changed in (value, {key: value}, [value]):
        tree = json.loads(a_plan().to_json()) | {name: changed}
        try:
            plan = Plan.from_json(json.dumps(tree))
        except InvalidConfig:
            continue
        assert Plan.from_json(plan.to_json()) == plan


def test_differences_are_told_in_both_languages():
    graph = digraph()
    here = fingerprint()
    same = a_plan(graph_fingerprint=graph_fingerprint(graph), machine=here)
    assert same.differences(graph, here) == []
    other = a_plan().differences(graph, here)
    assert [
        next(words for words in ("another graph", "another machine", "other versions") if words in told["en"])
        for told in other
    ] == ["another graph", "another machine", "other versions"]
    assert "An old one, 2 cores, 8 GiB" in other[1]["en"]
    assert "torch 2.9.0 →" in other[2]["en"]
    assert all("计划" in told["zh"] for told in other)
    assert len(a_plan(machine={}).differences(None, here)) == 2
    assert a_plan().differences(None, None) == []
