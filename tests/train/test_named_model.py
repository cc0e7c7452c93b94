"""Models named by their place: found and made with what the graph knows, and every way it goes wrong as a sentence."""

from __future__ import annotations

import os
import sys
import textwrap

import pytest
import torch
from torch_geometric.nn import GCNConv

from fasthop.errors import InvalidConfig
from fasthop.train.named_model import find_model
from fasthop.train.task_config import TaskConfig, make_task, model_name, task_settings
from tests.train.graphs import digraph

NET = """
    import torch
    from torch_geometric.nn import GCNConv
    import neighbour_of_net

    class Net(torch.nn.Module):
        def __init__(self, in_channels, hidden_channels, out_channels, bias=True):
            super().__init__()
            self.first = GCNConv(in_channels, hidden_channels, bias=bias)
            self.last = GCNConv(hidden_channels, out_channels, bias=bias)

        def forward(self, x, edge_index):
            return self.last(self.first(x, edge_index).relu(), edge_index)

    def make_model(num_features, num_classes, width=4):
        return Net(num_features, width, num_classes)

    def two_things():
        return 1, 2

    def fails(num_features):
        width = 1 // 0
        return Net(num_features, width, 3)

    ready = Net(8, 5, 3)
    WIDTH = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(textwrap.dedent(NET))
    (tmp_path / "neighbour_of_net.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("fasthop_model_", "neighbour_of_net", "package_of_net")):
            del sys.modules[name]


def made(model, graph=None, **options):
    graph = graph or digraph(dtype=torch.float32)
    task = make_task(TaskConfig(model=model, **options), graph)
    return task.build_model(0), task


def test_a_function_and_a_class_in_a_file_are_given_what_the_graph_knows(folder):
    model, task = made("net.py:make_model")
    assert [part.weight.shape for part in (model.first.lin, model.last.lin)] == [(4, 8), (3, 4)]
    assert (
        task.notes[0]["en"]
        == "make_model was given num_features = 8, num_classes = 3, as it asks for by name."
    )
    model, task = made("net.py:Net", model_args={"hidden_channels": 5, "bias": False})
    assert (model.first.lin.weight.shape, model.first.bias) == ((5, 8), None)
    assert "in_channels = 8, out_channels = 3" in task.notes[0]["en"]
    model, _ = made(str(folder / "net.py") + ":Net", model_args={"hidden_channels": 5, "out_channels": 9})
    assert model.last.lin.weight.shape == (9, 5)


def test_what_the_reference_models_are_shaped_by_is_handed_on_where_it_is_asked_for(folder):
    assert made("net.py:Net")[0].first.lin.weight.shape == (16, 8)
    assert made("net.py:Net", hidden=6)[0].first.lin.weight.shape == (6, 8)
    with pytest.raises(
        InvalidConfig, match=r"layers is 3, and Net has no argument for it \(num_layers, layers\)"
    ):
        made("net.py:Net", layers=3)


def test_a_class_of_an_installed_package(folder):
    model, _ = made("torch_geometric.nn:GCN", model_args={"dropout": 0.25}, hidden=7)
    assert [type(conv) for conv in model.convs] == [GCNConv, GCNConv]
    assert model.convs[0].lin.weight.shape == (7, 8)
    assert model.convs[1].lin.weight.shape == (3, 7)
    assert model.dropout.p == 0.25


def test_a_module_beside_the_working_directory(folder):
    (folder / "package_of_net").mkdir()
    (folder / "package_of_net" / "__init__.py").write_text("")
    (folder / "package_of_net" / "inner.py").write_text(textwrap.dedent(NET))
    assert made("package_of_net.inner:make_model")[0].last.lin.weight.shape == (3, 4)


def test_a_module_that_is_made_already_is_copied_with_parameters_drawn_anew(folder):
    ready = find_model("net.py:ready")
    before = ready.first.lin.weight.clone()
    model, _ = made("net.py:ready")
    assert not torch.equal(model.first.lin.weight, before)
    assert torch.equal(ready.first.lin.weight, before)
    with pytest.raises(InvalidConfig, match="Net is a module that is made already"):
        made("net.py:ready", model_args={"hidden_channels": 3})


def test_the_parameters_are_those_of_the_seed(folder):
    _, task = made("net.py:make_model")
    one, two, other = (task.build_model(seed).first.lin.weight for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_an_edited_file_is_read_anew(folder):
    first = find_model("net.py:make_model")
    assert find_model("net.py:make_model") is first
    text = (folder / "net.py").read_text().replace("width=4", "width=11")
    (folder / "net.py").write_text(text)
    os.utime(folder / "net.py", ns=(1, 1))
    assert made("net.py:make_model")[0].first.lin.weight.shape == (11, 8)


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("nett.py:make_model", {}, r"The model's file nett\.py is no file \(looked in .*\)\. Did you mean 'net\.py'\?"),
        (".py:make", {}, r"is no file"),
        ("net.py:make_modle", {}, r"net\.py has no 'make_modle'\. Did you mean 'make_model'\?"),
        ("net.py:zzz", {}, r"net\.py has no 'zzz'\. There are Net, fails, make_model, two_things\."),
        ("net.py:Net.inner", {}, "net.py has no 'inner'"),
        ("net.py:WIDTH", {}, "net.py:WIDTH is int; it must be a function or a class"),
        ("net.py:", {}, "after the colon comes the name"),
        ("no_such.package:Net", {}, "There is no module 'no_such'"),
        ("torch_geometric.nnn:GCN", {}, r"There is no module 'torch_geometric\.nnn'"),
        (".:Net", {}, "There is no module"),
        ("a..b:Net", {}, "There is no module"),
        ("torch_geometric.nn:GCNNConv", {}, "Did you mean 'GCNConv'"),
        ("net.py:Net", {"model_args": {"hiden_channels": 4}}, "Net takes no argument 'hiden_channels'. Did you mean hidden_channels"),
        ("net.py:two_things", {}, "returned tuple; it returns an nn.Module"),
        ("net.py:fails", {}, r"net\.py, line 22: fails\(…\) failed with ZeroDivisionError: integer division or modulo by zero"),
        ("torch_geometric.nn:GCN", {"model_args": {"activation": "relu"}}, "failed with TypeError.*'activation'"),
        ("gnn", {}, "There is no reference model named 'gnn'; there are gcn, sage, gat, gin"),
        (3, {}, "neither a name nor a module nor a callable"),
        ("gcn", {"model_args": {"heads": 2}}, "'gcn' takes none"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_name_is_a_sentence(folder, model, options, words):
    with pytest.raises(InvalidConfig, match=words):
        made(model, **options)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import torch\nimport no_such_package\n", r"bad\.py, line 2: importing it failed with ModuleNotFoundError: No module named 'no_such_package'"),
        ("x = 1\ndef f(:\n", r"bad\.py, line 2: importing it failed with SyntaxError"),
        ("x = 1\n\nraise SystemExit(3)\n", r"bad\.py, line 3: importing it failed with SystemExit: 3"),
        ("\x00", r"bad\.py.*: importing it failed with SyntaxError"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_imported_is_told_by_its_line(folder, text, words):
    (folder / "bad.py").write_text(text)
    for _ in range(2):  # a failed import leaves nothing behind that would pass for the module
        with pytest.raises(InvalidConfig, match=words):
            find_model("bad.py:make")
    assert not [name for name in sys.modules if name.startswith("fasthop_model_bad")]


def test_an_import_that_fails_inside_a_module_is_told_by_its_line(folder):
    (folder / "package_of_net.py").write_text("\n\nimport no_such_package\n")
    with pytest.raises(
        InvalidConfig, match=r"package_of_net, line 3: importing it failed with ModuleNotFoundError"
    ):
        find_model("package_of_net:make")


def test_the_search_path_keeps_the_users_folder_last(folder):
    find_model("net.py:make_model")
    assert sys.path[-1] == str(folder)
    assert sys.path[0] != str(folder)


def test_names_for_reports():
    assert model_name("some/folder/net.py:make_model") == "net.py:make_model"
    assert model_name("C:\\nets\\net.py:make_model") == "net.py:make_model"
    assert model_name("package.module:Net") == "package.module:Net"
    assert model_name("gcn") == "gcn"
    assert model_name(torch.nn.Linear(1, 1)) == "Linear"
    assert model_name(GCNConv) == "GCNConv"


def test_settings_are_plain():
    config = TaskConfig(
        model=GCNConv,
        model_args={"size": (3, 4)},
        forward_args={"pos": torch.zeros(3, 2)},
        metric=len,
        class_weight=[1, 2],
    )
    settings = task_settings(config, digraph())
    assert settings["model"] == "GCNConv"
    assert settings["model_args"] == {"size": [3, 4]}
    assert settings["forward_args"] == {"pos": "Tensor of shape [3, 2]"}
    assert (settings["loss"], settings["metric"], settings["class_weight"]) == (
        "cross_entropy",
        "len",
        [1, 2],
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"optimizer": "lion"}, "optimizer is 'lion'; it is one of adam, adamw, sgd"),
        ({"loss": "mse"}, "loss is 'mse'; it is one of cross_entropy, nll, bce, or in Python a callable"),
        ({"metric": 3}, "metric is 3"),
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0"),
        ({"label_smoothing": float("nan")}, "label_smoothing is nan"),
        ({"class_weight": "heavy"}, "class_weight is 'heavy'; it is 'balanced' or one number"),
        ({"class_weight": (1.0, -1.0)}, "a class_weight is -1.0"),
        ({"class_weight": (1.0, "2")}, "a class_weight is '2'"),
        ({"class_weight": (1.0,), "loss": len}, "a callable loss has its own"),
        ({"head": 1}, "head is 1; it is True or False"),
        ({"output": 1.5}, "output is 1.5"),
        ({"output": True}, "output is True"),
        ({"model_args": ["a"]}, "model_args is"),
        ({"forward_args": {"not a name": 1}}, "forward_args is"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"weight_decay": -1}, "weight_decay is -1"),
    ],
)
def test_options_that_cannot_work_are_refused(options, words):
    with pytest.raises(InvalidConfig, match=words):
        TaskConfig(**options)
