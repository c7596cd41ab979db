"""Where a problem is solved: on the device of its cost, or on the CPU, with one copy each way.

Not measured on a GPU but reasoned from counts.  On a device a sweep is some 30 operations and a whole solve 1,000 to
2,000, of at least 5 microseconds each to launch: about 10 ms, however small the problem is.  The compiled sweeps of the
CPU take .12 ms for one problem of 65 x 65, 30 ns for each of its entries, and the two copies some 5 ns more.  Both are
equal near 300,000 entries in all: 70 problems of 65 x 65, or one of 550 x 550.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.errors import ArgumentError, UnsupportedError, suggest
from jumbot.transport.compiled.shelf import LEAST, lent

ENGINES = ("auto", "cpu", "device")
#: Entries of all cost matrices of a call up to which the CPU and two copies take less time than the launches.
MOST_ENTRIES = 1 << 18
#: Devices without float64, in which all sweeps are made.
SINGLE = ("mps",)


def check_engine(engine: object) -> str:
    if not isinstance(engine, str) or engine not in ENGINES:
        raise ArgumentError(f"engine: {engine!r} is not known; {suggest(engine, ENGINES)}")
    return engine


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
    """Cost and weights where they are solved; gradients find their way back."""
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
    return torch.from_numpy(lent(*x.shape, dtype=np.float32)).copy_(x)
