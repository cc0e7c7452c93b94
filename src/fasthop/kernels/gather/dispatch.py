"""Which gather serves which tensor."""

from __future__ import annotations

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.kernels.buffers import BufferPool
from fasthop.kernels.device import gpu_kernels
from fasthop.kernels.gather.cpu import gather_rows


def gather(
    x: Tensor,
    index: Tensor,
    *,
    dim: int = 0,
    pool: BufferPool | None = None,
    name: str = "x",
    implementation: str = "auto",
) -> Tensor:
    """The entries `index` (int64 [n], on the CPU) of x along `dim`, as `x.index_select(dim, index)`.

    Dense CPU tensors go into used memory of `pool` under `name`. Rows are copied by our own kernel: 6.3 ms for
    103,000 rows of 512 bytes, where torch's `index_select(out=)` takes 8.3 on one thread, and 63 into fresh
    memory; and it does not wake OpenMP threads. One-dimensional tensors are torch's, whose
    loop is quicker there (0.13 against 0.22 ms). What needs a gradient, is sparse, or lies on another
    device is torch's own index_select, with x's device and a result that autograd knows.
    implementation: "triton" copies the rows of a contiguous x on CUDA by our kernel; no time of it is known yet, so
    "auto" does not take it.
    Raises IndexError for an index outside 0 .. x.size(dim) - 1, InvalidConfig for another implementation or one that cannot take x.
    """
    if implementation not in ("auto", "triton"):
        raise InvalidConfig(f"a gather is 'auto' or 'triton', and got {implementation!r}.")
    if implementation == "triton":
        return _by_triton(x, index, dim)
    if x.device.type != "cpu" or x.layout is not torch.strided or x.requires_grad or x.is_complex():
        return x.index_select(dim, index.to(x.device))
    shape = list(x.shape)
    shape[dim] = index.numel()
    out = torch.empty(shape, dtype=x.dtype) if pool is None else pool.tensor(name, x.dtype, tuple(shape))
    if x.dim() >= 2 and dim % x.dim() == 0 and x.is_contiguous():
        gather_rows(x, index, out)
    else:
        torch.index_select(x.detach(), dim, index, out=out)
    return out


def _by_triton(x: Tensor, index: Tensor, dim: int) -> Tensor:
    if not x.is_cuda or x.layout is not torch.strided or not x.is_contiguous() or x.requires_grad or dim != 0:
        raise InvalidConfig(
            "the gather in Triton copies the rows of a dense, contiguous CUDA tensor that needs no gradient, and got "
            f"{x.layout} on {x.device}, dim={dim}; take 'auto'."
        )
    out = x.new_empty(index.numel(), *x.shape[1:])
    gpu_kernels("fasthop.kernels.gather.gpu").gather_rows(x, index.to(x.device), out)
    return out
