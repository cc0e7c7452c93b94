"""A verdict goes to JSON and back without loss, and speaks in sentences."""

from __future__ import annotations

import json
import math

import pytest

from fasthop.errors import InvalidConfig
from fasthop.graph.note import note
from fasthop.verify.verdict import Leg, Scope, Verdict

EXACT = Leg(
    kind="float64", dtype="float64", error=3.14e-16, tolerance=1e-9, worst="out", num_tensors=5, num_steps=3
)
RUN = Leg(
    kind="run precision",
    dtype="float32",
    error=4.2e-7,
    tolerance=1.6e-6,
    worst="conv1.bias.grad",
    num_tensors=5,
    num_steps=3,
    reference_error=4e-7,
)
WRONG = Leg(
    kind="float64", dtype="float64", error=math.inf, tolerance=1e-9, worst="out", num_tensors=5, num_steps=3
)
PART = Scope(kind="subgraph", num_nodes=5_012, num_edges=33_120, num_seeds=12, num_hops=2, needed_hops=3)
WHOLE = Scope(kind="whole", num_nodes=10, num_edges=20)


def verdict(legs=(EXACT, RUN), scope=WHOLE, reason=None) -> Verdict:
    return Verdict(
        name="csr_spmm",
        exactness="reassociated",
        passed=reason is None,
        legs=legs,
        scope=scope,
        reason=reason,
        time_s=1.25,
    )


CASES = [
    verdict(),
    verdict(scope=PART),
    verdict(legs=(WRONG,), reason=note("in float64, out is wrong.", "float64 下，out 有误。")),
    verdict(legs=(), scope=Scope(kind="nothing"), reason=note("it is random.", "它是随机的。")),
]


@pytest.mark.parametrize("case", CASES)
def test_json_and_back_is_lossless(case):
    text = json.dumps(case.to_json(), allow_nan=False)
    assert Verdict.from_json(json.loads(text)) == case


def test_the_sentences_a_table_shows():
    proven, part, wrong, unproven = CASES
    assert proven.sentence["en"] == (
        "Proven on the whole graph: error 3.1e-16 in float64, 4.2e-07 in float32 (the original's own 4.0e-07)."
    )
    assert (
        proven.sentence["zh"]
        == "已在整张图上证明：float64 误差 3.1e-16，float32 误差 4.2e-07（原模型自身为 4.0e-07）。"
    )
    assert (
        "on a closed subgraph (5,012 nodes, 33,120 edges, 12 seeds; closed over 2 of 3 hops)"
        in part.sentence["en"]
    )
    assert "5,012 个节点" in part.sentence["zh"]
    assert wrong.sentence == note("Wrong: in float64, out is wrong.", "错误：float64 下，out 有误。")
    assert unproven.sentence == note("Not proven: it is random.", "未能证明：它是随机的。")
    assert [case.is_refuted for case in CASES] == [False, False, True, False]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 99}, "schema version 99"),
        ({"exactness": "nearly"}, "no verdict"),
        ({"scope": {"kind": "half"}}, "scope's kind is 'half'"),
        ({"legs": [{"kind": "float64"}]}, "no verdict"),
        ({"passed": False}, "exactly where it has no reason"),
        ({"surprise": 1}, "no verdict"),
    ],
)
def test_what_is_no_verdict_is_refused_in_a_sentence(change, message):
    with pytest.raises(InvalidConfig, match=message):
        Verdict.from_json({**CASES[0].to_json(), **change})
    with pytest.raises(InvalidConfig, match="no verdict"):
        Verdict.from_json({})
