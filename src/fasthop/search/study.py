"""The study: what tune has measured so far, in an Optuna journal in the run folder, so that it survives its process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fasthop.errors import FasthopError, InvalidConfig
from fasthop.files import CannotWrite
from fasthop.search.attempt import HALVED, MEASURED, Attempt
from fasthop.search.candidate import Candidate, Space

if TYPE_CHECKING:
    import optuna

STUDY_FILE, LOCK_FILE = "study.log", "study.lock"
NAME = "fasthop-tune"
SCHEMA_VERSION = 1
REDUCTION = 3
"""A third of the candidates that reach a rung of the halving go on to three times the rounds (Li et al. 2020, ASHA)."""


class Study:
    """The trials of one tune; `open_study` makes it."""

    def __init__(self, study: optuna.Study, space: Space) -> None:
        self._study = study
        self._space = space
        self.attempts: list[Attempt] = []
        for trial in study.trials:
            tree = trial.user_attrs.get("attempt")
            if tree is not None:
                self.attempts.append(Attempt.from_json(tree))
            elif not trial.state.is_finished() and trial.number >= 0 and trial.state.name == "RUNNING":
                self._fail(trial.number)  # its process was killed in the middle of it

    @property
    def settled(self) -> dict[str, Attempt]:
        """What need not be measured again, by the candidate's key."""
        return {a.candidate.key: a for a in self.attempts if a.is_settled}

    def fact(self, name: str, default: Any = None) -> Any:
        """Something kept beside the trials."""
        return self._study.user_attrs.get(name, default)

    def keep(self, name: str, value: Any) -> None:
        """Keeps something beside the trials, as JSON takes it. Raises CannotWrite."""
        with _written():
            self._study.set_user_attr(name, value)

    def ask(self, family: str, *, by_default: bool) -> StudyTrial:
        """The next trial of a family: its default knobs, or those that Optuna's sampler (TPE, Bergstra et al. 2011) proposes."""
        import optuna

        with _written():
            fixed: dict[str, Any] = {"family": family}
            if by_default:
                fixed |= {
                    f"{family}.{name}": choices[0] for name, choices in self._space.knobs(family).items()
                }
            self._study.enqueue_trial(fixed)
            trial = self._study.ask()
            trial.suggest_categorical("family", tuple(self._space.families))
            candidate = self._space.candidate(
                family, lambda name, choices: trial.suggest_categorical(f"{family}.{name}", choices)
            )
        assert isinstance(trial, optuna.trial.Trial)
        return StudyTrial(self, trial, candidate)

    def record(self, trial: optuna.trial.Trial, attempt: Attempt) -> None:
        """Ends a trial with what came of it. Raises CannotWrite."""
        from optuna.trial import TrialState

        with _written():
            trial.set_user_attr("attempt", attempt.to_json())
            if attempt.value is not None and attempt.outcome == MEASURED:
                self._study.tell(trial, attempt.value)
            elif attempt.value is not None and attempt.outcome == HALVED:
                self._study.tell(trial, state=TrialState.PRUNED)
            else:
                self._fail(trial.number)
        self.attempts.append(attempt)

    def tell_again(self, trial: optuna.trial.Trial, known: Attempt) -> None:
        """Ends a trial whose candidate was measured before."""
        with _written():
            if known.value is not None and known.outcome == MEASURED:
                self._study.tell(trial, known.value)
            else:
                self._fail(trial.number)

    def _fail(self, number: int) -> None:
        from optuna.trial import TrialState

        self._study.tell(number, state=TrialState.FAIL)


class StudyTrial:
    """A trial that runs: its candidate, and whether the halving lets it go on."""

    def __init__(self, study: Study, trial: optuna.trial.Trial, candidate: Candidate) -> None:
        self._study, self._trial, self.candidate = study, trial, candidate

    def goes_on(self, value: float, num_rounds: int) -> bool:
        """Tells the value after so many rounds; False where the halving leaves it behind."""
        with _written():
            self._trial.report(value, num_rounds)
        return not self._trial.should_prune()

    def end(self, attempt: Attempt) -> None:
        """Ends it with what came of it."""
        self._study.record(self._trial, attempt)

    def repeat(self, known: Attempt) -> None:
        """Ends it as a candidate that was measured before: Optuna hears its value again, and nothing is kept of it."""
        self._study.tell_again(self._trial, known)


@contextmanager
def open_study(
    folder: Path, space: Space, *, settings: dict[str, Any], graph: str, machine: str, seed: int, resume: bool
) -> Iterator[Study]:
    """The study of a folder, new or gone on with; locked for this process while it is open.

    settings, graph, machine: what was measured, by name and fingerprint: a study of something else is refused.
    Raises InvalidConfig where another process has it, it is damaged, or of something else; CannotWrite.
    """
    import filelock

    path = folder / STUDY_FILE
    lock = filelock.FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise InvalidConfig(
            f"Another tune is running in {folder}; wait for it, stop it, or name another folder."
        ) from None
    except OSError as error:
        raise CannotWrite(
            f"The folder {folder} cannot be written ({(error.strerror or str(error)).lower()}); name another one."
        ) from None
    try:
        identity = {"version": SCHEMA_VERSION, "settings": settings, "graph": graph, "machine": machine}
        yield _opened(path, space, identity, seed, resume=resume)
    finally:
        lock.release()
        with contextlib.suppress(OSError):
            (folder / LOCK_FILE).unlink()


def _opened(path: Path, space: Space, identity: dict[str, Any], seed: int, *, resume: bool) -> Study:
    stands = path.exists() and path.stat().st_size > 0
    if stands and not resume:
        raise InvalidConfig(
            f"{path.parent} holds a tune already, and none is overwritten; resume it, or name a new folder."
        )
    try:
        _whole_lines(path)
        found = _optuna_study(path, seed)
        known = found.user_attrs.get("identity")
    except OSError as error:
        raise CannotWrite(
            f"{path} cannot be written ({error.strerror or error}); name another folder."
        ) from None
    except Exception as error:  # what Optuna raises on a file that it did not write is not to be listed
        raise _damaged(path, error) from None
    if known is None and stands and found.trials:
        raise _damaged(path, KeyError("identity"))
    if known is None:
        with _written():
            found.set_user_attr("identity", identity)
    elif known != identity:
        raise InvalidConfig(f"{path} {_other(known, identity)}; name a new folder.")
    try:
        return Study(found, space)
    except FasthopError as error:
        raise _damaged(path, error) from None
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise _damaged(path, error) from None


def _optuna_study(path: Path, seed: int) -> optuna.Study:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    with contextlib.suppress(FileNotFoundError):  # left by a process that was killed while it wrote
        os.unlink(f"{path}.lock")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    backend = JournalFileBackend(str(path), lock_obj=JournalFileOpenLock(str(path)))
    return optuna.create_study(
        study_name=NAME,
        storage=JournalStorage(backend),
        direction="minimize",
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=4),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=REDUCTION),
    )


def _whole_lines(path: Path) -> None:
    """Cuts off a last line that its process was killed in the middle of: the next one would be glued to it."""
    if not path.exists():
        return
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)


def _other(known: Any, identity: dict[str, Any]) -> str:
    if not isinstance(known, dict) or known.get("version") != SCHEMA_VERSION:
        version = known.get("version") if isinstance(known, dict) else None
        return f"is a tune of version {version!r}, and this fasthop reads version {SCHEMA_VERSION}"
    if known.get("graph") != identity["graph"]:
        return "is a tune of another graph"
    if known.get("machine") != identity["machine"]:
        return "was measured on another machine, and timings of unlike machines are never mixed"
    then, now = known.get("settings"), identity["settings"]
    if isinstance(then, dict):
        changed = [name for name in now if then.get(name) != now[name]]
        if changed:
            name = changed[0]
            return f"was made with {name} = {then.get(name)!r}, and now it is {now[name]!r}"
    return "is a tune of something else"


def _damaged(path: Path, error: Exception) -> InvalidConfig:
    reason = " ".join(str(error).split())[:120] or type(error).__name__
    return InvalidConfig(f"{path} is damaged ({reason}); name a new folder, or move it away to begin anew.")


@contextmanager
def _written() -> Iterator[None]:
    """A full disk in a sentence."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(
            f"The study cannot be written ({(error.strerror or str(error)).lower()}); make room or name another folder."
        ) from None
