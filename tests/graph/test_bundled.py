from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.utils import is_undirected

from fasthop.graph.bundled import CORA, bundled_cora
from tests.conftest import SHARED

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_cora.py"


@pytest.fixture(scope="module")
def cora():
    return bundled_cora()


def test_it_is_cora(cora):
    assert (cora.num_nodes, cora.num_edges, cora.num_features, cora.num_classes) == (2708, 2 * 5278, 1433, 7)
    assert cora.x.dtype is torch.float32
    assert set(cora.x.unique().tolist()) == {0.0, 1.0}
    assert int(cora.x.sum()) == 49_216
    assert is_undirected(cora.edge_index)
    assert torch.bincount(cora.y).tolist() == [298, 418, 818, 426, 217, 180, 351]


def test_the_split_follows_planetoids_protocol_and_says_whose_it_is(cora):
    assert torch.bincount(cora.y[cora.train_mask]).tolist() == [20] * 7
    assert (int(cora.val_mask.sum()), int(cora.test_mask.sum())) == (500, 1000)
    masks = torch.stack([cora.train_mask, cora.val_mask, cora.test_mask])
    assert int(masks.sum(0).max()) == 1
    assert "not Planetoid's public split" in cora.notes[0]["en"]
    assert "并非 Planetoid 的公开划分" in cora.notes[0]["zh"]


def test_the_file_is_small_and_loads_without_pickle():
    assert CORA.stat().st_size < 135_000
    with np.load(CORA, allow_pickle=False) as file:
        assert all(file[key].dtype.kind == "u" for key in file.files)


def test_the_script_makes_the_same_bytes(tmp_path):
    folder = SHARED / "data" / "linqs-cora"
    if not folder.is_dir():
        pytest.skip(f"the LINQS files are not at {folder}; set FASTHOP_SHARED to the folder that has them")
    out = tmp_path / "cora.npz"
    subprocess.run([sys.executable, str(SCRIPT), str(folder), str(out)], check=True, capture_output=True)
    assert hashlib.sha256(out.read_bytes()).digest() == hashlib.sha256(CORA.read_bytes()).digest()


def test_it_is_the_same_graph_as_planetoids_up_to_the_order_of_nodes(cora, planetoid_root):
    from fasthop.graph.sources import load_graph

    other = load_graph("planetoid:Cora", root=planetoid_root)
    assert torch.equal(cora.csr.degree.sort().values, other.csr.degree.sort().values)
    assert torch.equal(cora.x.sum(1).sort().values, other.x.sum(1).sort().values)
    assert torch.equal(torch.bincount(cora.y).sort().values, torch.bincount(other.y).sort().values)
