"""Whether a problem fits into memory, said before it is allocated: on Linux one that does not is killed without a word.

Bytes for each entry of the cost, measured as the growth of the resident set at 1,200 to 2,500 points (2026-11-18): 18
to 22 where tau is finite, 83 to 92 with exact marginals, 128 for partial transport, 17 to 31 at epsilon = 0.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from jumbot.errors import TooLargeError

_LARGE = 1 << 26  # entries: fewer fit anywhere
_ANNOUNCED = 4e9  # bytes from which on a call that builds its own costs says what it will take
_GROUPS = Path("/sys/fs/cgroup")


def free_memory() -> float:
    """Bytes that can still be had, swap included; infinite where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        told = {name: float(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
        free = told["MemAvailable"] + told.get("SwapFree", 0.0)
    except (OSError, KeyError, ValueError, IndexError):
        try:
            free = float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (AttributeError, OSError, ValueError):
            return float("inf")
    try:  # a container may have less
        limit, used = ((_GROUPS / f"memory.{name}").read_text(encoding="ascii").strip() for name in ("max", "current"))
        return free if limit == "max" else min(free, float(limit) - float(used))
    except (OSError, ValueError):
        return free


def bytes_per_entry(epsilon: float, exact: bool, partial: bool) -> int:
    if epsilon == 0:
        return 31
    return 128 if partial else 90 if exact else 20


def check_room(name: str, entries: int, each: float, what: str, announce: bool = False) -> None:
    """An error where `entries` of `each` bytes do not fit; with `announce`, a warning where they are very many."""
    if entries < _LARGE:
        return
    need, free = entries * each, free_memory()
    instead = (
        "jumbot.estimate averages over minibatches and jumbot.solve_sample works from the points; both never hold "
        "the whole matrix."
    )
    if need > free:
        raise TooLargeError(
            f"{name}: {what} needs about {need / 1e9:.1f} GB, and {max(free, 0.0) / 1e9:.1f} GB are free. {instead}"
        )
    if announce and need >= _ANNOUNCED:
        warnings.warn(
            f"{name}: {what} will take about {need / 1e9:.1f} GB of memory and minutes. {instead}",
            stacklevel=4,  # past the public function and its `hinting`
        )
