"""Progress: lines where nothing can be redrawn, a live display on a terminal, and never in the way."""

from __future__ import annotations

import io
import sys

import pytest

from fasthop.report.progress import (
    PHASES,
    LiveProgress,
    PlainProgress,
    SilentProgress,
    phase_words,
    progress_for,
)


def play(progress):
    progress.start(["baseline", "sample"])
    for turn in range(3):
        for name in ("baseline", "sample"):
            progress.update(name, "timing", turn / 3)
    progress.update("baseline", "accuracy", None)
    progress.done("baseline", None)
    progress.done("sample", {"en": "ran out\nof memory", "zh": "内存不足"})
    progress.close()
    progress.close()


def test_plain_says_each_phase_once(capsys):
    play(PlainProgress("en"))
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line.split("] ", 1)[1] for line in captured.err.splitlines()]
    assert lines == [
        "Measuring 2 recipes: baseline, sample",
        "baseline: timing",
        "sample: timing",
        "baseline: accuracy",
        "baseline: done",
        "sample: ran out of memory",
    ]


def test_plain_in_chinese(capsys):
    play(PlainProgress("zh"))
    assert "共测量 2 个方案：baseline、sample" in capsys.readouterr().err


def test_silent_says_nothing(capsys):
    play(SilentProgress())
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_live_draws_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    progress = progress_for("en")
    assert isinstance(progress, LiveProgress)
    play(progress)
    progress = LiveProgress("en")
    progress.update("a recipe [red]that[/red] was not announced", "timing", 0.5)
    progress.done("another", {"en": "x", "zh": "x"})
    progress.close()
    assert "\x1b[" in terminal.getvalue()


def test_the_choice(monkeypatch, capsys):
    assert isinstance(progress_for("en", quiet=True), SilentProgress)
    assert isinstance(progress_for("en"), PlainProgress)
    monkeypatch.setattr(sys, "stderr", None)
    assert isinstance(progress_for("en"), SilentProgress)


def test_a_reader_that_is_gone_does_not_end_the_measurement(monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    progress = PlainProgress("en")
    monkeypatch.setattr(sys, "stderr", Gone())
    play(progress)


@pytest.mark.parametrize("phase", PHASES)
def test_every_phase_has_words(phase):
    assert phase_words(phase, "zh") != phase
    assert phase_words("unheard_of", "en") == "unheard_of"
