"""How a parent and its workers talk: pickled messages, each behind its length, over two pipes.

Both ends are our own processes on one machine, and the pipes are private to them, so that pickle is
safe here: nothing that is read from a file or a network ever comes this way.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass
from typing import IO, Any

from fasthop.graph.note import Note

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """What a worker answers in place of a result.

    kind: "inapplicable" (a rung does not apply), "compiler" (torch.compile failed), "memory" (out of memory),
    "input" (a fault of the user's model or data) or "error" (anything else).
    reason: a sentence by language. traceback: the worker's, as text, or "".
    """

    kind: str
    reason: Note
    traceback: str = ""


def send(stream: IO[bytes], message: Any) -> None:
    """Writes one message; functions and classes of `__main__` travel by value."""
    import cloudpickle

    body = cloudpickle.dumps(message)
    stream.write(_LENGTH.pack(len(body)))
    stream.write(body)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Reads one message. Raises EOFError where the other end is gone."""
    head = _exactly(stream, _LENGTH.size)
    return pickle.loads(_exactly(stream, _LENGTH.unpack(head)[0]))


def _exactly(stream: IO[bytes], num_bytes: int) -> bytes:
    parts = []
    while num_bytes:
        part = stream.read(num_bytes)
        if not part:
            raise EOFError("the other end of the pipe is closed")
        parts.append(part)
        num_bytes -= len(part)
    return b"".join(parts)
