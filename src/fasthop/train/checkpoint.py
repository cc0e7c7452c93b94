"""Checkpoints: the tensors as safetensors beside a small JSON, whole or not there, and never unpickled."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from fasthop.errors import FasthopError, InvalidConfig
from fasthop.files import CannotWrite, make_folder, write_file

SCHEMA = "fasthop-checkpoint"
VERSION = 1
_NAME = re.compile(r"epoch-(\d{8})\.(json|safetensors)")


class DamagedCheckpoint(FasthopError, ValueError):
    """A checkpoint is not whole, of another version or of another model; the message says which and how it shows."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Checkpoint:
    """The state of a training after `epoch` whole epochs.

    state: what JSON knows: counts, the optimiser's scalars, the schedule, pins. tensors: by name, on the CPU.
    """

    epoch: int
    state: dict[str, Any]
    tensors: dict[str, Tensor]


class CheckpointFolder:
    """The checkpoints of one run, in a folder of their own; the last `keep` are kept.

    A checkpoint is two files: `epoch-N.safetensors`, and `epoch-N.json`, which names the other's SHA-256 and has one of its
    own. Each is written beside its place, forced to the disk and renamed, the JSON last: a write that is cut short
    anywhere leaves the checkpoints before it as they were.
    """

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        if keep < 1:
            raise InvalidConfig(f"keep is {keep}; at least one checkpoint is kept.")
        self.folder = folder
        self.keep = keep

    def prepare(self, num_bytes: int) -> None:
        """Makes the folder and finds out, before any work, that two checkpoints of `num_bytes` fit on its disk.

        Raises CannotWrite.
        """
        make_folder(self.folder)
        free = shutil.disk_usage(self.folder).free
        if free < 2 * num_bytes:
            raise CannotWrite(
                f"{self.folder} has {free / 1e6:,.1f} MB free, and two checkpoints of this training take "
                f"{2 * num_bytes / 1e6:,.1f} MB; make room or name a folder on another disk."
            )

    def save(self, checkpoint: Checkpoint) -> Path:
        """Writes a checkpoint and removes those beyond the last `keep`, and later ones; returns the JSON's path. Raises CannotWrite, with
        the checkpoints before it as they were."""
        from safetensors.torch import save

        try:
            content = save({name: tensor.contiguous() for name, tensor in checkpoint.tensors.items()})
        except MemoryError:
            raise CannotWrite(
                f"There is no memory left to write the checkpoint of epoch {checkpoint.epoch}; the one before it stands."
            ) from None
        json_path, tensors_path = self._paths(checkpoint.epoch)
        tree = {
            "schema": SCHEMA,
            "version": VERSION,
            "epoch": checkpoint.epoch,
            "tensors": {"file": tensors_path.name, "bytes": len(content), "sha256": _sha256(content)},
            "state": checkpoint.state,
        }
        tree["sha256"] = _digest(tree)
        self._sweep()
        write_file(tensors_path, content)
        write_file(json_path, json.dumps(tree, indent=1).encode())
        _sync_folder(self.folder)
        standing = self.epochs()
        # Later ones are of a future that was given up when a run went on from an earlier one.
        later = [epoch for epoch in standing if epoch > checkpoint.epoch]
        for epoch in later + standing[len(later) :][self.keep :]:
            # The JSON first: what it names is whole as long as it stands.
            for path in self._paths(epoch):
                with contextlib.suppress(OSError):
                    path.unlink()
        return json_path

    def epochs(self) -> list[int]:
        """The epochs that have a JSON, the last one first."""
        if not self.folder.is_dir():
            return []
        found = [_NAME.fullmatch(path.name) for path in self.folder.iterdir()]
        return sorted((int(m[1]) for m in found if m is not None and m[2] == "json"), reverse=True)

    def load(self, epoch: int) -> Checkpoint:
        """The checkpoint of an epoch. Raises DamagedCheckpoint."""
        json_path, tensors_path = self._paths(epoch)
        tree = _read_tree(json_path, epoch)
        try:
            content = tensors_path.read_bytes()
        except OSError as error:
            raise DamagedCheckpoint(
                f"{tensors_path} cannot be read ({(error.strerror or str(error)).lower()})."
            ) from None
        if _sha256(content) != tree["tensors"].get("sha256"):
            wanted = tree["tensors"].get("bytes")
            size = f", {len(content):,} bytes where {wanted:,} were written" if wanted != len(content) else ""
            raise DamagedCheckpoint(f"{tensors_path} is not the file that was saved{size}.")
        return Checkpoint(epoch=epoch, state=tree["state"], tensors=_read_tensors(content, tensors_path))

    def latest(
        self, check: Callable[[Checkpoint], None] | None = None
    ) -> tuple[Checkpoint | None, tuple[str, ...]]:
        """The last checkpoint that is whole, and a sentence for each later one that is not.

        check: raises DamagedCheckpoint for one that does not fit. (None, ()) where there are none at all. Raises
        DamagedCheckpoint where there are some and none is whole: a run is not begun anew over what may be mended.
        """
        passed_over = []
        for epoch in self.epochs():
            try:
                checkpoint = self.load(epoch)
                if check is not None:
                    check(checkpoint)
            except DamagedCheckpoint as error:
                passed_over.append(f"The checkpoint of epoch {epoch} is left out: {error}")
                continue
            return checkpoint, tuple(passed_over)
        if passed_over:
            raise DamagedCheckpoint(
                f"None of the checkpoints in {self.folder} can be used. {' '.join(passed_over)} Restore them from a copy, or "
                "start a new run in another folder."
            )
        return None, ()

    def _paths(self, epoch: int) -> tuple[Path, Path]:
        return self.folder / f"epoch-{epoch:08d}.json", self.folder / f"epoch-{epoch:08d}.safetensors"

    def _sweep(self) -> None:
        """Removes what a process that was killed while it wrote left behind: files beside, and tensors without a JSON."""
        known = set(self.epochs())
        for path in self.folder.iterdir():
            match = _NAME.fullmatch(path.name)
            beside = path.name.startswith(".epoch-")
            if beside or (match is not None and match[2] == "safetensors" and int(match[1]) not in known):
                with contextlib.suppress(OSError):
                    path.unlink()


def _read_tree(path: Path, epoch: int) -> dict[str, Any]:
    try:
        tree = json.loads(path.read_bytes())
    except OSError as error:
        raise DamagedCheckpoint(
            f"{path} cannot be read ({(error.strerror or str(error)).lower()})."
        ) from None
    except (ValueError, RecursionError):
        raise DamagedCheckpoint(f"{path} is not JSON; it was cut short or overwritten.") from None
    if not isinstance(tree, dict) or tree.get("schema") != SCHEMA:
        raise DamagedCheckpoint(f"{path} is no checkpoint of fasthop.")
    if tree.get("version") != VERSION:
        raise DamagedCheckpoint(
            f"{path} has version {tree.get('version')!r}, and this fasthop reads version {VERSION}."
        )
    if tree.pop("sha256", None) != _digest(tree) or tree.get("epoch") != epoch:
        raise DamagedCheckpoint(f"{path} was changed since it was saved.")
    if not isinstance(tree.get("state"), dict) or not isinstance(tree.get("tensors"), dict):
        raise DamagedCheckpoint(f"{path} is damaged: its state or its tensors are missing.")
    return tree


def _read_tensors(content: bytes, path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(content)
    # A header that lies about offsets or types raises whatever its reader meets first; nothing of it is ever executed.
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, OverflowError) as error:
        raise DamagedCheckpoint(f"{path} is no safetensors file ({error}).") from None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest(tree: dict[str, Any]) -> str:
    # Over the JSON as it is read back, so that tuples and lists are one.
    return _sha256(json.dumps(json.loads(json.dumps(tree)), sort_keys=True).encode())


def _sync_folder(folder: Path) -> None:
    """Forces the names to the disk; systems that cannot open a folder do it themselves."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
