"""`fasthop doctor`: every part is shown, one that fails does not hide the others, and only our caches go."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import fasthop.cache
import fasthop.machine.peaks
from fasthop.cli import doctor
from fasthop.cli.main import main
from fasthop.machine.peaks import MachinePeaks, Peak
from fasthop.report.peaks import NAMES
from fasthop.rewrites.ladder import RUNGS

SRC = Path(__file__).parents[2] / "src" / "fasthop"


@pytest.fixture(autouse=True)
def asked(monkeypatch, tmp_path):
    """A cache folder of its own, and peaks that cost nothing; holds whether they were measured again."""
    calls: list[bool] = []
    peak = Peak(median=12.3, low=12.0, high=12.5)

    def machine_peaks(device="cpu", *, remeasure=False):
        calls.append(remeasure)
        return MachinePeaks(**dict.fromkeys(NAMES, peak), device=str(device), num_threads=2)

    monkeypatch.setattr(fasthop.machine.peaks, "machine_peaks", machine_peaks)
    monkeypatch.setenv("FASTHOP_CACHE", str(tmp_path / "cache"))
    return calls


@pytest.mark.parametrize(
    ("lang", "words"), [("en", ("Versions", "ready", "GB/s")), ("zh", ("版本", "可用", "实测峰值"))]
)
def test_text(lang, words, capsys):
    assert main(["doctor", "--lang", lang]) == 0
    printed = capsys.readouterr().out
    for word in (*words, "torch", "12.3 (12.0–12.5)", "float16", "autograd", *(rung.name for rung in RUNGS)):
        assert word in printed
    assert "\x1b" not in printed


def test_json_has_every_part(capsys):
    assert main(["doctor", "--json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert set(tree) == {"fasthop_version", "machine", "compiler", "peaks", "caches", "rungs"}
    assert [rung["name"] for rung in tree["rungs"]] == [rung.name for rung in RUNGS]
    assert tree["peaks"]["cpu"]["copy_gb_per_s"]["median"] == 12.3


def test_remeasure_is_passed_on(asked, capsys):
    main(["doctor"])
    main(["doctor", "--remeasure"])
    assert asked == [False, True]


def test_a_part_that_fails_does_not_hide_the_others(monkeypatch, capsys):
    def fail(*_, **__):
        raise MemoryError("no room")

    monkeypatch.setattr(fasthop.machine.peaks, "machine_peaks", fail)
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "could not be found out: MemoryError: no room" in printed
    assert "compile" in printed


def test_a_rung_that_lacks_something_says_what(monkeypatch):
    lacking = {"en": "no compiler.", "zh": "没有编译器。"}
    monkeypatch.setattr(
        next(r for r in RUNGS if r.name == "compile"), "missing", lambda self, device: lacking
    )
    findings = doctor.examine()
    assert "lacks: no compiler." in doctor.text(findings, "en")
    assert "缺少：没有编译器。" in doctor.text(findings, "zh")


def test_no_compiler_and_a_broken_one(tmp_path):
    assert doctor.examine_compiler(None) is None
    found = doctor.examine_compiler(sys.executable)  # a program that runs, and compiles nothing
    assert found is not None
    assert found["broken"]
    missing = doctor.examine_compiler(str(tmp_path / "g++"))
    assert missing is not None
    assert missing["broken"]


def test_only_our_caches_are_shown_and_cleared(tmp_path, capsys):
    root = fasthop.cache.cache_root()
    for name in ("peaks", "numba", "precious"):
        (root / name).mkdir(parents=True)
        (root / name / "file").write_bytes(b"x" * 1000)
    (root / "photo.png").write_bytes(b"x")
    assert doctor.caches()["bytes"] == {"peaks": 1000, "numba": 1000}
    assert main(["doctor", "--clear-caches"]) == 0
    assert capsys.readouterr().out == "Cleared 2.00 kB of caches.\n"
    assert sorted(path.name for path in root.iterdir()) == ["photo.png", "precious"]
    assert main(["doctor", "--clear-caches", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"cleared_bytes": 0}


def test_every_kind_of_cache_is_known_to_doctor():
    for path in SRC.rglob("*.py"):
        for kind in re.findall(r'(?<!user_)cache_dir\("([^"]+)"\)', path.read_text(encoding="utf-8")):
            assert kind in doctor.CACHE_KINDS, f"{path.name} keeps a cache that doctor does not show"
