"""The shell: quick, one sentence for every failure, the right exit code, JSON where asked for."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import fasthop
from fasthop import errors
from fasthop.cli import main as shell
from fasthop.cli.main import main
from fasthop.interrupt import Stopped
from fasthop.report.report import Report
from tests.report import results

HEAVY = ("torch", "numpy", "matplotlib", "rich", "scipy", "numba")


def run(*arguments: str, **options):
    return subprocess.run(
        [sys.executable, "-m", "fasthop", *arguments], capture_output=True, text=True, timeout=120, **options
    )


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from fasthop.cli.main import main; code = main(['--help']); "
        f"sys.exit(code or sorted(set({HEAVY}) & set(sys.modules)) != [])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("bench", "doctor", "report"):
        assert name in done.stdout


def test_version():
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"fasthop {fasthop.__version__}\n")


def test_the_version_is_the_packages():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{fasthop.__version__}"' in text


@pytest.mark.parametrize(
    "arguments", [[], ["bnch"], ["bench", "--epochs", "many"], ["report"], ["bench", "--nope"]]
)
def test_wrong_usage_is_two(arguments, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: fasthop")
    assert "Traceback" not in captured.err


def test_wrong_usage_in_json(capsys):
    assert main(["bench", "--json", "--epochs", "many"]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"] | {"message": ""} == {
        "type": "UsageError",
        "message": "",
        "exit_code": 2,
    }
    assert captured.err == ""


def failing(monkeypatch, error):
    def fail(args):
        raise error

    monkeypatch.setattr(shell.report, "run", fail)
    # the parser takes `run` when it is built
    monkeypatch.setattr(shell.report, "add_parser", _parser_with(fail))


def _parser_with(function):
    def add_parser(subparsers):
        parser = subparsers.add_parser("report")
        parser.add_argument("--json", action="store_true")
        parser.set_defaults(run=function)

    return add_parser


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidConfig("lr is -1."), 2),
        (errors.GraphNotFound("No graph.\nTried a\nTried b"), 2),
        (errors.DoesNotFit("Too big."), 1),
        (errors.TrialFailed("The baseline died."), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_are_sentences_with_their_code(error, code, monkeypatch, capsys):
    failing(monkeypatch, error)
    assert main(["report"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert captured.err == f"fasthop: {str(error) or 'Stopped before anything was measured.'}\n"
    assert main(["report", "--json"]) == code
    captured = capsys.readouterr()
    tree = json.loads(captured.out)["error"]
    assert (tree["type"], tree["exit_code"]) == (type(error).__name__, code)
    assert captured.err == ""


def test_a_workers_traceback_goes_to_a_file(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    failing(monkeypatch, errors.TrialFailed("The baseline died.\nTraceback (most recent call last):\n  deep"))
    assert main(["report"]) == 1
    (path,) = tmp_path.iterdir()
    assert "deep" in path.read_text(encoding="utf-8")
    assert capsys.readouterr().err == f"fasthop: The baseline died. (its traceback is in {path})\n"


def test_a_fault_of_our_own_says_where_its_traceback_is(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("FASTHOP_TRACEBACK", raising=False)
    failing(monkeypatch, RuntimeError("odd"))
    assert main(["report"]) == 1
    (path,) = tmp_path.iterdir()
    assert "RuntimeError: odd" in path.read_text(encoding="utf-8")
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"RuntimeError: odd (its traceback is in {path})" in error


def test_fasthop_traceback_shows_it(monkeypatch, capsys):
    monkeypatch.setenv("FASTHOP_TRACEBACK", "1")
    failing(monkeypatch, RuntimeError("odd"))
    assert main(["report"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err
    failing(monkeypatch, errors.InvalidConfig("lr is -1."))
    assert main(["report"]) == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_sigterm_has_the_code_that_a_shell_gives_it(monkeypatch, capsys):
    failing(monkeypatch, Stopped(signal.SIGTERM))
    assert main(["report"]) == 143
    assert capsys.readouterr().err == "fasthop: Stopped before anything was measured.\n"


def test_out_of_memory_is_no_fault_of_fasthop(monkeypatch, capsys):
    failing(monkeypatch, MemoryError())
    assert main(["report"]) == 1
    assert capsys.readouterr().err == "fasthop: It ran out of memory.\n"


@pytest.mark.skipif(os.name == "nt", reason="pipes break otherwise on Windows")
def test_a_broken_pipe_is_quiet(tmp_path):
    folder = Report(results.normal()).save(tmp_path / "run")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "fasthop", "report", str(folder), "--json"]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=120)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_terminal_that_cannot_write_chinese_gets_no_traceback(tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = run("report", str(tmp_path / "没有"), env=environment)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "There is no" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_output_on_a_full_disk_is_told_in_one_sentence(options, tmp_path):
    folder = Report(results.normal()).save(tmp_path / "run")
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "fasthop", "report", str(folder), *options]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("fasthop: ")
    assert "No space left on device" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="there is no sh")
@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_closed_streams_are_no_fault(closed, tmp_path):
    folder = Report(results.normal()).save(tmp_path / "run")
    command = f"'{sys.executable}' -m fasthop report '{folder}' {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120)
    said = [line for line in done.stderr.splitlines() if not line.startswith("In full:")]  # where to read on
    assert (done.returncode, said) == (0, [])


def test_what_the_system_refuses_is_no_fault_of_fasthop(monkeypatch, capsys):
    failing(monkeypatch, OSError(errno.EMFILE, "Too many open files"))
    assert main(["report"]) == 1
    assert capsys.readouterr().err == "fasthop: Too many open files.\n"
