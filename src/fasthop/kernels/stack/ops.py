"""The operations of a stack: a GNN on a fixed graph, written as a list in which each operation names earlier ones.

`source`, `a` and `b` are places in that list. All values are matrices, nodes x channels, in one dtype.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import Parameter

from fasthop.errors import InvalidConfig
from fasthop.kernels.sparse_linear.features import SparseFeatures
from fasthop.kernels.spmm.adjacency import Adjacency

ACTIVATIONS = ("relu", "elu", "leaky_relu", "tanh", "sigmoid")


@dataclass(frozen=True, kw_only=True, slots=True)
class Constant:
    """Features that no gradient reaches: a dense [n, F], or its non-zeros (which only Dropout, Head and Linear take)."""

    features: Tensor | SparseFeatures


@dataclass(frozen=True, kw_only=True, slots=True)
class Dropout:
    """Each entry dropped with probability p, the others over 1 - p; all consumers see one draw. Of sparse features the
    non-zeros are drawn alone, because a zero stays zero. Raises InvalidConfig unless 0 <= p <= 1."""

    source: int
    p: float

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise InvalidConfig(f"a dropout probability lies between 0 and 1, and got {self.p!r}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Linear:
    """out = source @ weight.T + bias. weight: [out, in]; bias: [out] or None."""

    source: int
    weight: Parameter
    bias: Parameter | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Aggregate:
    """out[i] = sum over the entries e of row i of value[e] * source[col[e]], over their number where reduce is "mean".

    adj: [n_out, n_in] with constant values or none. Raises InvalidConfig for another reduce, or values that need a gradient.
    """

    source: int
    adj: Adjacency
    reduce: str = "sum"

    def __post_init__(self) -> None:
        if self.reduce not in ("sum", "mean"):
            raise InvalidConfig(f"a stack aggregates by 'sum' or 'mean', and got {self.reduce!r}.")
        if self.adj.value is not None and self.adj.value.requires_grad:
            raise InvalidConfig(
                "a stack's edge values are constants, and got values that require a gradient; use spmm for those."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Bias:
    """out = source + bias. bias: [channels]."""

    source: int
    bias: Parameter


@dataclass(frozen=True, kw_only=True, slots=True)
class Add:
    """out = a + b, which have the same shape."""

    a: int
    b: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """The first num_rows rows of source; nothing is copied."""

    source: int
    num_rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Activation:
    """kind: "relu", "elu", "leaky_relu", "tanh" or "sigmoid". slope: elu's alpha (torch's default is 1) and leaky_relu's
    negative slope (0.01), above 0; None takes torch's default. Raises InvalidConfig for another kind or slope."""

    source: int
    kind: str
    slope: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in ACTIVATIONS:
            raise InvalidConfig(f"There is no activation {self.kind!r}; there are {', '.join(ACTIVATIONS)}.")
        if self.slope is not None and not self.slope > 0:
            # The backward pass tells the sign of the input from that of the output.
            raise InvalidConfig(f"an activation's slope is above 0, and got {self.slope!r}.")

    @property
    def factor(self) -> float:
        """The slope that is meant."""
        return self.slope if self.slope is not None else 1.0 if self.kind == "elu" else 0.01


Op = Constant | Dropout | Linear | Aggregate | Bias | Add | Head | Activation


def sources(op: Op) -> tuple[int, ...]:
    """The places of the operations that an operation reads."""
    if isinstance(op, Constant):
        return ()
    if isinstance(op, Add):
        return op.a, op.b
    return (op.source,)


def parameters(op: Op) -> tuple[Parameter, ...]:
    """The parameters that an operation uses."""
    if isinstance(op, Linear):
        return (op.weight,) if op.bias is None else (op.weight, op.bias)
    return (op.bias,) if isinstance(op, Bias) else ()
