"""The instrument itself. No figure of time is asserted on: only what was called, kept and said."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from fasthop.errors import InvalidConfig
from fasthop.machine.clock import elapsed_ns
from fasthop.measure import profile as module
from fasthop.measure.profile import Comparison, Profile, profile
from fasthop.measure.profile_text import ratio_text
from fasthop.measure.run import Interval


class Counted:
    """A step that counts its calls and may raise at one of them."""

    def __init__(self, raise_at: int | None = None, error: BaseException | None = None) -> None:
        self.calls = 0
        self.raise_at = raise_at
        self.error = error

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == self.raise_at and self.error is not None:
            raise self.error


@pytest.fixture
def planted_clock(monkeypatch):
    """Gives each timed call the length that the step says in `step.length_ns`."""

    def planted(call, synchronize):
        call()
        return call.length_ns() if hasattr(call, "length_ns") else 1_000_000

    monkeypatch.setattr(module, "elapsed_ns", planted)
    monkeypatch.setattr(
        module, "time_epochs", lambda call, n, synchronize: [planted(call, synchronize) for _ in range(n)]
    )


class Planted:
    """A step whose length is known: drawn around a median with a fixed seed."""

    def __init__(self, median_ns: float, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.median_ns = median_ns

    def __call__(self) -> None:
        pass

    def length_ns(self) -> int:
        return int(self.median_ns * self.rng.lognormal(0.0, 0.03))


def test_a_step_is_called_once_for_warm_up_and_each_epoch_and_twice_for_memory():
    step = Counted()
    measured = profile(step, epochs=9, warmup=2, phases=False)
    assert step.calls == 1 + 2 + 9 + 2
    assert isinstance(measured, Profile)
    assert (measured.num_epochs, measured.num_warmup, measured.device) == (9, 2, "cpu")
    assert len(measured.epoch_times_ms) == 9
    assert (
        measured.time_per_epoch_ms.low <= measured.time_per_epoch_ms.median <= measured.time_per_epoch_ms.high
    )
    assert measured.total_s >= measured.first_call_s + sum(measured.epoch_times_ms) / 1e3
    assert measured.finished
    step = Counted()
    measured = profile(step, epochs=6, warmup=0, memory=False)
    assert step.calls == 7
    assert measured.peak_bytes is None
    assert measured.resident_bytes is None


def test_figures_come_from_the_clock(planted_clock):
    step = Planted(5e6, seed=0)
    measured = profile(step, epochs=50, memory=False)
    assert measured.time_per_epoch_ms.median == pytest.approx(5.0, rel=0.02)
    assert measured.time_per_epoch_ms.holds(5.0)
    assert measured.total_s == pytest.approx(54 * 5e-3, rel=0.02)


def test_two_copies_do_not_differ_and_a_slow_one_is_found(planted_clock):
    comparison = profile(
        {
            "mine": Planted(5e6, 0),
            "copy": Planted(5e6, 1),
            "slow": Planted(6e6, 2),
            "fast": Planted(2.5e6, 3),
        },
        memory=False,
    )
    assert isinstance(comparison, Comparison)
    assert set(comparison.ratios) == {"copy", "slow", "fast"}
    assert comparison.ratios["fast"].median == pytest.approx(2.0, rel=0.03)
    lines = str(comparison).splitlines()
    assert "no significant change" in next(line for line in lines if line.lstrip().startswith("copy"))
    assert "slower" in next(line for line in lines if line.lstrip().startswith("slow"))
    assert "2.0" in next(line for line in lines if line.lstrip().startswith("fast"))
    assert all(entry.num_epochs == 50 for entry in comparison.profiles)
    assert comparison["slow"].time_per_epoch_ms.median == pytest.approx(6.0, rel=0.03)
    with pytest.raises(KeyError):
        comparison["nobody"]


def test_steps_take_turns_forwards_and_backwards():
    order = []
    profile(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")}, epochs=6, warmup=0, memory=False
    )
    assert "".join(order) == "ab" + "abba" * 3


def test_the_same_closure_twice_works():
    step = Counted()
    comparison = profile({"mine": step, "theirs": step}, epochs=8, warmup=1, phases=False)
    assert step.calls == 2 * (1 + 1 + 8 + 2)
    assert [entry.name for entry in comparison.profiles] == ["mine", "theirs"]


def test_peak_memory_is_that_of_the_step():
    kept = torch.zeros(250_000)  # 1 MB alive between epochs

    def step():
        scratch = torch.empty(2_500_000)  # 10 MB
        scratch[0] = kept[0]

    measured = profile(step, epochs=6)
    assert measured.peak_bytes == pytest.approx(10e6, rel=0.02)
    assert measured.resident_bytes >= 1_000_000
    assert measured.process_peak_bytes > measured.peak_bytes
    text = str(measured)
    assert "peak memory" in text
    assert "10 MB" in text


def test_time_and_memory_are_told_apart():
    weight = torch.nn.Parameter(torch.ones(300, 300))
    x = torch.ones(3000, 300)

    def step():
        weight.grad = None
        (x @ weight).relu().sum().backward()

    measured = profile(step, epochs=6)
    stages = measured.stages_ms
    parts = sum(ms for key, ms in stages.items() if "." not in key and key != "epoch")
    assert parts == pytest.approx(stages["epoch"], rel=0.05)
    assert stages["forward.transform"] > 0
    assert stages["backward.transform"] > 0
    assert measured.memory_kinds["activations"] >= 3000 * 300 * 4
    assert measured.peak_operator is not None
    text = measured.text()
    for words in (
        "time by stage",
        "within both",
        "transform",
        "at the peak",
        "activations",
        "operator there",
    ):
        assert words in text
    assert "激活值" in measured.text("zh")
    without = profile(step, epochs=6, memory=False)
    assert without.stages_ms is without.memory_kinds is without.peak_operator is None
    assert "time by stage" not in without.text()
    only = profile(step, epochs=6, memory=False, phases=True)
    assert only.stages_ms is not None
    assert only.peak_bytes is None


def test_an_error_of_the_step_passes_unchanged():
    error = ZeroDivisionError("mine")
    for at in (1, 2, 7, 11):
        with pytest.raises(ZeroDivisionError) as caught:
            profile(Counted(at, error), epochs=6)
        assert caught.value is error
    assert profile(Counted(), epochs=6).finished, "an error in the memory pass leaves no profiler running"


def test_ctrl_c_returns_what_was_measured():
    measured = profile(Counted(1 + 3 + 9, KeyboardInterrupt()), epochs=50)
    assert not measured.finished
    assert measured.num_epochs == 8
    assert measured.peak_bytes is None
    assert "Cut short" in str(measured)
    assert "中断" in measured.text("zh")


def test_ctrl_c_too_early_is_raised():
    for at in (1, 3, 1 + 3 + 6):
        with pytest.raises(KeyboardInterrupt):
            profile(Counted(at, KeyboardInterrupt()), epochs=50)


def test_ctrl_c_in_a_comparison_keeps_the_full_rounds():
    slow = Counted(1 + 3 + 8, KeyboardInterrupt())
    comparison = profile({"a": Counted(), "b": slow}, epochs=14)  # 14 rounds of one epoch
    assert not comparison.finished
    assert comparison.num_rounds == 7
    assert [entry.num_epochs for entry in comparison.profiles] == [7, 7]
    with pytest.raises(KeyboardInterrupt):
        profile({"a": Counted(), "b": Counted(1 + 3 + 4, KeyboardInterrupt())}, epochs=14)


def test_ctrl_c_in_the_memory_pass_keeps_the_times():
    measured = profile(Counted(1 + 3 + 6 + 1, KeyboardInterrupt()), epochs=6)
    assert not measured.finished
    assert measured.num_epochs == 6
    assert measured.peak_bytes is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 5}, "epochs is a whole number of at least 6.*got 5"),
        ({"epochs": 7.5}, "epochs.*got 7.5"),
        ({"epochs": True}, "epochs.*got True"),
        ({"warmup": -1}, "warmup.*got -1"),
        ({"device": "nowhere"}, "device 'nowhere'"),
        ({"device": "cuda:99"}, "device 'cuda:99'"),
    ],
)
def test_options_that_cannot_work_are_refused_before_any_call(options, message):
    step = Counted()
    with pytest.raises(InvalidConfig, match=message):
        profile(step, **options)
    assert step.calls == 0


def test_what_is_not_a_step_is_refused():
    with pytest.raises(InvalidConfig, match="is a int"):
        profile(3)
    with pytest.raises(InvalidConfig, match="at least two steps, and got 0"):
        profile({})
    with pytest.raises(InvalidConfig, match="at least two steps, and got 1"):
        profile({"a": Counted()})
    with pytest.raises(InvalidConfig, match="'b' is a NoneType"):
        profile({"a": Counted(), "b": None})
    with pytest.raises(InvalidConfig, match="name is a word, and got 3"):
        profile({"a": Counted(), 3: Counted()})


def test_texts_exist_in_both_languages_and_no_other():
    measured = profile(Counted(), epochs=6)
    assert "time per epoch" in measured.text()
    assert "每轮用时" in measured.text("zh")
    with pytest.raises(InvalidConfig, match="'en', 'zh', and got 'fr'"):
        measured.text("fr")
    comparison = profile({"a": Counted(), "b": Counted()}, epochs=6)
    assert "轮流" in comparison.text("zh")


def test_a_ratio_in_words():
    assert ratio_text(Interval(median=1.84, low=1.79, high=1.88)) == (
        "1.84x, faster (95 % interval 1.79x to 1.88x)"
    )
    assert ratio_text(Interval(median=0.8, low=0.75, high=0.85)).startswith("0.80x, slower")
    assert ratio_text(Interval(median=0.99, low=0.9, high=1.0)).startswith("0.99x, no significant change")
    assert ratio_text(Interval(median=1.002, low=1.001, high=1.003)) == (
        "1.0020x, faster (95 % interval 1.0010x to 1.0030x)"
    )
    assert ratio_text(Interval(median=25.3, low=20.0, high=30.0)).startswith("25.3x, faster")
    assert "无显著变化" in ratio_text(Interval(median=1.0, low=0.9, high=1.1), "zh")


def test_elapsed_time_is_not_below_what_the_call_took():
    assert elapsed_ns(lambda: time.sleep(0.01), lambda: None) >= 10_000_000


def test_profile_needs_no_pyg():
    code = (
        "import sys\n"
        "sys.modules['torch_geometric'] = None\n"
        "from fasthop.measure.profile import profile\n"
        "print(profile(lambda: None, epochs=6))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "time per epoch" in done.stdout
    assert done.stderr == "", "the profiler's own lines are kept from the user"


def test_a_generator_or_coroutine_function_measures_nothing_and_is_refused():
    def epoch():
        yield 1

    async def later():
        pass

    for step in (epoch, later):
        with pytest.raises(InvalidConfig, match="runs none of its code"):
            profile(step)


def test_a_device_that_cannot_be_waited_for_is_refused():
    with pytest.raises(InvalidConfig, match="device 'meta' cannot be used here"):
        profile(lambda: None, device="meta")


def test_a_lazy_layer_that_has_no_size_yet_is_no_hindrance():
    layer = torch.nn.LazyLinear(3)
    assert profile(lambda: None, epochs=6).peak_bytes is not None
    assert torch.nn.parameter.is_lazy(layer.weight)
