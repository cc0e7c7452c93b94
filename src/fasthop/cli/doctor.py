"""`fasthop doctor`: what this machine has, what it can do at best, and what each rung lacks here."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fasthop import __version__

# The sub-folders of the cache that are fasthop's own. Only these are shown and cleared: FASTHOP_CACHE may
# name a folder that holds other things as well.
CACHE_KINDS = ("numba", "peaks", "graphs", "spmm", "page")


def add_parser(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = subparsers.add_parser(
        "doctor",
        help="show versions, hardware, measured peaks, caches, and what each rung lacks here",
        description="Shows versions, threads, compiler and GPU, what the machine can do at best (measured once, "
        "about two seconds), the caches, and what each rung needs and lacks here.",
        allow_abbrev=False,
    )
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language (default: en)")
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else")
    parser.add_argument("--remeasure", action="store_true", help="measure the peaks again")
    parser.add_argument(
        "--clear-caches", action="store_true", help="delete fasthop's caches, and do nothing else"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the subcommand; returns the exit code."""
    from fasthop.report.figures import size
    from fasthop.report.words import phrase

    if args.clear_caches:
        cleared = clear_caches()
        if args.json:
            sys.stdout.write(json.dumps({"cleared_bytes": cleared}) + "\n")
        else:
            sys.stdout.write(phrase("doctor.cleared", args.lang, size=size(cleared)) + "\n")
        return 0
    findings = examine(remeasure=args.remeasure)
    if args.json:
        sys.stdout.write(json.dumps(findings, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(text(findings, args.lang))
    return 0


def examine(*, remeasure: bool = False) -> dict[str, Any]:
    """Everything that doctor shows, ready for JSON. What cannot be found out is {"error": reason}."""
    from fasthop.machine.fingerprint import fingerprint

    machine = fingerprint()
    return {
        "fasthop_version": __version__,
        "machine": machine,
        "compiler": _or_error(lambda: examine_compiler(machine["compiler"])),
        "peaks": _or_error(lambda: measured_peaks(bool(machine["gpus"]), remeasure)),
        "caches": _or_error(caches),
        "rungs": _or_error(rungs),
    }


def _or_error(ask: Callable[[], Any]) -> Any:
    """One part that fails must not keep the others from being shown: finding faults is what doctor is for."""
    try:
        return ask()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}


def examine_compiler(path: str | None) -> dict[str, Any] | None:
    """The C++ compiler's path and version, and why it does not work (None where it does); None without one."""
    if path is None:
        return None
    version = _output([path, "--version"])
    with tempfile.TemporaryDirectory(prefix="fasthop-") as folder:
        source = Path(folder) / "probe.cpp"
        source.write_text("#include <cmath>\nint main() { return std::sqrt(0.0) > 1.0; }\n", encoding="utf-8")
        try:
            done = subprocess.run(
                [path, str(source), "-o", str(Path(folder) / "probe")],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=60,
            )
            broken = (
                None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no message"])[-1]
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            broken = str(error)
    return {"path": path, "version": version, "broken": broken}


def _output(command: list[str]) -> str | None:
    """The first line that a command prints, or None."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if lines else None


def measured_peaks(has_gpu: bool, remeasure: bool) -> dict[str, Any]:
    """The peaks of every kind of device here, by device."""
    from fasthop.machine.peaks import machine_peaks

    devices = ("cpu", "cuda") if has_gpu else ("cpu",)
    return {name: dataclasses.asdict(machine_peaks(name, remeasure=remeasure)) for name in devices}


def caches() -> dict[str, Any]:
    """The folder of the caches and the bytes of each kind in it."""
    from fasthop.cache import cache_root, cache_sizes

    sizes = {name: size for name, size in cache_sizes().items() if _is_ours(name)}
    return {"root": str(cache_root()), "bytes": sizes}


def _is_ours(name: str) -> bool:
    return name in CACHE_KINDS


def clear_caches() -> int:
    """Deletes fasthop's own caches; returns how many bytes that freed. Raises CannotWrite where one stays."""
    from fasthop.cache import cache_root
    from fasthop.report.files import CannotWrite

    found = caches()["bytes"]
    for name in found:
        folder = cache_root() / name
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise CannotWrite(f"The cache {folder} cannot be deleted ({error.strerror or error}).") from None
    return sum(found.values())


def rungs() -> list[dict[str, Any]]:
    """Every rung's name, what it needs, and what of that is missing here, by language; None where nothing is."""
    import torch

    from fasthop.rewrites.ladder import RUNGS

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found = []
    for kind in RUNGS:
        rung = kind()
        found.append({"name": rung.name, "needs": list(rung.needs), "missing": rung.missing(device)})
    return found


def text(findings: dict[str, Any], lang: str) -> str:
    """The findings as text in sections."""
    from fasthop.report.words import phrase

    lines = [phrase("doctor.title", lang, version=findings["fasthop_version"])]
    for key, section in (
        ("doctor.versions", _versions),
        ("doctor.hardware", _hardware),
        ("doctor.peaks", _peaks),
        ("doctor.caches", _caches),
        ("doctor.rungs", _rungs),
    ):
        lines += ["", phrase(key, lang), *(f"  {line}" for line in section(findings, lang))]
    return "\n".join(lines) + "\n"


def _columns(pairs: list[tuple[str, str]]) -> list[str]:
    from rich.cells import cell_len

    width = max((cell_len(name) for name, _ in pairs), default=0)
    return [f"{name}{' ' * (width - cell_len(name) + 2)}{value}" for name, value in pairs]


def _unknown(part: Any, lang: str) -> list[str] | None:
    from fasthop.report.words import phrase

    if isinstance(part, dict) and set(part) == {"error"}:
        return [phrase("doctor.unknown", lang, reason=part["error"])]
    return None


def _versions(findings: dict[str, Any], lang: str) -> list[str]:
    from fasthop.report.words import phrase

    missing = phrase("doctor.missing_package", lang)
    return _columns([(name, version or missing) for name, version in findings["machine"]["versions"].items()])


def _hardware(findings: dict[str, Any], lang: str) -> list[str]:
    from fasthop.report.figures import size
    from fasthop.report.words import phrase

    machine = findings["machine"]
    cpu, limits = machine["cpu"], machine["limits"]
    memory = size(machine["memory_bytes"])
    if limits["memory_bytes"] is not None:
        memory += f" ({phrase('machine.limit', lang, value=size(limits['memory_bytes']))})"
    kinds = (
        ("usable", cpu["usable_cores"]),
        ("physical", cpu["physical_cores"]),
        ("cpu_limit", limits["cpus"]),
    )
    cores = ", ".join(phrase(f"machine.{key}", lang, value=n) for key, n in kinds if n is not None)
    threads = " ".join(
        [
            str(machine["threads"]["torch"]),
            *(f"{k}={v}" for k, v in machine["threads"]["environment"].items()),
        ]
    )
    gpus = [f"{gpu['name']}, {size(gpu['memory_bytes'])}, CUDA {gpu['cuda']}" for gpu in machine["gpus"]]
    pairs = [
        (phrase("doctor.cpu", lang), f"{cpu['model']} ({cpu['capability']})"),
        (phrase("doctor.cores", lang), cores),
        (phrase("doctor.memory", lang), memory),
        (phrase("doctor.threads", lang), threads),
        (phrase("doctor.compiler", lang), _compiler(findings["compiler"], lang)),
    ]
    pairs += [(phrase("doctor.gpu", lang), gpu) for gpu in gpus or [phrase("doctor.gpu_none", lang)]]
    return _columns(pairs)


def _compiler(found: Any, lang: str) -> str:
    from fasthop.report.words import phrase

    if found is None:
        return phrase("doctor.compiler_none", lang)
    if (unknown := _unknown(found, lang)) is not None:
        return unknown[0]
    if found["broken"]:
        return phrase("doctor.compiler_broken", lang, path=found["path"], reason=found["broken"])
    return f"{found['path']} ({found['version']})" if found["version"] else found["path"]


def _peaks(findings: dict[str, Any], lang: str) -> list[str]:
    from fasthop.report.figures import number
    from fasthop.report.peaks import NAMES
    from fasthop.report.words import phrase

    if (unknown := _unknown(findings["peaks"], lang)) is not None:
        return unknown
    lines = []
    for peaks in findings["peaks"].values():
        head = phrase("doctor.peaks_of", lang, device=peaks["device"], threads=peaks["num_threads"])
        lines.append(f"{head} ({phrase('doctor.cached', lang)})" if peaks["cached"] else head)
        known = [(f"  {phrase(f'peak.{name}', lang)}", peaks[name]) for name in NAMES if peaks.get(name)]
        lines += _columns(
            [(label, f"{number(p['median'])} ({number(p['low'])}–{number(p['high'])})") for label, p in known]
        )
    return [*lines, phrase("doctor.spread", lang), phrase("doctor.remeasure_hint", lang)]


def _caches(findings: dict[str, Any], lang: str) -> list[str]:
    from fasthop.report.figures import size
    from fasthop.report.words import phrase

    found = findings["caches"]
    if (unknown := _unknown(found, lang)) is not None:
        return unknown
    pairs = [(phrase("doctor.root", lang), found["root"])]
    pairs += [(name, size(num_bytes)) for name, num_bytes in found["bytes"].items()]
    lines = _columns(pairs)
    return [*lines, phrase("doctor.clear_hint" if found["bytes"] else "doctor.empty", lang)]


def _rungs(findings: dict[str, Any], lang: str) -> list[str]:
    from fasthop.report.words import in_language, phrase

    if (unknown := _unknown(findings["rungs"], lang)) is not None:
        return unknown
    pairs = []
    for rung in findings["rungs"]:
        missing = rung["missing"]
        state = phrase("doctor.ready", lang)
        if missing is not None:
            state = phrase("doctor.lacks", lang, reason=in_language(missing, lang))
        if rung["needs"]:
            state += (
                f" ({phrase('doctor.needs', lang, needs=', '.join(need[lang] for need in rung['needs']))})"
            )
        pairs.append((rung["name"], state))
    return _columns(pairs)
