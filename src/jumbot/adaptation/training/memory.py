"""The memory that a training step frees, kept for the next one."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # names of glibc's mallopt


def keep_freed_memory() -> bool:
    """Tell the C library not to give memory back between steps; whether it listened.

    glibc maps blocks of more than 32 MB anew at each use, and the system clears them page by page.  The activations of
    500 digits are larger: without this a quarter of a step on the CPU goes into clearing them.  It holds for the whole
    process, so only the commands that train call it.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return all([mallopt(_MMAP_MAX, 0), mallopt(_TRIM_THRESHOLD, 2**31 - 1), mallopt(_TOP_PAD, 1 << 26)])
