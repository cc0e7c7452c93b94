"""TrainWork: the work of one `fasthop.train`: graph, task, recipe, the long loop, and what is kept of it."""

from __future__ import annotations

import copy
import dataclasses
import secrets
from datetime import UTC, datetime
from typing import Any

import torch

from fasthop import __version__
from fasthop.errors import DoesNotFit, InvalidConfig
from fasthop.files import write_file
from fasthop.graph.fingerprint import graph_fingerprint
from fasthop.graph.graph import Graph
from fasthop.graph.note import Note, note
from fasthop.graph.sources import load_graph
from fasthop.interrupt import uninterrupted
from fasthop.machine.fingerprint import fingerprint
from fasthop.rewrites.ladder import Recipe
from fasthop.search.bench_task import pick_device, place
from fasthop.search.fitted import for_config, named
from fasthop.search.fitting import Fitting, Ready
from fasthop.search.leaner import ran_out
from fasthop.search.plan import Plan
from fasthop.search.plan_recipe import recipe_from_json
from fasthop.search.train_options import check_others, parse_bytes, task_config, train_config
from fasthop.search.trained import Trained
from fasthop.train.checkpoint import Checkpoint, CheckpointFolder, DamagedCheckpoint
from fasthop.train.journal import check_tensorboard, read_journal
from fasthop.train.outcome import Outcome
from fasthop.train.predictions import write_predictions
from fasthop.train.progress import SilentTraining, TrainProgress
from fasthop.train.run_folder import RunFolder
from fasthop.train.setup import Setup
from fasthop.train.state import model_tensors, pin
from fasthop.train.stop_flag import StopFlag, asked_to_stop
from fasthop.train.task import Task
from fasthop.train.task_config import make_task
from fasthop.train.training import Training


class TrainWork:
    """options: every option by name. folder: open, or None. run: what its run.json says where it is gone on with, else None.
    saved: the options as run.json holds them."""

    def __init__(
        self,
        *,
        options: dict[str, Any],
        folder: RunFolder | None,
        run: dict[str, Any] | None,
        plan: Plan | None,
        progress: TrainProgress | None,
        saved: dict[str, Any],
    ) -> None:
        self.options, self.folder, self.plan, self.saved = options, folder, plan, saved
        self.past = run
        self.progress = progress or SilentTraining()
        # All that can be refused by looking at the options is refused here, before a graph is read.
        self.config, self.task_config = train_config(options), task_config(options)
        check_others(options)
        self.limit = parse_bytes(options["memory"])
        self.recipe = self._wanted_recipe()
        self.device = pick_device(options["device"])
        if self.config.tensorboard:
            check_tensorboard()
        self.notes: list[Note] = []
        self.ready: Ready | None = None

    def run(self) -> Trained:
        """Everything. Raises what `fasthop.train` does."""
        graph = self._graph()
        checkpoint = self._past_checkpoint()
        if self.limit is not None and self.device.type == "cuda":
            total = torch.cuda.get_device_properties(self.device).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, self.limit / total), self.device)
        self.task = self._task(graph)
        self.fitting = Fitting(
            config=self.config,
            folder=self.folder,
            limit=self.limit,
            prove_budget_s=self.options["prove_budget_s"],
            batch_size=self.options["batch_size"],
            progress=self.progress,
            say=lambda said: self._say_all((said,)),
        )
        try:
            self.baseline = Setup.baseline(self.task, seed=self.config.seed, device=self.device)
        except (RuntimeError, MemoryError) as error:
            if not ran_out(error):
                raise
            raise DoesNotFit(
                f"Not even one forward pass of the model over {graph.name!r} ({graph.num_nodes:,} nodes, {graph.num_edges:,} "
                "edges) fits in memory; a narrower model, or more memory, would."
            ) from None
        self._say_all(self.baseline.notes)
        self.ready = self._start(checkpoint)
        with asked_to_stop() as flag:
            outcome = self._train(flag)
            return self._trained(outcome)

    def close(self) -> None:
        """Lets go of files and limits; to be called more than once is fine."""
        self.progress.close()
        if self.ready is not None:
            self.ready.training.close()
        if self.limit is not None and self.device.type == "cuda":
            torch.cuda.set_per_process_memory_fraction(1.0, self.device)

    def _wanted_recipe(self) -> Recipe:
        wanted = self.options["recipe"]
        if isinstance(wanted, dict):
            return recipe_from_json(str(wanted.get("name")), wanted.get("rungs"))
        return named(
            wanted, num_neighbors=self.options["num_neighbors"], batch_size=self.options["batch_size"]
        )

    def _graph(self) -> Graph:
        options = self.options
        graph = load_graph(
            options["data"],
            root=options["root"],
            split=options["split"],
            transform=options["transform"],
            seed=options["seed"],
            unsafe=options["unsafe_pickle"],
        )
        names = options["class_names"]
        if names is not None and len(names) != graph.num_classes:
            raise InvalidConfig(
                f"class_names has {len(names)} names, and the graph has {graph.num_classes} classes."
            )
        self.fingerprint = graph_fingerprint(graph) if self.folder is not None else None
        if self.past is not None and self.past.get("graph_fingerprint") != self.fingerprint:
            raise InvalidConfig(
                f"The training in {self.folder.path if self.folder else ''} was begun on another graph than {graph.name!r} is "
                "now; going on would mix two runs. Give its own data, or start a new run in another folder."
            )
        if self.plan is not None:
            self._say_all(self.plan.differences(graph, fingerprint()))
        return place(graph, self.device)

    def _task(self, graph: Graph) -> Task:
        task = make_task(self.task_config, graph)
        model = self.task_config.model
        if isinstance(model, torch.nn.Module):
            # Its own values are where training starts; the benchmark's copies draw them anew.
            task = dataclasses.replace(task, make_model=lambda: copy.deepcopy(model))
        return task

    def _past_checkpoint(self) -> Checkpoint | None:
        """The last whole checkpoint of a run that is gone on with; its kernels are pinned and its threads set first, since what
        is built next goes by them."""
        threads = self.options["threads"]
        if self.past is None or self.folder is None:
            checkpoint = None
        else:
            store = CheckpointFolder(self.folder.checkpoints_path, keep=self.config.keep)
            try:
                checkpoint, left_out = store.latest()
            except DamagedCheckpoint as error:
                raise InvalidConfig(str(error)) from None
            self._say_all(note(sentence, sentence) for sentence in left_out)
        if checkpoint is not None:
            pin(checkpoint.state.get("kernels", []))
            then = checkpoint.state.get("threads")
            if threads is None:
                threads = then
            elif threads != then:
                self._say(
                    f"The run went on {then} threads before and goes on {threads} now: sums may differ in their last bits.",
                    f"此前使用 {then} 个线程，现在使用 {threads} 个：求和结果的末位可能不同。",
                )
            labels = checkpoint.state.get("labels", {})
            self.recipe = recipe_from_json(str(labels.get("name")), labels.get("rungs"))
        if threads is not None:
            torch.set_num_threads(threads)
        return checkpoint

    def _start(self, checkpoint: Checkpoint | None) -> Ready:
        """A training that is ready to run, from the checkpoint or from the first epoch."""
        if checkpoint is None:
            self.recipe, said = for_config(self.recipe, self.config)
            self._say_all(said)
        ready = self.fitting.ready(self.recipe, self.baseline, prove=checkpoint is None)
        training = ready.training
        if checkpoint is None:
            run_id = secrets.token_hex(8)
            self._write_run(run_id)
            training.begin({"run_id": run_id, "created": _now(), "fasthop_version": __version__})
            return ready
        assert training.checkpoints is not None
        try:
            fits, left_out = training.checkpoints.latest(training.check)
        except DamagedCheckpoint as error:
            raise InvalidConfig(str(error)) from None
        self._say_all(note(sentence, sentence) for sentence in left_out)
        assert fits is not None
        training.go_on(fits)
        self._say(f"Going on after epoch {fits.epoch:,}.", f"从第 {fits.epoch:,} 个 epoch 之后继续。")
        return ready

    def _train(self, flag: StopFlag) -> Outcome:
        """The long loop, with a leaner recipe from the last checkpoint on whenever memory runs out."""
        while True:
            ready = self._made()
            training = ready.training
            training.flag = flag
            try:
                return training.run()
            except (RuntimeError, MemoryError) as error:
                if not ran_out(error):
                    raise
                reason = f"it ran out of memory in epoch {training.epoch + 1:,}"
                # The frames that the error holds on to hold the tensors.
                error.__traceback__ = None
            training.close()
            history, epoch = training.records.history, training.epoch
            store, recipe = training.checkpoints, ready.made.recipe
            self.ready = None
            del training, ready
            following = self.fitting.after(recipe, reason, self.baseline)
            again = self.ready = self.fitting.ready(following, self.baseline, prove=False)
            training = again.training
            training.records.history = history
            training.adopt(None if store is None else store.latest()[0])
            name = again.made.recipe.name
            training.records.event(
                {"event": "recipe", "epoch": training.epoch, "recipe": name, "reason": reason, "after": epoch}
            )

    def _made(self) -> Ready:
        assert self.ready is not None
        return self.ready

    def _trained(self, outcome: Outcome) -> Trained:
        made, training = self._made().made, self._made().training
        history = self._history(training)
        with uninterrupted():
            training.close()
            training.use_best()
        folder, predictions = self.folder, None
        if folder is not None:
            predictions = self._keep(training, outcome)
        return Trained(
            model=made.setup.original,
            history=tuple(history),
            metric=self.task.metric.name,
            monitor=training.config.monitor,
            best_score=outcome.best_score,
            best_epoch=outcome.best_epoch,
            recipe=made.recipe,
            reason=outcome.reason,
            num_epochs=outcome.epoch,
            checkpoint_epoch=outcome.checkpoint_epoch,
            num_skipped_steps=outcome.num_skipped_steps,
            folder=None if folder is None else folder.path,
            predictions_path=predictions,
            model_path=None if folder is None else folder.model_path,
            signal=outcome.signal,
            notes=tuple(self.notes),
        )

    def _history(self, training: Training) -> list[dict[str, Any]]:
        if self.folder is None:
            return training.records.history
        _, lines = read_journal(self.folder.metrics_path)
        return [line for line in lines if line.get("event") == "epoch"]

    def _keep(self, training: Training, outcome: Outcome) -> Any:
        """Writes the weights and, unless a second signal will not wait for them, the predictions; returns their path."""
        from safetensors.torch import save

        assert self.folder is not None
        model = training.setup.original
        kept = {name: t.detach().cpu().clone().contiguous() for name, t in model_tensors(model).items()}
        metadata = {"fasthop": __version__, "epoch": str(outcome.best_epoch)}
        write_file(self.folder.model_path, save(kept, metadata=metadata))
        graph = training.setup.task.graph
        write_predictions(
            self.folder.predictions_path,
            training.infer(),
            graph,
            class_names=self.options["class_names"] or graph.class_names,
        )
        return self.folder.predictions_path

    def _write_run(self, run_id: str) -> None:
        if self.folder is not None:
            self.folder.write(
                {
                    "run_id": run_id,
                    "created": _now(),
                    "fasthop_version": __version__,
                    "graph_fingerprint": self.fingerprint,
                    "graph": self.task.graph.name,
                    "options": self.saved,
                }
            )

    def _say_all(self, notes: Any) -> None:
        for said in notes:
            if said not in self.notes:
                self.notes.append(said)
                self.progress.say(said["en"])

    def _say(self, en: str, zh: str) -> None:
        self._say_all((note(en, zh),))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
