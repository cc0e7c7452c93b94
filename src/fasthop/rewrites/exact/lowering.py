"""From a program to a stack: the list of operations that runs in one compiled call, or why there is none."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx
from torch.nn import Parameter
from torch_geometric.nn.dense.linear import Linear as PyGLinear

from fasthop.errors import NotApplicable
from fasthop.graph.note import Note, note
from fasthop.kernels.spmm.adjacency import Adjacency
from fasthop.kernels.stack import ops
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.fast_layer import hidden_state
from fasthop.rewrites.exact.hops import head, linear
from fasthop.rewrites.exact.matrix import Matrix
from fasthop.rewrites.exact.program import LayerCallSite, Program

FUNCTIONS: dict[Any, str] = {
    F.relu: "relu", torch.relu: "relu", "relu": "relu", F.elu: "elu", F.leaky_relu: "leaky_relu",
    torch.tanh: "tanh", "tanh": "tanh", F.tanh: "tanh", torch.sigmoid: "sigmoid", "sigmoid": "sigmoid", F.sigmoid: "sigmoid",
}  # fmt: skip
SLOPES = {"elu": "alpha", "leaky_relu": "negative_slope"}
LOG_SOFTMAX = (F.log_softmax, torch.log_softmax, "log_softmax")

Read = int | Constant
"""What an operation reads: the place of an earlier one, or the known input."""


class NotAStack(NotApplicable):
    """The program has an operation that the compiled step does not have; `.reason` names it in each language."""

    def __init__(self, reason: Note) -> None:
        super().__init__(reason["en"])
        self.reason = reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Lowered:
    """The operations, the last one the output; ends_in_log_softmax: whether the model's output is the log-softmax of it."""

    ops: tuple[ops.Op, ...]
    ends_in_log_softmax: bool


class Lowering:
    """The list while it grows; what the layers' lowerings in lowered_layers.py write with."""

    def __init__(self) -> None:
        self.ops: list[ops.Op] = []
        self._constants: dict[int, tuple[Constant | Tensor, int]] = {}

    def add(self, op: ops.Op) -> int:
        """Appends an operation and returns its place."""
        self.ops.append(op)
        return len(self.ops) - 1

    def place(self, x: Read | Tensor) -> int:
        """The place of what is read; a constant is written down at its first reading."""
        if isinstance(x, int):
            return x
        if id(x) not in self._constants:
            features = x if isinstance(x, Tensor) else x.sparse if x.sparse is not None else x.dense()
            self._constants[id(x)] = (x, self.add(ops.Constant(features=features)))
        return self._constants[id(x)][1]

    def dense_place(self, x: Read) -> int:
        """As `place`, for a reader that takes no sparse features."""
        return self.place(x.dense() if isinstance(x, Constant) else x)

    def linear(self, x: Read, weight: Tensor, bias: Tensor | None = None) -> int:
        """x @ weight.T + bias."""
        return self.add(
            ops.Linear(
                source=self.place(x), weight=learned(weight), bias=None if bias is None else learned(bias)
            )
        )

    def times(self, matrix: Matrix, x: Read, reduce: str = "sum") -> Read:
        """matrix @ x; a constant again where the product is kept."""
        if isinstance(x, Constant):
            product = x.product(matrix, reduce)
            if product is not None:
                return product
        return self.add(ops.Aggregate(source=self.dense_place(x), adj=matrix.adjacency, reduce=reduce))

    def head(self, x: Read, num_rows: int) -> Read:
        """The first rows."""
        if isinstance(x, Constant):
            return x.head(num_rows)
        return self.add(ops.Head(source=x, num_rows=num_rows))

    def activation(self, x: Read, kind: str, slope: float | None = None) -> int:
        """An activation."""
        return self.add(ops.Activation(source=self.dense_place(x), kind=kind, slope=slope))

    def dropout(self, x: Read, p: float) -> Read:
        """One draw of dropout; nothing where p is 0."""
        return x if p == 0 else self.add(ops.Dropout(source=self.place(x), p=p))

    def module(self, x: Read, module: torch.nn.Module) -> Read:
        """One of torch's modules. Raises NotAStack for one that the compiled step does not have."""
        reason = hidden_state(module)
        if reason is not None:
            raise NotAStack(reason)
        kind = type(module)
        if kind is torch.nn.Sequential:
            for part in module.children():
                x = self.module(x, part)
            return x
        if kind in (torch.nn.Linear, PyGLinear):
            return self.linear(x, module.weight, module.bias)  # type: ignore[arg-type]
        if kind is torch.nn.Identity:
            return x
        if kind is torch.nn.Dropout:
            return self.dropout(x, module.p if module.training else 0.0)  # type: ignore[arg-type]
        named: dict[Any, str] = {
            torch.nn.ReLU: "relu", torch.nn.ELU: "elu", torch.nn.LeakyReLU: "leaky_relu", torch.nn.Tanh: "tanh",
            torch.nn.Sigmoid: "sigmoid",
        }  # fmt: skip
        if kind in named:
            name = named[kind]
            return self.activation(x, name, getattr(module, SLOPES[name]) if name in SLOPES else None)
        raise NotAStack(_without(kind.__name__))


def learned(weight: Tensor) -> Parameter:
    """The parameter. Raises NotAStack where it is something else or frozen."""
    if not isinstance(weight, Parameter) or not weight.requires_grad:
        raise NotAStack(
            note(
                "A weight is frozen or computed anew in each step.",
                "有权重被冻结，或在每一步重新计算。",
            )
        )
    return weight


def lower(program: Program) -> Lowered:
    """The operations of a program. Raises NotAStack with the first that the compiled step does not have."""
    from fasthop.rewrites.exact.lowered_layers import lower_layer

    into = Lowering()
    values: dict[fx.Node, Any] = {}
    ends_in_log_softmax = False
    for node in program.call.graph.nodes:
        if node.op == "output":
            out = values[node.args[0]]
            return Lowered(ops=_finished(into, out), ends_in_log_softmax=ends_in_log_softmax)
        if ends_in_log_softmax:
            raise NotAStack(_without("log_softmax"))
        if node.op == "get_attr":
            values[node] = operator.attrgetter(str(node.target))(program.call)
        elif node.op == "call_module":
            module = program.call.get_submodule(str(node.target))
            if node.kwargs or len(node.args) != 1 or not isinstance(node.args[0], fx.Node):
                raise NotAStack(_without(type(module).__name__))
            args = [values[node.args[0]]]
            if isinstance(module, LayerCallSite):
                values[node] = lower_layer(into, module.fast, args[0], module.hops)
            else:
                values[node] = into.module(_readable(args[0]), module)
        elif node.target in LOG_SOFTMAX:
            values[node] = values[node.args[0]]
            ends_in_log_softmax = True
        else:
            values[node] = _call(into, node, values)
    raise AssertionError("a graph ends in its output")


def _finished(into: Lowering, out: Any) -> tuple[ops.Op, ...]:
    if not isinstance(out, int) or out != len(into.ops) - 1 or not any(ops.parameters(op) for op in into.ops):
        raise NotAStack(note("Its output is not the last thing it computes.", "它的输出不是最后计算的量。"))
    return tuple(into.ops)


def _readable(value: Any) -> Read:
    """A tensor attribute that is no parameter is an input as it stands."""
    if isinstance(value, int | Constant):
        return value
    if isinstance(value, Tensor) and not isinstance(value, Parameter) and value.dim() == 2:
        return Constant(dense=value, dtype=value.dtype)
    raise NotAStack(note("A parameter is used outside of a linear map.", "有参数用在线性层之外。"))


def _call(into: Lowering, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    target = node.target
    args: list[Any] = [values[arg] if isinstance(arg, fx.Node) else arg for arg in node.args]
    kwargs: dict[str, Any] = {
        name: values[arg] if isinstance(arg, fx.Node) else arg for name, arg in node.kwargs.items()
    }
    if target is head:
        return into.head(_readable(args[0]), args[1])
    if target is linear or target is F.linear:
        given = dict(zip(("x", "weight", "bias"), args, strict=False)) | kwargs
        return into.linear(_readable(given["x"]), given["weight"], given.get("bias"))
    if target == "dropout" or target is F.dropout:
        given: dict[str, Any] = dict(zip(("input", "p", "training", "inplace"), args, strict=False)) | kwargs
        if not given.get("inplace", False):
            return into.dropout(
                _readable(given["input"]), given.get("p", 0.5) if given.get("training", True) else 0.0
            )
    if target is torch.index_select and args[1] == 0:  # the output, put back into the user's order
        return into.add(
            ops.Aggregate(
                source=into.dense_place(_readable(args[0])), adj=selection(args[2], args[2].numel())
            )
        )
    if target in (operator.add, torch.add, "add") and len(args) == 2 and not kwargs:
        return into.add(
            ops.Add(a=into.dense_place(_readable(args[0])), b=into.dense_place(_readable(args[1])))
        )
    if target in FUNCTIONS and not kwargs.get("inplace"):
        kind = FUNCTIONS[target]
        slope = kwargs.get(SLOPES.get(kind, ""), args[1] if len(args) > 1 and kind in SLOPES else None)
        if len(args) <= (2 if kind in SLOPES else 1):
            return into.activation(_readable(args[0]), kind, slope)
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    raise NotAStack(_without(str(name)))


def selection(rows: Tensor, num_cols: int) -> Adjacency:
    """The matrix whose product with x is x[rows]. rows: int64 [n]."""
    return Adjacency(rowptr=torch.arange(rows.numel() + 1), col=rows.int(), num_cols=num_cols)


def of_rows(all_ops: tuple[ops.Op, ...], rows: Tensor, num_rows: int) -> tuple[ops.Op, ...]:
    """The operations with `rows` of the output as their output; num_rows: how many the output has."""
    return (*all_ops, ops.Aggregate(source=len(all_ops) - 1, adj=selection(rows, num_rows)))


def _without(name: str) -> Note:
    return note(f"The compiled step does not have {name}.", f"编译好的训练步不支持 {name}。")
