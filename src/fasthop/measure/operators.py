"""What an operator does for a graph neural network, by its name: aggregate, transform, elementwise, or nothing but overhead."""

from __future__ import annotations

import functools
import re
from typing import Any

import torch

AGGREGATE, TRANSFORM, ELEMENTWISE, OVERHEAD, FUSED = (
    "aggregate",
    "transform",
    "elementwise",
    "overhead",
    "fused",
)
KINDS = (AGGREGATE, TRANSFORM, ELEMENTWISE, FUSED, OVERHEAD)

# Rows read or added up by an index, sums over segments, and sparse products.
_AGGREGATE = re.compile(
    r"^(aten::(index(_select.*|_add.*|_put.*|_copy.*|_fill.*|_reduce.*)?|_index_put_impl_|_unsafe_index.*|gather(_backward)?"
    r"|scatter.*|_?segment_reduce.*|embedding.*|_embedding.*|_sparse_(mm|addmm|sum|softmax|log_softmax).*|_?spmm.*"
    r"|sparse_sampled_addmm|take|take_along_dim|masked_select|bincount)$"
    r"|fasthop::|fasthop_stack::aggregate|(torch_scatter|torch_sparse|pyg|torch_spline_conv|torch_cluster)::"
    r"|_Direct(Product)?(Backward)?$"
    r"|triton_.*(scatter|index|gather|embedding))"
)
_TRANSFORM = re.compile(
    r"^(aten::(mm|addmm|bmm|baddbmm|addbmm|mv|addmv|dot|vdot|_addmm_activation|_int_mm|_scaled_mm|mkldnn_linear.*|_mkl_linear"
    r"|convolution.*|_convolution.*|mkldnn_convolution.*|_scaled_dot_product.*)$"
    r"|mkl::|mkldnn::.*linear|onednn::.*linear|fasthop_stack::(transform|product|outer|parts|turn)"
    r"|triton_(tem_|mm_))"
)
# Where torch.compile has joined operators on a CPU, nothing tells them apart afterwards.
_COMPILED = re.compile(r"^(## Call CompiledFxGraph|graph_\d+_cpp_fused|cpp_fused)")
# Made of nothing but bookkeeping: memory, autograd's nodes, ranges, hooks.
_BOOKKEEPING = re.compile(
    r"^aten::(empty.*|new_empty.*|resize_.*|set_|detach_?|alias|_nnz|(crow|col|ccol|row)_indices|_?indices|_?values|lift_fresh.*"
    r"|result_type|as_strided_|unsqueeze_|squeeze_|t_|transpose_|is_same_size|stride|size|_sparse_.*_unsafe|(un)?flatten"
    r"|resolve_(conj|neg)|is_pinned|record_stream|item|_local_scalar_dense|equal|_has_compatible_shallow_copy_type)$"
)
# A sparse matrix was looked into: what stands around it is a sparse product.
_SPARSE_PARTS = re.compile(r"^aten::(_nnz|(crow|ccol|row|col)_indices|_indices)$")


@functools.cache
def kind_of(name: str) -> str:
    """The kind of an operator, range or kernel by the profiler's name for it.

    AGGREGATE: rows by an index, sums over segments, sparse products, fasthop's own operators. TRANSFORM: matrix products.
    ELEMENTWISE: every other operator that computes or copies: activations, normalisation, dropout, softmax, loss.
    FUSED: the joined kernels of torch.compile on a CPU. OVERHEAD: views, bookkeeping, autograd's nodes, operators made
    of others, ranges: what they take by themselves is no kernel's time.
    """
    if _AGGREGATE.match(name):
        return AGGREGATE
    if _TRANSFORM.match(name):
        return TRANSFORM
    if _COMPILED.match(name):
        return FUSED
    namespace, colons, _ = name.partition("::")
    if name.startswith(("fasthop_stack::", "triton_")):
        return ELEMENTWISE
    if not colons or namespace in ("autograd", "torch", "fasthop_range") or not namespace.isidentifier():
        return OVERHEAD
    if _BOOKKEEPING.match(name) or _is_made_of_others(name) or _is_view(name):
        return OVERHEAD
    return ELEMENTWISE


def is_sparse_part(name: str) -> bool:
    """Whether the operator asks a sparse matrix for a part of it."""
    return _SPARSE_PARTS.match(name) is not None


def _is_made_of_others(name: str) -> bool:
    """Whether the operator is nothing but calls of other operators (torch's CompositeImplicitAutograd)."""
    named = [full for full, _ in _overloads(name) if not full.endswith("out")]
    named = [full for full in named if torch._C._dispatch_has_kernel(full)]
    return bool(named) and all(
        torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd") for full in named
    )


def _is_view(name: str) -> bool:
    """Whether the result shares memory that the operator does not write."""
    schemas = [schema for _, schema in _overloads(name)]
    return any(
        one.alias_info is not None and not one.alias_info.is_write for s in schemas for one in s.returns
    )


def _overloads(name: str) -> list[tuple[str, Any]]:
    """The full names and schemas of an operator; none where torch does not know it."""
    namespace, _, plain = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace, None), plain, None)
    if packet is None:
        return []
    return [
        (name if overload == "default" else f"{name}.{overload}", getattr(packet, overload)._schema)
        for overload in packet.overloads()
    ]
