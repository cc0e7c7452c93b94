"""The process's memory as the operating system counts it, in bytes."""

from __future__ import annotations

import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def process_peak_bytes() -> int | None:
    """Peak resident set of this process in bytes since it started, or since `reset_process_peak`;
    None where the system does not say (some sandboxes' /proc).

    Linux: VmHWM. `ru_maxrss` will not do there: it is inherited through exec, so that a child of a
    large process reads its parent's figure (measured: 1,979 MB where VmHWM said 8.7 MB).
    """
    if sys.platform.startswith("linux"):
        return _status_bytes("VmHWM")
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024  # bytes on macOS, KiB on the BSDs


def reset_process_peak() -> bool:
    """Sets the peak of `process_peak_bytes` back to what is resident now. False where the system
    has no way to do it (anything but Linux) or forbids it."""
    try:
        _CLEAR_REFS.write_text("5")  # proc(5): 5 resets the peak resident set size
    except OSError:
        return False
    return True


def rss_bytes() -> int:
    """What of this process is resident now, in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def _status_bytes(field: str) -> int | None:
    """A field of /proc/self/status, which the kernel gives in KiB."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None
