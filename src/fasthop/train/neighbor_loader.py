"""NeighborLoader: PyG's loader of the same name, over fasthop's own sampler."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig, InvalidGraph
from fasthop.graph.graph import Graph
from fasthop.kernels.buffers import BufferPool
from fasthop.kernels.sample.cpu import NeighborSampler
from fasthop.kernels.sample.draw import draw_key
from fasthop.train.batch_slicing import sliced
from fasthop.train.loader_inputs import Edges, edges_of, seed_nodes, worker_options

# Besides the batches in flight: the one in use, the one just taken, and what autograd saved of one more.
BUFFERS_IN_USE = 4
# Sets the draws of a call on given seeds apart from those of any epoch.
CALLS = -1


class NeighborLoader:
    """Mini-batches of neighbor-sampled subgraphs, made as PyG's NeighborLoader makes them.

    Each batch is a PyG `Data` with every node and edge attribute of `data` cut down to the sampled
    nodes and edges, and n_id, e_id, input_id, batch_size, num_sampled_nodes [L + 1] and num_sampled_edges
    [L]. The seeds are the first batch_size rows, in order. In-neighbors are drawn uniformly, hop by hop; a
    node is expanded once, when it was first reached (Hamilton, Ying and Leskovec, NeurIPS 2017, algorithm 2).

    data: a PyG `Data` (edge_index, or adj_t: targets as rows) or a fasthop `Graph`. The edges are sorted once,
        here; attributes are read when a batch is made, so that they may be set or deleted later.
    num_neighbors: one int per hop; -1: all neighbors.
    input_nodes: the seeds: None (all nodes), a bool mask [N], or node indices (repeats keep a row each).
    batch_size, shuffle, drop_last: as in torch's DataLoader. An epoch draws and shuffles anew, from `seed`.
    replace: draw with replacement: num_neighbors draws for every node that has an in-edge.
    seed: with the epoch (`set_epoch`) and the batch's number it fixes each batch, for any num_threads.
    num_threads: how many threads make batches ahead while the caller works; 0: made when asked for.
    reuse_buffers: use the memory of a batch again once nothing refers to its tensors any more (a kept
        batch, a view of it, and what autograd saved of it all do); False: fresh memory each time.
    merge_last_single: a last batch of one seed joins the batch before it (BatchNorm cannot train on one row).
    edge_scale: add `edge_scale`, degree/k of each sampled edge's target [e] in the dtype of x (float32
        without); None: for a `Graph` only.
    transform: called with each batch, in the caller's thread; what it returns is handed out.
    Further keyword arguments of PyG's loader are taken where they change no batch (num_workers sets num_threads
    and starts no process) and refused by name where they ask for another kind of sampling.

    A copy or a pickle has the same batches, and buffers of its own.
    Raises InvalidConfig for an option that cannot work and InvalidGraph for a fault in the graph.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Iterable[int],
        input_nodes: Any = None,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        replace: bool = False,
        seed: int = 0,
        num_threads: int | None = None,
        reuse_buffers: bool = True,
        merge_last_single: bool = False,
        edge_scale: bool | None = None,
        transform: Callable[[Any], Any] | None = None,
        **pyg_options: Any,
    ) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
            raise InvalidConfig(f"batch_size is {batch_size!r}; it must be an int of at least 1.")
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise InvalidConfig(f"seed is {seed!r}; it must be an int.")
        if transform is not None and not callable(transform):
            raise InvalidConfig(
                f"transform is a {type(transform).__name__}; give a function of one batch, or None."
            )
        options = worker_options(pyg_options, num_threads)
        edges = Edges(csr=data.csr, form="edge_index") if isinstance(data, Graph) else edges_of(data)
        self.edge_scale = isinstance(data, Graph) if edge_scale is None else edge_scale
        self.data = data.to_data() if isinstance(data, Graph) else data
        self.num_nodes = edges.csr.num_rows
        self.num_edges = edges.csr.num_edges
        self.input_nodes, self.input_id = seed_nodes(input_nodes, self.num_nodes)
        self.batch_size = batch_size
        self.shuffle = bool(shuffle)
        self.drop_last = bool(drop_last)
        self.seed = seed
        self.num_threads = options.num_threads
        self.pin_memory = options.pin_memory
        self.merge_last_single = merge_last_single
        self.transform = transform
        self._pool = BufferPool(BUFFERS_IN_USE + 2 * self.num_threads if reuse_buffers else 0)
        csr = edges.csr
        self._sampler = NeighborSampler(
            csr.rowptr.cpu(),
            csr.col.cpu(),
            csr.e_id.cpu(),
            num_neighbors=num_neighbors,
            replace=replace,
            pool=self._pool,
        )
        self._epoch = 0
        self._num_calls = itertools.count()

    @property
    def num_neighbors(self) -> list[int]:
        """The number of neighbors per hop, -1 for all."""
        return list(self._sampler.num_neighbors)

    @property
    def dataset(self) -> range:
        """As in torch's DataLoader: `len(loader.dataset)` is the number of seeds."""
        return range(self.input_nodes.numel())

    def set_epoch(self, epoch: int) -> None:
        """The next iteration draws and shuffles as epoch `epoch`; those after it count on from there."""
        if not isinstance(epoch, int) or isinstance(epoch, bool):
            raise InvalidConfig(f"epoch is {epoch!r}; it must be an int.")
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._starts()) - 1

    def __iter__(self) -> Iterator[Any]:
        epoch = self._epoch
        self._epoch += 1
        return self._batches(epoch)

    def __call__(self, index: Tensor | Iterable[int]) -> Any:
        """The batch of the seeds at the places `index` of input_nodes; each call draws anew."""
        place = index if isinstance(index, Tensor) else torch.tensor(list(index), dtype=torch.int64)
        return self._handed_out(self._made(place, draw_key(self.seed, CALLS, next(self._num_calls))))

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_num_calls"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _num_calls=itertools.count())

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _starts(self) -> list[int]:
        """Where each batch starts among the epoch's seeds, and the end of the last one."""
        total = self.input_nodes.numel()
        starts = [*range(0, total, self.batch_size), total]
        if self.drop_last and total % self.batch_size:
            starts.pop()
        elif (
            self.merge_last_single
            and self.batch_size > 1
            and len(starts) > 2
            and starts[-1] - starts[-2] == 1
        ):
            del starts[-2]
        return starts

    def _order(self, epoch: int) -> Tensor:
        total = self.input_nodes.numel()
        if not self.shuffle:
            return torch.arange(total)
        generator = torch.Generator().manual_seed(draw_key(self.seed, epoch) >> 1)
        return torch.randperm(total, generator=generator)

    def _batches(self, epoch: int) -> Iterator[Any]:
        order = self._order(epoch)
        jobs = (
            (order[first:last], draw_key(self.seed, epoch, number))
            for number, (first, last) in enumerate(itertools.pairwise(self._starts()))
        )
        if self.num_threads == 0:
            for place, key in jobs:
                yield self._handed_out(self._made(place, key))
            return
        executor = ThreadPoolExecutor(self.num_threads, thread_name_prefix="fasthop-loader")
        ahead: deque[Future[Any]] = deque()
        try:
            for place, key in jobs:
                ahead.append(executor.submit(self._made, place, key))
                if len(ahead) > self.num_threads:
                    yield self._handed_out(ahead.popleft().result())
            while ahead:
                yield self._handed_out(ahead.popleft().result())
        finally:
            executor.shutdown(wait=True, cancel_futures=True)

    def _made(self, place: Tensor, key: int) -> Any:
        """The batch of the seeds at `place`; runs on any thread."""
        x = self.data.get("x")
        if isinstance(x, Tensor) and (x.dim() == 0 or x.size(0) != self.num_nodes):
            raise InvalidGraph(
                f"x has shape {list(x.shape)} and the edges were sorted for {self.num_nodes:,} nodes; where the graph "
                "has changed, make a new NeighborLoader."
            )
        subgraph = self._sampler.sample(self.input_nodes[place], key=key)
        batch = sliced(
            self.data, subgraph, num_nodes=self.num_nodes, num_edges=self.num_edges, pool=self._pool
        )
        batch.input_id = self.input_id[place]
        batch.batch_size = place.numel()
        if self.edge_scale:
            double = isinstance(x, Tensor) and x.dtype is torch.float64
            batch.edge_scale = self._sampler.edge_scale(subgraph, torch.float64 if double else torch.float32)
        return batch

    def _handed_out(self, batch: Any) -> Any:
        if self.pin_memory and torch.cuda.is_available():
            batch = batch.pin_memory()
        return batch if self.transform is None else self.transform(batch)
