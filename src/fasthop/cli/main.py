"""The command `fasthop`: finds the subcommand, and turns every end into a sentence and an exit code.

0: fine. 1: the work failed. 2: the input or the options are wrong. 130: Ctrl-C (also where another signal cut a
run short that is saved). 143, 129: SIGTERM, SIGHUP. 141: whoever read the output is gone.
Nothing heavy is imported before a subcommand runs, so that --help answers at once.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from fasthop import __version__
from fasthop.cli import bench, check, compare, doctor, report, train, tune
from fasthop.errors import DoesNotFit, FasthopError, TrialFailed
from fasthop.interrupt import Stopped, stop_signals_raise

OK, FAILED, WRONG_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141
# What no program can mend: a full disk or quota, a disk that is read-only, no more files, processes or memory.
SYSTEM_SAYS_NO = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EMFILE,
    errno.ENFILE,
    errno.EAGAIN,
    errno.ENOMEM,
)
TRACEBACK_VARIABLE = "FASTHOP_TRACEBACK"
SUBCOMMANDS = (bench, check, compare, doctor, report, train, tune)


class _UsageError(Exception):
    """The options are wrong; raised in place of argparse's exit, so that --json can answer in JSON."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.usage = usage


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(message, self.format_usage())


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command."""
    parser = _Parser(
        prog="fasthop",
        description="Makes the training of PyTorch Geometric models fast and small, measured and proven.",
        epilog="Each command has a --help of its own.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fasthop {__version__}")
    subparsers = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=_Parser
    )
    for command in SUBCOMMANDS:
        command.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code. argv: the arguments, sys.argv's by default."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in arguments
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever called
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot write a character gets a question mark, not a traceback.
        if hasattr(stream, "reconfigure"):
            with contextlib.suppress(OSError, ValueError):
                stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    code = OK
    try:
        with stop_signals_raise():
            code = _run(arguments, as_json)
        sys.stdout.flush()
    except BrokenPipeError:
        _leave_pipe()
        return BROKEN_PIPE
    except OSError as error:  # standard output on a full disk
        _leave_pipe()
        if code == OK:  # else a sentence stands there already
            sys.stderr.write(f"fasthop: The output could not be written ({error.strerror or error}).\n")
        return code or FAILED
    return code


def _run(arguments: list[str], as_json: bool) -> int:
    args: argparse.Namespace | None = None
    try:
        args = build_parser().parse_args(arguments)
        return args.run(args)
    except SystemExit as end:  # argparse after --help and --version
        return end.code if isinstance(end.code, int) else OK
    except _UsageError as error:
        if not as_json:
            sys.stderr.write(error.usage)
        return _fail(error, WRONG_INPUT, as_json, kind="UsageError")
    except BrokenPipeError:
        raise
    except FasthopError as error:
        code = FAILED if isinstance(error, TrialFailed | DoesNotFit) else WRONG_INPUT
        return _fail(error, code, as_json)
    except KeyboardInterrupt as stop:
        message = getattr(args, "interrupted", None) or "Stopped before anything was measured."
        code = 128 + stop.number if isinstance(stop, Stopped) else INTERRUPTED
        return _fail(message, code, as_json, kind="KeyboardInterrupt")
    except MemoryError:
        return _fail("It ran out of memory.", FAILED, as_json, kind="MemoryError")
    except OSError as error:
        if error.errno not in SYSTEM_SAYS_NO:
            return _unexpected(error, as_json)
        place = f": {error.filename}" if error.filename else ""
        return _fail(f"{error.strerror}{place}.", FAILED, as_json, kind="OSError")
    except Exception as error:
        return _unexpected(error, as_json)


def _fail(error: Exception | str, code: int, as_json: bool, kind: str | None = None) -> int:
    """Says what is wrong: on standard error, or as JSON on standard output."""
    message = str(error)
    if isinstance(error, TrialFailed):
        message = _without_worker_traceback(message)
    if isinstance(error, FasthopError) and os.environ.get(TRACEBACK_VARIABLE) == "1":
        _print_traceback(error)
    if as_json:
        tree = {"error": {"type": kind or type(error).__name__, "message": message, "exit_code": code}}
        sys.stdout.write(json.dumps(tree, ensure_ascii=False, indent=2) + "\n")
    else:
        sys.stderr.write(f"fasthop: {message}\n")
    return code


def _without_worker_traceback(message: str) -> str:
    """A failed trial's first line, with where the rest of it went: its worker's traceback."""
    first, _, rest = message.partition("\n")
    if not rest.strip() or os.environ.get(TRACEBACK_VARIABLE) == "1":
        return first
    return f"{first} ({_write_traceback([message])})"


def _unexpected(error: Exception, as_json: bool) -> int:
    import traceback

    if os.environ.get(TRACEBACK_VARIABLE) == "1":
        _print_traceback(error)
        where = "its traceback stands above"
    else:
        where = _write_traceback(traceback.format_exception(error))
    first = " ".join(str(error).split())[:200] or "without a message"
    message = f"This is a fault of fasthop, {type(error).__name__}: {first} ({where})."
    return _fail(message, FAILED, as_json, kind=type(error).__name__)


def _print_traceback(error: Exception) -> None:
    import traceback

    traceback.print_exception(error, file=sys.stderr)


def _write_traceback(lines: Sequence[str]) -> str:
    import tempfile

    try:
        handle, path = tempfile.mkstemp(prefix="fasthop-traceback-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.writelines(lines)
    except OSError:
        return f"set {TRACEBACK_VARIABLE}=1 to see its traceback"
    return f"its traceback is in {path}"


def _leave_pipe() -> None:
    """Points standard output at nothing, so that the interpreter's last flush does not complain."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
