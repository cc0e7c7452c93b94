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
    """Raises InvalidGraph unless y is an int64 [num_nodes], or multi-label: a float32 [num_nodes, num_classes]
    of 0 and 1, where a row of NaN is a node without labels. Nodes without a class hold any value
    outside 0 .. num_classes - 1; no mask may hold either (`check_masked_labels`)."""
    if not isinstance(num_classes, int) or num_classes < 1:
        raise InvalidGraph(f"num_classes is {num_classes!r}; it must be an int of at least 1.")
    if y.dim() == 2 and y.dtype is torch.float32:
        if tuple(y.shape) != (num_nodes, num_classes):
            raise InvalidGraph(
                f"y has shape {shape(y)}; multi-label y must be [{num_nodes}, {num_classes}]: a 0 or 1 for each "
                "node and label."
            )
        check_zero_one(y)
        return
    if y.dtype is not torch.int64 or tuple(y.shape) != (num_nodes,):
        raise InvalidGraph(
            f"y has dtype {_dtype(y)} and shape {shape(y)}; it must be int64 and [{num_nodes}]: "
            f"a class a node; or float32 and [{num_nodes}, {num_classes}], a 0 or 1 for each label."
        )


def check_zero_one(y: Tensor) -> None:
    """Raises InvalidGraph with the first value of y [N, C] that is not 0 or 1, save in rows that are NaN throughout."""
    missing = torch.isnan(y)
    wrong = ~((y == 0) | (y == 1) | missing.all(dim=1, keepdim=True))
    if bool(wrong.any()):
        row, column = (int(i) for i in torch.nonzero(wrong)[0])
        raise InvalidGraph(
            f"y[{row}, {column}] is {float(y[row, column]):g}; with several values a node, each is a label of its own "
            "and must be 0 or 1 (a node without labels has NaN in all of them)."
        )


def labelled_nodes(y: Tensor, num_classes: int) -> Tensor:
    """bool [N]: which nodes have a label: a class in 0 .. num_classes - 1, or multi-label without NaN."""
    if y.dim() == 2:
        return ~torch.isnan(y).any(dim=1)
    return (y >= 0) & (y < num_classes)


def check_masked_labels(y: Tensor, mask: Tensor, num_classes: int, name: str) -> None:
    """Raises InvalidGraph where the mask holds nodes without a valid label: how many, which first."""
    unlabelled = mask & ~labelled_nodes(y, num_classes)
    count = int(unlabelled.sum())
    if count:
        first = int(torch.nonzero(unlabelled)[0])
        many = y.dim() == 2
        value = "nan" if many else int(y[first])
        known = "labels are 0 or 1" if many else f"classes run from 0 to {num_classes - 1}"
        out = "~y.isnan().any(dim=1)" if many else "(y >= 0)"
        raise InvalidGraph(
            f"{count:,} of the {int(mask.sum()):,} nodes in {name} have no valid label: the first is "
            f"node {first} with y = {value}, and {known}. "
            f"Take them out of the mask, for example {name} & {out}."
        )


def check_node_ids(node_ids: object, num_nodes: int) -> None:
    """Raises InvalidGraph unless node_ids is None or a NumPy array [num_nodes] of distinct str or int64."""
    import numpy as np

    if node_ids is None:
        return
    if not isinstance(node_ids, np.ndarray) or not (node_ids.dtype.kind == "U" or node_ids.dtype == np.int64):
        kind = getattr(node_ids, "dtype", type(node_ids).__name__)
        raise InvalidGraph(f"node_ids is {kind}; it must be a NumPy array of str or int64.")
    if node_ids.shape != (num_nodes,):
        raise InvalidGraph(
            f"node_ids has shape {list(node_ids.shape)}; it must be [{num_nodes}], one id a node."
        )
    values, first, counts = np.unique(node_ids, return_index=True, return_counts=True)
    if values.size != num_nodes:
        at = int(first[counts > 1].min())
        raise InvalidGraph(
            f"node_ids[{at}] is {node_ids[at].item()!r}, which other nodes have too "
            f"({int((counts > 1).sum()):,} such ids in all); ids must be distinct."
        )


def check_class_names(class_names: tuple[str, ...] | None, num_classes: int) -> None:
    """Raises InvalidGraph unless class_names is None or has a name for each class."""
    if class_names is not None and len(class_names) != num_classes:
        raise InvalidGraph(
            f"class_names has {len(class_names):,} names for {num_classes:,} classes; give one for each, or none."
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
