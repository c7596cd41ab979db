"""Memory for compiled loops."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate
from threading import get_ident

import numpy as np
import torch

from jumbot.transport.compiled import shelf

_LEAST = 1 << 14  # entries
_LINE = 8  # entries of a cache line


def empty(*shape: int) -> np.ndarray:
    """An array of float64 that is not filled, and if large begins at a cache line.

    NumPy's begins at any multiple of 16 bytes, and then each other vector that is loaded lies across two lines: a
    twelfth of the time of a sweep.  torch's begins at a line, but NumPy asks the system for large pages: with memory
    that is new, a batch of 1,000 plans takes 23.5 ms instead of 30.7.  Small problems gain less than it takes.  Of very
    large ones the memory is used again (`shelf.py`).

    >>> empty(128, 128).ctypes.data % 64
    0
    """
    size = math.prod(shape)
    if size < _LEAST:
        return np.empty(shape)
    if 8 * size >= shelf.LEAST:
        return shelf.lent(*shape)
    whole = np.empty(size + _LINE)
    first = -whole.__array_interface__["data"][0] % (8 * _LINE) // 8
    return whole[first : first + size].reshape(shape)


def plain(x: np.ndarray) -> np.ndarray:
    """As compiled functions take arrays: float64, in one piece, writable; a copy where `x` is not.

    >>> plain(np.ones((2, 3), dtype=np.float32).T).flags.carray
    True
    """
    return x if x.flags.carray and x.dtype == np.float64 else np.array(x, dtype=np.float64, order="C")


def parts(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Arrays as `empty` gives, small ones too, that each begin at a cache line: one piece of memory, cut up.

    >>> [(x.shape, x.ctypes.data % 64) for x in parts((9, 5), (3,))]
    [((9, 5), 0), ((3,), 0)]
    """
    sizes = [math.prod(shape) for shape in shapes]
    begins = list(accumulate((-(-size // _LINE) * _LINE for size in sizes), initial=0))
    whole = np.empty(begins[-1] + _LINE)
    first = -whole.ctypes.data % (8 * _LINE) // 8
    return [
        whole[first + begin : first + begin + size].reshape(shape)
        for begin, size, shape in zip(begins, sizes, shapes, strict=False)
    ]


def own(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """`parts` to work in, for a call that gives none of them away: the same ones each time, if small, in one thread.

    To cut them anew takes six microseconds, a tenth of a small problem.

    >>> own((4, 4))[0] is own((4, 4))[0]
    True
    """
    if sum(shape[-1] for shape in shapes) > _LEAST:
        return parts(*shapes)
    return _kept(get_ident(), shapes)


@lru_cache(maxsize=16)
def _kept(thread: int, shapes: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
    return parts(*shapes)


def zeros(*shape: int) -> np.ndarray:
    """Zeros in float64 that begin at a cache line, however few: for loops that read them many times.

    >>> zeros(3, 5).ctypes.data % 64, zeros(3, 5).sum()
    (0, np.float64(0.0))
    """
    return torch.zeros(shape, dtype=torch.float64, device="cpu").numpy()
