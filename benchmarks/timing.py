"""Interleaved timing: every solver gets a short turn on one problem, then all of them on the next.

Noise of a shared machine comes in stretches of seconds; solvers that take turns of milliseconds meet the same
stretches, so the ratio of their medians is steadier than either time.  A turn begins when the threads of the one before
have come to rest: those of XLA spin for five milliseconds after a call, and would be charged to whoever comes next.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import torch

TURN = 0.1  # seconds; a shorter call is repeated within its turn, so that it runs as warm as one of seconds
_GLANCE, _PATIENCE = 2e-3, 0.5  # seconds in which the process is to rest, and at most waited for


@contextlib.contextmanager
def threads(limit: int | None) -> Iterator[None]:
    """At most so many threads in torch and BLAS; None leaves both as they are.

    BLAS is reached through threadpoolctl, where that is installed.
    """
    if limit is None:
        yield
        return
    before = torch.get_num_threads()
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        threadpool_limits = contextlib.nullcontext
    with threadpool_limits(limit):
        torch.set_num_threads(limit)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def settle() -> None:
    """Return when no thread of this process runs any more."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < _PATIENCE:
        used = time.process_time()
        time.sleep(_GLANCE)
        if time.process_time() - used < _GLANCE / 10:
            return


def interleave(
    solvers: dict[str, Sequence[Callable[[], object]]], *, budget: float, rounds: int
) -> dict[str, list[float]]:
    """Seconds of every call of every solver: at least `rounds` rounds, more while `budget` seconds last."""
    times: dict[str, list[float]] = {name: [] for name in solvers}
    problems = max(len(calls) for calls in solvers.values())
    begin = time.perf_counter()
    k = 0
    while k < rounds or time.perf_counter() - begin < budget:
        for name, calls in solvers.items():
            call = calls[k % problems]
            settle()
            turn = time.perf_counter()
            while True:
                start = time.perf_counter()
                call()
                end = time.perf_counter()
                times[name].append(end - start)
                if end - turn > TURN:
                    break
        k += 1
    return times
