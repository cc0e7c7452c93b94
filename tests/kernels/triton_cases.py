"""What test_triton_interpreted.py runs in a process of its own: the kernels for GPUs, without a GPU.

    python -m tests.kernels.triton_cases {interpret,compile} {spmm,gat,gatv2,rest}

interpret (with TRITON_INTERPRET=1): the operators take the Triton kernels for CPU tensors; output and gradients are held
against the references. compile: what the same calls launch is compiled to machine code for a GPU that need not be there.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import torch
from torch import Tensor

from fasthop.kernels.gather import gpu as gather_gpu
from fasthop.kernels.segment_softmax import attention
from fasthop.kernels.segment_softmax import gpu as attention_gpu
from fasthop.kernels.segment_softmax import op as attention_op
from fasthop.kernels.segment_softmax import reference as attention_reference
from fasthop.kernels.sparse_linear import gpu as dropout_gpu
from fasthop.kernels.sparse_linear.entry_dropout import entry_dropout
from fasthop.kernels.spmm import dispatch, op, reference
from fasthop.kernels.spmm import gpu as spmm_gpu
from fasthop.kernels.spmm.adjacency import Adjacency, spmm
from tests.kernels.graphs import by_target, random_edges

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11, torch.bfloat16: 2e-2, torch.float16: 4e-3}
IS_COMPILING = False
LAUNCHES = 0


def check(got: Tensor | None, expected: Tensor | None, dtype: torch.dtype, what: object) -> None:
    """Compares, where numbers were computed at all."""
    assert got is not None, what
    assert expected is not None, what
    assert got.shape == expected.shape, what
    if IS_COMPILING:
        return
    scale = max(1.0, float(expected.detach().abs().max())) if expected.numel() else 1.0
    torch.testing.assert_close(
        got.double(),
        expected.double(),
        atol=TOLERANCE[dtype] * scale,
        rtol=TOLERANCE[dtype],
        equal_nan=True,
        msg=lambda text: f"{what}: {text}",
    )


def graph(num_rows: int, num_cols: int, num_edges: int) -> Adjacency:
    """Directed, with parallel entries, empty rows and a hub that has half of all entries, on both sides."""
    edge_index = random_edges(min(num_rows, num_cols), num_edges, 5)
    edge_index[1, : num_edges // 2] = min(1, num_rows - 1)
    edge_index[0, num_edges // 4 : 3 * num_edges // 4] = num_cols - 1
    rowptr, col, _ = by_target(edge_index, num_rows)
    return Adjacency(rowptr=rowptr, col=col.int(), num_cols=num_cols)


def numbers(*shape: int, seed: int, dtype: torch.dtype, whole: bool = False) -> Tensor:
    """Reproducible numbers; small whole ones tie often, and are often 0."""
    generator = torch.Generator().manual_seed(seed)
    if whole:
        return torch.randint(-1, 2, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def run_spmm() -> None:
    """Every reduction and dtype, weighted or not, with the gradients to x and the values."""
    shapes = [(6, 5, 61, 3), (1, 3, 50, 1), (4, 4, 0, 5), (5, 7, 90, 130), (4, 3, 2, 0), (0, 3, 0, 2)]
    dtypes = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
    for (rows, cols, edges, width), dtype, is_weighted, reduce in itertools.product(
        shapes, dtypes, (False, True), ("sum", "mean", "max", "min")
    ):
        if width > 100 and dtype != torch.float32:
            continue
        adj, wide = graph(rows, cols, edges), torch.promote_types(dtype, torch.float32)
        x = numbers(cols, width, seed=1, dtype=dtype, whole=width == 3)
        value = numbers(edges, seed=2, dtype=wide, whole=width == 3) if is_weighted else None
        mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        adj.value = None if value is None else value.clone().requires_grad_()
        their_value = None if value is None else value.clone().requires_grad_()
        # adjacency.spmm copies float16 on the CPU; the operator's own argument is what a GPU gets.
        got = op._DirectProduct.apply(
            mine, adj.rowptr, adj.col, adj.value, *adj.transposed, None, reduce, "triton"
        )
        expected = reference.spmm(theirs, adj.rowptr, adj.col, their_value, reduce)
        what = (rows, cols, edges, width, dtype, is_weighted, reduce)
        check(got, expected, dtype, what)
        cotangent = numbers(rows, width, seed=3, dtype=dtype)
        got.backward(cotangent)
        if dtype.itemsize == 2 and reduce in ("sum", "mean"):
            theirs = (
                x.float().requires_grad_()
            )  # torch itself adds up half precision's gradient in half precision
            their_value = None if value is None else value.clone().requires_grad_()
            expected = reference.spmm(theirs, adj.rowptr, adj.col, their_value, reduce)
        expected.backward(cotangent.to(expected.dtype))
        # So it does for extrema, whose ties are many where numbers are whole: a hub's share is then rounded many times.
        loose = torch.bfloat16 if dtype == torch.float16 else dtype
        check(mine.grad, theirs.grad, loose, (*what, "x"))
        if adj.value is not None and their_value is not None:
            check(adj.value.grad, their_value.grad, loose, (*what, "value"))
    if not IS_COMPILING:
        run_spmm_corners()


def run_spmm_corners() -> None:
    """Sums that must not stop growing, numbers that are none, parts of the default length, 64-bit columns."""
    ones = Adjacency(rowptr=torch.tensor([0, 1000]), col=torch.zeros(1000, dtype=torch.int32), num_cols=1)
    assert spmm(ones, torch.ones(1, 8, dtype=torch.bfloat16)).tolist() == [[1000.0] * 8]
    rowptr, col, _ = by_target(torch.tensor([[0, 1, 1, 2] + [0] * 30, [0, 0, 1, 2] + [3] * 30]), 4)
    for reduce in ("sum", "mean", "max", "min"):
        x = torch.tensor([[float("nan")], [float("-inf")], [float("inf")], [1.0]])
        expected = reference.spmm(x, rowptr, col, None, reduce)
        check(spmm_gpu.spmm(x, rowptr, col, None, reduce), expected, torch.float32, (reduce, "nan"))
    short, spmm_gpu.SPLIT = spmm_gpu.SPLIT, 256
    adj = graph(5, 6, 1500)
    x = numbers(6, 3, seed=4, dtype=torch.float64)
    for reduce in ("mean", "max"):
        got = spmm_gpu.spmm(x, adj.rowptr, adj.col.long(), None, reduce)
        check(got, reference.spmm(x, adj.rowptr, adj.col, None, reduce), torch.float64, (reduce, 1500))
        assert torch.equal(got, spmm_gpu.spmm(x, adj.rowptr, adj.col, None, reduce))
    spmm_gpu.SPLIT = short


def run_attention(operation: str) -> None:
    """Odd numbers of heads and channels, dropout, dtypes, with all three gradients."""
    shapes = [(6, 5, 61, 2, 3), (4, 4, 0, 2, 3), (1, 3, 50, 1, 1), (5, 5, 30, 8, 1), (3, 4, 25, 1, 130)]
    dtypes = [torch.float32, torch.float64, torch.bfloat16]
    for (rows, cols, edges, heads, channels), dtype, dropout in itertools.product(shapes, dtypes, (0.0, 0.4)):
        if channels > 100 and (dtype != torch.float32 or dropout):
            continue
        adj, wide = graph(rows, cols, edges), torch.promote_types(dtype, torch.float32)
        if operation == "gat":
            kernel, plain = attention.gat, attention_reference.gat
            sizes = [(cols, heads, channels), (cols, heads), (rows, heads)]
        else:
            kernel, plain = attention.gatv2, attention_reference.gatv2
            sizes = [(cols, heads, channels), (rows, heads, channels), (heads, channels)]
        leaves = [
            numbers(*size, seed=6 + k, dtype=dtype if len(size) == 3 else wide).requires_grad_()
            for k, size in enumerate(sizes)
        ]
        others = [leaf.detach().double().requires_grad_() for leaf in leaves]
        factor = attention_reference.dropout_factor(11, edges, heads, dropout) if dropout else None
        got = kernel(adj, *leaves, dropout=dropout, seed=11)
        expected = plain(*others, adj.rowptr, adj.col, factor=factor)
        what = (operation, rows, cols, edges, heads, channels, dtype, dropout)
        check(got, expected, dtype, what)
        cotangent = numbers(rows, heads, channels, seed=9, dtype=dtype)
        got.backward(cotangent)
        expected.backward(cotangent.double())
        for k, (mine, theirs) in enumerate(zip(leaves, others, strict=True)):
            # In bfloat16 g . out comes from the rounded output, as on the CPU: a difference of sums of many channels.
            if dtype != torch.bfloat16 or channels < 100:
                check(mine.grad, theirs.grad, dtype, (*what, k))


def run_rest() -> None:
    """Dropout on entries draws the CPU's bits; gather copies every dtype from every address."""
    order = torch.randperm(1500, generator=torch.Generator().manual_seed(0))
    for seed, p, dtype, perm in itertools.product(
        (0, -5, 2**62 + 12345), (0.1, 0.5, 1.0), (torch.float32, torch.float64), (None, order, order.int())
    ):
        drawn = dropout_gpu.entry_dropout(torch.tensor([seed]), 1500, p, perm, dtype)
        if not IS_COMPILING:
            assert torch.equal(drawn, entry_dropout(torch.tensor([seed]), 1500, p, perm, dtype))
    index = torch.tensor([3, 0, 6, 6, 1])
    tails: tuple[tuple[int, ...], ...] = ((), (1,), (3,), (5, 2), (300,))
    for dtype, tail, offset in itertools.product(
        (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool), tails, (0, 1)
    ):
        size = torch.Size(tail).numel() * 7
        x = torch.randint(0, 2, (size + offset,)).to(dtype)[offset:].view(7, *tail)
        out = torch.empty(5, *tail, dtype=dtype)
        gather_gpu.gather_rows(x, index, out)
        assert IS_COMPILING or torch.equal(out, x[index])
    for wrong in (7, -1):
        try:
            gather_gpu.gather_rows(torch.ones(7, 2), torch.tensor([wrong]), torch.empty(1, 2))
        except IndexError:
            continue
        raise AssertionError(wrong)


def compile_what_is_launched() -> None:
    """From here on a launch compiles its kernel, for a GPU of compute capability 9.0, and runs nothing."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime.jit import JITFunction

    names = {torch.float32: "fp32", torch.float64: "fp64", torch.bfloat16: "bf16", torch.float16: "fp16"}
    names |= {torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64"}
    seen = set()

    def run(
        self: Any,
        *args: Any,
        grid: Any,
        warmup: bool,
        num_warps: int,
        enable_fp_fusion: bool,
        **constants: Any,
    ) -> None:
        global LAUNCHES
        LAUNCHES += 1
        signature: dict[str, str] = {}
        for name, argument in zip(self.arg_names, args, strict=False):
            if isinstance(argument, Tensor):
                signature[name] = f"*{names[argument.dtype]}"
            elif argument == 1:  # as a launch does
                constants[name] = 1
            else:
                signature[name] = "i32" if -(2**31) <= argument < 2**31 else "i64"
        constants = {name: getattr(value, "value", value) for name, value in constants.items()}
        signature = {name: signature.get(name, "constexpr") for name in self.arg_names}
        key = (self.fn.__module__, self.fn.__name__, str(signature), str(constants), num_warps)
        if key not in seen:
            seen.add(key)
            source = ASTSource(fn=self, signature=signature, constexprs=constants)
            compiled = triton.compile(
                source,
                target=GPUTarget("cuda", 90, 32),
                options={"num_warps": num_warps, "enable_fp_fusion": enable_fp_fusion},
            )
            assert compiled.asm["cubin"]

    JITFunction.run = run


def main(mode: str, section: str) -> None:
    """Runs one section."""
    global IS_COMPILING
    IS_COMPILING = mode == "compile"
    spmm_gpu.SPLIT = 8  # hubs of a few entries are long rows
    op._kernels = lambda *tensors: spmm_gpu
    op.check = lambda *tensors: None  # float16 is taken on CUDA alone
    dispatch.run = lambda x, rowptr, col, value, reduce, name: spmm_gpu.spmm(x, rowptr, col, value, reduce)
    attention_op._gpu = lambda *tensors: attention_gpu
    if IS_COMPILING:
        compile_what_is_launched()
    else:
        from triton.runtime import interpreter

        # Compiled code rounds to nearest when it narrows to bfloat16; the interpreter, not told how, cuts off.
        plain, nearest = interpreter._convert_float, interpreter._ir.ROUNDING_MODE.RTNE
        interpreter._convert_float = lambda x, a, b, mode: plain(x, a, b, nearest if mode is None else mode)
    sections = {
        "spmm": run_spmm,
        "gat": lambda: run_attention("gat"),
        "gatv2": lambda: run_attention("gatv2"),
        "rest": run_rest,
    }
    sections[section]()
    assert not IS_COMPILING or LAUNCHES


if __name__ == "__main__":
    main(*sys.argv[1:])
