"""Memory for compiled loops."""

from __future__ import annotations

import math

import numpy as np
import torch

_LEAST = 1 << 14  # entries


def empty(*shape: int) -> np.ndarray:
    """An array of float64 that is not filled, and if large begins at a cache line.

    torch's memory does; NumPy's begins at any multiple of 16 bytes, and then each other vector that is loaded lies
    across two lines: a twelfth of the time of a sweep.  It takes 3 microseconds longer, more than small problems gain.

    >>> empty(128, 128).ctypes.data % 64
    0
    """
    if math.prod(shape) < _LEAST:
        return np.empty(shape)
    return torch.empty(shape, dtype=torch.float64, device="cpu").numpy()


def zeros(*shape: int) -> np.ndarray:
    """Zeros in float64 that begin at a cache line, however few: for loops that read them many times.

    >>> zeros(3, 5).ctypes.data % 64, zeros(3, 5).sum()
    (0, np.float64(0.0))
    """
    return torch.zeros(shape, dtype=torch.float64, device="cpu").numpy()
