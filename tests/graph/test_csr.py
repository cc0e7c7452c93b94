from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fasthop.errors import InvalidGraph
from fasthop.graph import csr as csr_module
from fasthop.graph.csr import CSR

PATHS = {"sort": 1 << 60, "counting": 0}


@pytest.fixture(params=PATHS)
def path(request, monkeypatch):
    monkeypatch.setattr(csr_module, "COUNTING_SORT_FROM", PATHS[request.param])
    return request.param


@st.composite
def edge_lists(draw):
    num_nodes = draw(st.integers(1, 12))
    node = st.integers(0, num_nodes - 1)
    # Few nodes and many edges, so that loops, parallel edges and hubs are the rule.
    return num_nodes, draw(st.lists(st.tuples(node, node), max_size=60))


def reference(num_nodes, edges):
    """Rows by the definition: the edges of each target, by source, then by place."""
    order = sorted(range(len(edges)), key=lambda e: (edges[e][1], edges[e][0], e))
    rowptr = [sum(t < i for _, t in edges) for i in range(num_nodes + 1)]
    return rowptr, [edges[e][0] for e in order], order


def as_tensor(edges, dtype=torch.int64):
    return torch.tensor(edges, dtype=dtype).view(-1, 2).t().contiguous()


def assert_is(csr, expected):
    assert (csr.rowptr.tolist(), csr.col.tolist(), csr.e_id.tolist()) == tuple(expected)
    assert (csr.rowptr.dtype, csr.col.dtype, csr.e_id.dtype) == (torch.int64, torch.int32, torch.int32)


@pytest.mark.parametrize("threshold", PATHS.values(), ids=PATHS)
@given(edge_lists(), st.sampled_from([torch.int64, torch.int32]))
@settings(deadline=None)
def test_equals_the_definition_and_so_does_the_transpose(threshold, graph, dtype):
    num_nodes, edges = graph
    before, csr_module.COUNTING_SORT_FROM = csr_module.COUNTING_SORT_FROM, threshold
    try:
        csr = CSR.from_edge_index(as_tensor(edges, dtype), num_nodes)
        assert_is(csr, reference(num_nodes, edges))
        assert_is(csr.transpose(), reference(num_nodes, [(t, s) for s, t in edges]))
        assert_is(csr.transpose().transpose(), reference(num_nodes, edges))
        assert csr.row.tolist() == sorted(t for _, t in edges)
    finally:
        csr_module.COUNTING_SORT_FROM = before


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_a_directed_graph_with_hubs_agrees_with_torch(path, dtype):
    generator = torch.Generator().manual_seed(0)
    num_nodes, num_edges = 500, 40_000
    edge_index = (torch.rand(2, num_edges, generator=generator) ** 4 * num_nodes).to(dtype)
    csr = CSR.from_edge_index(edge_index, num_nodes)
    order = torch.argsort(edge_index[1].long() * num_nodes + edge_index[0].long(), stable=True)
    assert torch.equal(csr.e_id.long(), order)
    assert torch.equal(csr.col, edge_index[0, order].int())
    assert torch.equal(csr.degree, torch.bincount(edge_index[1], minlength=num_nodes))
    assert csr.degree.max() > 5 * csr.degree.float().mean()


def test_rows_are_targets_and_e_id_carries_the_weights(path):
    # Case 7: on a directed graph the product must equal edge_index's own, not its transpose's.
    edge_index = torch.tensor([[0, 0, 2, 2], [1, 2, 1, 1]])
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0])
    csr = CSR.from_edge_index(edge_index, 3)
    x = torch.tensor([[1.0], [10.0], [100.0]])
    messages = torch.zeros(3, 1).index_add_(0, edge_index[1], weight[:, None] * x[edge_index[0]])
    product = torch.zeros(3, 1).index_add_(0, csr.row.long(), weight[csr.e_id][:, None] * x[csr.col])
    assert torch.equal(product, messages)
    assert messages.flatten().tolist() == [0.0, 701.0, 2.0]


def test_no_edges_and_no_nodes(path):
    assert_is(CSR.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 3), ([0, 0, 0, 0], [], []))
    assert_is(CSR.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 0), ([0], [], []))
    assert_is(CSR.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 0).transpose(), ([0], [], []))


def test_a_view_that_is_not_contiguous_is_read_as_it_is(path):
    edges = torch.tensor([[0, 1], [2, 1], [1, 0], [0, 1]])
    assert_is(CSR.from_edge_index(edges.t(), 3), reference(3, edges.tolist()))


@pytest.mark.parametrize(
    ("edge_index", "sentence"),
    [
        (torch.tensor([[0, 7], [1, 2]]), r"edge_index\[0, 1\] is 7, which is out of range for 3 nodes"),
        (torch.tensor([[0, 1], [-1, 2]]), r"edge_index\[1, 0\] is -1, which is negative"),
        (torch.tensor([[0.0], [1.0]]), "dtype float32"),
        (torch.empty(2, 0), "dtype float32"),
        (torch.tensor([[True], [False]]), "dtype bool"),
        (torch.tensor([0, 1]), r"shape \[2\]"),
        (torch.tensor([[0, 1], [1, 2], [0, 2]]), r"shape \[3, 2\].*edge_index.t\(\)"),
    ],
)
def test_a_wrong_edge_index_is_refused_by_value_and_place(path, edge_index, sentence):
    with pytest.raises(InvalidGraph, match=sentence):
        CSR.from_edge_index(edge_index, 3)


@pytest.mark.parametrize("num_nodes", [-1, 2.0, None, True])
def test_a_wrong_number_of_nodes_is_refused(num_nodes):
    with pytest.raises(InvalidGraph, match="num_nodes"):
        CSR.from_edge_index(torch.empty(2, 0, dtype=torch.int64), num_nodes)


def test_columns_widen_only_where_int32_does_not_fit():
    assert csr_module.index_dtype(2**31) is torch.int32
    assert csr_module.index_dtype(2**31 + 1) is torch.int64
    assert csr_module.index_dtype(0) is torch.int32


def test_entries_that_do_not_fit_in_int32_become_int64(path, monkeypatch):
    monkeypatch.setattr(csr_module, "INT32_MAX", 2)
    edges = [(3, 0), (1, 2), (0, 0), (1, 2), (2, 3)]
    csr = CSR.from_edge_index(as_tensor(edges), 5)
    transpose = csr.transpose()
    for one, expected in ((csr, reference(5, edges)), (transpose, reference(5, [(t, s) for s, t in edges]))):
        assert (one.rowptr.tolist(), one.col.tolist(), one.e_id.tolist()) == tuple(expected)
        assert (one.col.dtype, one.e_id.dtype) == (torch.int64, torch.int64)
