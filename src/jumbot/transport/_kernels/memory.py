"""Memory for compiled loops."""

from __future__ import annotations

import contextlib
import math
import mmap
import weakref
from collections import deque
from functools import lru_cache
from itertools import accumulate
from threading import get_ident

import numpy as np
import torch
from numpy.typing import DTypeLike

LEAST, _MOST = 1 << 22, 1 << 30  # bytes: malloc is fast below this, and more is too much to keep
_FREE = getattr(mmap, "MADV_FREE", None)  # not on Windows
#: Free blocks, the last one is used first; each call of a deque is safe among threads.
_pool: deque[mmap.mmap] = deque(maxlen=3)


class _Block:
    """The base of an array, with the interface that NumPy requires of an object with memory."""

    def __init__(self, memory: mmap.mmap, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self.memory = memory  # as long as the array exists, even during interpreter shutdown
        place = np.frombuffer(memory, np.uint8).ctypes.data
        self.__array_interface__ = {"version": 3, "shape": shape, "data": (place, False)}
        self.__array_interface__["typestr"] = np.dtype(dtype).str
        weakref.finalize(self, _put, memory).atexit = False


def _put(memory: mmap.mmap) -> None:
    """Return a block to the pool; locked memory cannot be marked as free, and is returned to the system."""
    with contextlib.suppress(OSError):
        memory.madvise(_FREE)  # type: ignore[arg-type]
        _pool.append(memory)


def acquire(*shape: int, dtype: DTypeLike = np.float64) -> np.ndarray:
    """An array that is not filled.

    >>> first = acquire(1024, 1024)
    >>> place, row = first.ctypes.data, first[5]
    >>> del first
    >>> acquire(1024, 1024).ctypes.data == place  # `row` is still held
    False
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if _FREE is None or not LEAST <= size <= _MOST:
        return np.empty(shape, dtype)
    memory = _taken(size)
    if memory is None:
        try:
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError:  # the pool may hold the missing memory; if not, NumPy's error gives the requested size
            _pool.clear()
            return np.empty(shape, dtype)
        with contextlib.suppress(AttributeError, OSError):  # not every system has large pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.asarray(_Block(memory, shape, dtype))


def _taken(size: int) -> mmap.mmap | None:
    """A block of that size from the pool; others go back to it."""
    for _ in range(len(_pool)):
        try:
            memory = _pool.pop()
        except IndexError:  # another thread took it
            return None
        if len(memory) == size:
            return memory
        _pool.appendleft(memory)
    return None


def release() -> None:
    """Return the pooled memory to the system, before something else needs it.

    >>> first = acquire(1024, 1024)
    >>> del first
    >>> release()
    >>> len(_pool)
    0
    """
    _pool.clear()


_ALIGNED_FROM = 1 << 14  # entries
_LINE = 8  # entries of a cache line


def empty(*shape: int) -> np.ndarray:
    """An array of float64 that is not filled, and if large begins at a cache line.

    NumPy's begins at any multiple of 16 bytes, and then each other vector that is loaded lies across two lines: a
    twelfth of the time of a sweep.  torch's begins at a line, but NumPy asks the system for large pages: with memory
    that is new, a batch of 1,000 plans takes 23.5 ms instead of 30.7.  Small problems gain less than it takes.  Of very
    large ones the memory is used again (`acquire`).

    >>> empty(128, 128).ctypes.data % 64
    0
    """
    size = math.prod(shape)
    if size < _ALIGNED_FROM:
        return np.empty(shape)
    if 8 * size >= LEAST:
        return acquire(*shape)
    whole = np.empty(size + _LINE)
    first = -whole.__array_interface__["data"][0] % (8 * _LINE) // 8
    return whole[first : first + size].reshape(shape)


def contiguous(x: np.ndarray) -> np.ndarray:
    """`x` as compiled functions need it: float64, contiguous, writable; a copy if necessary.

    >>> contiguous(np.ones((2, 3), dtype=np.float32).T).flags.carray
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
    """`parts` as work memory of a call that returns none of them: in each thread the same ones every time, if small.

    Creating them again takes six microseconds, a tenth of a small problem.

    >>> own((4, 4))[0] is own((4, 4))[0]
    True
    """
    if sum(shape[-1] for shape in shapes) > _ALIGNED_FROM:
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
