"""The memory of the last large plan, used again for the next.

A fresh plan of 200 MB costs as much in page faults as several sweeps.  When nobody holds the last plan any more, its
memory is kept, one buffer at most, and lent to the next problem of the same size.
"""

from __future__ import annotations

import threading

import numpy as np

_MOST = 2**30  # bytes: larger buffers go back to the system
_lock = threading.Lock()
_spare: np.ndarray | None = None


class _Lent(np.ndarray):
    """A view that gives its buffer back when the last array on top of it is gone."""

    def __del__(self) -> None:
        global _spare
        buffer = self.base
        if isinstance(buffer, np.ndarray) and type(buffer) is np.ndarray and buffer.nbytes <= _MOST:
            with _lock:
                _spare = buffer


def borrow(shape: tuple[int, int]) -> np.ndarray:
    """An uninitialised float64 array; its memory may be that of an earlier one, which nobody holds any more.

    >>> first = borrow((2, 3))
    >>> place = first.ctypes.data
    >>> del first
    >>> borrow((3, 2)).ctypes.data == place
    True
    """
    global _spare
    count = shape[0] * shape[1]
    with _lock:
        buffer, _spare = _spare, None
    if buffer is None or buffer.size != count:
        buffer = np.empty(count)
    return np.asarray(buffer.view(_Lent)).reshape(shape)
