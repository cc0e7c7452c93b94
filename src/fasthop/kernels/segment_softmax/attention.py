"""`gat` and `gatv2`: what the layers of PyG compute between their linear maps, over an `Adjacency`; `node_scores` for GAT's."""

from __future__ import annotations

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.kernels.dropout import dropout_is_on
from fasthop.kernels.segment_softmax import op, reference
from fasthop.kernels.segment_softmax.check import check_gat, check_gatv2
from fasthop.kernels.spmm.adjacency import Adjacency

WIDEST = 1024
"""Channels a head up to which a row of one head is compiled for on the CPU; beyond it the plain reference computes."""


def gat(
    adj: Adjacency,
    x: Tensor,
    a_src: Tensor,
    a_dst: Tensor,
    *,
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    seed: int | Tensor | None = None,
) -> Tensor:
    """out[i, h] = sum over entries e of row i of softmax_e(leaky_relu(a_src[col[e], h] + a_dst[i, h])) x[col[e], h].

    The aggregation of GAT (Velickovic et al. 2018, equations 3 to 5). x: [num_cols, heads, channels]. a_src: [num_cols,
    heads]. a_dst: [num_rows, heads]. adj: rows are targets; self-loops are the caller's to add; its values are not looked at.
    dropout: the probability with which an entry's softmax is dropped for a head (0 in evaluation, and inside
    `without_dropout()`); seed: what
    is dropped (`reference.dropout_factor`), an int or an int64 tensor of one element; None draws one from torch's generator.
    out: [num_rows, heads, channels] in x's dtype: float32, float64, bfloat16 or float16 (computed in float32; float16 by a copy).
    A row without entries is 0. Gradients reach x, a_src and a_dst, once differentiable.
    Raises InvalidConfig for tensors that do not fit together.
    """
    _check_size("x", x, adj.num_cols)
    if x.dtype == torch.float16:
        kept = {"negative_slope": negative_slope, "dropout": dropout, "seed": seed}
        return gat(adj, x.float(), a_src, a_dst, **kept).half()
    dtype = torch.promote_types(x.dtype, torch.float32) if x.is_floating_point() else torch.float32
    return _attend(op.gat, adj, (x, a_src.to(dtype), a_dst.to(dtype)), negative_slope, dropout, seed)


def gatv2(
    adj: Adjacency,
    x_l: Tensor,
    x_r: Tensor,
    att: Tensor,
    *,
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    seed: int | Tensor | None = None,
) -> Tensor:
    """out[i, h] = sum over entries e of row i of softmax_e(att[h] . leaky_relu(x_l[col[e], h] + x_r[i, h])) x_l[col[e], h].

    The aggregation of GATv2 (Brody et al. 2022, equation 7). x_l: [num_cols, heads, channels]. x_r: [num_rows, heads,
    channels]. att: [heads, channels], or PyG's [1, heads, channels]. The rest as in `gat`; gradients reach x_l, x_r and att.
    """
    _check_size("x_l", x_l, adj.num_cols)
    if x_l.dtype == torch.float16:
        kept = {"negative_slope": negative_slope, "dropout": dropout, "seed": seed}
        return gatv2(adj, x_l.float(), x_r.float(), att, **kept).half()
    dtype = torch.promote_types(x_l.dtype, torch.float32) if x_l.is_floating_point() else torch.float32
    att = att.squeeze(0) if att.dim() == 3 else att
    return _attend(op.gatv2, adj, (x_l, x_r, att.to(dtype)), negative_slope, dropout, seed)


def node_scores(x: Tensor, *att: Tensor) -> tuple[Tensor, ...]:
    """(x * a).sum(-1) for each a of `att`: [nodes, heads] each. What `gat` takes as a_src and a_dst.

    x: [nodes, heads, channels]. att: [heads, channels] or PyG's [1, heads, channels]. One matrix product with a
    matrix that has a head's att in that head's column: forward and gradient take 1.9 ms where the plain form, which
    makes nodes x heads x channels products and sums them, takes 8.6 (PubMed, 8 heads of 8, one thread).
    Raises InvalidConfig for tensors that do not fit together.
    """
    if x.dim() != 3:
        raise InvalidConfig(
            f"x must have three dimensions, nodes x heads x channels, and got the shape {list(x.shape)}."
        )
    num_nodes, heads, channels = x.shape
    for a in att:
        if tuple(a.shape[-2:]) != (heads, channels) or a.numel() != heads * channels:
            raise InvalidConfig(
                f"att must be [heads, channels], {[heads, channels]}, and got {list(a.shape)}."
            )
    diagonal = torch.eye(heads, dtype=x.dtype, device=x.device).unsqueeze(1)
    columns = [a.view(heads, channels, 1) * diagonal for a in att]
    scores = x.reshape(num_nodes, heads * channels) @ torch.cat(columns, 2).view(heads * channels, -1)
    return scores.split(heads, dim=1)


def _attend(
    operator: object,
    adj: Adjacency,
    tensors: tuple[Tensor, Tensor, Tensor],
    negative_slope: float,
    dropout: float,
    seed: int | Tensor | None,
) -> Tensor:
    drawn = None
    if not dropout_is_on():
        dropout = 0.0
    if dropout > 0:
        device = tensors[0].device
        # On the tensors' device: a CUDA graph then draws another with every replay.
        drawn = torch.randint(2**63 - 1, (1,), device=device) if seed is None else torch.as_tensor(seed)
        drawn = drawn.to(device, torch.int64)
    if tensors[0].dim() == 3 and tensors[0].size(2) > WIDEST and tensors[0].device.type == "cpu":
        return _by_reference(operator, adj, tensors, negative_slope, dropout, drawn)
    transposed = (None, None, None)
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        transposed = adj.transposed
    return op.attention(operator, *tensors, adj.rowptr, adj.col, *transposed, drawn, negative_slope, dropout)


def _by_reference(
    operator: object,
    adj: Adjacency,
    tensors: tuple[Tensor, Tensor, Tensor],
    negative_slope: float,
    dropout: float,
    seed: Tensor | None,
) -> Tensor:
    check = check_gat if operator is op.gat else check_gatv2
    check(*tensors, adj.rowptr, adj.col, seed, dropout)
    factor = None
    if seed is not None:
        factor = reference.dropout_factor(int(seed), adj.col.numel(), tensors[0].size(1), dropout)
    compute = reference.gat if operator is op.gat else reference.gatv2
    return compute(*tensors, adj.rowptr, adj.col, negative_slope=negative_slope, factor=factor)


def _check_size(name: str, x: Tensor, num_cols: int) -> None:
    if x.dim() == 3 and x.size(0) != num_cols:
        raise InvalidConfig(
            f"{name} must have a row for each of the {num_cols} columns of the matrix, and got {x.size(0)} rows."
        )
