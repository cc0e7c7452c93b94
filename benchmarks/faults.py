"""Faults: what befalls a training, each injected many times, and whether it went on bit for bit or said why not.

Every fault happens to a process of its own, forked from this one after the imports. A run that nothing befell gives the
journal's lines that a run broken off and gone on with must have, to the last bit. Prints a table; exits with 1 where one did not.

    python benchmarks/faults.py [--times 20] [--seed 0]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from fasthop.noise import silence

silence()

import torch  # noqa: E402

import fasthop.files  # noqa: E402
import fasthop.search.training  # noqa: E402
from fasthop.cli.main import main  # noqa: E402
from fasthop.train.checkpoint import CheckpointFolder  # noqa: E402
from fasthop.train.journal import read_journal  # noqa: E402
from fasthop.train.training import Training  # noqa: E402

EPOCHS = 60
SIGNALS = (signal.SIGINT, signal.SIGTERM)
EQUAL = "went on bit for bit"
MODEL = """
import torch
from torch_geometric.nn import SAGEConv

class Net(torch.nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.first, self.second = SAGEConv(in_channels, 64), SAGEConv(64, out_channels)

    def forward(self, x, edge_index):
        x = torch.nn.functional.dropout(self.first(x, edge_index).relu(), 0.5, self.training)
        return self.second(x, edge_index)
"""
Hook = Callable[[], object]


class Bench:
    """A folder with a model and a graph, and the lines of a run that nothing befell."""

    def __init__(self, place: Path, draw: random.Random) -> None:
        self.place, self.draw = place, draw
        (place / "net.py").write_text(MODEL)
        torch.manual_seed(0)
        order = torch.randperm(300)
        masks = [torch.zeros(300, dtype=torch.bool).index_fill(0, part, True) for part in order.split(100)]
        tree = {
            "x": torch.randn(300, 32),
            "edge_index": torch.randint(0, 300, (2, 2000)),
            "y": torch.randint(0, 4, (300,)),
            **dict(zip(("train_mask", "val_mask", "test_mask"), masks, strict=True)),
        }
        torch.save(tree, place / "graph.pt")
        started = time.monotonic()
        child = self.start("whole")
        code = self.wait(child)
        self.duration_s = time.monotonic() - started
        if code != 0:
            raise SystemExit(f"The run that nothing befalls ended with {code}: {self.said('whole')}")
        self.whole = self.lines("whole")

    def start(
        self, name: str, *, resume: bool = False, hook: Hook | None = None, out: Path | None = None
    ) -> int:
        """A child that trains in the folder of that name; its process id."""
        arguments = ["train", "--out", str(out or self.place / name), "--quiet"]
        if resume:
            arguments += ["--resume"]
        else:
            arguments += [
                "--model",
                f"{self.place}/net.py:Net",
                "--data",
                f"{self.place}/graph.pt",
                "--threads",
                "1",
            ]
            arguments += ["--recipe", "baseline", "--epochs", str(EPOCHS), "--checkpoint-every", "3"]
        # A signal waits until the child is where a process of its own would begin.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        child = os.fork()
        if child:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            return child
        code = 99
        try:
            file = os.open(self.place / f"{name}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, 1)
            os.dup2(file, 2)
            if hook is not None:
                hook()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            code = main(arguments)
            sys.stderr.flush()
            sys.stdout.flush()
        except KeyboardInterrupt:  # before the command had begun
            code = 130
        finally:
            os._exit(code)

    def wait(self, child: int) -> int:
        """How it ended: its exit code, or minus the signal's number."""
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def said(self, name: str) -> str:
        """What it wrote."""
        return (self.place / f"{name}.txt").read_text()

    def lines(self, name: str, out: Path | None = None) -> list[dict[str, object]]:
        """The journal without times."""
        _, lines = read_journal((out or self.place / name) / "metrics.jsonl")
        return [{key: value for key, value in line.items() if key != "epoch_s"} for line in lines]

    def gone_on(self, name: str, out: Path | None = None) -> str:
        """Goes on, or begins where it had not begun, and compares."""
        folder = out or self.place / name
        begun = (folder / "run.json").is_file()
        code = self.wait(self.start(name, resume=begun, out=out))
        if code != 0 or "Traceback" in self.said(name):
            return f"did not go on ({code}): {self.said(name)[-300:]}"
        if self.lines(name, out) != self.whole:
            return "went on with other numbers"
        return EQUAL if begun else "had not begun: began bit for bit"

    def signalled(self, name: str, number: int, codes: tuple[int, ...]) -> str:
        """A signal at a random moment of the run."""
        child = self.start(name)
        time.sleep(self.draw.uniform(0.0, self.duration_s))
        os.kill(child, number)
        code = self.wait(child)
        if code == 0:
            return "had finished" if self.lines(name) == self.whole else "finished with other numbers"
        if code not in codes:
            return f"ended with {code}"
        return self.gone_on(name)

    def in_write(self, name: str, number: int, codes: tuple[int, ...]) -> str:
        """A signal inside a write of a checkpoint: before an fsync, or before a rename."""
        at, of = self.draw.randrange(4, 30), self.draw.choice(("fsync", "replace"))

        def hook() -> None:
            plain, calls = getattr(os, of), 0

            def watched(*arguments: object) -> object:
                nonlocal calls
                calls += 1
                if calls == at:
                    os.kill(os.getpid(), number)
                return plain(*arguments)

            setattr(fasthop.files.os, of, watched)

        code = self.wait(self.start(name, hook=hook))
        return self.gone_on(name) if code in codes else f"ended with {code}"

    def damaged(self, name: str) -> str:
        """The last checkpoint of a run that was killed is damaged."""
        self.wait(self.start(name, hook=_at_epoch(self.draw.randrange(10, EPOCHS), lambda: os._exit(9))))
        store = CheckpointFolder(self.place / name / "checkpoints")
        last = store.epochs()[0]
        kind = self.draw.choice(("json", "safetensors"))
        path = store.folder / f"epoch-{last:08d}.{kind}"
        content = bytearray(path.read_bytes())
        how = self.draw.choice(("cut short", "a bit turned", "a pickle", "gone", "another version"))
        if how == "cut short":
            path.write_bytes(content[: self.draw.randrange(len(content))])
        elif how == "a bit turned":
            content[self.draw.randrange(len(content))] ^= 1 << self.draw.randrange(8)
            path.write_bytes(content)
        elif how == "a pickle":
            path.write_bytes(pickle.dumps(_Hostile()))
        elif how == "gone":
            (store.folder / f"epoch-{last:08d}.safetensors").unlink()
        else:
            path = path.with_suffix(".json")
            path.write_text(path.read_text().replace('"version": 1', '"version": 2', 1))
        outcome = self.gone_on(name)
        if Path("pwned").exists():
            return "ran the pickle"
        said = f"The checkpoint of epoch {last} is left out" in self.said(name)
        return outcome if said else f"{how} was not said: {self.said(name)[-300:]}"

    def full_disk(self, name: str) -> str:
        """From some epoch on no file can grow beyond 400 bytes, as on a full disk."""

        def fill() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (400, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

        code = self.wait(self.start(name, hook=_at_epoch(self.draw.randrange(1, EPOCHS), fill)))
        if code not in (1, 2):
            return f"ended with {code}"
        return (
            self.gone_on(name) if "cannot be written" in self.said(name) else f"said {self.said(name)[-200:]}"
        )

    def full_tmpfs(self, name: str) -> str:
        """A tmpfs of 8 MB that is filled up in some epoch."""
        with _tmpfs(self.place / f"{name}-disk") as disk:
            out = disk / "run"

            def fill() -> None:
                with contextlib.suppress(OSError), (disk / "filler").open("wb") as file:
                    while True:
                        file.write(b"0" * 4096)
                        file.flush()

            code = self.wait(self.start(name, hook=_at_epoch(self.draw.randrange(1, EPOCHS), fill), out=out))
            if code not in (1, 2) or "cannot be written" not in self.said(name):
                return f"ended with {code}: {self.said(name)[-200:]}"
            (disk / "filler").unlink()
            return self.gone_on(name, out)

    def second_run(self, name: str) -> str:
        """Another process wants the folder while the first one trains."""
        first = self.start(name, hook=_at_epoch(5, lambda: time.sleep(2.0)))
        while not (self.place / name / "checkpoints" / "epoch-00000000.json").exists():
            time.sleep(0.01)
        out = self.place / name
        code = self.wait(self.start(f"{name}-second", resume=True, out=out))
        refused = code == 2 and "Another training is running" in self.said(f"{name}-second")
        if self.wait(first) != 0 or self.lines(name) != self.whole:
            return "the first run was disturbed"
        return "the second was refused, the first undisturbed" if refused else f"the second ended with {code}"

    def out_of_memory(self, name: str) -> str:
        """RLIMIT_DATA leaves too little for the messages of the full batch."""

        def hook() -> None:
            run = Training.run

            def limited(self: Training) -> object:
                if self.labels["name"] == "baseline":
                    status = Path("/proc/self/status").read_text().splitlines()
                    used = int(next(line for line in status if line.startswith("VmData")).split()[1]) * 1024
                    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
                    resource.setrlimit(resource.RLIMIT_DATA, (used + (130 << 20), hard))
                return run(self)

            Training.run = limited  # type: ignore[method-assign]
            data = "synthetic:nodes=4000,degree=60,features=16,classes=4"
            line = [
                "train",
                "--out",
                str(self.place / name),
                "--data",
                data,
                "--model",
                "gcn",
                "--hidden",
                "256",
            ]
            os._exit(main([*line, "--epochs", "3", "--recipe", "baseline", "--threads", "1"]))

        code = self.wait(self.start(name, hook=hook))
        went_on = "ran out of memory in epoch 1. Going on with" in self.said(name)
        return (
            "went on with a leaner recipe"
            if code == 0 and went_on
            else f"ended with {code}: {self.said(name)[-200:]}"
        )


class _Hostile:
    def __reduce__(self) -> object:
        return (os.system, ("touch pwned",))


def _at_epoch(epoch: int, act: Hook) -> Hook:
    """Installs `act` before the steps of an epoch."""

    def hook() -> None:
        plain = Training._steps

        def steps(self: Training, number: int) -> float:
            if number == epoch:
                act()
            return plain(self, number)

        Training._steps = steps  # type: ignore[method-assign]

    return hook


@contextlib.contextmanager
def _tmpfs(place: Path) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], check=True, capture_output=True
    )
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _can_mount(place: Path) -> bool:
    try:
        with _tmpfs(place / "trial"):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def _main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--times", type=int, default=20, help="how often each fault is injected (default: 20)"
    )
    parser.add_argument("--seed", type=int, default=0, help="decides the moments (default: 0)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    place = Path(tempfile.mkdtemp(prefix="fasthop-faults-"))
    status = 0
    try:
        bench = Bench(place, random.Random(args.seed))
        few = max(1, args.times // 4)
        faults: list[tuple[str, int, Callable[[str], str]]] = [
            ("kill -9 at a random moment", args.times, lambda n: bench.signalled(n, signal.SIGKILL, (-9,))),
            ("SIGTERM at a random moment", args.times, lambda n: bench.signalled(n, signal.SIGTERM, (143, -15))),
            ("Ctrl-C at a random moment", args.times, lambda n: bench.signalled(n, signal.SIGINT, (130,))),
            ("kill -9 inside a checkpoint's write", args.times, lambda n: bench.in_write(n, signal.SIGKILL, (-9,))),
            ("SIGTERM inside a checkpoint's write", args.times, lambda n: bench.in_write(n, signal.SIGTERM, (143,))),
            ("the last checkpoint damaged", args.times, bench.damaged),
            ("disk full (RLIMIT_FSIZE)", args.times, bench.full_disk),
            ("two runs in one folder", few, bench.second_run),
            ("out of memory (RLIMIT_DATA)", few, bench.out_of_memory),
        ]  # fmt: skip
        if _can_mount(place):
            faults.insert(7, ("disk full (a tmpfs)", few, bench.full_tmpfs))
        else:
            print("A tmpfs cannot be mounted here (it needs root), so that fault is left out.")
        print("| fault | times | outcome |\n|---|---|---|")
        for number, (title, times, inject) in enumerate(faults):
            outcomes: Counter[str] = Counter(inject(f"run-{number}-{time_}") for time_ in range(times))
            told = "; ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
            print(f"| {title} | {times} | {told} |", flush=True)
            good = ("bit for bit", "had finished", "the second was refused", "went on with a leaner")
            status |= not all(any(words in outcome for words in good) for outcome in outcomes)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(_main())
