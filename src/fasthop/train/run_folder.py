"""RunFolder: where a training keeps what it makes; one run a folder, and one process at a time."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from fasthop.errors import InvalidConfig
from fasthop.files import CannotWrite, make_folder, write_file

SCHEMA = "fasthop-training"
VERSION = 1
RUN_FILE = "run.json"
LOCK_FILE = "lock"
# What a folder may hold besides a run without being somebody else's.
_OURS = {LOCK_FILE}


class RunFolder:
    """A folder with `run.json` (what is trained), `metrics.jsonl`, `checkpoints/`, `model.safetensors` and
    `predictions.parquet`, locked for this process while it is open.

    The lock is the file `lock`, held by the operating system (flock), which lets go of it however the process ends: a lock of a
    process that was killed is nobody's. Where there is no flock, it is the process named in it that counts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @property
    def metrics_path(self) -> Path:
        """The journal."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints_path(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def model_path(self) -> Path:
        """The best weights."""
        return self.path / "model.safetensors"

    @property
    def predictions_path(self) -> Path:
        """The predictions of the best weights."""
        return self.path / "predictions.parquet"

    @property
    def tensorboard_path(self) -> Path:
        """TensorBoard's files."""
        return self.path / "tensorboard"

    @property
    def holds_run(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / RUN_FILE).is_file()

    def open(self, *, resume: bool) -> RunFolder:
        """Makes the folder where it is missing, locks it, and refuses one that is another's.

        resume: a run that stands here is gone on with; else it must be new or empty. Raises CannotWrite where it cannot be
        written, and InvalidConfig where it is in use or holds something.
        """
        make_folder(self.path)
        try:
            self._lock = _locked(self.path / LOCK_FILE)
        except OSError as error:
            raise CannotWrite(
                f"The folder {self.path} cannot be locked ({(error.strerror or str(error)).lower()}); name another one."
            ) from None
        if self._lock is None:
            holder = _holder(self.path / LOCK_FILE)
            who = f" (process {holder})" if holder is not None else ""
            raise InvalidConfig(
                f"Another training is running in {self.path}{who}; wait for it, stop it, or name another folder."
            )
        try:
            self._sweep()
            self._check(resume=resume)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Lets go of the lock; to be called more than once is fine."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                # While it is still held: whoever opened it meanwhile finds that its name is gone, and opens it anew.
                (self.path / LOCK_FILE).unlink()
            os.close(self._lock)
            self._lock = None

    def write(self, tree: dict[str, Any]) -> None:
        """Writes run.json. Raises CannotWrite."""
        content = json.dumps({"schema": SCHEMA, "version": VERSION, **tree}, indent=1, ensure_ascii=False)
        write_file(self.path / RUN_FILE, content.encode())

    def read(self) -> dict[str, Any]:
        """What run.json says. Raises InvalidConfig where there is none, or it is damaged or of another version."""
        return read_run(self.path)

    def _sweep(self) -> None:
        """Removes what a process that was killed while it wrote left beside our files."""
        names = (RUN_FILE, self.metrics_path.name, self.model_path.name, self.predictions_path.name)
        for path in self.path.iterdir():
            if path.name.startswith(tuple(f".{name}-" for name in names)):
                with contextlib.suppress(OSError):
                    path.unlink()

    def _check(self, *, resume: bool) -> None:
        if resume:
            return
        if self.holds_run:
            raise InvalidConfig(
                f"{self.path} holds a training already, and none is overwritten; go on with it by resume=True (--resume), or "
                "name a new folder."
            )
        if any(entry.name not in _OURS for entry in self.path.iterdir()):
            raise CannotWrite(
                f"{self.path} is not empty, and nothing in it is overwritten; name a new folder."
            )


def read_run(folder: Path) -> dict[str, Any]:
    """What the run.json of a folder says. Raises InvalidConfig where there is none, or it is damaged or of another version."""
    path = folder / RUN_FILE
    try:
        tree = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InvalidConfig(
            f"There is no training in {folder} to go on with; start one without resume."
        ) from None
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be read ({(error.strerror or str(error)).lower()}).") from None
    except (ValueError, RecursionError):
        raise InvalidConfig(f"{path} is damaged (not JSON); restore it, or start a new run.") from None
    if not isinstance(tree, dict) or tree.get("schema") != SCHEMA:
        raise InvalidConfig(f"{path} is not that of a fasthop training.")
    if tree.get("version") != VERSION:
        raise InvalidConfig(
            f"{path} has version {tree.get('version')!r}, and this fasthop reads version {VERSION}."
        )
    return tree


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock, or None where somebody else does."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if not _take(descriptor):
            os.close(descriptor)
            return None
        try:
            is_named = os.path.samestat(os.fstat(descriptor), os.stat(path))
        except FileNotFoundError:
            is_named = False
        if is_named:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps(_myself()).encode())
            return descriptor
        os.close(descriptor)  # whoever held it has just removed it


def _take(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows: the process named in it counts
        return not _is_alive(os.read(descriptor, 4096))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _myself() -> dict[str, Any]:
    import psutil

    return {"pid": os.getpid(), "started": psutil.Process().create_time()}


def _is_alive(content: bytes) -> bool:
    import psutil

    try:
        tree = json.loads(content)
        return abs(psutil.Process(tree["pid"]).create_time() - tree["started"]) < 1.0
    except (ValueError, TypeError, KeyError, psutil.Error):
        return False


def _holder(path: Path) -> int | None:
    try:
        return int(json.loads(path.read_bytes())["pid"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
