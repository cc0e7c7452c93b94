"""What differs between the graph and machine that a plan was made on and those at hand: a sentence each."""

from __future__ import annotations

from typing import Any

from fasthop.graph.graph import Graph
from fasthop.graph.note import Note, note

PACKAGES = ("fasthop", "torch", "torch_geometric", "numba")


def graph_differences(fingerprint: str, graph: Graph) -> list[Note]:
    """Whether `graph` is another one than that of the fingerprint."""
    from fasthop.graph.fingerprint import graph_fingerprint

    now = graph_fingerprint(graph)
    if now == fingerprint:
        return []
    return [
        note(
            f"The plan was made for another graph (fingerprint {fingerprint[:12]}, and that of {graph.name!r} is {now[:12]}): "
            "its speed, memory and accuracy need not hold here; `fasthop tune` makes one for this graph.",
            f"该计划是为另一张图制定的（指纹 {fingerprint[:12]}，而 {graph.name!r} 的指纹是 {now[:12]}）："
            "其速度、内存和准确率在这里未必成立；可用 `fasthop tune` 为此图重新制定。",
        )
    ]


def machine_differences(then: dict[str, Any], now: dict[str, Any]) -> list[Note]:
    """Whether the hardware, the threads or the versions of software that decides speed are others."""
    found = []
    if then.get("machine_id") != now.get("machine_id"):
        was, is_now = _hardware(then), _hardware(now)
        found.append(
            note(
                f"The plan was made on another machine ({was}; this one: {is_now}): its speed and memory need not hold here.",
                f"该计划是在另一台机器上制定的（{was}；本机：{is_now}）：其速度和内存在这里未必成立。",
            )
        )
    changed = [
        f"{name} {_of(then, 'versions', name)} → {_of(now, 'versions', name)}"
        for name in PACKAGES
        if _of(then, "versions", name) != _of(now, "versions", name)
    ]
    if changed:
        listed = ", ".join(changed)
        found.append(
            note(
                f"The plan was made with other versions ({listed}): its speed need not hold.",
                f"制定该计划时的软件版本不同（{listed}）：其速度未必成立。",
            )
        )
    return found


def _hardware(machine: dict[str, Any]) -> str:
    gpus = machine.get("gpus")
    names = [str(gpu.get("name")) for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
    memory = machine.get("memory_bytes")
    parts = [
        str(_of(machine, "cpu", "model")),
        f"{_of(machine, 'cpu', 'usable_cores')} cores",
        f"{memory / 2**30:.0f} GiB" if isinstance(memory, int | float) else "? GiB",
        *names,
    ]
    return ", ".join(part[:60] for part in parts)


def _of(machine: dict[str, Any], group: str, name: str) -> Any:
    tree = machine.get(group)
    return tree.get(name) if isinstance(tree, dict) else None
