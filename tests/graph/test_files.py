from __future__ import annotations

import collections
import pickle
import zipfile

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, InMemoryDataset

from fasthop.errors import GraphNotFound, InvalidGraph
from fasthop.graph.files import data_from_file
from fasthop.graph.sources import load_graph


class Custom:
    """A class that torch.load does not know to be safe."""


def test_a_whole_data_is_read_safely(path_data, tmp_path):
    # Case 28.
    torch.save(path_data(), tmp_path / "mine.pt")
    graph = load_graph(tmp_path / "mine.pt")
    assert graph.name == "mine"
    assert torch.equal(graph.x, path_data().x)
    assert torch.equal(load_graph(str(tmp_path / "mine.pt")).edge_index, path_data().edge_index)


def test_a_dict_and_pygs_processed_form_are_read(path_data, tmp_path):
    torch.save(path_data().to_dict(), tmp_path / "dict.pth")
    assert load_graph(tmp_path / "dict.pth").num_edges == 3
    InMemoryDataset.save([path_data()], str(tmp_path / "data.pt"))
    assert load_graph(tmp_path / "data.pt").num_edges == 3
    InMemoryDataset.save([path_data(), path_data()], str(tmp_path / "two.pt"))
    with pytest.raises(InvalidGraph, match="several graphs"):
        load_graph(tmp_path / "two.pt")


def test_an_edge_index_class_is_read_from_a_file(path_data, tmp_path):
    torch.save(path_data(edge_index=EdgeIndex([[0, 1], [1, 2]], sparse_size=(5, 5))), tmp_path / "edges.pt")
    assert load_graph(tmp_path / "edges.pt").num_edges == 2


def test_other_objects_are_refused_until_the_flag_is_given(path_data, tmp_path):
    torch.save(path_data(extra=Custom()), tmp_path / "custom.pt")
    with pytest.raises(InvalidGraph, match=r"tests\.graph\.test_files\.Custom.*--unsafe-pickle"):
        load_graph(tmp_path / "custom.pt")
    assert isinstance(load_graph(tmp_path / "custom.pt", unsafe=True).extras["extra"], Custom)


class Evil:
    def __reduce__(self):
        return (print, ("code ran",))


def test_code_in_a_file_does_not_run(tmp_path, capsys):
    torch.save({"edge_index": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(InvalidGraph, match="--unsafe-pickle"):
        load_graph(tmp_path / "evil.pt")
    assert "code ran" not in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"hello, this is text\n", b"PK\x03\x04 broken", b"\x80\x02."])
def test_what_is_no_file_of_torch_is_explained(tmp_path, content):
    (tmp_path / "odd.pt").write_bytes(content)
    with pytest.raises(InvalidGraph, match=r"odd\.pt"):
        load_graph(tmp_path / "odd.pt")


def test_other_contents_are_explained(tmp_path):
    torch.save({"weight": torch.ones(2)}, tmp_path / "state.pt")
    with pytest.raises(InvalidGraph, match=r"\['weight'\] and neither edge_index nor adj_t"):
        data_from_file(tmp_path / "state.pt")
    torch.save(torch.ones(2), tmp_path / "tensor.pt")
    with pytest.raises(InvalidGraph, match=r"tensor\.pt holds a Tensor"):
        load_graph(tmp_path / "tensor.pt")
    torch.save([Data(), Data()], tmp_path / "list.pt")
    with pytest.raises(InvalidGraph, match="list of 2 graphs"):
        load_graph(tmp_path / "list.pt")
    torch.save(collections.OrderedDict(), tmp_path / "empty.pt")
    with pytest.raises(InvalidGraph, match="neither edge_index"):
        load_graph(tmp_path / "empty.pt")


def test_no_file(tmp_path):
    with pytest.raises(GraphNotFound, match=r"no file .*none\.pt"):
        load_graph(tmp_path / "none.pt")


@pytest.mark.parametrize(
    ("content", "words"), [(5, "holds an int, not"), (None, "NoneType"), ({5: 1, "edge_index": 2}, "key 5")]
)
def test_what_is_no_data_is_named_with_its_file(content, words, tmp_path):
    torch.save(content, tmp_path / "odd.pt")
    with pytest.raises(InvalidGraph, match=rf"odd\.pt.*{words}"):
        load_graph(tmp_path / "odd.pt")


def test_an_empty_file_and_a_plain_pickle_are_told_in_whole_sentences(path_data, tmp_path):
    (tmp_path / "empty.pt").write_bytes(b"")
    with pytest.raises(InvalidGraph, match=r"is empty; write it again"):
        load_graph(tmp_path / "empty.pt")
    # torch warns of the protocol of a plain pickle, and says nothing in its error.
    (tmp_path / "pickle.pt").write_bytes(pickle.dumps(path_data()))
    with pytest.raises(InvalidGraph, match=r"damaged \(UnpicklingError\); write it"):
        load_graph(tmp_path / "pickle.pt")


def test_a_file_with_another_ending_is_told_apart_from_no_file(path_data, tmp_path):
    torch.save(path_data(), tmp_path / "graph.pkl")
    with pytest.raises(GraphNotFound, match=r"of that name is there; a graph's file ends in \.pt"):
        load_graph(tmp_path / "graph.pkl")


def test_a_flipped_bit_is_found_by_its_checksum(path_data, tmp_path):
    torch.save({"edge_index": path_data().edge_index, "x": torch.full((5, 2), 7.0)}, tmp_path / "flipped.pt")
    content = bytearray((tmp_path / "flipped.pt").read_bytes())
    content[content.index(torch.full((2,), 7.0).numpy().tobytes()) + 2] ^= 1
    (tmp_path / "flipped.pt").write_bytes(content)
    with pytest.raises(
        InvalidGraph, match=r"flipped\.pt is not a file of torch\.save, or is damaged \(.*(checksum|CRC)"
    ):
        load_graph(tmp_path / "flipped.pt")


def test_a_part_that_is_marked_as_a_folder_is_refused(path_data, tmp_path):
    # torch.load would give memory that was never written in its place.
    torch.save(path_data().to_dict(), tmp_path / "whole.pt")
    with zipfile.ZipFile(tmp_path / "whole.pt") as whole, zipfile.ZipFile(tmp_path / "odd.pt", "w") as odd:
        for member in whole.infolist():
            content = whole.read(member)
            member.external_attr = 0x10 if member.filename.endswith("data/1") else 0
            odd.writestr(member, content)
    with pytest.raises(InvalidGraph, match=r"odd\.pt is not .*data/1 is marked as a folder"):
        load_graph(tmp_path / "odd.pt")
