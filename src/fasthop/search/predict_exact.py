"""How long a step of the exact rungs should take: from the count of its operations, before any of them has run."""

from __future__ import annotations

import statistics

from fasthop.errors import NotApplicable
from fasthop.machine.peaks import MachinePeaks
from fasthop.rewrites.ladder import Recipe
from fasthop.search.cost import Cost, StepCost, copy_rate
from fasthop.search.predict_rates import Rates
from fasthop.search.predict_time import ELEMENT_BYTES, Machine
from fasthop.search.step_cost import step_cost
from fasthop.train.setup import Setup

# How many operators of the framework an operation of the count is worth (it has both passes), and Adam a parameter tensor. Counted on
# the two-layer reference models on a graph of 64 nodes: 14 to 57 forward and 32 to 106 backward for 13 to 20 operations, so 1.1 and 2.5;
# three times that is what explains a step of +receptive_field on Cora (1.15 ms), whose operations are autograd functions in Python.
FORWARD_OPERATORS, BACKWARD_OPERATORS, ADAM_OPERATORS = 3.3, 7.5, 11
# A weight that lies in cache is multiplied by non-zeros in this share of the time that torch's CSR product takes for as many
# messages: Cora, 28,943 entries x 16 in 15 us (docs/design/fused_step.md), where MKL takes 63 us for 56,849.
NON_ZEROS_SHARE = 0.45
# The fused step calls its passes from compiled code: docs/design/fused_step.md, "10 us Python" and 0.4 us a pass.
FUSED_US, PASS_US = 12.0, 0.5
_MANY = 1 << 20


def exact_ms(setup: Setup, recipe: Recipe, machine: Machine) -> tuple[float, StepCost]:
    """(predicted time of a step in ms, its count) of a setup that exact rungs with `csr_spmm` have built.

    Nothing of it is run. Raises NotApplicable where its operations cannot be counted.
    """
    if setup.exact is None or not setup.exact.options.csr_spmm:
        raise NotApplicable("Only steps that aggregate by spmm are counted.")
    cost = step_cost(setup)
    valued = "cache_norm" in setup.exact.acted or setup.exact.weighted
    fused = recipe.rungs[-1].name == "fused_step"
    ns = sum(
        _operation_ns(
            name,
            part,
            cost,
            machine,
            weight=_first_weight(setup),
            width=_width(setup),
            valued=valued,
            fused=fused,
        )
        for name, part in cost.operations
    )
    if fused:
        return ns / 1e6 + (FUSED_US + PASS_US * len(cost.operations)) / 1e3, cost
    tensors = sum(parameter.requires_grad for parameter in setup.original.parameters())
    rates, num_operations = machine.rates, len(cost.operations)
    calls_us = num_operations * (
        FORWARD_OPERATORS * rates.forward_us + BACKWARD_OPERATORS * rates.backward_us
    )
    return ns / 1e6 + (calls_us + ADAM_OPERATORS * tensors * rates.optimizer_us) / 1e3, cost


def _operation_ns(
    name: str,
    cost: Cost,
    step: StepCost,
    machine: Machine,
    *,
    weight: int,
    width: float,
    valued: bool,
    fused: bool,
) -> float:
    peaks, rates = machine.peaks, machine.rates
    if name.startswith("linear of non-zeros"):
        # What is read again and again is the weight: the rate is that of a table as small as it.
        compute_ns = cost.flops / 2 * NON_ZEROS_SHARE * rates.ns("spmm", 8 * weight, 16)
    elif name.startswith(("aggregate", "attention")):
        # An entry's product and sum in cache is no matrix product's: torch's own CSR product has the rate.
        messages = cost.flops / (2 if valued or name.startswith("attention") else 1)
        compute_ns = messages * rates.ns("spmm", messages, width)
    else:
        # Its forward pass and two gradients, each of which is narrow in another way; x has rows and features in plenty.
        compute_ns = cost.flops / rates.gflops(_MANY, _MANY, max(int(width), 1), half=False)
    gathered_ns = cost.gathered_bytes / peaks.gather_gb_per_s.median
    return max(compute_ns, _move_ns(name, cost, step, peaks, rates, fused=fused) + gathered_ns)


def _first_weight(setup: Setup) -> int:
    """Numbers of the largest weight that multiplies x."""
    features = setup.task.graph.num_features
    return max((p.numel() for p in setup.original.parameters() if features in p.shape), default=features)


def _width(setup: Setup) -> float:
    """Channels of what is aggregated, as far as the weights tell: the usual number that a layer makes."""
    return statistics.median([p.size(0) for p in setup.original.parameters() if p.dim() == 2] or [16])


def _move_ns(
    name: str, cost: Cost, step: StepCost, peaks: MachinePeaks, rates: Rates, *, fused: bool
) -> float:
    """Planned buffers move at the rate of a copy; a result of autograd's lies in new memory each time."""
    if fused:
        return cost.bytes / copy_rate(step.resident_bytes, peaks, rates.copy_rates)
    moved = cost.bytes
    if name == "epilogue":  # a pass of its own here, and one for its gradient: two reads and a write in both
        moved = 5 * 4 * cost.flops
    numbers = moved / ELEMENT_BYTES
    return numbers * rates.ns("elementwise", numbers)
