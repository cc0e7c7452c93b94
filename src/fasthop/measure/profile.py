"""`fasthop.profile`: the time and memory of one epoch of anything, and of several things in turns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from fasthop.errors import InvalidConfig
from fasthop.machine.clock import device_in_use, elapsed_ns, synchronizer
from fasthop.machine.process import process_peak_bytes
from fasthop.measure.compare import MIN_ROUNDS, median_interval, paired_ratio
from fasthop.measure.passes import Passes
from fasthop.measure.profile_text import comparison_text, profile_text
from fasthop.measure.rounds import epochs_of_rounds, time_epochs, turn_order
from fasthop.measure.run import Interval

if TYPE_CHECKING:
    import torch

Step = Callable[[], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """What `profile` measured of one step. Every figure is None where it was not measured.

    first_call_s: the very first call, with lazy initialisation, JIT and compilation in it.
    time_per_epoch_ms: median of the timed epochs with its 95 % interval.
    total_s: all calls but the memory pass's: first call, warm-up and timed epochs.
    epoch_times_ms: every timed epoch, in order.
    peak_bytes: how far live memory rises, while an epoch runs, above what is alive between epochs.
    resident_bytes: what is alive between epochs in tensors and NumPy arrays, of the whole process:
        inputs, parameters, gradients, the optimiser's state.
    peak_reserved_bytes: what CUDA's caching allocator held at its peak; None on the CPU.
    process_peak_bytes: the process's peak resident set when the timed epochs ended.
    stages_ms: where an epoch's time goes, see `measure_phases`; memory_kinds, peak_operator: what lives at the peak and the
        operator that stood there, see `MemoryKinds`. Both from passes of their own.
    finished: False where Ctrl-C cut the run short, and this is what was measured until then.
    """

    name: str
    device: str
    first_call_s: float
    time_per_epoch_ms: Interval
    total_s: float
    num_epochs: int
    num_warmup: int
    epoch_times_ms: tuple[float, ...]
    peak_bytes: int | None = None
    resident_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    process_peak_bytes: int | None = None
    stages_ms: dict[str, float] | None = None
    memory_kinds: dict[str, int] | None = None
    peak_operator: str | None = None
    finished: bool = True

    def text(self, lang: str = "en") -> str:
        """The profile in a few lines, in English ("en") or Chinese ("zh")."""
        return profile_text(self, lang)

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Several steps measured in turns. `comparison["name"]` is the Profile of one.

    ratios: by name, how many times as fast as the first step each is (above 1 is faster), paired
        round by round, with its 95 % interval; the first step has none.
    """

    profiles: tuple[Profile, ...]
    ratios: dict[str, Interval]
    num_rounds: int
    finished: bool = True

    def __getitem__(self, name: str) -> Profile:
        for entry in self.profiles:
            if entry.name == name:
                return entry
        raise KeyError(name)

    def text(self, lang: str = "en") -> str:
        """The comparison as a small table, in English ("en") or Chinese ("zh")."""
        return comparison_text(self, lang)

    def __str__(self) -> str:
        return self.text()


@dataclass(slots=True)
class _Timing:
    """What has been measured of one step so far."""

    name: str
    step: Step
    first_call_s: float = 0.0
    total_ns: int = 0
    rounds: list[list[int]] = field(default_factory=list)

    @property
    def epoch_ns(self) -> list[int]:
        return [time for one_round in self.rounds for time in one_round]


@overload
def profile(
    step: Step,
    *,
    epochs: int = 50,
    warmup: int = 3,
    device: torch.device | str | None = None,
    memory: bool = True,
    phases: bool | None = None,
) -> Profile: ...


@overload
def profile(
    step: Mapping[str, Step],
    *,
    epochs: int = 50,
    warmup: int = 3,
    device: torch.device | str | None = None,
    memory: bool = True,
    phases: bool | None = None,
) -> Comparison: ...


def profile(
    step: Step | Mapping[str, Step],
    *,
    epochs: int = 50,
    warmup: int = 3,
    device: torch.device | str | None = None,
    memory: bool = True,
    phases: bool | None = None,
) -> Profile | Comparison:
    """Measures a function that does one epoch of anything; or several, by name, in turns.

    step: takes nothing and does one epoch: a user's own loop, nothing else is asked of it. It is
        called 1 + warmup + epochs times and must stand being repeated, since training goes on from
        call to call. Or a dict of such functions: they then take turns in rounds, forwards and
        backwards, and each is compared with the first by paired ratios.
    epochs: timed epochs of each step, at least 6, since fewer carry no 95 % interval.
    warmup: calls after the first one that are not timed.
    device: what to wait for before the clock is read, and whose memory is measured. None: CUDA's current
        device once the first call has put CUDA to work, else the CPU.
    memory: measure peak memory too, after the timed epochs, in a pass of its own which costs two more
        epochs of each step at about half speed. False for a step that cannot be repeated so, or
        that runs a torch profiler itself.
    phases: tell time apart by stage and memory by kind as well, in passes that come last and cost from four to some
        twenty more epochs of each step (about a second where an epoch is short). None: as `memory` says.

    Ctrl-C during the timed epochs or the passes after them returns what was measured until then, with
    finished=False, once there are 6 epochs (or 6 full rounds) of it; before that it is raised.

    Raises InvalidConfig for an option that cannot work, before any call. What a step raises passes
    through unchanged.
    """
    if isinstance(step, Mapping):
        timings = [_Timing(name, entry) for name, entry in step.items()]
        if len(timings) < 2:
            raise InvalidConfig(
                f"a comparison needs at least two steps, and got {len(timings)}; give a single step as a function."
            )
    else:
        timings = [_Timing(getattr(step, "__name__", None) or type(step).__name__, step)]
    _check(timings, epochs, warmup)
    device_given = _device(device)

    place = _first_calls(timings, device_given)
    synchronize = synchronizer(place)
    for timing in timings:
        timing.total_ns += sum(time_epochs(timing.step, warmup, synchronize))
    finished = _timed_rounds(timings, epochs_of_rounds(epochs), synchronize)
    process_peak = process_peak_bytes()

    passes = [Passes() for _ in timings]
    if finished:
        try:
            for timing, found in zip(timings, passes, strict=True):
                found.run(timing.step, place, memory=memory, phases=memory if phases is None else phases)
        except KeyboardInterrupt:
            finished = False

    profiles = []
    for timing, found in zip(timings, passes, strict=True):
        times_ms = tuple(time / 1e6 for time in timing.epoch_ns)
        peak, kinds = found.peak, found.kinds
        profiles.append(
            Profile(
                name=timing.name,
                device=str(place),
                first_call_s=timing.first_call_s,
                time_per_epoch_ms=median_interval(times_ms),
                total_s=(timing.total_ns + sum(timing.epoch_ns)) / 1e9,
                num_epochs=len(times_ms),
                num_warmup=warmup,
                epoch_times_ms=times_ms,
                peak_bytes=None if peak is None else peak.transient_bytes,
                resident_bytes=None if peak is None else peak.rest_bytes,
                peak_reserved_bytes=None if peak is None else peak.peak_reserved_bytes,
                process_peak_bytes=process_peak,
                stages_ms=found.stages_ms,
                memory_kinds=None if kinds is None else kinds.kinds,
                peak_operator=None if kinds is None else kinds.operator,
                finished=finished,
            )
        )
    if not isinstance(step, Mapping):
        return profiles[0]
    first = _round_times(timings[0])
    return Comparison(
        profiles=tuple(profiles),
        ratios={timing.name: paired_ratio(first, _round_times(timing)) for timing in timings[1:]},
        num_rounds=len(first),
        finished=finished,
    )


def _check(timings: list[_Timing], epochs: int, warmup: int) -> None:
    for timing in timings:
        if not isinstance(timing.name, str) or not timing.name:
            raise InvalidConfig(f"a step's name is a word, and got {timing.name!r}.")
        if not callable(timing.step):
            raise InvalidConfig(
                f"a step is a function that takes nothing and does one epoch, and {timing.name!r} is a "
                f"{type(timing.step).__name__}; wrap the epoch in `def step(): ...` or a lambda."
            )
        if inspect.isgeneratorfunction(timing.step) or inspect.iscoroutinefunction(timing.step):
            raise InvalidConfig(
                f"{timing.name!r} makes a generator or a coroutine, and calling it runs none of its code; wrap it in a "
                "function that runs it to its end."
            )
    for name, value, least in (("epochs", epochs, MIN_ROUNDS), ("warmup", warmup, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            reason = ", since fewer carry no 95 % interval" if name == "epochs" else ""
            raise InvalidConfig(f"{name} is a whole number of at least {least}{reason}; got {value!r}.")


def _device(device: torch.device | str | None) -> torch.device | None:
    """The device asked for, checked before any work; None where it is left to the first call."""
    if device is None:
        return None
    import torch

    try:
        checked = torch.device(device)
        torch.empty(0, device=checked)
        synchronizer(checked)()
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidConfig(f"device {device!r} cannot be used here ({reason}); try device='cpu'.") from None
    return checked


def _first_calls(timings: list[_Timing], device: torch.device | None) -> torch.device:
    """Calls every step for the first time; returns the device to wait for."""
    place = device
    for timing in timings:

        def wait() -> None:
            synchronizer(device_in_use() if device is None else device)()

        first_ns = elapsed_ns(timing.step, wait)
        timing.first_call_s = first_ns / 1e9
        timing.total_ns += first_ns
        place = device_in_use() if device is None else device
    assert place is not None
    return place


def _timed_rounds(timings: list[_Timing], num_epochs_of: list[int], synchronize: Callable[[], None]) -> bool:
    """Times all rounds; False where Ctrl-C ended them early with enough measured, and all steps
    are then left with the same rounds."""
    try:
        for index, num_epochs in enumerate(num_epochs_of):
            for timing in turn_order(timings, index):
                one_round: list[int] = []
                timing.rounds.append(one_round)
                for _ in range(num_epochs):  # one by one, so that Ctrl-C keeps those that are done
                    one_round.append(elapsed_ns(timing.step, synchronize))  # noqa: PERF401
    except KeyboardInterrupt:
        if len(timings) > 1:
            full = [sum(len(r) == n for r, n in zip(t.rounds, num_epochs_of, strict=False)) for t in timings]
            for timing in timings:
                del timing.rounds[min(full) :]
            enough = min(full) >= MIN_ROUNDS
        else:
            enough = len(timings[0].epoch_ns) >= MIN_ROUNDS
        if not enough:
            raise
        return False
    return True


def _round_times(timing: _Timing) -> list[float]:
    from statistics import median

    return [median(one_round) for one_round in timing.rounds]
