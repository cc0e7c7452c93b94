"""The ablation keeps a rung only where it helps; the finals refuse what is refuted, loses accuracy or is not better."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fasthop.graph.note import note
from fasthop.measure.compare import paired_ratio
from fasthop.rewrites.amp import Amp
from fasthop.rewrites.cache_norm import CacheNorm
from fasthop.rewrites.csr_spmm import CsrSpmm
from fasthop.rewrites.first_hop import FirstHop
from fasthop.search.ablation import Ablation
from fasthop.search.candidate import Candidate
from fasthop.search.finals import Finals
from fasthop.search.protocol import Failure
from fasthop.search.tune_accuracy import judge_accuracy
from fasthop.search.yardstick import Yardstick

WINNER = Candidate(
    family="exact", rungs=(CacheNorm(), CsrSpmm(), FirstHop(), Amp()), threads=1, lr=0.01, name="exact"
)


class FakeTrack:
    """Workers without processes: an epoch takes what `epoch_ms` says of the names of its rungs."""

    def __init__(self, epoch_ms, *, acting=("cache_norm", "csr_spmm"), objective="epoch-time", left_s=1e6):
        self.epoch_ms, self.acting, self.left = epoch_ms, acting, []
        self.clock = SimpleNamespace(left_s=left_s)
        self.config = SimpleNamespace(
            bench=SimpleNamespace(round_s=0.01), budget_s=600.0, objective=objective
        )
        self.progress = SimpleNamespace(done=lambda *_: None)
        self.started_s = 0.0

    def enter(self, candidate):
        names = tuple(rung.name for rung in candidate.rungs)
        return SimpleNamespace(name=candidate.name, names=names, failure=None, first=SimpleNamespace(warm_epoch_s=0.01),
                               round_times_ms=[], memory=SimpleNamespace(peak_bytes=100 - len(names)), paid_before_s=0.0)  # fmt: skip

    def get_ready(self, entrant):
        if self.epoch_ms(entrant.names) is None:
            entrant.failure = Failure(kind="inapplicable", reason=note("It cannot.", "不行。"))

    def warm_up(self, entrant):
        pass

    def count_memory(self, entrant, *, limited):
        pass

    def take_round(self, entrant):
        if entrant.failure is not None:
            return None
        entrant.round_times_ms.append(
            self.epoch_ms(entrant.names) * (1 + 0.01 * (len(entrant.round_times_ms) % 3))
        )
        return entrant.round_times_ms[-1]

    def ask(self, entrant, request, **_):
        return self.acting

    def tell(self, *_):
        pass

    def leave(self, entrant):
        self.left.append(entrant.names)


def ablated(track):
    work = Ablation(track=track, candidate=WINNER, entrant=track.enter(WINNER), until_s=0.0)
    work.run()
    return work, {verdict.rung: verdict for verdict in work.verdicts}


def test_only_what_helps_stays():
    def epoch_ms(names):
        return 10.0 * (1.0 if "csr_spmm" in names else 3.0) * (1.2 if "amp" in names else 1.0)

    track = FakeTrack(epoch_ms)
    work, verdicts = ablated(track)
    assert [rung.name for rung in work.candidate.rungs] == ["csr_spmm"]
    assert work.candidate.name == "csr_spmm"
    assert "nothing to do" in verdicts["first_hop"].reason["en"]
    assert verdicts["amp"].ratio.high < 1.0
    assert "taken out" in verdicts["amp"].reason["en"]
    assert verdicts["csr_spmm"].kept
    assert verdicts["csr_spmm"].ratio.low == pytest.approx(3.0)
    assert "3.00x [3.00, 3.00]" in verdicts["csr_spmm"].reason["zh"]
    assert not verdicts["cache_norm"].kept  # 1.00x: no significant gain
    assert work.entrant.names == ("csr_spmm",)
    assert len(track.left) == 3  # the winners that were replaced, and the loser without csr_spmm


def test_a_rung_that_the_others_need_stays():
    work, verdicts = ablated(FakeTrack(lambda names: None if "csr_spmm" not in names else 10.0))
    assert "does not run without it: It cannot." in verdicts["csr_spmm"].reason["en"]
    assert "不行。" in verdicts["csr_spmm"].reason["zh"]
    assert [rung.name for rung in work.candidate.rungs] == ["csr_spmm"]


def test_under_the_objective_memory_a_lower_peak_counts():
    work, verdicts = ablated(FakeTrack(lambda names: 10.0, objective="memory"))
    assert [rung.name for rung in work.candidate.rungs] == ["cache_norm", "csr_spmm", "amp"]
    assert "holds less memory" in verdicts["amp"].reason["en"]


def test_without_time_it_says_what_was_not_tried():
    work, verdicts = ablated(FakeTrack(lambda names: 10.0, left_s=-1.0))
    assert [rung.name for rung in work.candidate.rungs] == ["cache_norm", "csr_spmm", "amp"]
    assert "was not tried without" in verdicts["amp"].reason["en"]


def side(times_ms, *, refuted=False, peak=10):
    verdict = SimpleNamespace(is_refuted=refuted, sentence=note("Its gradient differs.", "梯度不同。"))
    return SimpleNamespace(failure=None, verdict=verdict, round_times_ms=list(times_ms), first=object(),
                           memory=SimpleNamespace(peak_bytes=peak), seconds_to=lambda target: 5.0)  # fmt: skip


def refusal(own, *, accuracy=None, objective="epoch-time", target=None, reached_s=None, counts=True):
    base = side([10.0, 11.0, 10.5, 10.2, 10.1, 10.4, 10.3], peak=20)
    finals = Finals(track=None, study=None, yardstick=Yardstick(objective=objective, num_epochs=3, lr=0.01), baseline=base,
                    baseline_candidate=WINNER, baseline_counts=counts)  # fmt: skip
    run = SimpleNamespace(
        ratio_to_baseline=paired_ratio(base.round_times_ms, own.round_times_ms),
        peak_bytes=own.memory.peak_bytes,
        time_to_accuracy_s=reached_s,
    )
    found = finals._refusal(WINNER, own, run, accuracy, target)
    return None if found is None else found["en"]


def test_what_the_finals_refuse():
    fast, same = [5.0, 5.5, 5.2, 5.1, 5.0, 5.2, 5.1], [10.1, 10.9, 10.6, 10.1, 10.2, 10.3, 10.4]
    assert refusal(side(fast)) is None
    assert "not significantly better" in refusal(side(same))
    assert refusal(side(same), counts=False) is None  # the baseline does not fit: whatever does is the plan
    assert "Its gradient differs." in refusal(side(fast, refuted=True))
    lost = judge_accuracy([80.0, 81.0, 80.5], [70.0, 71.0, 70.5], max_drop=0.5)
    assert "Accuracy drops: -10.00" in refusal(side(fast), accuracy=lost)
    undecided = judge_accuracy([80.0], [70.0], max_drop=0.5)
    assert refusal(side(fast), accuracy=undecided) is None
    assert refusal(side(same), objective="memory") is None
    assert "not significantly better" in refusal(side(fast, peak=21), objective="memory")
    assert refusal(side(same), objective="time-to-accuracy", target=75.0, reached_s=4.0) is None
    assert refusal(side(fast), objective="time-to-accuracy", target=75.0, reached_s=6.0) is not None
    assert refusal(side(fast), objective="time-to-accuracy", target=75.0, reached_s=None) is not None
