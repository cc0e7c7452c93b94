"""`fasthop.train`: one call from a model and a graph to weights and predictions, over plans, limits and interruptions."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

import fasthop
from fasthop.errors import DoesNotFit, InvalidConfig
from fasthop.files import CannotWrite
from fasthop.graph.fingerprint import graph_fingerprint
from fasthop.rewrites.ladder import Recipe
from fasthop.rewrites.sample import Sample
from fasthop.search import fitted as fitted_module
from fasthop.search.fitted import automatic, fitted
from fasthop.search.inference import Inference
from fasthop.search.leaner import leaner, ran_out
from fasthop.search.plan import Plan
from fasthop.search.plan_recipe import rungs_to_json
from fasthop.search.train_options import parse_bytes
from fasthop.search.training import train
from fasthop.train.journal import read_journal
from fasthop.train.models import GCN
from fasthop.train.run_folder import RunFolder
from fasthop.train.setup import Setup
from fasthop.train.step import Step
from fasthop.train.task import Task
from tests.train.graphs import digraph, several_labels

QUICK = {"hidden": 8, "epochs": 6, "prove_budget_s": 0.0, "threads": 1}
BASELINE = Recipe(name="baseline")


@pytest.fixture(scope="module")
def graph():
    return digraph(dtype=torch.float32)


def lines_of(folder):
    return [
        {name: value for name, value in line.items() if name != "epoch_s"}
        for line in read_journal(folder / "metrics.jsonl")[1]
    ]


def test_it_trains_keeps_and_prints(graph, tmp_path):
    trained = train("gcn", graph, out=tmp_path / "run", **QUICK)
    assert trained.finished
    assert trained.reason == "epochs"
    assert len(trained.history) == trained.num_epochs == 6
    assert trained.best_score == max(line["val"] for line in trained.history) == trained.best["val"]
    assert "fused_step" in [rung.name for rung in trained.recipe.rungs]
    assert "Trained 6 epochs" in str(trained)
    assert f"epoch {trained.best_epoch}" in str(trained)
    assert "finished" in json.loads(json.dumps(trained.to_json()))
    weights = load_file(trained.model_path)
    for name, tensor in trained.model.state_dict().items():
        assert torch.equal(tensor, weights[name])
    table = pq.read_table(trained.predictions_path).to_pydict()
    with torch.no_grad():
        out = trained.model.eval()(graph.x, graph.edge_index)
    assert table["predicted"] == out.argmax(-1).tolist()
    np.testing.assert_allclose(table["probability"], out.softmax(-1).max(-1).values, rtol=1e-4)
    assert table["node_id"] == list(range(60))
    for name in ("train", "val", "test"):
        mask = getattr(graph, f"{name}_mask")
        assert [split == name for split in table["split"]] == mask.tolist()
    val = graph.val_mask
    right = (torch.tensor(table["predicted"])[val] == graph.y[val]).double().mean()
    assert trained.best_score == pytest.approx(100 * float(right))


def test_predictions_carry_the_users_ids_and_names(graph, tmp_path):
    ids = np.array([f"paper-{i:02d}" for i in range(60)])
    named = dataclasses.replace(graph, node_ids=ids, class_names=("ai", "db", "os"))
    trained = train("gcn", named, out=tmp_path / "a", recipe=BASELINE, **QUICK)
    table = pq.read_table(trained.predictions_path).to_pydict()
    assert table["node_id"] == ids.tolist()
    assert set(table["predicted"]) <= {"ai", "db", "os"}
    trained = train("gcn", named, out=tmp_path / "b", class_names=("x", "y", "z"), recipe=BASELINE, **QUICK)
    assert set(pq.read_table(trained.predictions_path)["predicted"].to_pylist()) <= {"x", "y", "z"}
    with pytest.raises(InvalidConfig, match="class_names has 2 names"):
        train("gcn", named, out=tmp_path / "c", class_names=("x", "y"), **QUICK)
    assert not (tmp_path / "c").exists()


def test_of_several_labels_each_has_a_column(tmp_path):
    trained = train("gcn", several_labels(), out=tmp_path / "run", recipe=BASELINE, **QUICK)
    table = pq.read_table(trained.predictions_path)
    assert table.column_names == ["node_id", "class_0", "class_1", "class_2", "split"]
    assert all(0 <= value <= 1 for value in table["class_1"].to_pylist())


def test_a_module_is_trained_from_its_own_values_and_left_as_it_is(graph):
    torch.manual_seed(3)
    model = GCN(8, 8, 3)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    trained = train(model, graph, lr=1e-9, weight_decay=0.0, epochs=2, prove_budget_s=0.0)
    assert trained.folder is None
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
        assert torch.allclose(trained.model.state_dict()[name], tensor, atol=1e-6)
        assert trained.model.state_dict()[name].data_ptr() != tensor.data_ptr()


@pytest.mark.parametrize(
    "code",
    [
        "import fasthop.train.task, fasthop; from fasthop.train.models import GCN",
        "import fasthop; fasthop.train; import fasthop.train.task; from fasthop.train.models import GCN",
        "import fasthop; from fasthop import train as t; import fasthop.train.setup as s; t; s.Setup",
    ],
    ids=["package first", "function first", "both"],
)
def test_the_package_and_the_function_share_a_name(code):
    call = "fasthop.train(nothing=1)"
    script = f"{code}\ntry:\n    {call}\nexcept fasthop.InvalidConfig as error:\n    print(error)"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "There is no option 'nothing' of train." in out.stdout, out.stderr


def test_a_run_that_was_cut_off_goes_on_with_its_own_options(graph, tmp_path):
    whole = train("gcn", graph, out=tmp_path / "whole", dropout=0.5, checkpoint_every=2, **QUICK)

    class Stops:
        def start(self, epochs, done): ...
        def say(self, sentence): ...
        def close(self): ...
        def epoch(self, line):
            if line["epoch"] == 5:
                raise ValueError("cut off")

    folder = tmp_path / "broken"
    with pytest.raises(ValueError, match="cut off"):
        train("gcn", graph, out=folder, dropout=0.5, checkpoint_every=2, progress=Stops(), **QUICK)
    os.truncate(folder / "checkpoints" / "epoch-00000004.safetensors", 99)
    broken = train(data=graph, out=folder, resume=True)
    said = [note["en"] for note in broken.notes]
    assert any(sentence.startswith("The checkpoint of epoch 4 is left out: ") for sentence in said)
    assert "Going on after epoch 2." in said
    assert lines_of(tmp_path / "whole") == lines_of(folder)
    assert [line["epoch"] for line in broken.history] == list(range(1, 7))
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, broken.model.state_dict()[name])
    # It is finished now, and going on once more changes nothing.
    again = train(data=graph, out=folder, resume=True)
    assert again.best_score == whole.best_score
    longer = train(data=graph, out=folder, resume=True, epochs=8)
    assert longer.num_epochs == 8


def test_two_runs_do_not_mix_in_a_folder(graph, tmp_path):
    out = tmp_path / "run"
    train("gcn", graph, out=out, recipe=BASELINE, **QUICK)
    with pytest.raises(InvalidConfig, match="holds a training already"):
        train("gcn", graph, out=out, **QUICK)
    with pytest.raises(InvalidConfig, match="begun with hidden = 8, and got 16"):
        train("gcn", graph, out=out, resume=True, hidden=16)
    with pytest.raises(InvalidConfig, match="begun on another graph"):
        train("gcn", digraph(seed=1, dtype=torch.float32), out=out, resume=True)
    with pytest.raises(InvalidConfig, match="hand it over again"):
        train(out=out, resume=True)
    held = RunFolder(out).open(resume=True)
    try:
        with pytest.raises(InvalidConfig, match=r"Another training is running in .* \(process \d+\)"):
            train("gcn", graph, out=out, resume=True)
    finally:
        held.close()
    assert train(data=graph, out=out, resume=True).finished
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    with pytest.raises(CannotWrite, match="is not empty"):
        train("gcn", graph, out=other, **QUICK)
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]


def test_a_lock_left_by_a_killed_process_is_nobodys(graph, tmp_path):
    out = tmp_path / "run"
    train("gcn", graph, out=out, recipe=BASELINE, **QUICK)
    (out / "lock").write_text('{"pid": 1, "started": 0}')
    assert train(data=graph, out=out, resume=True).finished
    assert not (out / "lock").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "not JSON"), (b'{"schema": "x"}', "not that of a fasthop training"),
     (b'{"schema": "fasthop-training", "version": 7}', "version 7"),
     (b'{"schema": "fasthop-training", "version": 1}', "options are missing")],
)  # fmt: skip
def test_a_damaged_run_file_is_a_sentence(graph, tmp_path, content, words):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(InvalidConfig, match=words):
        train("gcn", graph, out=tmp_path, resume=True)


def plan_of(graph, recipe, **changes):
    fields = {
        "recipe_name": recipe.name,
        "rungs": tuple(rungs_to_json(recipe.rungs)),
        "model": {"name": "gcn", "args": {"hidden": 8, "dropout": 0.25}},
        "data": {"data": None, "name": "digraph"},
        "training": {"lr": 0.02, "epochs": 3, "seed": 4, "threads": 1},
        "graph_fingerprint": graph_fingerprint(graph),
        "machine": {},
        **changes,
    }
    return Plan(**fields)


def test_a_plan_says_what_is_not_given(graph, tmp_path):
    plan = plan_of(graph, Recipe(name="sample", rungs=(Sample(batch_size=8),)))
    plan.save(tmp_path / "plan.json")
    trained = train(data=graph, plan=tmp_path / "plan.json", out=tmp_path / "run")
    assert [rung.name for rung in trained.recipe.rungs] == ["sample"]
    assert trained.num_epochs == 3
    options = json.loads((tmp_path / "run" / "run.json").read_bytes())["options"]
    assert (options["lr"], options["hidden"], options["dropout"], options["seed"]) == (0.02, 8, 0.25, 4)
    assert train(data=graph, plan=plan, epochs=2).num_epochs == 2


def test_a_plan_for_another_graph_warns_and_is_proven_again(graph, monkeypatch):
    proven = []
    prove = fitted_module.prove_setup
    monkeypatch.setattr(
        fitted_module, "prove_setup", lambda *a, **k: proven.append(prove(*a, **k)) or proven[-1]
    )
    plan = plan_of(digraph(seed=9, dtype=torch.float32), automatic())
    trained = train(data=graph, plan=plan, prove_budget_s=20.0)
    assert any("made for another graph" in note["en"] for note in trained.notes)
    assert [verdict.passed for verdict in proven] == [True]


def test_what_the_proof_refutes_is_dropped(graph, monkeypatch):
    class Refuted:
        passed = False
        sentence = {"en": "Wrong: off by 0.3.", "zh": "错误"}  # noqa: RUF012

    monkeypatch.setattr(fitted_module, "prove_setup", lambda *a, **k: Refuted())
    trained = train("gcn", graph, epochs=2)
    assert trained.recipe.rungs == ()
    assert any(note["en"].startswith("fused_step left out. Wrong") for note in trained.notes)


@pytest.mark.parametrize(
    "options", [{"clip_grad_norm": 1.0}, {"schedule": "cosine"}, {"warmup_epochs": 1}], ids=str
)
def test_clipping_and_schedules_leave_the_fused_step_out_and_say_so(graph, options):
    trained = train("gcn", graph, **QUICK, **options)
    names = [rung.name for rung in trained.recipe.rungs]
    assert "fused_step" not in names
    assert "csr_spmm" in names
    assert any("fused_step is left out" in note["en"] for note in trained.notes)


def test_a_rung_that_does_not_apply_is_dropped_and_said(graph):
    learned = dataclasses.replace(graph, edge_weight=torch.ones(graph.num_edges, requires_grad=True))
    trained = train("gcn", learned, **QUICK)
    assert trained.recipe.rungs == ()
    assert any("edge weights are being learned" in note["en"] for note in trained.notes)


def test_recipes_need_less_and_less(graph):
    recipe, names = BASELINE, []
    while (recipe := leaner(recipe, num_train=20, batch_size=128)) is not None:
        names.append(recipe.name)
    assert names == ["exact rungs", *(f"sample (batch_size {size})" for size in (10, 5, 2, 1))]


def test_a_limit_is_held_by_a_recipe_that_needs_less(graph):
    large = digraph(2000, 40_000, 32, dtype=torch.float32)
    options = {"hidden": 32, "epochs": 2, "prove_budget_s": 0.0, "threads": 1}
    trained = train("gcn", large, recipe="baseline", memory="12MB", **options)
    assert trained.recipe.name != "baseline"
    said = next(note["en"] for note in trained.notes if "may take" in note["en"])
    assert said.startswith("baseline: it needs ")
    assert f"Going on with {trained.recipe.name}." in " ".join(note["en"] for note in trained.notes)
    with pytest.raises(DoesNotFit, match=r"Nothing fits: sample \(batch_size 1\)"):
        train("gcn", large, memory="1kB", **options)


@pytest.mark.parametrize("keeps", [True, False])
def test_out_of_memory_on_the_way_goes_on_from_the_checkpoint(graph, tmp_path, monkeypatch, keeps):
    calls, plain = [], Step.__call__

    def failing(self, batch):
        calls.append(batch)
        if len(calls) == 4:
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory"
            )
        return plain(self, batch)

    monkeypatch.setattr(Step, "__call__", failing)
    out = tmp_path / "run" if keeps else None
    trained = train("gcn", graph, recipe="baseline", checkpoint_every=2, out=out, **QUICK)
    assert trained.recipe.name == "exact rungs"
    assert [line["epoch"] for line in trained.history] == list(range(1, 7))
    assert any("ran out of memory in epoch 4" in note["en"] for note in trained.notes)
    if keeps:
        # Epochs 1 and 2 are those of the first recipe, and the file says where the other one began.
        events = [line for line in lines_of(out) if line["event"] == "recipe"]
        assert [(line["epoch"], line["recipe"]) for line in events] == [(2, "exact rungs")]
        assert train(data=graph, out=out, resume=True).recipe.name == "exact rungs"


def test_a_batch_is_halved_with_the_optimiser_kept(graph, tmp_path, monkeypatch):
    calls, plain = [], Step.__call__

    def failing(self, batch):
        calls.append(batch.rows)
        if len(calls) == 6:
            raise MemoryError
        return plain(self, batch)

    monkeypatch.setattr(Step, "__call__", failing)
    sample = Recipe(name="sample", rungs=(Sample(batch_size=8, num_neighbors=(3, 2)),))
    trained = train("gcn", graph, recipe=sample, checkpoint_every=1, out=tmp_path / "run", **QUICK)
    assert trained.recipe.rungs[0].batch_size == 4
    assert max(calls[6:]) <= 4
    assert trained.num_epochs == 6


def test_words_for_running_out_of_memory():
    assert ran_out(MemoryError())
    assert ran_out(RuntimeError("std::bad_alloc"))
    assert not ran_out(RuntimeError("shapes do not match"))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_inference_by_batches_equals_that_of_the_whole(graph, dropout):
    task = Task(graph=graph, make_model=partial(GCN, 8, 8, 3, num_layers=3, dropout=dropout))
    baseline = Setup.baseline(task, seed=0, device=torch.device("cpu"))
    made = fitted(automatic(), baseline)
    whole, fast, batches = (
        Inference(baseline, baseline),
        Inference(made.setup, baseline),
        Inference(made.setup, baseline),
    )
    batches.by_batches()
    batches._batch_size = 7
    torch.testing.assert_close(fast(), whole(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(batches(), whole(), rtol=1e-5, atol=1e-6)


def test_evaluation_that_runs_out_of_memory_goes_by_batches(graph, monkeypatch):
    task = Task(graph=graph, make_model=partial(GCN, 8, 8, 3))
    baseline = Setup.baseline(task, seed=0, device=torch.device("cpu"))
    want = Inference(baseline, baseline)()
    infer = Inference(baseline, baseline)

    def failing():
        raise MemoryError

    monkeypatch.setattr(infer, "_whole", failing)
    torch.testing.assert_close(infer(), want, rtol=1e-5, atol=1e-6)
    assert not infer.is_whole


@pytest.mark.parametrize(
    ("value", "num_bytes"),
    [("2GiB", 2 << 30), ("500MB", 500_000_000), ("1.5 kib", 1536), (1000, 1000), ("64", 64), (None, None)],
)
def test_sizes(value, num_bytes):
    assert parse_bytes(value) == num_bytes


@pytest.mark.parametrize("value", ["", "much", "-1GiB", "2 Gigs", 0, True, "1e99TB"])
def test_what_is_no_size_is_refused(value):
    with pytest.raises(InvalidConfig, match="memory is"):
        parse_bytes(value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: train(), "There is no model"),
        (lambda: train("gcn"), "There is no data"),
        (lambda: train("gcn", "cora", epoch=3), "Did you mean epochs"),
        (lambda: train("gcn", "cora", epochs=-1), "epochs is -1"),
        (lambda: train("gcn", "cora", recipe="fastest"), "There is no recipe 'fastest'"),
        (lambda: train("gcn", "cora", resume=True), "say which with out"),
        (lambda: train("gcn", "cora", plan="nowhere.json"), "There is no plan"),
        (lambda: train("gcn", "cora", lr=0.0), "lr is 0"),
        (lambda: train("gcn", "cora", threads=0), "threads is 0"),
        (lambda: train("gcn", "cora", device="tpu"), "device is 'tpu'"),
        (lambda: train("gcn", "cora", num_neighbors=(3, 0, 2)), "num_neighbors has the fan-out 0"),
        (lambda: train("gcn", "cora", class_names="ab"), "class_names is 'ab'"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_work(call, words):
    with pytest.raises(InvalidConfig, match=words):
        call()


def test_the_public_name():
    assert fasthop.train.__doc__
