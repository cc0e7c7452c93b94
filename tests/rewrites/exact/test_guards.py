"""What a user does to tensors, model and mode after building: the numbers stay those of the user's model, and so do the rows."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch_geometric import nn as gnn

from fasthop.train.mode import evaluating
from tests.rewrites.exact.graphs import NUM_CLASSES, NUM_NODES, build, data, randomise
from tests.rewrites.exact.nets import Net, assert_same, made, train


def replace(owner, name, value):
    owner.data = value if name == "data" else owner.data


# What is done after building, and whether the model is another one for it.
CHANGES = {
    "nothing": (lambda m, g: None, False),
    "x in place": (lambda m, g: g.x.mul_(2), False),
    "x's memory": (lambda m, g: replace(g.x, "data", g.x * 3), False),
    "x learns": (lambda m, g: g.x.requires_grad_(), False),
    "edges in place": (lambda m, g: g.edge_index[:, :9].zero_(), False),
    "load_state_dict": (lambda m, g: m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}), False),
    "load_state_dict, assigned": (lambda m, g: m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}, assign=True), True),
    "p.data": (lambda m, g: replace(m.c1.lin.weight, "data", m.c1.lin.weight * 2), False),
    "another parameter": (lambda m, g: setattr(m.c1.lin, "weight", nn.Parameter(m.c1.lin.weight * 2)), True),
    "bias taken away": (lambda m, g: setattr(m.c1, "bias", None), True),
    "layer swapped": (lambda m, g: setattr(m, "c2", gnn.GCNConv(8, NUM_CLASSES, improved=True).double()), True),
    "layer's option": (lambda m, g: setattr(m.c1, "improved", True), True),
    "layer's forward": (lambda m, g: setattr(m.c1, "forward", lambda x, e, w: type(m.c1).forward(m.c1, x, e, w) * 2), True),
    "model's forward": (lambda m, g: setattr(m, "forward", lambda x, e: type(m).forward(m, x, e) * 2), True),
    "dropout": (lambda m, g: setattr(m, "dropout", 0.5), True),
    "function": (lambda m, g: setattr(m, "act", torch.tanh), True),
    "option in a dict": (lambda m, g: m.options.update(scale=3.0), True),
    "tensor in place": (lambda m, g: m.temperature.fill_(3.0), True),
    "another tensor": (lambda m, g: setattr(m, "temperature", torch.tensor(3.0)), True),
    "hook": (lambda m, g: m.c1.register_forward_hook(lambda c, i, o: o * 2), True),
    "hook before": (lambda m, g: m.c1.register_forward_pre_hook(lambda c, i: (i[0] * 2, *i[1:])), True),
    "hook of the whole": (lambda m, g: m.register_forward_hook(lambda c, i, o: o * 2), True),
    "hook backward": (lambda m, g: m.norm.register_full_backward_hook(lambda c, i, o: tuple(v * 2 for v in i)), True),
    "frozen layer": (lambda m, g: m.c1.requires_grad_(False), False),
    "weight norm": (lambda m, g: nn.utils.parametrizations.weight_norm(m.c1.lin), True),
}  # fmt: skip


@pytest.mark.parametrize("when", ["unused", "used"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_after_building_is_noticed(name, when):
    model, given, fast = made()
    if when == "used":
        assert_same(model, given, fast)
    change, is_another = CHANGES[name]
    change(model, given)
    assert_same(model, given, fast)
    assert fast.stale == is_another


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_before_building_is_taken_in(name):
    model, given, fast = made(CHANGES[name][0])
    train(model)
    rows = fast(*given.call).size(0)
    torch.manual_seed(2)
    want = model(*given.call)
    if rows != NUM_NODES:
        want = want[given.train_mask]
    torch.manual_seed(2)
    got = fast(*given.call)
    if name != "dropout":
        torch.testing.assert_close(got, want, rtol=0, atol=1e-9)
    model.eval()
    torch.testing.assert_close(fast(*given.call), model(*given.call), rtol=0, atol=1e-9)
    assert not fast.stale


def test_a_removed_hook_gives_the_fast_path_back():
    model, given, fast = made()
    handle = model.c1.register_forward_hook(lambda c, i, o: o * 2)
    assert fast.stale
    handle.remove()
    assert not fast.stale
    assert_same(model, given, fast)


def test_hooks_that_were_there_run_once_a_call():
    class Recorder:
        num_calls = 0

        def __call__(self, *_):
            self.num_calls += 1

    recorder = Recorder()
    _, given, fast = made(
        lambda m, g: (m.c1.register_forward_hook(recorder), m.register_forward_hook(recorder))
    )
    recorder.num_calls = 0
    fast(*given.call)
    assert recorder.num_calls == 2


def test_attributes_of_the_fast_model_are_the_models():
    model, _, fast = made()
    fast.dropout = 0.5
    assert model.dropout == 0.5
    fast.c2 = gnn.SAGEConv(8, NUM_CLASSES)
    assert isinstance(model.c2, gnn.SAGEConv)
    del fast.options
    assert not hasattr(model, "options")


@pytest.mark.parametrize("by", ["fast", "model"])
def test_modes_are_one(by):
    model, given, fast = made()
    switch = fast if by == "fast" else model
    switch.eval()
    assert not fast.training
    assert not model.training
    assert fast(*given.call).size(0) == NUM_NODES
    switch.train()
    model.norm.eval()
    assert fast.training
    assert fast(*given.call).size(0) == int(given.train_mask.sum())
    with evaluating(fast):
        assert fast(*given.call).size(0) == NUM_NODES
    assert model.training
    assert not model.norm.training
    assert_same(model, given, fast)


def test_a_layer_thawed_later_still_returns_the_rows_that_were_built_for():
    """BatchNorm was frozen when it was built; in train mode it looks at all rows."""
    model, given, fast = made()
    model.train()
    twin = copy.deepcopy(model)
    got, want = fast(*given.call), twin(*given.call)[given.train_mask]
    torch.testing.assert_close(got, want, rtol=0, atol=1e-9)
    torch.testing.assert_close(model.norm.running_mean, twin.norm.running_mean)
    assert model.norm.num_batches_tracked == twin.norm.num_batches_tracked == 1


def test_built_in_eval_mode_it_is_made_for_training():
    model, given = randomise(Net()).eval(), data()
    model.norm = nn.Identity()
    built = build(model, given)
    built.observe(*given.call)
    assert not model.training
    assert "receptive_field" in built.acted
    assert built.model(*given.call).size(0) == NUM_NODES
    built.model.train()
    assert built.model(*given.call).size(0) == int(given.train_mask.sum())


def test_other_tensors_take_the_general_path():
    model, given, fast = made()
    train(model)
    x, edge_index = given.call
    weight = torch.rand(edge_index.size(1), dtype=torch.float64)
    for call in (
        (x.clone(), edge_index),
        (x, edge_index.clone()),
        (x, edge_index[:, :20]),
        (x, edge_index, weight),
        (torch.cat([x, x]), torch.cat([edge_index, edge_index + NUM_NODES], 1)),
    ):
        torch.testing.assert_close(fast(*call), model(*call), rtol=0, atol=1e-9)
    for keywords in (
        {"x": x, "edge_index": edge_index},
        {"x": x, "edge_index": edge_index, "edge_weight": None},
    ):
        assert fast(**keywords).size(0) == int(given.train_mask.sum())


def test_copies_and_pickles_are_the_users_model():
    model, given, fast = made()
    file = io.BytesIO()
    torch.save(fast, file)
    file.seek(0)
    copies = [copy.deepcopy(fast), pickle.loads(pickle.dumps(fast)), torch.load(file, weights_only=False)]
    assert all(type(other) is Net for other in copies)
    copies.append(AveragedModel(fast))
    for other in copies:
        torch.testing.assert_close(other(*given.call), model(*given.call))


def test_inside_another_module():
    model, given, fast = made()
    outer = nn.ModuleDict({"inner": fast})
    assert set(outer.state_dict()) == {f"inner.{key}" for key in model.state_dict()}
    outer.eval()
    assert not model.training
    assert fast(*given.call).size(0) == NUM_NODES


def test_gradients_of_gradients_and_twice():
    model, given, fast = made()
    train(model)
    found = []
    for out in (model(*given.call)[given.train_mask], fast(*given.call)):
        gradients = torch.autograd.grad(out.pow(2).sum(), list(model.parameters()), create_graph=True)
        penalty = sum(gradient.pow(2).sum() for gradient in gradients)
        found.append(torch.autograd.grad(penalty, list(model.parameters()), retain_graph=True))
        again = torch.autograd.grad(penalty, list(model.parameters()))
        assert all(torch.equal(a, b) for a, b in zip(found[-1], again, strict=True))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(two, one, rtol=0, atol=1e-8)


def test_the_output_may_be_written_into():
    model, given, fast = made()
    train(model)
    with torch.no_grad():
        fast(*given.call).mul_(100)
    assert_same(model, given, fast)


@pytest.mark.parametrize("training", [False, True])
def test_a_first_call_in_inference_mode_spoils_no_later_one(training):
    model, given, fast = made()
    train(model) if training else model.eval()
    want = model(*given.call)
    with torch.inference_mode():
        torch.testing.assert_close(
            fast(*given.call), want[given.train_mask] if training else want, rtol=0, atol=1e-12
        )
    assert_same(model, given, fast)
