"""spmm in plain torch, as PyG computes it: the definition of correct."""

from __future__ import annotations

import torch
from torch import Tensor


def spmm(x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None = None, reduce: str = "sum") -> Tensor:
    """out[i] = reduce over the entries e of row i of value[e] * x[col[e]].

    x: [num_cols, C], floating point. rowptr: int64 [num_rows + 1]. col: [E]. value: [E] or None (all 1).
    reduce: "sum", "mean" (over the number of entries, not the weights), "max" or "min". A row without entries
    is 0. Where several entries tie for an extremum, each gets an equal part of the gradient; where the extremum
    is 0, torch counts one more entry that ties (its zeros to start from), so that the parts sum to less than 1.
    out: [num_rows, C] in x's dtype; bfloat16 is summed in float32. Differentiable in x and value.
    """
    num_rows = rowptr.numel() - 1
    row = torch.repeat_interleave(
        torch.arange(num_rows, device=rowptr.device), rowptr.diff(), output_size=col.numel()
    )
    dtype = torch.promote_types(x.dtype, torch.float32) if reduce in ("sum", "mean") else x.dtype
    messages = x.to(dtype)[col.long()]
    if value is not None:
        messages = (messages * value.to(torch.promote_types(dtype, value.dtype)).unsqueeze(1)).to(dtype)
    index = row.unsqueeze(1).expand_as(messages)
    out = messages.new_zeros(num_rows, x.size(1))
    if reduce in ("max", "min"):
        return out.scatter_reduce(0, index, messages, f"a{reduce}", include_self=False)
    out = out.scatter_add(0, index, messages)
    if reduce == "mean":
        out = out / rowptr.diff().clamp(min=1).unsqueeze(1)
    return out.to(x.dtype)
