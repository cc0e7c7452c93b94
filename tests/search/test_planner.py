"""tune keeps to its limits, survives what befalls it, goes on where it was, and says what it tried and why."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
import torch

from fasthop.errors import DoesNotFit, InvalidConfig
from fasthop.rewrites.amp import Amp
from fasthop.rewrites.ladder import Recipe
from fasthop.rewrites.pyg_sparse import PygSparse
from fasthop.rewrites.sample import Sample
from fasthop.search import candidate as candidates
from fasthop.search import tune as tunes
from fasthop.search.attempt import FORESEEN, HALVED, MEASURED, Attempt
from fasthop.search.candidate import Candidate, search_space
from fasthop.search.config import BenchConfig
from fasthop.search.plan import Plan
from fasthop.search.predict import Foreseen
from fasthop.search.predict_memory import memory_floor_bytes
from fasthop.search.resident import Resident
from fasthop.search.study import STUDY_FILE, open_study
from fasthop.search.track import Clock, Track
from fasthop.search.tune import tune_plan
from fasthop.search.tune_config import TuneConfig
from fasthop.search.tune_trial import TuneTrial
from fasthop.search.tuned_text import tuned_text
from fasthop.search.yardstick import Yardstick
from fasthop.train.task_config import TaskConfig, make_task
from tests.train.graphs import digraph

DATA = "synthetic:nodes=200,degree=4,features=8,classes=3,homophily=0.5"
FAMILIES = {"pyg_sparse": (PygSparse(),), "amp": (Amp(),)}


@pytest.fixture
def small(monkeypatch):
    """Two families, nothing foreseen, so that a tune takes seconds."""
    monkeypatch.setattr(candidates, "families", lambda device: FAMILIES)
    monkeypatch.setattr(tunes, "foresee", lambda *_, **__: Foreseen(machine=None, predictions={}))


def config(**options):
    bench = {
        "data": DATA,
        "threads": 1,
        "rounds": 6,
        "epochs": 3,
        "seeds": 2,
        "round_s": 0.01,
        "time_limit_s": 120.0,
    }
    bench |= {name: options.pop(name) for name in list(options) if name in bench}
    return TuneConfig(bench=BenchConfig(**bench), **{"budget_s": 240.0, "objective": "epoch-time", **options})


class Heard:
    """A Progress that remembers, and does something at a moment."""

    def __init__(self, at=None, act=None):
        self.at, self.act, self.entered, self.outcomes = at, act, [], {}

    def start(self, recipes):
        pass

    def update(self, recipe, phase, fraction=None):
        if phase == "start":
            self.entered.append(recipe)
        if (recipe, phase) == self.at and self.act is not None:
            act, self.act = self.act, None
            act()

    def done(self, recipe, failure):
        self.outcomes.setdefault(recipe, failure)

    def close(self):
        pass


def kill_newest_worker():
    newest = max(psutil.Process().children(), key=lambda process: process.create_time())
    newest.kill()


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.usefixtures("small")
def test_a_whole_tune_in_which_a_trial_is_killed(tmp_path, monkeypatch):
    heard = Heard(at=("amp", "first_epoch"), act=kill_newest_worker)
    tuned = tune_plan(config(), tmp_path / "out", progress=heard)
    assert tuned.finished
    outcomes = {a.candidate.name: a for a in tuned.attempts}
    assert outcomes["amp"].outcome == "failed"
    assert "SIGKILL" in outcomes["amp"].reason["en"]
    assert outcomes["pyg_sparse"].outcome in ("measured", "halved")
    assert "SIGKILL" in heard.outcomes["amp"]["en"]
    assert tuned.stopped is not None
    assert not [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]

    plan = Plan.load(tmp_path / "out" / "plan.json")
    assert plan == tuned.plan
    assert plan.recipe_name in ("baseline", "pyg_sparse")
    evidence = plan.evidence
    ratio = evidence["ratio_to_baseline"]
    assert ratio["low"] <= ratio["median"] <= ratio["high"]
    assert evidence["num_rounds"] == 6
    assert evidence["peak_bytes"]["plan"] > 0
    if plan.recipe_name == "baseline":
        assert any("better than the baseline" in said["en"] for said in tuned.notes)
    else:
        assert ratio["low"] > 1.0
        assert evidence["accuracy"]["num_seeds"] == 2
    assert plan.differences(None, plan.machine) == []

    for lang, words in (
        ("en", "The baseline" if plan.recipe_name == "pyg_sparse" else "candidate"),
        ("zh", "候选方案"),
    ):
        text = tuned_text(tuned, lang)
        assert words in text or "candidate" in text
        assert "pyg_sparse" in text
    assert "被强行终止" in tuned_text(tuned, "zh")
    tree = json.loads((tmp_path / "out" / "trials.json").read_text(encoding="utf-8"))
    assert len(tree["trials"]) == len(tuned.attempts)
    assert json.loads(tuned.to_json())["plan"]["recipe_name"] == plan.recipe_name

    script = tmp_path / "out" / "train.py"
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "epoch 3: loss" in done.stdout
    assert set(torch.load(tmp_path / "model.pt", weights_only=True)) >= {"convs.0.bias", "convs.1.bias"}

    # Finished, it is read back: nothing is started.
    monkeypatch.setattr(Track, "enter", lambda *_: pytest.fail("a worker was started"))
    again = tune_plan(config(), tmp_path / "out")
    assert again.plan == plan
    assert [a.candidate.key for a in again.attempts] == [a.candidate.key for a in tuned.attempts]
    with pytest.raises(InvalidConfig, match="holds a tune already"):
        tune_plan(config(), tmp_path / "out", resume=False)
    with pytest.raises(InvalidConfig, match=r"made with epochs = 3, and now it is 4"):
        tune_plan(config(epochs=4), tmp_path / "out")
    with pytest.raises(InvalidConfig, match="is a tune of another graph"):
        tune_plan(config(data=DATA.replace("200", "201")), tmp_path / "out")


@pytest.mark.usefixtures("small")
def test_ctrl_c_returns_the_best_so_far_and_a_later_run_goes_on(tmp_path):
    tuned = tune_plan(config(), tmp_path, progress=Heard(at=("amp", "memory"), act=interrupt))
    assert not tuned.finished
    assert "started again" in tuned.stopped["en"]
    assert {a.candidate.name: a.outcome for a in tuned.attempts}["amp"] == "unfinished"
    plan = Plan.load(tmp_path / "plan.json")
    assert plan.recipe_name == "pyg_sparse"
    assert plan.evidence["finished"] is False
    assert plan.evidence["ratio_to_baseline"] is None

    heard = Heard()
    again = tune_plan(config(), tmp_path, progress=heard)
    assert again.finished
    settled = [a.candidate.name for a in again.attempts if a.is_settled]
    assert sorted(settled) == ["amp", "pyg_sparse"]
    # pyg_sparse was not measured again, only held against the baseline in the finals, after amp.
    assert heard.entered[:2] == ["baseline", "amp"]


@pytest.mark.usefixtures("small")
def test_ctrl_c_before_anything_was_measured_goes_on_to_the_caller(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        tune_plan(config(), tmp_path, progress=Heard(at=("baseline", "prepare"), act=interrupt))
    assert not (tmp_path / "plan.json").exists()


DRIVER = """
import sys
from fasthop.noise import silence
silence()
from pathlib import Path
from tests.search import test_planner as t
from fasthop.search import candidate, tune
candidate.families = lambda device: t.FAMILIES
tune.foresee = lambda *_, **__: t.Foreseen(machine=None, predictions={})
if __name__ == "__main__":
    tune.tune_plan(t.config(), Path(sys.argv[1]))
"""


@pytest.mark.usefixtures("small")
def test_the_parent_killed_goes_on_without_repeating_what_was_measured(tmp_path):
    driver = tmp_path / "driver.py"
    driver.write_text(textwrap.dedent(DRIVER), encoding="utf-8")
    out = tmp_path / "out"
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, str(driver), str(out)],
        env={**os.environ, "PYTHONPATH": str(root)},
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 300
    log = out / STUDY_FILE
    while not (log.exists() and b'"attempt"' in log.read_bytes()):
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    workers = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stderr.close()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
    with log.open("ab") as file:
        file.write(b'{"op_code":6,"half of a li')  # as a write that was cut in the middle leaves it

    heard = Heard()
    tuned = tune_plan(config(), out, progress=heard)
    assert tuned.finished
    names = [a.candidate.name for a in tuned.attempts if a.is_settled]
    assert sorted(names) == ["amp", "pyg_sparse"]
    assert "pyg_sparse" not in heard.entered[: heard.entered.index("amp")]


@pytest.mark.usefixtures("small")
def test_where_nothing_fits_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(candidates, "families", lambda device: {"amp": (Amp(),)})
    heard = Heard()
    with pytest.raises(DoesNotFit, match=r"none fits the memory limit of 1,024 bytes") as error:
        tune_plan(config(memory_bytes=1024), tmp_path, progress=heard)
    assert "1 candidates were tried" in str(error.value)
    assert heard.entered == ["baseline"]
    assert "one operator alone needs" in heard.outcomes["amp"]["en"]
    assert not (tmp_path / "plan.json").exists()
    with pytest.raises(DoesNotFit):  # read back
        tune_plan(config(memory_bytes=1024), tmp_path)


def space(**options):
    given = {"device": "cpu", "threads": 2, "lr": 0.01, "num_train": 500, "num_hops": 2, "batch_size": 128,
             "num_neighbors": None, "tunes_lr": True}  # fmt: skip
    return search_space(**{**given, **options})


def test_the_space_turns_what_an_optimisation_shifts():
    found = space()
    assert found.knobs("exact") == {"threads": (2, 1)}
    assert set(found.knobs("compile+sample+amp")) == {
        "threads",
        "batch_size",
        "num_neighbors",
        "lr_factor",
        "mode",
    }
    assert found.knobs("sample")["batch_size"] == (128, 64, 256, 512)
    turned = found.candidate("sample", lambda name, choices: choices[-1])
    assert turned.lr == 0.04
    assert turned.threads == 1
    assert turned.rungs[0] == Sample(num_neighbors=(20, 10), batch_size=512)
    assert turned.name == "sample (threads=1, batch_size=512, num_neighbors=20,10, lr_factor=4.0)"
    assert Candidate.from_json(json.loads(json.dumps(turned.to_json()))) == turned
    keys = [c.key for c in found.firsts()]
    assert len(set(keys)) == len(keys)
    assert "threads" not in space(device="cuda").knobs("exact")
    assert space(num_hops=1).fan_outs[0] == (10,)
    assert found.baseline.trains_as_baseline
    assert not turned.trains_as_baseline


def trial(tmp_path, yardstick, **options):
    track = Track(config=config(**options), graph=digraph(), graph_path=tmp_path, folder=tmp_path, device="cpu",
                  clock=Clock(60.0), progress=Heard())  # fmt: skip
    return TuneTrial(candidate=space().candidate("sample", lambda _, c: c[0]), track=track, yardstick=yardstick,
                     goes_on=lambda *_: True)  # fmt: skip


def test_what_cannot_win_or_fit_is_not_started(tmp_path):
    yardstick = Yardstick(objective="epoch-time", num_epochs=10, lr=0.01, best=10.0)
    assert trial(tmp_path, yardstick).foreseen(29.0, None, 4) is None
    slow = trial(tmp_path, yardstick).foreseen(31.0, None, 4)
    assert slow.outcome == FORESEEN
    assert "3.1 times the best so far" in slow.reason["en"]
    assert "3.1 倍" in slow.reason["zh"]
    large = trial(tmp_path, yardstick, memory_bytes=2**20).foreseen(1.0, 2**21, 4)
    assert "needs 2 MiB, and the limit is 1 MiB" in large.reason["en"]
    # To an accuracy an epoch of four steps may count as four: it is given the benefit of the doubt.
    to_accuracy = Yardstick(
        objective="time-to-accuracy", num_epochs=10, lr=0.01, best=0.1, target=50.0, baseline_epochs=10
    )
    assert trial(tmp_path, to_accuracy).foreseen(100.0, None, 4) is None
    assert trial(tmp_path, to_accuracy).foreseen(110.0, None, 4).outcome == FORESEEN
    by_memory = Yardstick(objective="memory", num_epochs=10, lr=0.01, best=1.0)
    assert trial(tmp_path, by_memory).foreseen(1e9, None, 4) is None


def test_a_trial_over_the_memory_limit_fails_with_its_peak(tmp_path, quick):
    graph = digraph(dtype=torch.float32)
    with_limit = TuneConfig(bench=quick(seeds=0), objective="epoch-time", memory_bytes=30_000)
    from fasthop.search.bench_task import save_graph

    save_graph(graph, tmp_path / "graph.pt")
    track = Track(config=with_limit, graph=graph, graph_path=tmp_path / "graph.pt", folder=tmp_path, device="cpu",
                  clock=Clock(300.0), progress=Heard())  # fmt: skip
    yardstick = Yardstick(objective="epoch-time", num_epochs=4, lr=0.01)
    work = TuneTrial(
        candidate=space(threads=1).baseline, track=track, yardstick=yardstick, goes_on=lambda *_: True
    )
    attempt = work.measure()
    assert attempt.outcome == "does_not_fit"
    assert attempt.peak_bytes > 30_000
    assert "an epoch's peak is" in attempt.reason["en"]
    assert Attempt.from_json(json.loads(json.dumps(attempt.to_json()))) == attempt


def test_the_memory_floor_is_below_the_measured_peak():
    graph = digraph(dtype=torch.float32)
    task = make_task(TaskConfig(model="gcn"), graph)
    floor = memory_floor_bytes(task, Recipe(name="baseline"))
    resident = Resident(task, Recipe(name="baseline"), 0, torch.device("cpu"))
    resident.prepare()
    resident.first_epoch()
    assert 0 < floor < resident.memory().peak_bytes
    # A message of edges x hidden channels is written and one of the same size read with it.
    assert floor >= 2 * 4 * graph.num_edges * 16


def study_of(path, *, resume=True, **changes):
    given = {"settings": {"epochs": 3}, "graph": "aa", "machine": "m", "seed": 0, **changes}
    return open_study(path, space(), resume=resume, **given)


def attempt_of(found, value, **changes):
    return Attempt(candidate=found, outcome=MEASURED, times_ms=(value,), value=value, **changes)


def test_a_study_comes_back_and_is_locked(tmp_path):
    with study_of(tmp_path) as study:
        first = study.ask("exact", by_default=True)
        first.end(attempt_of(first.candidate, 2.0))
        study.ask("sample", by_default=True)  # killed in the middle of it
        study.keep("spent_s", 3.5)
        with pytest.raises(InvalidConfig, match="Another tune is running"), study_of(tmp_path):
            pass
    with study_of(tmp_path) as again:
        assert [a.value for a in again.attempts] == [2.0]
        assert list(again.settled) == [first.candidate.key]
        assert again.fact("spent_s") == 3.5
        assert again._study.get_trials(deepcopy=False)[1].state.name == "FAIL"
    with (
        pytest.raises(InvalidConfig, match="another machine, and timings of unlike machines are never mixed"),
        study_of(tmp_path, machine="other"),
    ):
        pass


def test_the_halving_leaves_the_slow_behind(tmp_path):
    with study_of(tmp_path) as study:
        for value in (1.0, 1.1, 1.2):
            one = study.ask("sample", by_default=False)
            assert one.goes_on(value, 1) is (value == 1.0)
            one.end(
                dataclasses.replace(
                    attempt_of(one.candidate, value), outcome=MEASURED if value == 1.0 else HALVED
                )
            )
        best = study.ask("exact", by_default=True)
        assert best.goes_on(0.5, 1)


@pytest.mark.parametrize(
    "content", [b"\x80\x04hostile", b"{}\n{}\n", b'{"op_code": 99}\n', b"[" * 50_000 + b"\n", b"\xff\xff\n"]
)
def test_a_damaged_study_is_refused_in_a_sentence(tmp_path, content):
    with study_of(tmp_path):
        pass
    path = tmp_path / STUDY_FILE
    path.write_bytes(content + b"\n" if not content.endswith(b"\n") else content)
    with pytest.raises(InvalidConfig, match=r"study\.log is damaged .*begin anew\.$"), study_of(tmp_path):
        pass


def test_a_study_whose_attempt_was_changed_is_refused(tmp_path):
    with study_of(tmp_path) as study:
        first = study.ask("exact", by_default=True)
        first.end(attempt_of(first.candidate, 2.0))
    path = tmp_path / STUDY_FILE
    path.write_text(path.read_text().replace('"times_ms":[2.0]', '"times_ms":["fast"]'))
    with pytest.raises(InvalidConfig, match="damaged"), study_of(tmp_path):
        pass


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"memory_bytes": "2 lemons"}, "memory is '2 lemons'; give an amount of memory such as 2GiB"),
        ({"memory_bytes": 0}, "at least 1 byte"),
        ({"budget_s": "soon"}, "budget is 'soon'; give a time such as 10min"),
        ({"budget_s": 0.5}, "at least 1 s"),
        ({"budget_s": float("nan")}, "more than 0"),
        ({"max_accuracy_drop": -1}, "from 0 to 100"),
        ({"max_accuracy_drop": float("nan")}, "from 0 to 100"),
        ({"objective": "speed"}, "one of time-to-accuracy, epoch-time, memory"),
        ({"workers": "slurm"}, "one of local, ray"),
        ({"max_trials": 0}, "at least 1"),
        ({"objective": "time-to-accuracy", "seeds": 0}, "measures no accuracy"),
    ],
)
def test_an_option_that_cannot_work_is_refused_before_any_work(options, reason):
    with pytest.raises(InvalidConfig, match=reason):
        config(**options)


def test_amounts_as_people_write_them():
    assert config(memory_bytes="2GiB", budget_s="1.5h").memory_bytes == 2**31
    assert config(memory_bytes="300 MB", budget_s="90s").memory_bytes == 300_000_000
    assert config(budget_s="10min").budget_s == 600.0
