"""Signals: SIGTERM and SIGHUP end a run as Ctrl-C does, and none of them cuts the saving in half."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from fasthop.interrupt import Stopped, stop_signals_raise, uninterrupted, unwound_whole

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")


@posix
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_to_end_raises_what_ctrl_c_is_handled_by(name):
    number = getattr(signal, name)
    with pytest.raises(KeyboardInterrupt) as caught, stop_signals_raise():
        signal.raise_signal(number)
    assert isinstance(caught.value, Stopped)
    assert caught.value.number == number
    assert signal.getsignal(number) is signal.SIG_DFL


@posix
def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals_raise():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@posix
def test_ctrl_c_and_sigterm_wait_for_what_must_be_whole():
    done = []
    before = signal.getsignal(signal.SIGINT)
    with stop_signals_raise():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            done.append(True)
        assert done
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is before


def test_all_is_unwound_whatever_comes_between():
    done = []

    def interrupted():
        signal.raise_signal(signal.SIGINT)
        done.append("folder")

    def run():
        with unwound_whole() as stack:
            stack.callback(interrupted)
            stack.callback(lambda: done.append("worker"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == ["worker", "folder"]


def test_off_the_main_thread_nothing_is_touched():
    before, inside = signal.getsignal(signal.SIGINT), []

    def work():
        with stop_signals_raise(), uninterrupted():
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [before]
