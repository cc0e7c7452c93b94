"""The checks that stand between a user's graph and any work on it.

Each names the value at fault, its place and what to do. Nothing is changed here: what may be
mended is mended in `mend`, which says so.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fasthop.errors import InvalidGraph

INDEX_DTYPES = (torch.int64, torch.int32)


def shape(tensor: Tensor) -> str:
    """The shape as a user writes it: [2, 5]."""
    return str(list(tensor.shape))


def plain(tensor: Tensor) -> Tensor:
    """The tensor without its subclass: PyG's EdgeIndex wraps one, most others are one."""
    if hasattr(tensor, "as_tensor"):
        return tensor.as_tensor()  # pyright: ignore[reportAttributeAccessIssue]
    return tensor if type(tensor) in (Tensor, torch.nn.Parameter) else tensor.as_subclass(Tensor)


def check_num_nodes(num_nodes: object) -> None:
    """Raises InvalidGraph unless num_nodes is an int of at least 0."""
    if not isinstance(num_nodes, int) or isinstance(num_nodes, bool) or num_nodes < 0:
        raise InvalidGraph(
            f"num_nodes is {num_nodes!r}; it must be the number of nodes, isolated ones counted in."
        )


def check_edge_index(edge_index: Tensor, num_nodes: int, name: str = "edge_index") -> None:
    """Raises InvalidGraph unless it is an int64 or int32 [2, E] with indices in 0 .. num_nodes - 1."""
    check_num_nodes(num_nodes)
    if not isinstance(edge_index, Tensor):
        raise InvalidGraph(f"{name} is a {type(edge_index).__name__}; give an int64 tensor of shape [2, E].")
    if edge_index.dtype not in INDEX_DTYPES:
        raise InvalidGraph(
            f"{name} has dtype {_dtype(edge_index)}; node indices must be int64 or int32 "
            f"(an empty one is torch.empty(2, 0, dtype=torch.int64))."
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        hint = ""
        if edge_index.dim() == 2 and edge_index.size(1) == 2:
            hint = f" One edge a row? Give {name}.t()."
        raise InvalidGraph(
            f"{name} has shape {shape(edge_index)}; it must be [2, E], sources above targets.{hint}"
        )
    check_indices(edge_index, num_nodes, name)


def check_indices(index: Tensor, num_nodes: int, name: str) -> None:
    """Raises InvalidGraph with the first index outside 0 .. num_nodes - 1 and its place."""
    if index.numel() == 0:
        return
    low, high = (int(end) for end in torch.aminmax(index))
    if low >= 0 and high < num_nodes:
        return
    wrong = (index < 0) | (index >= num_nodes)
    place = torch.nonzero(wrong)[0]
    value = int(index[tuple(place)])
    fault = "is negative" if value < 0 else f"is out of range for {num_nodes:,} nodes"
    raise InvalidGraph(
        f"{name}[{', '.join(str(int(i)) for i in place)}] is {value}, which {fault}; "
        f"indices run from 0 to num_nodes - 1 ({int(wrong.sum()):,} wrong in all)."
    )


def check_x(x: Tensor | None, num_nodes: int) -> None:
    """Raises InvalidGraph unless x is None or a finite floating [num_nodes, F], dense, COO or CSR."""
    if x is None:
        return
    if x.dim() != 2 or x.size(0) != num_nodes:
        raise InvalidGraph(f"x has shape {shape(x)}; it must be [num_nodes, F] with {num_nodes:,} nodes.")
    if not x.is_floating_point():
        raise InvalidGraph(f"x has dtype {_dtype(x)}; features must be floating point, such as float32.")
    check_finite(values_of(x), "x" if x.layout is torch.strided else "the values of the sparse x")


def values_of(x: Tensor) -> Tensor:
    """The stored values of a dense or sparse tensor."""
    if x.layout is torch.strided:
        return x.detach()
    # _values, because values() refuses a COO tensor that is not coalesced.
    return x.detach()._values() if x.layout is torch.sparse_coo else x.detach().values()


def check_finite(tensor: Tensor, name: str) -> None:
    """Raises InvalidGraph with the first NaN or infinity and its place."""
    if tensor.numel() == 0 or not tensor.is_floating_point():
        return
    # aminmax hands NaN on, and costs no mask as large as the tensor; x may be gigabytes.
    low, high = torch.aminmax(tensor)
    if torch.isfinite(low) and torch.isfinite(high):
        return
    wrong = ~torch.isfinite(tensor)
    place = torch.nonzero(wrong)[0]
    raise InvalidGraph(
        f"{name}[{', '.join(str(int(i)) for i in place)}] is {float(tensor[tuple(place)])}, "
        f"which is not a finite number ({int(wrong.sum()):,} such in all); repair or drop these first."
    )


def check_edge_weight(edge_weight: Tensor | None, num_edges: int) -> None:
    """Raises InvalidGraph unless edge_weight is None or a finite floating [num_edges]."""
    if edge_weight is None:
        return
    if tuple(edge_weight.shape) != (num_edges,):
        raise InvalidGraph(
            f"edge_weight has shape {shape(edge_weight)}; it must be [{num_edges}], one weight an edge."
        )
    if not edge_weight.is_floating_point():
        raise InvalidGraph(f"edge_weight has dtype {_dtype(edge_weight)}; weights must be floating point.")
    check_finite(edge_weight.detach(), "edge_weight")


def check_mask(mask: Tensor, num_nodes: int, name: str) -> None:
    """Raises InvalidGraph unless it is a bool [num_nodes]."""
    if mask.dtype is not torch.bool or tuple(mask.shape) != (num_nodes,):
        raise InvalidGraph(
            f"{name} has dtype {_dtype(mask)} and shape {shape(mask)}; it must be bool and [{num_nodes}]."
        )


def check_labels(y: Tensor, num_nodes: int, num_classes: int) -> None:
    """Raises InvalidGraph unless y is an int64 [num_nodes]; nodes without a label hold any value
    outside 0 .. num_classes - 1, and no mask may hold them (`check_masked_labels`)."""
    if y.dtype is not torch.int64 or tuple(y.shape) != (num_nodes,):
        raise InvalidGraph(
            f"y has dtype {_dtype(y)} and shape {shape(y)}; it must be int64 and [{num_nodes}]: "
            "a class a node."
        )
    if not isinstance(num_classes, int) or num_classes < 1:
        raise InvalidGraph(f"num_classes is {num_classes!r}; it must be an int of at least 1.")


def check_masked_labels(y: Tensor, mask: Tensor, num_classes: int, name: str) -> None:
    """Raises InvalidGraph where the mask holds nodes without a valid label: how many, which first."""
    unlabelled = mask & ((y < 0) | (y >= num_classes))
    count = int(unlabelled.sum())
    if count:
        first = int(torch.nonzero(unlabelled)[0])
        raise InvalidGraph(
            f"{count:,} of the {int(mask.sum()):,} nodes in {name} have no valid label: the first is "
            f"node {first} with y = {int(y[first])}, and classes run from 0 to {num_classes - 1}. "
            f"Take them out of the mask, for example {name} & (y >= 0)."
        )


def check_train_mask(train_mask: Tensor) -> None:
    """Raises InvalidGraph where no node is left to train on."""
    if not bool(train_mask.any()):
        raise InvalidGraph(
            "train_mask selects no node, so there is nothing to train on; set at least one entry to True."
        )


def check_one_device(**tensors: Tensor | None) -> None:
    """Raises InvalidGraph where the tensors lie on more than one device."""
    places = {name: str(tensor.device) for name, tensor in tensors.items() if tensor is not None}
    if len(set(places.values())) > 1:
        listed = ", ".join(f"{name} on {place}" for name, place in places.items())
        raise InvalidGraph(f"The graph's tensors lie on different devices ({listed}); move them to one.")


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
