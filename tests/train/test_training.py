"""The long loop: what it does by the way, and that an interrupted run goes on bit for bit."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv

from fasthop.errors import InvalidConfig
from fasthop.rewrites.amp import Amp
from fasthop.rewrites.ladder import Recipe, exact, tutorial
from fasthop.rewrites.sample import Sample
from fasthop.train import training as training_module
from fasthop.train.batching import FullBatch
from fasthop.train.clipped import ClippedStep
from fasthop.train.divergence import Diverged
from fasthop.train.journal import Journal, read_journal
from fasthop.train.models import GCN
from fasthop.train.precision import Precision
from fasthop.train.run_folder import RunFolder
from fasthop.train.schedule import Schedule
from fasthop.train.setup import Setup
from fasthop.train.stop_flag import StopFlag
from fasthop.train.task import OptimizerConfig, Task
from fasthop.train.training import Training
from fasthop.train.training_config import TrainConfig
from tests.train.graphs import digraph

CPU = torch.device("cpu")
SAMPLE = Sample(num_neighbors=(3, 2), batch_size=8)
RECIPES = {recipe.name: recipe for recipe in (*tutorial(SAMPLE), *exact(SAMPLE))}


@pytest.fixture(scope="module")
def graph():
    return digraph(dtype=torch.float32)


class Moody(torch.nn.Module):
    """Dropout, BatchNorm, and noise out of each generator that a script may draw from."""

    def __init__(self, num_features, num_classes):
        super().__init__()
        self.convs = torch.nn.ModuleList([SAGEConv(num_features, 8), SAGEConv(8, num_classes)])
        self.norm = torch.nn.BatchNorm1d(8)

    def forward(self, x, edge_index):
        x = self.norm(self.convs[0](x, edge_index)).relu()
        if self.training:
            x = F.dropout(x, 0.5) * (1 + 0.1 * random.random()) + 0.1 * float(np.random.rand())
        return self.convs[1](x, edge_index)


def task_of(graph, model=GCN, **options):
    if model is GCN:
        make = partial(GCN, graph.num_features, 8, graph.num_classes, dropout=0.5)
    else:
        make = partial(model, graph.num_features, graph.num_classes)
    return Task(graph=graph, make_model=make, **options)


def setup_of(task, recipe=None):
    baseline = Setup.baseline(task, seed=0, device=CPU)
    return baseline if recipe is None else recipe.on(baseline)


class Halt(Exception):
    pass


class HaltsAfter:
    def __init__(self, epoch):
        self.at = epoch

    def start(self, epochs, done):
        pass

    def epoch(self, line):
        if line["epoch"] == self.at:
            raise Halt

    def say(self, sentence):
        pass

    def close(self):
        pass


def lines_of(folder):
    _, lines = read_journal(folder.metrics_path)
    return [{name: value for name, value in line.items() if name != "epoch_s"} for line in lines]


def whole_and_broken(make_setup, config, tmp_path, *, halt=8):
    """The lines of a run, and those of one that was cut off after `halt` epochs and gone on with in a new setup."""
    kept = []
    for name in ("whole", "broken"):
        folder = RunFolder(tmp_path / name).open(resume=False)
        progress = HaltsAfter(halt) if name == "broken" else None
        training = Training(make_setup(), config, folder=folder, progress=progress)
        training.begin()
        if name == "broken":
            with pytest.raises(Halt):
                training.run()
            training.close()
            torch.manual_seed(99)  # whatever else the process draws meanwhile
            training = Training(make_setup(), config, folder=folder)
            checkpoint, notes = training.checkpoints.latest(training.check)
            assert notes == ()
            assert 0 < checkpoint.epoch <= halt
            training.go_on(checkpoint)
        training.run()
        training.use_best()
        training.close()
        folder.close()
        kept.append((lines_of(folder), training.setup.original.state_dict()))
    return kept


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("baseline", {}),
        ("baseline", {"schedule": "cosine", "warmup_epochs": 3, "clip_grad_norm": 0.1}),
        ("baseline", {"schedule": "step", "step_epochs": 4}),
        ("baseline", {"schedule": "plateau", "plateau_patience": 1, "warmup_epochs": 2}),
        ("sample", {"monitor": "val_loss"}),
        ("sample", {"evaluate_every": 3, "schedule": "cosine"}),
        ("sample+amp", {}),
        ("fp16", {}),
        ("+receptive_field", {"clip_grad_norm": 1.0}),
        ("+transform_order", {"schedule": "plateau", "plateau_patience": 0}),
        ("+fused_step", {}),
        ("+fused_step", {"checkpoint_every": 1, "patience": 5}),
    ],
)
def test_an_interrupted_run_goes_on_bit_for_bit(graph, tmp_path, recipe, options):
    recipes = {**RECIPES, "fp16": Recipe(name="fp16", rungs=(Amp(dtype="float16"),))}
    config = TrainConfig(epochs=14, **{"checkpoint_every": 5, **options})
    task = task_of(graph)
    (whole, weights), (broken, again) = whole_and_broken(
        lambda: setup_of(task, recipes[recipe]), config, tmp_path
    )
    assert len(whole) >= 6
    assert whole == broken
    assert all(torch.equal(weights[name], again[name]) for name in weights)


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("recipe", ["baseline", "+fused_step"])
def test_every_optimiser_goes_on_bit_for_bit(graph, tmp_path, name, recipe):
    task = task_of(graph, optimizer=OptimizerConfig(name=name, lr=0.05))
    (whole, _), (broken, _) = whole_and_broken(
        lambda: setup_of(task, RECIPES[recipe]), TrainConfig(epochs=6, checkpoint_every=2), tmp_path, halt=3
    )
    assert whole == broken


@pytest.mark.parametrize("recipe", [None, SAMPLE], ids=["full", "sample"])
def test_buffers_and_every_generator_go_on(graph, tmp_path, recipe):
    recipe = None if recipe is None else Recipe(name="sample", rungs=(recipe,))
    task = task_of(graph, Moody)
    (whole, weights), (broken, again) = whole_and_broken(
        lambda: setup_of(task, recipe), TrainConfig(epochs=10, checkpoint_every=3), tmp_path
    )
    assert whole == broken
    assert torch.equal(weights["norm.running_mean"], again["norm.running_mean"])


def test_a_checkpoint_of_another_model_or_recipe_does_not_fit(graph, tmp_path):
    folder = RunFolder(tmp_path / "run").open(resume=False)
    training = Training(setup_of(task_of(graph)), TrainConfig(epochs=1), folder=folder)
    training.begin()
    training.run()
    store = training.checkpoints
    wider = Task(graph=graph, make_model=partial(GCN, graph.num_features, 9, graph.num_classes))
    for setup, words in (
        (setup_of(wider), "the model's is"),
        (setup_of(task_of(graph), RECIPES["sample"]), "another recipe"),
        (setup_of(task_of(graph), RECIPES["+fused_step"]), "another recipe"),
        (setup_of(task_of(graph, Moody)), "which the model has"),
    ):
        other = Training(setup, TrainConfig(epochs=1))
        with pytest.raises(ValueError, match=words):
            store.latest(other.check)


def optimizer_of(lr=0.1):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)


@pytest.mark.parametrize("schedule", ["cosine", "step"])
def test_schedules_are_torchs(schedule):
    mine, theirs = optimizer_of(), optimizer_of()
    ours = Schedule(mine, TrainConfig(epochs=40, schedule=schedule, step_epochs=7))
    if schedule == "cosine":
        reference = torch.optim.lr_scheduler.CosineAnnealingLR(theirs, T_max=40)
    else:
        reference = torch.optim.lr_scheduler.StepLR(theirs, step_size=7, gamma=0.1)
    for _ in range(40):
        assert mine.param_groups[0]["lr"] == pytest.approx(theirs.param_groups[0]["lr"], rel=1e-9)
        for optimizer in (mine, theirs):
            optimizer.step()
        ours.step(None)
        reference.step()


def test_warm_up_rises_and_plateau_falls():
    optimizer = optimizer_of(0.8)
    schedule = Schedule(
        optimizer, TrainConfig(schedule="plateau", warmup_epochs=3, plateau_patience=1, gamma=0.5)
    )
    rates = []
    for score in [1.0] * 8:
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step(score)
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8, 0.8, 0.4, 0.4])


def test_patience_ends_it_and_the_best_weights_are_kept(graph):
    task = task_of(graph)
    training = Training(setup_of(task), TrainConfig(epochs=200, patience=4))
    training.begin()
    outcome = training.run()
    lines = training.records.history
    assert outcome.reason == "patience"
    assert outcome.epoch == outcome.best_epoch + 4 == len(lines)
    assert outcome.best_score == max(line["val"] for line in lines)
    training.use_best()
    assert training._scores()["val"] == outcome.best_score
    # The first epoch that reached it, and no later one.
    assert next(line["epoch"] for line in lines if line["val"] == outcome.best_score) == outcome.best_epoch


def test_without_validation_nodes_the_loss_decides(graph):
    empty = dataclasses.replace(graph, val_mask=torch.zeros_like(graph.val_mask))
    training = Training(setup_of(task_of(empty)), TrainConfig(epochs=5))
    training.begin()
    outcome = training.run()
    assert training.config.monitor == "loss"
    assert outcome.best_score == min(line["loss"] for line in training.records.history)
    assert "val_loss" not in training.records.history[0]


def test_clipping_bounds_the_norm(graph):
    setup = setup_of(task_of(graph))
    training = Training(setup, TrainConfig(epochs=1, clip_grad_norm=1e-3))
    training.begin()
    assert isinstance(training.step, ClippedStep)
    training.run()
    norm = torch.linalg.vector_norm(torch.cat([p.grad.flatten() for p in setup.original.parameters()]))
    assert float(norm) == pytest.approx(1e-3, rel=1e-3)


def diverged(task, recipe=None, **options):
    training = Training(setup_of(task, recipe), TrainConfig(epochs=30, **options))
    training.begin()
    with pytest.raises(Diverged) as raised:
        training.run()
    return raised.value


@pytest.mark.parametrize("recipe", ["baseline", "sample", "+receptive_field", "+fused_step"])
def test_a_learning_rate_too_high_is_named_with_step_and_layer(graph, recipe):
    task = task_of(graph, optimizer=OptimizerConfig(name="sgd", lr=1e25))
    error = diverged(task, RECIPES[recipe])
    assert 1 <= error.epoch <= 4
    assert error.step >= 1
    assert "convs." in error.place or "update" in error.place or "loss" in error.place
    assert "learning rate" in error.cause or "logarithm" in error.cause
    assert f"epoch {error.epoch}, step {error.step}" in str(error)


def test_nan_in_x_is_named_with_its_place(graph):
    task = task_of(graph)
    setup = setup_of(task)
    x = graph.x.clone()
    x[7, 2] = float("nan")
    broken = dataclasses.replace(setup.batches.batch, x=x)
    setup = dataclasses.replace(setup, batches=FullBatch(broken), model=_Copy(setup.original))
    training = Training(setup, TrainConfig(epochs=3))
    training.begin()
    with pytest.raises(Diverged, match=r"x\[7, 2\], which is nan") as raised:
        training.run()
    assert raised.value.epoch == raised.value.step == 1
    assert "fasthop check" in raised.value.cause


class _Copy(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, edge_index):
        return self.inner(x, edge_index)


class Probabilities(Moody):
    """Returns probabilities, some of them 0, to a loss that takes their logarithm."""

    def forward(self, x, edge_index):
        out = torch.softmax(1e4 * self.convs[1](self.convs[0](x, edge_index), edge_index), dim=-1)
        return out * (out > 1e-3)


def log_of(out, y):
    return F.nll_loss(out.log(), y)


def test_a_logarithm_of_zero_is_named(graph):
    error = diverged(task_of(graph, Probabilities, loss=log_of))
    assert error.place == "the loss"
    assert "logarithm of 0" in error.cause


class Rooted(Moody):
    """sqrt(0), whose gradient is infinite while its value is not."""

    def forward(self, x, edge_index):
        x = self.convs[0](x, edge_index).relu() * 0.0
        return self.convs[1](self.norm(x.sqrt()) if False else x.sqrt(), edge_index)


def test_an_infinite_gradient_is_named(graph):
    error = diverged(task_of(graph, Rooted))
    assert "gradient" in error.place
    assert "infinite at 0" in error.cause


class Overflows(Moody):
    def forward(self, x, edge_index):
        return self.convs[1](self.convs[0](x, edge_index) * 1e7, edge_index)


def test_float16_that_always_overflows_is_named(graph):
    recipe = Recipe(name="fp16", rungs=(Amp(dtype="float16"),))
    error = diverged(task_of(graph, Overflows), recipe, max_skipped_in_a_row=20)
    assert "float16 overflowed" in error.cause
    assert "left out 20 steps in a row" in str(error)


def test_case_22_steps_that_a_scaler_leaves_out_are_counted_and_no_fault(graph):
    calls = iter(range(1000))

    def loss(out, y):
        value = F.cross_entropy(out, y)
        return value * (math.inf if out.requires_grad and next(calls) in (2, 3, 4, 6, 7) else 1.0)

    setup = dataclasses.replace(
        setup_of(task_of(graph, loss=loss)),
        precision=Precision(autocast_dtype=torch.bfloat16, scale_gradients=True),
    )
    training = Training(setup, TrainConfig(epochs=12))
    training.begin()
    outcome = training.run()
    assert outcome.num_skipped_steps == 5
    assert training.records.history[-1]["num_skipped_steps"] == 5
    losses = [line["loss"] for line in training.records.history]
    assert [math.isnan(value) for value in losses].count(True) == 5
    assert all(bool(p.isfinite().all()) for p in setup.original.parameters())


def test_a_diverged_run_leaves_its_last_good_checkpoint(graph, tmp_path):
    folder = RunFolder(tmp_path / "run").open(resume=False)
    # The rate is a thousand times higher from the tenth epoch on.
    task = task_of(graph)
    training = Training(setup_of(task), TrainConfig(epochs=30, checkpoint_every=4), folder=folder)
    training.begin()
    setup = training.setup

    class Spoils(HaltsAfter):
        def epoch(self, line):
            if line["epoch"] == 9:
                with torch.no_grad():
                    next(setup.original.parameters()).fill_(math.nan)

    training.progress = Spoils(0)
    with pytest.raises(Diverged, match="The checkpoint of epoch 8 is good, and stands"):
        training.run()
    training.close()
    assert training.checkpoints.latest()[0].epoch == 8
    assert all(bool(torch.isfinite(t).all()) for t in training.checkpoints.latest()[0].tensors.values())


def test_a_stop_asked_for_ends_after_the_epoch_with_a_checkpoint(graph, tmp_path):
    folder = RunFolder(tmp_path / "run").open(resume=False)
    flag = StopFlag()
    training = Training(setup_of(task_of(graph)), TrainConfig(epochs=50), folder=folder, flag=flag)
    training.begin()

    class Asks(HaltsAfter):
        def epoch(self, line):
            if line["epoch"] == 7:
                flag.ask(15)

    training.progress = Asks(0)
    outcome = training.run()
    assert (outcome.reason, outcome.signal, outcome.epoch) == ("signal", 15, 7)
    assert training.checkpoints.latest()[0].epoch == outcome.checkpoint_epoch == 7


def test_an_epoch_too_long_to_be_finished_is_left(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(training_module, "GRACE_S", -1.0)
    folder = RunFolder(tmp_path / "run").open(resume=False)
    flag = StopFlag()
    setup = setup_of(task_of(graph), RECIPES["sample"])
    training = Training(setup, TrainConfig(epochs=50, checkpoint_every=2), folder=folder, flag=flag)
    training.begin()
    plain, calls = training.step, []

    class Asking:
        num_skipped = 0

        def __call__(self, batch):
            calls.append(1)
            if len(calls) == 3 * len(setup.batches) + 1:
                flag.ask(2)
            return plain(batch)

        def __getattr__(self, name):
            return getattr(plain, name)

    training.step = Asking()
    outcome = training.run()
    assert (outcome.reason, outcome.epoch, outcome.checkpoint_epoch) == ("signal", 3, 2)


def test_the_second_signal_does_not_wait():
    flag = StopFlag()
    flag.ask(2)
    with pytest.raises(KeyboardInterrupt):
        flag.ask(2)


def test_the_journal_drops_what_is_torn_or_of_later_epochs(tmp_path):
    journal = Journal(tmp_path / "metrics.jsonl")
    journal.begin({"run_id": "a"})
    for epoch in range(1, 6):
        journal.write({"event": "epoch", "epoch": epoch, "loss": math.nan if epoch == 2 else 0.1})
    journal.close()
    with journal.path.open("ab") as file:
        file.write(b'{"event": "epoch", "epo')
    journal.continue_after(3)
    journal.write({"event": "epoch", "epoch": 4, "loss": 0.2})
    journal.close()
    header, lines = read_journal(journal.path)
    assert (header["schema"], header["version"], header["run_id"]) == ("fasthop-journal", 1, "a")
    assert [(line["epoch"], line["loss"]) for line in lines] == [(1, 0.1), (2, None), (3, 0.1), (4, 0.2)]
    for line in journal.path.read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(name))


@pytest.mark.parametrize("content", [b"", b"not json\n", b'{"schema": "fasthop-journal", "version": 9}\n'])
def test_what_is_no_journal_is_a_sentence(tmp_path, content):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(content)
    with pytest.raises(InvalidConfig, match=r"metrics\.jsonl"):
        read_journal(path)


def test_tensorboard_has_the_same_figures(graph, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = RunFolder(tmp_path / "run").open(resume=False)
    training = Training(setup_of(task_of(graph)), TrainConfig(epochs=4, tensorboard=True), folder=folder)
    training.begin()
    training.run()
    training.close()
    events = EventAccumulator(str(folder.tensorboard_path)).Reload()
    losses = [event.value for event in events.Scalars("loss")]
    assert losses == pytest.approx([line["loss"] for line in training.records.history], rel=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"patience": 0}, "patience is 0"),
        ({"schedule": "linear"}, "none, cosine, step, plateau"),
        ({"monitor": "f1"}, "val, val_loss, loss"),
        ({"clip_grad_norm": 0.0}, "leaves no gradient"),
        ({"clip_grad_norm": math.nan}, "clip_grad_norm is nan"),
        ({"gamma": 1.0}, "between 0 and 1"),
        ({"epochs": 5, "warmup_epochs": 5}, "warm up over fewer"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, words):
    with pytest.raises(InvalidConfig, match=words):
        TrainConfig(**options)
