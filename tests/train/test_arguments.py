"""Forwards that ask for more than x and edge_index, or return more than logits: called right, or refused in a sentence."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from fasthop.errors import InvalidConfig, InvalidGraph
from fasthop.rewrites.compile import Compile
from fasthop.rewrites.ladder import Recipe
from fasthop.rewrites.sample import Sample
from fasthop.train.evaluate import predict
from fasthop.train.loop import run_epoch
from fasthop.train.setup import Setup
from fasthop.train.task_config import TaskConfig, make_task
from tests.train.graphs import digraph, several_labels

CPU = torch.device("cpu")


def rich(dtype=torch.float32):
    graph = digraph(dtype=dtype)
    generator = torch.Generator().manual_seed(5)
    extras = {
        "edge_attr": torch.rand(graph.num_edges, 2, generator=generator, dtype=dtype),
        "pos": torch.rand(graph.num_nodes, 3, generator=generator, dtype=dtype),
        "scale": 0.5,
        "weights": torch.rand(graph.num_edges, 1, generator=generator, dtype=dtype),
        "name_of_it": "a graph",
    }
    return dataclasses.replace(graph, extras=extras)


def setup_of(model, graph=None, **options):
    task = make_task(TaskConfig(model=model, **options), graph or rich())
    return Setup.baseline(task, seed=0, device=CPU)


class Attends(torch.nn.Module):
    """A GAT layer over edge features, and positions beside x."""

    def __init__(self):
        super().__init__()
        self.conv = GATConv(8 + 3, 3, edge_dim=2)

    def forward(self, x, edge_index, edge_attr, pos=None, *, scale):
        return self.conv(torch.cat([x, pos], dim=1), edge_index, edge_attr) * scale


def test_arguments_come_by_name_from_the_graph_and_are_said():
    graph = rich()
    setup = setup_of(Attends, graph)
    extras = graph.extras
    want = Attends.forward(
        setup.original.eval(), graph.x, graph.edge_index, extras["edge_attr"], extras["pos"], scale=0.5
    )
    assert torch.equal(predict(setup), want)
    assert "Attends.forward was given edge_attr, pos, scale from the graph" in setup.notes[0]["en"]
    assert isinstance(setup.original, Attends)
    assert list(setup.original.state_dict()) == list(Attends().state_dict())


def test_a_presented_model_trains_as_the_script_by_hand():
    graph = rich()
    setup = setup_of(Attends, graph)
    step = setup.step()
    losses = [run_epoch(step, setup.batches).item() for _ in range(5)]
    torch.manual_seed(0)
    model = Attends()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    want = []
    for _ in range(5):
        optimizer.zero_grad()
        out = model(graph.x, graph.edge_index, graph.extras["edge_attr"], graph.extras["pos"], scale=0.5)
        loss = torch.nn.functional.cross_entropy(out[graph.train_mask], graph.y[graph.train_mask])
        loss.backward()
        optimizer.step()
        want.append(loss.item())
    assert losses == want


def test_sampled_batches_bring_their_own_rows():
    """With all neighbours the seeds' outputs are the full batch's, and a step learns."""
    setup = Sample(num_neighbors=(-1,), batch_size=4).on(setup_of(Attends))
    graph = rich()
    full = predict(setup)
    seen = 0
    setup.model.eval()
    for batch in setup.batches:
        assert batch.arguments["edge_attr"].size(0) == batch.edges.size(1)
        assert batch.arguments["pos"].size(0) == batch.x.size(0)
        got = setup.forward(batch)[: batch.rows]
        nodes = [int((graph.x == row).all(1).nonzero()) for row in batch.x[: batch.rows]]
        assert torch.allclose(got, full[nodes], atol=1e-5)
        seen += len(nodes)
    assert seen == int(graph.train_mask.sum())
    setup.model.train()
    step = setup.step()
    first = run_epoch(step, setup.batches).item()
    for _ in range(30):
        last = run_epoch(step, setup.batches).item()
    assert last < first


def test_arguments_are_named_where_the_names_differ_and_numbers_and_tensors_are_taken():
    class Differs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GATConv(8, 3, edge_dim=2)

        def forward(self, x, edge_index, features_of_edges, factor, shift):
            return self.conv(x, edge_index, features_of_edges) * factor + shift

    graph = rich()
    shift = torch.rand(60, 1)
    given = {"features_of_edges": "edge_attr", "factor": 2, "shift": shift}
    setup = setup_of(Differs, graph, forward_args=given)
    want = Differs.forward(
        setup.original.eval(), graph.x, graph.edge_index, graph.extras["edge_attr"], 2, shift
    )
    assert torch.equal(predict(setup), want)
    sampled = Sample(num_neighbors=(-1,), batch_size=5).on(setup)
    (batch, *_) = sampled.batches
    assert batch.arguments["shift"].shape == (batch.x.size(0), 1)
    assert "shift" not in graph.extras


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(8, 3)

    def forward(self, x, edge_index, edge_weight=None):
        return self.conv(x, edge_index, edge_weight)


def test_case_6_edge_attr_is_a_weight_only_where_that_is_said():
    """[E, 1] is [E]; [E, 2] and a wrong length are errors that name the shape; float64 is cast and said."""
    graph = rich()
    assert torch.equal(predict(setup_of(Plain, graph)), predict(setup_of(Plain)))
    setup = setup_of(Plain, graph, forward_args={"edge_weight": "weights"})
    want = setup.original.eval().conv(graph.x, graph.edge_index, graph.extras["weights"].squeeze(1))
    assert torch.equal(predict(setup), want)
    assert "squeezed to [E]" in setup.notes[0]["en"]
    double = dataclasses.replace(graph, extras={"weights": graph.extras["weights"].double()})
    setup = setup_of(Plain, double, forward_args={"edge_weight": "weights"})
    assert setup.task.graph.edge_weight.dtype == torch.float32
    assert any("float64" in said["en"] for said in setup.notes)
    with pytest.raises(
        InvalidGraph, match=rf"edge_attr has shape \[{graph.num_edges}, 2\]; a weight must be"
    ):
        setup_of(Plain, graph, forward_args={"edge_weight": "edge_attr"})
    with pytest.raises(InvalidGraph, match=r"edge_weight has shape \[7\]; a weight must be"):
        setup_of(Plain, graph, forward_args={"edge_weight": torch.ones(7)})
    short = dataclasses.replace(graph, extras={**graph.extras, "edge_attr": torch.rand(7, 2)})
    with pytest.raises(
        InvalidConfig, match=r"edge_attr, which .* has shape \[7, 2\], and the graph has 247 edges"
    ):
        setup_of(Attends, short)


def test_case_6_graphsage_is_not_silently_weighted():
    class Sage(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = SAGEConv(8, 3)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index)

    graph = digraph(dtype=torch.float32, weighted=True)
    setup = setup_of(Sage, graph)
    assert torch.equal(predict(setup), setup.original.eval().conv(graph.x, graph.edge_index))
    assert "forward takes none: they are not used" in setup.notes[-1]["en"]
    with pytest.raises(InvalidConfig, match=r"Sage\.forward takes no argument 'weight'"):
        setup_of(Sage, graph, forward_args={"weight": "edge_weight"})


def test_a_forward_that_takes_data_and_one_in_another_order():
    class TakesData(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GATConv(8, 3, edge_dim=2)

        def forward(self, data):
            assert data.num_nodes == data.x.size(0)
            assert data.batch is None
            return self.conv(data.x, data.edge_index, data.edge_attr) + data.pos

    class Turned(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GCNConv(8, 3)

        def forward(self, edge_index, x):
            return self.conv(x, edge_index)

    graph = rich()
    setup = setup_of(TakesData, graph)
    data = graph.to_data()
    data.batch = None
    assert torch.equal(predict(setup), TakesData.forward(setup.original.eval(), data))
    sampled = Sample(num_neighbors=(-1,), batch_size=5).on(setup)
    assert run_epoch(sampled.step(), sampled.batches).isfinite()
    setup = setup_of(Turned, graph)
    assert torch.equal(predict(setup), setup.original.eval().conv(graph.x, graph.edge_index))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"scal": 1.0}, r"Attends\.forward takes no argument 'scal'\. Did you mean 'scale'\?"),
        (
            {"pos": "poz"},
            "'pos' is 'poz', and the graph has no such attribute.*Did you mean 'pos'",
        ),
        ({"pos": object()}, "'pos' is object; it is the name of one of the graph's attributes"),
        ({"edge_weight": 3}, "'edge_weight' is 3; it has one number for each edge"),
    ],
)
def test_arguments_that_cannot_be_given_are_refused(given, words):
    with pytest.raises(InvalidConfig, match=words):
        setup_of(Attends, forward_args=given)


def test_an_argument_that_nothing_gives_is_told():
    with pytest.raises(
        InvalidConfig, match=r"missing a required argument: 'edge_attr'.*--forward-arg name=attribute"
    ):
        setup_of(Attends, digraph(dtype=torch.float32))


class Several(torch.nn.Module):
    """Returns its hidden rows beside the logits, in a form of the test's."""

    form = staticmethod(lambda logits, hidden: (logits, hidden))

    def __init__(self):
        super().__init__()
        self.first, self.last = SAGEConv(8, 6), SAGEConv(6, 3)

    def forward(self, x, edge_index):
        hidden = self.first(x, edge_index).relu()
        return self.form(self.last(hidden, edge_index), hidden)


@pytest.mark.parametrize(
    ("form", "output", "said"),
    [
        (lambda logits, hidden: (logits, hidden), None, "the first is taken as the logits"),
        (lambda logits, hidden: [logits, hidden], None, "the first is taken as the logits"),
        (lambda logits, hidden: {"out": logits, "h": hidden}, None, "'out' is taken as the logits"),
        (lambda logits, hidden: (hidden, logits), 1, None),
        (lambda logits, hidden: (hidden, logits), -1, None),
        (lambda logits, hidden: {"h": hidden, "logits": logits}, "logits", None),
    ],
)
def test_several_outputs_are_one_tensor_of_logits(form, output, said):
    class Net(Several):
        pass

    Net.form = staticmethod(form)
    graph = rich()
    setup = setup_of(Net, graph, output=output)
    model = setup.original.eval()
    want = model.last(model.first(graph.x, graph.edge_index).relu(), graph.edge_index)
    assert torch.equal(predict(setup), want)
    assert [line["en"] for line in setup.notes] == (
        [f"The model returns several values; {said}."] if said else []
    )
    setup.restart(3)
    losses = [run_epoch(setup.step(), setup.batches).item() for _ in range(2)]
    assert losses[1] < losses[0]


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (5, "output is 5, and the model returns a tuple of 2"),
        ("logits", "output is 'logits', and the model returns a tuple of 2"),
        (1, r"returns a tensor of shape \(60, 6\).*"),
    ],
)
def test_an_output_that_is_not_there_is_refused(output, words):
    if output == 1:
        assert "If these are embeddings, head=True" in setup_of(Several, output=output).notes[0]["en"]
        return
    with pytest.raises(InvalidConfig, match=words):
        setup_of(Several, output=output)
    with pytest.raises(InvalidConfig, match="output is 0, and the model returns a Tensor"):
        setup_of(Plain, output=0)


class Embeds(torch.nn.Module):
    def __init__(self, width=2):
        super().__init__()
        self.conv = GCNConv(8, width)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index).relu()


def test_embeddings_are_told_and_get_a_head_where_it_is_asked_for():
    with pytest.raises(InvalidConfig, match=r"shape \(60, 2\).*head=True \(--head\) puts a linear layer"):
        setup_of(Embeds)
    setup = setup_of(Embeds, head=True)
    assert "from the model's 2 outputs to the classes" in setup.notes[0]["en"]
    assert predict(setup).shape == (60, 3)
    assert {"fasthop_head.weight", "fasthop_head.bias"} < set(setup.original.state_dict())
    before = setup.original.fasthop_head.weight.clone()
    run_epoch(setup.step(), setup.batches)
    assert not torch.equal(setup.original.fasthop_head.weight, before)
    setup.restart(0)
    assert torch.equal(setup.original.fasthop_head.weight, before)
    setup.restart(1)
    assert not torch.equal(setup.original.fasthop_head.weight, before)
    hidden = setup_of(Several, output=1, head=True)
    assert predict(hidden).shape == (60, 3)
    assert hidden.original.fasthop_head.weight.shape == (3, 6)


def test_a_module_handed_out_again_and_again_is_presented_once():
    module = Several()
    task = make_task(TaskConfig(model=lambda: module, output=1, head=True), rich())
    setup = Setup.baseline(task, seed=0, device=CPU)
    assert predict(setup).shape == (60, 3)
    setup.restart(1)
    assert predict(setup).shape == (60, 3)
    twin = copy.deepcopy(setup.original)
    assert torch.equal(twin.eval()(rich().x, rich().edge_index), predict(setup))


@pytest.mark.parametrize("options", [{}, {"class_weight": "balanced", "label_smoothing": 0.1}])
@pytest.mark.parametrize("several", [True, False])
def test_every_loss_runs_in_mixed_precision(several, options):
    from fasthop.rewrites.amp import Amp

    graph = several_labels() if several else rich()
    setup = Amp().on(setup_of(Plain, graph, **options))
    full = setup_of(Plain, graph, **options)
    got, want = (run_epoch(one.step(), one.batches) for one in (setup, full))
    assert got.dtype == torch.float32
    assert torch.allclose(got, want, rtol=0.02)


def test_the_output_is_held_against_the_loss_before_training():
    with pytest.raises(InvalidConfig, match="loss is 'nll', which takes log-probabilities"):
        setup_of(Plain, loss="nll")

    class EndsInLogSoftmax(Plain):
        def forward(self, x, edge_index):
            return self.conv(x, edge_index).log_softmax(dim=-1)

    assert setup_of(EndsInLogSoftmax, loss="nll").notes == ()
    assert "log-probabilities" in setup_of(EndsInLogSoftmax).notes[0]["en"]


def test_a_presented_model_is_copied_and_saved_by_the_users_class():
    import io
    import pickle

    graph = rich()
    model = setup_of(Attends, graph).original.eval()
    want = model(graph.x, graph.edge_index)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert isinstance(twin, Attends)
        assert torch.equal(twin(graph.x, graph.edge_index), want)
    file = io.BytesIO()
    torch.save(model, file)
    assert torch.equal(
        torch.load(io.BytesIO(file.getvalue()), weights_only=False)(graph.x, graph.edge_index), want
    )


def test_lazy_layers_with_arguments_leave_every_generator_and_running_statistic():
    class Lazy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GATConv((-1, -1), 3, edge_dim=2, add_self_loops=False)
            self.norm = torch.nn.LazyBatchNorm1d()

        def forward(self, x, edge_index, edge_attr):
            import random

            import numpy as np

            random.random()
            np.random.rand()
            return self.norm(self.conv((x, x), edge_index, edge_attr))

    setup = setup_of(Lazy)
    import random

    import numpy as np

    states = []
    for _ in range(2):
        setup.restart(3)
        states.append((random.random(), float(np.random.rand()), torch.rand(()).item()))
        assert torch.equal(setup.original.norm.running_mean, torch.zeros(3))
        run_epoch(setup.step(), setup.batches)
    assert states[0] == states[1]
    random.seed(3)
    assert states[0][0] == random.random()


def test_several_labels_are_trained_and_judged():
    graph = several_labels(4)
    setup = setup_of(
        lambda: torch.nn.ModuleList() or GCNConv(8, 4), graph, metric="macro_f1", class_weight="balanced"
    )
    step = setup.step()
    losses = [run_epoch(step, setup.batches).item() for _ in range(30)]
    assert losses[-1] < losses[0]
    assert setup.task.metric.name == "macro_f1"
    with pytest.raises(InvalidConfig, match="If these are embeddings"):
        setup_of(lambda: GCNConv(8, 5), graph)


def test_a_presented_model_compiles():
    pytest.importorskip("torch._inductor")
    recipe = Recipe(name="compile", rungs=(Compile(),))
    setup = setup_of(Several)
    want = predict(setup)
    if recipe.rungs[0].missing(CPU) is not None:
        pytest.skip("no C++ compiler")
    compiled = recipe.on(setup)
    (batch,) = compiled.batches
    setup.original.eval()
    assert torch.allclose(compiled.forward(batch), want, atol=1e-5)
    assert compiled.compiled.failure is None
