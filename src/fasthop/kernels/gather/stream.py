"""Copying a row past the caches: for outputs too large to be found there again anyway."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fasthop.jit import kernel

WORDS_PER_LINE = 8


@intrinsic
def _stream_row(typingctx, out, i, words, row, num_lines):
    """out[i, :] = words[row, :] for C-contiguous int64 arrays, 64 bytes at a time, by stores that do not read
    the line first. out must start at a multiple of 64 bytes; rows are num_lines x 8 words."""

    def codegen(context, builder, signature, args):
        target = context.make_array(signature.args[0])(context, builder, args[0])
        source = context.make_array(signature.args[2])(context, builder, args[2])
        word = ir.IntType(64)
        line = ir.VectorType(word, WORDS_PER_LINE).as_pointer()
        per_line = ir.Constant(word, WORDS_PER_LINE)
        width = builder.mul(args[4], per_line)
        to = builder.gep(target.data, [builder.mul(args[1], width)])
        origin = builder.gep(source.data, [builder.mul(args[3], width)])
        mark = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        with cgutils.for_range(builder, args[4]) as loop:
            offset = builder.mul(loop.index, per_line)
            value = builder.load(builder.bitcast(builder.gep(origin, [offset]), line), align=8)
            store = builder.store(value, builder.bitcast(builder.gep(to, [offset]), line), align=64)
            store.set_metadata("nontemporal", mark)
        return context.get_dummy_value()

    return types.void(out, i, words, row, num_lines), codegen


@kernel
def stream_rows(words, index, out):
    """out[i, :] = words[index[i], :]; both int64 and C-contiguous, rows of a multiple of 8 words, `out`
    at a multiple of 64 bytes."""
    num_lines = words.shape[1] // 8
    for i in range(index.size):
        _stream_row(out, i, words, index[i], num_lines)  # pyright: ignore[reportCallIssue]
