"""Compiled kernels in threads: they hold no lock, so Python threads suffice.

numba's parallel loops are not used: their thread layers abort the process after a fork or when two threads enter them.

The calling thread waits, which Ctrl-C can end, while compiled code cannot be interrupted.  So long calls run here even
with one thread; they check a `Stop` at intervals.  The threads are daemons, so one that is blocked in another library
does not keep the process from exiting.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np
import torch

_T = TypeVar("_T")
_GLANCE = 0.2  # seconds between looks at signals, where waiting cannot be interrupted
_GRACE = 0.5  # seconds that threads have to stop


class Stop:
    """A flag that compiled code reads: `flag[0]` is not zero once it is raised."""

    def __init__(self) -> None:
        self.flag = np.zeros(1, dtype=np.uint8)

    def __bool__(self) -> bool:
        return bool(self.flag[0])

    def set(self) -> None:
        self.flag[0] = 1


#: for calls that are too short to be stopped
NEVER = Stop()


class _Job:
    """Some calls on threads of the pool, and the wait for all of them."""

    def __init__(self, task: Callable[[Any], Any], items: list[Any], stop: Stop) -> None:
        self.task, self.items, self.stop = task, items, stop
        self.results: list[Any] = [None] * len(items)
        self.error: BaseException | None = None
        self.left, self.lock, self.done = len(items), threading.Lock(), threading.Event()

    def __call__(self, at: int) -> None:
        try:
            if not self.stop:
                self.results[at] = self.task(self.items[at])
        except BaseException as error:  # goes to the thread that waits
            self.error = error
            self.stop.set()
        with self.lock:
            self.left -= 1
            if self.left == 0:
                self.done.set()

    def wait(self) -> list[Any]:
        try:
            while not self.done.wait(_GLANCE):
                pass
        except BaseException:
            self.stop.set()
            self.done.wait(_GRACE)
            raise
        if self.error is not None:
            raise self.error
        return self.results


@cache
def _pool(process: int, threads: int) -> SimpleQueue[tuple[_Job, int]]:
    """The queue that so many threads of this process serve."""
    queue: SimpleQueue[tuple[_Job, int]] = SimpleQueue()

    def serve() -> None:
        while True:
            job, at = queue.get()
            job(at)
            del job  # or its arrays would be kept until the next job

    for number in range(threads):
        threading.Thread(target=serve, name=f"jumbot-{number}", daemon=True).start()
    return queue


def run(task: Callable[[_T], Any], items: Iterable[_T], stop: Stop | None = None) -> list[Any]:
    """`task` of each item, on `torch.get_num_threads()` threads; a forked child gets threads of its own.

    Ctrl-C, or an error of a task, raises `stop` and ends the wait; items that have not begun are left out.

    >>> run(lambda x: x * x, range(4))
    [0, 1, 4, 9]
    """
    job = _Job(task, list(items), Stop() if stop is None else stop)
    queue = _pool(os.getpid(), torch.get_num_threads())
    for at in range(len(job.items)):
        queue.put((job, at))
    return job.wait() if job.items else []


def split(count: int, parts: int) -> list[tuple[int, int]]:
    """`count` items in at most `parts` runs of nearly equal length.

    >>> split(5, 2)
    [(0, 2), (2, 5)]
    """
    edges = [count * k // parts for k in range(parts + 1)]
    return [(first, last) for first, last in pairwise(edges) if last > first]


def run_range(task: Callable[[int, int], Any], count: int, threaded: bool) -> None:
    """`task(first, last)` over 0 <= i < count, in one call or, if `threaded`, in parts on all threads."""
    threads = torch.get_num_threads()
    if not threaded or threads == 1:
        task(0, count)
        return
    task(0, 0)  # compile before the threads start
    run(lambda part: task(*part), split(count, threads))
