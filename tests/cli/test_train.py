"""`fasthop train`: options, exit codes, and what befalls its process: signals, kill -9, memory, disks, a read-only home.

Each fault once; benchmarks/faults.py injects them many times over.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from fasthop.cli import train as command
from fasthop.cli.main import main
from fasthop.search.train_options import defaults
from fasthop.train.checkpoint import CheckpointFolder
from fasthop.train.journal import read_journal

QUICK = [
    "--model",
    "gcn",
    "--data",
    "cora",
    "--dropout",
    "0.5",
    "--threads",
    "1",
    "--prove-budget",
    "0",
    "--quiet",
]


def lines_of(folder: Path):
    return [
        {name: value for name, value in line.items() if name != "epoch_s"}
        for line in read_journal(folder / "metrics.jsonl")[1]
    ]


def options() -> list[argparse.Action]:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    actions = parser._subparsers._group_actions[0].choices["train"]._actions  # type: ignore[union-attr]
    return [action for action in actions if action.dest != "help"]


def test_every_option_has_a_help_a_place_to_go_and_its_true_default():
    known = defaults()
    told = 0
    for action in options():
        assert action.help
        assert action.dest in known.keys() | {"out", "plan", "resume", "json", "quiet", "data", "model"}
        found = re.search(r"\(default: (-?[\d.]+)\)", action.help)
        if found:
            told += 1
            assert float(found[1]) == float(known[action.dest]), action.dest
    assert told >= 12


def test_it_trains_and_says_so_in_json(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", *QUICK, "--epochs", "4", "--out", str(out), "--json"]) == 0
    printed = capsys.readouterr()
    tree = json.loads(printed.out)
    assert printed.err == ""
    assert tree["num_epochs"] == 4
    assert tree["finished"] is True
    assert len(pq.read_table(tree["predictions"])) == 2708
    assert [line["epoch"] for line in lines_of(out)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epochs", "0"], "epochs is 0"),
        (["--recipe", "magic"], "There is no recipe 'magic'"),
        (["--memory", "lots"], "memory is 'lots'"),
        (["--resume"], "There is no training in"),
        (["--plan", "nowhere.json"], "There is no plan at nowhere.json"),
        (["--epochs", "many"], "invalid int value"),
    ],
)
def test_a_users_mistake_is_a_sentence(tmp_path, capsys, arguments, words):
    out = tmp_path / "run"
    assert main(["train", *QUICK, "--out", str(out), *arguments]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err
    assert not out.exists()


def test_a_diverged_training_is_exit_code_1(tmp_path, capsys):
    arguments = ["--out", str(tmp_path / "run"), "--lr", "1e30", "--recipe", "baseline"]
    assert main(["train", *QUICK, *arguments]) == 1
    assert re.search(r"Training stopped at epoch \d+, step 1: .* Likely cause: ", capsys.readouterr().err)


# A model whose process does something in a certain step of a certain process; the graph is small, so that starting takes longest.
MODEL = """
import os, signal, time, torch
from torch_geometric.nn import SAGEConv

class Net(torch.nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.first, self.second = SAGEConv(in_channels, 8), SAGEConv(8, out_channels)
        self.calls = 0

    def forward(self, x, edge_index):
        if self.training and torch.is_grad_enabled():
            self.calls += 1
            if self.calls == int(os.environ.get("AT", -1)):
                {act}
        x = torch.nn.functional.dropout(self.first(x, edge_index).relu(), 0.5, self.training)
        return self.second(x, edge_index)
"""


def run(folder: Path, *arguments, act="pass", at=-1, before="", **environment):
    """`fasthop train` in a process of its own, on a small graph and that model."""
    model = folder / "net.py"
    model.write_text(MODEL.format(act=act))
    data = folder / "graph.pt"
    if not data.exists():
        from tests.train.graphs import digraph

        torch.save(dict(digraph(dtype=torch.float32).to_data().to_dict()), data)
    line = [
        "train",
        "--model",
        f"{model}:Net",
        "--data",
        str(data),
        "--threads",
        "1",
        "--recipe",
        "baseline",
        *arguments,
    ]
    code = f"{textwrap.dedent(before)}\nimport sys\nfrom fasthop.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", code, *line],
        capture_output=True,
        text=True,
        env={**os.environ, "AT": str(at), **environment},
        cwd=folder,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The lines and the folder of a run that nothing befell."""
    folder = tmp_path_factory.mktemp("whole")
    done = run(folder, "--out", "run", "--epochs", "12", "--checkpoint-every", "3")
    assert done.returncode == 0, done.stderr
    return lines_of(folder / "run")


BROKEN = ["--out", "run", "--epochs", "12", "--checkpoint-every", "3"]


def test_killed_with_9_it_goes_on_bit_for_bit(tmp_path, whole):
    killed = run(tmp_path, *BROKEN, act="os.kill(os.getpid(), signal.SIGKILL)", at=9)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "run" / "lock").exists()
    done = run(tmp_path, "--out", "run", "--resume")
    assert done.returncode == 0, done.stderr
    assert "Going on after epoch 6." in done.stderr
    assert lines_of(tmp_path / "run") == whole


@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_leaves_a_finished_part_that_goes_on(tmp_path, whole, number, code):
    stopped = run(tmp_path, *BROKEN, "--json", act=f"os.kill(os.getpid(), signal.{number})", at=5)
    assert stopped.returncode == code, stopped.stderr
    tree = json.loads(stopped.stdout)
    assert (tree["finished"], tree["reason"], tree["num_epochs"], tree["resumes_from_epoch"]) == (
        False, "signal", 5, 5,
    )  # fmt: skip
    assert len(pq.read_table(tmp_path / "run" / "predictions.parquet")) == 60
    assert not (tmp_path / "run" / "lock").exists()
    assert lines_of(tmp_path / "run") == whole[:5]


def test_sigterm_in_the_middle_of_a_checkpoint_write(tmp_path, whole):
    before = """
    import os, signal
    import fasthop.files
    plain, number = os.fsync, 0
    def fsync(descriptor):
        global number
        number += 1
        if number == 7:  # of the tensors of epoch 6: half of what there is to write is on the disk
            os.kill(os.getpid(), signal.SIGTERM)
        plain(descriptor)
    fasthop.files.os.fsync = fsync
    """
    stopped = run(tmp_path, *BROKEN, before=before)
    assert stopped.returncode == 143, stopped.stderr
    store = CheckpointFolder(tmp_path / "run" / "checkpoints")
    found, left_out = store.latest()
    assert left_out == ()
    assert found.epoch >= 3
    assert not [path for path in store.folder.iterdir() if path.name.startswith(".")]
    assert run(tmp_path, "--out", "run", "--resume").returncode == 0
    assert lines_of(tmp_path / "run") == whole


def test_a_disk_that_is_full_on_the_way_keeps_the_last_good_checkpoint(tmp_path):
    # From the model's fifth call on no file can grow beyond 400 bytes, as on a full disk.
    act = "import resource; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))"
    full = run(tmp_path, *BROKEN, act=act, at=5)
    assert full.returncode in (1, 2)
    assert "cannot be written" in full.stderr
    assert "Traceback" not in full.stderr
    assert CheckpointFolder(tmp_path / "run" / "checkpoints").latest()[0].epoch == 3


def test_a_disk_without_room_is_said_before_any_work(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here ({mounted.stderr.strip()})")
    try:
        done = run(tmp_path, "--out", str(place / "run"), "--epochs", "3")
        assert done.returncode == 2
        assert "make room or name a folder on another disk" in done.stderr
        assert "epoch 1/3" not in done.stderr
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_read_only_home_is_no_hindrance(tmp_path):
    if os.geteuid() == 0:
        home = Path("/proc/self/nothing")  # root writes everywhere but there
    else:
        home = tmp_path / "home"
        home.mkdir(mode=0o500)
    cache = str(home / ".cache")
    done = run(
        tmp_path, "--out", "run", "--epochs", "2", HOME=str(home), XDG_CACHE_HOME=cache, FASTHOP_CACHE=""
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_an_unwritable_folder_is_said_at_once(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert main(["train", *QUICK, "--out", str(tmp_path / "file" / "run")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


def test_a_limit_of_the_process_is_met_by_a_leaner_recipe(tmp_path):
    if not sys.platform.startswith("linux"):
        pytest.skip("RLIMIT_DATA is enforced on Linux alone")
    before = """
    import resource
    import torch
    from fasthop.noise import silence
    silence()
    import fasthop.search.training
    from fasthop.train.training import Training
    run = Training.run
    def limited(self):
        if self.labels["name"] == "baseline":
            used = int(next(l for l in open("/proc/self/status") if l.startswith("VmData")).split()[1]) * 1024
            limit = used + (130 << 20)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        return run(self)
    Training.run = limited
    """
    # The messages of 300,000 edges with 256 channels take 300 MB a layer.
    model = ["--model", "gcn", "--data", "synthetic:nodes=4000,degree=60,features=16,classes=4"]
    line = [
        "train",
        *model,
        "--hidden",
        "256",
        "--epochs",
        "3",
        "--recipe",
        "baseline",
        "--threads",
        "1",
        "--out",
        "run",
    ]
    code = f"{textwrap.dedent(before)}\nimport sys\nfrom fasthop.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, *line], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "baseline: it ran out of memory in epoch 1. Going on with exact rungs." in done.stderr
    assert [line["epoch"] for line in lines_of(tmp_path / "run") if line["event"] == "epoch"] == [1, 2, 3]
