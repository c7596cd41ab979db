"""Compiled kernels in threads: they hold no lock, so Python's own threads are enough.

numba's parallel loops are not used: their thread layers abort the process after a fork or when two threads enter them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import torch

_T = TypeVar("_T")


@lru_cache(maxsize=4)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="jumbot")


def run(task: Callable[[_T], Any], items: Iterable[_T]) -> list[Any]:
    """`task` of each item, on `torch.get_num_threads()` threads; a forked child gets threads of its own."""
    return list(_pool(os.getpid(), torch.get_num_threads()).map(task, items))


def split(count: int, parts: int) -> list[tuple[int, int]]:
    """`count` items in at most `parts` runs of nearly equal length.

    >>> split(5, 2)
    [(0, 2), (2, 5)]
    """
    edges = [count * k // parts for k in range(parts + 1)]
    return [(first, last) for first, last in pairwise(edges) if last > first]
