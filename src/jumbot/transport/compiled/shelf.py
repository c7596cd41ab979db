"""Large arrays in memory that is used again once nobody holds it.

Memory that is new costs a fault for each of its pages, which the system first fills with zeros: to write 200 MB, the
plan of 5,000 x 5,000 points, takes 22 ms instead of 8.  A piece of memory is lent to one array.  NumPy makes it the
base of that array and of every view of it, and torch holds the array, so that Python ends its `_Piece` when the last of
them is gone, and not before; then it lies on a shelf for the next array of its size.  What lies there is marked as
free: the system takes its pages when it needs them for anything else.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import weakref
from collections import deque

import numpy as np
from numpy.typing import DTypeLike

LEAST, _MOST = 1 << 22, 1 << 30  # bytes: malloc is quick with less, and more is too much to keep
_FREE = getattr(mmap, "MADV_FREE", None)  # not on Windows
#: Pieces that nobody holds, the last one first to be lent; each call of a deque is safe among threads.
_shelf: deque[mmap.mmap] = deque(maxlen=3)


class _Piece:
    """The base of an array, with what NumPy asks of an object that lends it memory."""

    def __init__(self, memory: mmap.mmap, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self.memory = memory  # as long as the array lives, also while the interpreter ends
        place = np.frombuffer(memory, np.uint8).ctypes.data
        self.__array_interface__ = {"version": 3, "shape": shape, "data": (place, False)}
        self.__array_interface__["typestr"] = np.dtype(dtype).str
        weakref.finalize(self, _put, memory).atexit = False


def _put(memory: mmap.mmap) -> None:
    """To the shelf; memory that is locked cannot be marked as free, and goes back to the system."""
    with contextlib.suppress(OSError):
        memory.madvise(_FREE)  # type: ignore[arg-type]
        _shelf.append(memory)


def lent(*shape: int, dtype: DTypeLike = np.float64) -> np.ndarray:
    """An array that is not filled.

    >>> first = lent(1024, 1024)
    >>> place, row = first.ctypes.data, first[5]
    >>> del first
    >>> lent(1024, 1024).ctypes.data == place  # `row` is still held
    False
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if _FREE is None or not LEAST <= size <= _MOST:
        return np.empty(shape, dtype)
    memory = _taken(size)
    if memory is None:
        try:
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError:  # what lies here may be what is missing; if not, NumPy's error says how much was asked for
            _shelf.clear()
            return np.empty(shape, dtype)
        with contextlib.suppress(AttributeError, OSError):  # not every system has large pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.asarray(_Piece(memory, shape, dtype))


def _taken(size: int) -> mmap.mmap | None:
    """A piece of that size from the shelf; others go back to it."""
    for _ in range(len(_shelf)):
        try:
            memory = _shelf.pop()
        except IndexError:  # another thread was quicker
            return None
        if len(memory) == size:
            return memory
        _shelf.appendleft(memory)
    return None
