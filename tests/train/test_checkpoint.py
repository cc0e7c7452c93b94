"""Checkpoints: whole or not there; what is damaged is told in a sentence, and the one before it is taken."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import resource
import signal
import subprocess
import sys

import pytest
import torch

from fasthop.errors import InvalidConfig
from fasthop.files import CannotWrite
from fasthop.train.checkpoint import Checkpoint, CheckpointFolder, DamagedCheckpoint


def checkpoint(epoch, **state):
    tensors = {"model.weight": torch.full((3, 2), float(epoch)), "step.0.step": torch.tensor(float(epoch))}
    return Checkpoint(epoch=epoch, state={"lr": 0.1 + 0.2, "state": [1, None, "x"], **state}, tensors=tensors)


@pytest.fixture
def folder(tmp_path):
    found = CheckpointFolder(tmp_path / "checkpoints")
    found.prepare(1000)
    for epoch in (5, 10):
        found.save(checkpoint(epoch))
    return found


def paths(folder, epoch):
    return folder.folder / f"epoch-{epoch:08d}.json", folder.folder / f"epoch-{epoch:08d}.safetensors"


def test_what_is_saved_comes_back(folder):
    found, notes = folder.latest()
    assert notes == ()
    assert found.epoch == 10
    assert found.state == checkpoint(10).state
    assert {name: t.dtype for name, t in found.tensors.items()} == {
        name: t.dtype for name, t in checkpoint(10).tensors.items()
    }
    for name, tensor in checkpoint(10).tensors.items():
        assert torch.equal(found.tensors[name], tensor)


def test_the_last_two_are_kept(folder):
    for epoch in (15, 20):
        folder.save(checkpoint(epoch))
    assert folder.epochs() == [20, 15]
    assert len(list(folder.folder.iterdir())) == 4


def test_going_on_from_an_earlier_one_drops_the_later(folder):
    os.truncate(paths(folder, 10)[1], 10)
    folder.save(checkpoint(6))
    assert folder.epochs() == [6, 5]
    assert folder.latest()[0].epoch == 6


def test_an_empty_folder_has_none(tmp_path):
    assert CheckpointFolder(tmp_path / "nothing").latest() == (None, ())


class Hostile:
    def __reduce__(self):
        return (os.system, ("touch pwned",))


def forge(folder, epoch, content):
    """Puts another tensors file in place with a JSON that vouches for it."""
    json_path, tensors_path = paths(folder, epoch)
    tensors_path.write_bytes(content)
    tree = json.loads(json_path.read_bytes())
    tree["tensors"] |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    del tree["sha256"]
    digest = hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()
    json_path.write_text(json.dumps({**tree, "sha256": digest}))


def edit(folder, number, **changes):
    json_path, _ = paths(folder, number)
    json_path.write_text(json.dumps(json.loads(json_path.read_bytes()) | changes))


DAMAGES = {
    "tensors cut short": lambda f: os.truncate(paths(f, 10)[1], 60),
    "tensors emptied": lambda f: os.truncate(paths(f, 10)[1], 0),
    "tensors gone": lambda f: paths(f, 10)[1].unlink(),
    "one bit turned": lambda f: paths(f, 10)[1].write_bytes(
        paths(f, 10)[1].read_bytes()[:-1] + b"\x01"
    ),
    "JSON cut short": lambda f: os.truncate(paths(f, 10)[0], 100),
    "JSON emptied": lambda f: os.truncate(paths(f, 10)[0], 0),
    "JSON of something else": lambda f: paths(f, 10)[0].write_text('{"a": 1}'),
    "JSON that nests": lambda f: paths(f, 10)[0].write_text("[" * 100_000),
    "JSON that is no text": lambda f: paths(f, 10)[0].write_bytes(bytes(range(256))),
    "a state that was changed": lambda f: edit(f, 10, state={"lr": 9.0}),
    "another version": lambda f: edit(f, 10, version=2),
    "another epoch": lambda f: edit(f, 10, epoch=11),
    "a hostile pickle": lambda f: paths(f, 10)[1].write_bytes(pickle.dumps(Hostile())),
    "a hostile pickle with its hash": lambda f: forge(f, 10, pickle.dumps(Hostile())),
    "a zip of torch.save": lambda f: torch.save({"a": Hostile()}, paths(f, 10)[1]),
    "a header that lies": lambda f: forge(
        f, 10, (80).to_bytes(8, "little") + json.dumps({"w": {"dtype": "F32", "shape": [9], "data_offsets": [0, 4]}}).ljust(80).encode()
    ),
    "a header without end": lambda f: forge(f, 10, b"\xff" * 64),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_left_out_and_the_one_before_it_is_taken(folder, damage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    DAMAGES[damage](folder)
    found, notes = folder.latest()
    assert found.epoch == 5
    assert len(notes) == 1
    assert notes[0].startswith("The checkpoint of epoch 10 is left out: ")
    assert notes[0].endswith(".")
    assert not (tmp_path / "pwned").exists()


def test_where_none_is_whole_it_says_so_and_does_not_begin_anew(folder):
    for epoch in (5, 10):
        os.truncate(paths(folder, epoch)[1], 10)
    with pytest.raises(DamagedCheckpoint, match="None of the checkpoints"):
        folder.latest()


def test_one_that_does_not_fit_is_left_out(folder):
    def check(found):
        if found.epoch == 10:
            raise DamagedCheckpoint(
                "its 'weight' is [3, 2] in float32, and the model's is [4, 2] in float32."
            )

    found, notes = folder.latest(check)
    assert found.epoch == 5
    assert "[4, 2]" in notes[0]


def test_leftovers_of_a_killed_writer_are_swept(folder):
    beside = folder.folder / ".epoch-00000012.safetensors-1-ab"
    orphan = folder.folder / "epoch-00000012.safetensors"
    for path in (beside, orphan):
        path.write_bytes(b"half")
    assert folder.latest()[0].epoch == 10
    folder.save(checkpoint(15))
    assert not beside.exists()
    assert not orphan.exists()


def test_a_disk_without_room_for_two_is_refused_before_work(tmp_path):
    with pytest.raises(CannotWrite, match="two checkpoints"):
        CheckpointFolder(tmp_path / "c").prepare(10**18)


def test_keep_is_at_least_one(tmp_path):
    with pytest.raises(InvalidConfig, match="keep"):
        CheckpointFolder(tmp_path, keep=0)


def test_a_write_that_fails_leaves_the_one_before_it(folder):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # as a disk that is full after 100 bytes
        with pytest.raises(CannotWrite, match="make room"):
            folder.save(checkpoint(15))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert folder.latest()[0].epoch == 10
    assert sorted(path.name for path in folder.folder.iterdir()) == sorted(
        path.name for epoch in (5, 10) for path in paths(folder, epoch)
    )


KILLED_AT = ["before the tensors' rename", "between tensors and JSON", "before the JSON's rename"]


@pytest.mark.parametrize("moment", range(3), ids=KILLED_AT)
def test_a_writer_killed_at_any_moment_loses_nothing(folder, moment):
    code = f"""
import os, signal
from pathlib import Path
import fasthop.files
from tests.train.test_checkpoint import checkpoint
from fasthop.train.checkpoint import CheckpointFolder
replace, number = os.replace, 0
def dying(source, target):
    global number
    if number == {moment} // 2 and {moment} != 1:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
    number += 1
    if {moment} == 1:
        os.kill(os.getpid(), signal.SIGKILL)
fasthop.files.os.replace = dying
CheckpointFolder(Path({str(folder.folder)!r})).save(checkpoint(15))
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    found, _ = folder.latest()
    assert found.epoch == 10
    folder.save(checkpoint(20))
    assert folder.epochs() == [20, 10]
    assert len(list(folder.folder.iterdir())) == 4
