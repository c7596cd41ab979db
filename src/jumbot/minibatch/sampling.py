"""Which points a minibatch holds: a function of (seed, minibatch number) alone, whoever computes it.

The stream is counter-based: the splitmix64 finaliser of (seed, minibatch, side, position).  Subsets are drawn by
Floyd's algorithm, uniformly among the C(n, m) subsets.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from jumbot.transport.compiled.decorator import compiled
from jumbot.transport.compiled.threads import run, split

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_THREADED_FROM = 1 << 14  # indices


@compiled()
def _mix(x: Any) -> Any:
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@compiled()
def _uniform(state: Any, counter: int) -> float:
    """The draw number `counter` of the stream `state`, in [0, 1)."""
    x = _mix(state + np.uint64(counter + 1) * _GOLDEN)
    return float(x >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled()
def _state(seed: Any, minibatch: int, side: int) -> Any:
    return _mix(_mix(_mix(np.uint64(seed)) + np.uint64(minibatch)) + np.uint64(side))


@compiled()
def _subsets(seed: Any, first: int, side: int, n: int, out: Any) -> None:
    count, m = out.shape
    for k in range(count):
        state, row = _state(seed, first + k, side), out[k]
        for i in range(m):
            top = n - m + i
            candidate = min(int(_uniform(state, i) * (top + 1)), top)
            taken = 0
            for j in range(i):  # to the end, without a branch: so it is vectorised
                taken += row[j] == candidate
            row[i] = top if taken else candidate


@compiled()
def _with_replacement(seed: Any, first: int, side: int, cumulative: Any, out: Any) -> None:
    count, m = out.shape
    total, last = cumulative[-1], cumulative.shape[0] - 1
    for k in range(count):
        state = _state(seed, first + k, side)
        for i in range(m):
            out[k, i] = min(np.searchsorted(cumulative, _uniform(state, i) * total, side="right"), last)


def draw_subsets(seed: int, first: int, count: int, side: int, n: int, m: int) -> np.ndarray:
    """`(count, m)` indices of the minibatches first, first + 1, ...: m different points of n each.

    >>> bool((draw_subsets(0, 5, 1, 0, 100, 8) == draw_subsets(0, 0, 6, 0, 100, 8)[5:]).all())
    True
    """
    out = np.empty((count, m), dtype=np.int64)
    _in_threads(lambda low, high: _subsets(np.uint64(seed), first + low, side, n, out[low:high]), count, m)
    return out


def draw_by_weight(seed: int, first: int, count: int, side: int, cumulative: np.ndarray, m: int) -> np.ndarray:
    """`(count, m)` indices drawn with replacement, by weight."""
    out = np.empty((count, m), dtype=np.int64)
    _in_threads(
        lambda low, high: _with_replacement(np.uint64(seed), first + low, side, cumulative, out[low:high]), count, m
    )
    return out


def _in_threads(draw: Callable[[int, int], None], count: int, m: int) -> None:
    threads = torch.get_num_threads()
    if threads == 1 or count * m < _THREADED_FROM:
        draw(0, count)
        return
    draw(0, 0)  # compile before the threads start
    run(lambda part: draw(*part), split(count, threads))


def count_pairs(n_x: int, n_y: int, m: int) -> int:
    """How many pairs of subsets the complete estimator runs over."""
    return math.comb(n_x, m) * math.comb(n_y, m)


def all_pairs(n_x: int, n_y: int, m: int, chunk: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Every pair of subsets, `chunk` at a time."""
    pairs = itertools.product(itertools.combinations(range(n_x), m), itertools.combinations(range(n_y), m))
    while block := list(itertools.islice(pairs, chunk)):
        yield np.array([p[0] for p in block]), np.array([p[1] for p in block])
