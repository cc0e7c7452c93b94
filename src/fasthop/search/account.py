"""The account of an acceleration in plain text: what was done, what was not and why, the proof, the cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fasthop.search.accelerated import Accelerated


def account(fast: Accelerated) -> str:
    """Some lines for the terminal; `print(fast)` shows them."""
    name = type(fast.model.original).__name__
    lines = [f"fasthop: {name} on {fast.graph.name}, {len(fast.used)} exact rungs in use"]
    for rung in fast.used:
        verdict = fast.verdicts.get(rung)
        lines.append(
            f"  {rung:<16} {verdict.sentence['en'] if verdict is not None else 'in use, not proven (prove=False)'}"
        )
    if fast.skipped:
        lines.append("not in use")
        lines += [f"  {rung:<16} {reason['en']}" for rung, reason in fast.skipped.items()]
    if fast.built.left:
        lines.append("layers left as they are")
        lines += [f"  {path or '(the model)':<16} {reason['en']}" for path, reason in fast.built.left.items()]
    order = fast.built.order
    if not order.is_whole:
        rows = ", ".join(f"{order.size(depth):,}" for depth in range(len(order.sizes)))
        lines.append(
            f"rows computed in training, from the output back: {rows} of {order.num_nodes:,}; fast.data.y and "
            "fast.data.train_mask belong to them"
        )
    lines.append(_cost(fast))
    return "\n".join(lines)


def _cost(fast: Accelerated) -> str:
    if fast.pace is None:
        why = "its gain was not measured" if fast.used else "nothing is gained"
        return f"cost {fast.cost_s:.1f} s, and {why}"
    pace = fast.pace
    steps = f"a step without the optimiser: {pace.original_ms:.3g} ms before, {pace.fast_ms:.3g} ms now ({pace.ratio:.1f}x)"
    epochs = fast.break_even_epochs
    pays = "and does not pay: it is not faster" if epochs is None else f"pays after {epochs:,.0f} epochs"
    return f"{steps}; cost {fast.cost_s:.1f} s, {pays}"
