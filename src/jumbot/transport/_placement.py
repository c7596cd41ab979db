"""Placement of arrays: devices, memory of results, and whether a problem fits."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot._base.options import check_word
from jumbot.errors import TooLargeError, UnsupportedError
from jumbot.transport._kernels.memory import LEAST, acquire

ENGINES = ("auto", "cpu", "device")
#: Entries of all cost matrices of a call up to which the CPU and two copies are faster than launching GPU operations.
MOST_ENTRIES = 1 << 18
#: Devices without float64, in which all sweeps are made.
SINGLE = ("mps",)


def check_engine(engine: object) -> str:
    return check_word("engine", engine, ENGINES)


def on_cpu(engine: str, device: str, batch: int, n: int, m: int, epsilon: float) -> bool:
    """Whether `batch` problems of n x m entries that live on a device of this type are solved on the CPU.

    >>> on_cpu("auto", "cuda", 1, 65, 65, 0.01), on_cpu("auto", "cuda", 1000, 65, 65, 0.01)
    (True, False)
    >>> on_cpu("auto", "mps", 1000, 65, 65, 0.01)  # there is no float64
    True
    """
    check_engine(engine)
    if device == "cpu" or engine == "cpu":
        return True
    if engine == "device":
        if device in SINGLE:
            raise UnsupportedError(f"engine: 'device' on {device}, which has no float64; use 'auto' or 'cpu'.")
        if epsilon == 0:
            raise UnsupportedError("engine: 'device' at epsilon = 0, where plans are exact; use 'auto' or 'cpu'.")
        return False
    return epsilon == 0 or device in SINGLE or batch * n * m <= MOST_ENTRIES


def placed(engine: str, epsilon: float, cost: Tensor, *others: Tensor | None) -> tuple[Any, ...]:
    """Cost and weights on the device of the solver; gradients are propagated."""
    check_engine(engine)
    if cost.device.type == "cpu" or cost.ndim < 2:
        return cost, *others
    n, m = cost.shape[-2:]
    if not on_cpu(engine, cost.device.type, cost.shape[:-2].numel(), n, m, epsilon):
        return cost, *others
    return cost.cpu(), *(None if x is None else x.cpu() for x in others)


def returned(x: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Floats in `dtype`, on `device`; converted first, because the device may not know float64."""
    if x.is_floating_point() and x.dtype != dtype:
        large = x.device.type == "cpu" and x.numel() * dtype.itemsize >= LEAST
        x = _large(x) if large and dtype == torch.float32 else x.to(dtype)
    return x if x.device == device else x.to(device)


def _large(x: Tensor) -> Tensor:
    """In float32: to write 100 MB of memory that is new takes three times as long as to convert them."""
    return torch.from_numpy(acquire(*x.shape, dtype=np.float32)).copy_(x)


#: Pairs of points above which losses between clouds make no matrix, but go by `solve_sample`.
LARGEST_MATRIX = 1 << 27
LARGE = 1 << 26  # entries: fewer fit anywhere
_ANNOUNCED = 4e9  # bytes above which a call that builds its own costs warns of its size
_GROUPS = Path("/sys/fs/cgroup")


def free_memory() -> float:
    """Bytes that are still available, including swap; infinite if the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        amounts = {name: float(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
        free = amounts["MemAvailable"] + amounts.get("SwapFree", 0.0)
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
    """For each entry of the cost, measured as the growth of the resident set at 1,200 to 2,500 points.

    18 to 22 where tau is finite; with exact marginals 8 to 16, and 40 where epsilon is so small that larger ones come
    first; 128 for partial transport, 17 to 31 at epsilon = 0.
    """
    if epsilon == 0:
        return 31
    return 128 if partial else 42 if exact else 20


def check_room(name: str, entries: int, each: float, what: str, announce: bool = False) -> None:
    """Raise an error if `entries` of `each` bytes do not fit; with `announce`, warn if they are very many."""
    if entries < LARGE:
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
