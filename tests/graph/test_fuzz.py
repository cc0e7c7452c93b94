"""Every reader of graphs under hypothesis: it loads what was written, or says in a sentence why it does not.

benchmarks/fuzz_readers.py runs the same cases by the thousand; the last run is in benchmarks/results/fuzz_readers.txt.
"""

from __future__ import annotations

import importlib
import random
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fasthop.errors import FasthopError
from fasthop.graph.diagnosis import diagnose
from fasthop.graph.graph import Graph
from fasthop.graph.sources import load_graph

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
READERS = ("pt", "npz", "csv", "tsv", "parquet", "data", "networkx", "scipy")
quick = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example], database=None
)


@pytest.fixture(scope="module")
def fuzz():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("fuzz_readers")
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_every_reader_is_here(fuzz):
    assert tuple(fuzz.READERS) == READERS


@pytest.mark.filterwarnings("ignore")  # of torch and NumPy, on whatever a damaged file holds
@pytest.mark.parametrize("reader", READERS)
@settings(quick, max_examples=60)
@given(rnd=st.randoms(use_true_random=False))
def test_an_input_loads_as_it_is_or_is_refused_in_a_sentence(fuzz, reader, rnd):
    with tempfile.TemporaryDirectory() as folder:
        assert fuzz.outcome(reader, rnd, Path(folder)) in ("loaded", "refused")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reader", READERS)
def test_the_script_s_first_inputs(fuzz, reader):
    said = set()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(60):
            said.add(fuzz.outcome(reader, random.Random(f"{reader}-{number}"), Path(folder)))
    assert said == {"loaded", "refused"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ending", ["pt", "npz", "csv", "tsv", "parquet"])
@settings(quick, max_examples=100)
@given(
    content=st.binary(max_size=200),
    magic=st.sampled_from([b"", b"PK\x03\x04", b"\x80\x02", b"PAR1", b"source,target\n"]),
)
def test_any_bytes_are_refused_or_read(ending, content, magic):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"odd.{ending}"
        path.write_bytes(magic + content)
        nodes = path if ending in ("csv", "tsv", "parquet") else None
        refused = None
        try:
            assert isinstance(load_graph(path, nodes=nodes), Graph)
        except FasthopError as error:
            refused = error
        if refused is not None:
            assert str(refused).strip()
            assert diagnose(path, nodes=nodes).errors


def test_a_wrong_reader_would_be_caught(fuzz, monkeypatch):
    """The harness itself: a reader that swaps source and target does not pass."""
    from fasthop.graph import convert

    right = convert.mended_edge_index
    monkeypatch.setattr(convert, "mended_edge_index", lambda *args: right(*args).flip(0).contiguous())
    with tempfile.TemporaryDirectory() as folder:
        said = {fuzz.outcome("data", random.Random(number), Path(folder)) for number in range(30)}
    assert "other: wrong silence, edges is not what was written" in said
