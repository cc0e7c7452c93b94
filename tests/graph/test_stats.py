from __future__ import annotations

import pytest
import torch

from fasthop.graph.graph import Graph
from fasthop.graph.stats import GraphStats


def test_every_figure_of_a_small_graph(path_data):
    # 0 -> 1 twice, 1 -> 0, a loop at 2 (which leaves it isolated), 3 -> 4.
    data = path_data(
        edge_index=torch.tensor([[0, 0, 1, 2, 3], [1, 1, 0, 2, 4]]),
        y=torch.tensor([0, 0, 1, 0, 1]),
        x=torch.tensor([[1.0, 0], [0, 0], [0, 2], [0, 0], [3, 4]]),
    )
    assert GraphStats.of(Graph.from_data(data)) == GraphStats(
        num_nodes=5,
        num_edges=5,
        num_features=2,
        num_classes=2,
        mean_degree=1.0,
        min_degree=0,
        median_degree=1,
        max_degree=2,
        min_out_degree=0,
        median_out_degree=1,
        max_out_degree=2,
        num_isolated=1,
        num_self_loops=1,
        num_parallel=1,
        directed=True,
        num_components=3,
        largest_component=2,
        homophily=0.75,
        x_density=0.4,
        class_counts=(3, 2),
        train_class_counts=(2, 0),
        num_unlabelled=0,
        num_train=2,
        num_val=1,
        num_test=2,
    )


def test_a_graph_without_edges_features_and_some_labels(path_data):
    data = path_data(
        x=None, edge_index=torch.empty(2, 0, dtype=torch.int64), y=torch.tensor([0, 1, 0, -1, -1])
    )
    data.test_mask = torch.tensor([2])
    stats = GraphStats.of(Graph.from_data(data))
    assert (stats.num_isolated, stats.homophily, stats.x_density, stats.num_unlabelled) == (5, None, None, 2)
    assert not stats.directed


@pytest.mark.parametrize("form", ["to_dense", "to_sparse_coo", "to_sparse_csr"])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_the_density_of_sparse_x(path_data, form):
    x = torch.eye(5)
    x = x if form == "to_dense" else getattr(x, form)()
    assert GraphStats.of(Graph.from_data(path_data(x=x))).x_density == pytest.approx(0.2)


def test_an_undirected_graph_is_seen_as_one(path_data):
    data = path_data(edge_index=torch.tensor([[1, 0, 2, 1, 1], [0, 1, 1, 2, 1]]))
    assert not GraphStats.of(Graph.from_data(data)).directed
    # Twice one way and once back is not symmetric.
    data = path_data(edge_index=torch.tensor([[0, 0, 1], [1, 1, 0]]))
    assert GraphStats.of(Graph.from_data(data)).directed


def test_a_multilabel_graph_counts_each_label_and_has_no_homophily(path_data):
    y = torch.tensor([[0.0, 1], [1, 1], [0, 0], [1, 0], [float("nan")] * 2])
    stats = GraphStats.of(Graph.from_data(path_data(y=y, test_mask=torch.tensor([3]))))
    assert (stats.class_counts, stats.num_unlabelled, stats.homophily) == ((2, 2), 1, None)
