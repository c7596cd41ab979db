"""Points and weights of a minibatch estimate, and the draws of its indices.

Minibatch i depends on (seed, i) only, so that a run can be resumed and repeated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot._base.files import read_arrays
from jumbot.errors import ArgumentError
from jumbot.transport._checks import check_dense
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.threads import run_range

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

    def draw(low: int, high: int) -> None:
        _subsets(np.uint64(seed), first + low, side, n, out[low:high])

    run_range(draw, count, out.size >= _THREADED_FROM)
    return out


def draw_by_weight(seed: int, first: int, count: int, side: int, cumulative: np.ndarray, m: int) -> np.ndarray:
    """`(count, m)` indices drawn with replacement, by weight."""
    out = np.empty((count, m), dtype=np.int64)

    def draw(low: int, high: int) -> None:
        _with_replacement(np.uint64(seed), first + low, side, cumulative, out[low:high])

    run_range(draw, count, out.size >= _THREADED_FROM)
    return out


def count_pairs(n_x: int, n_y: int, m: int) -> int:
    """How many pairs of subsets the complete estimator runs over."""
    return math.comb(n_x, m) * math.comb(n_y, m)


def all_pairs(n_x: int, n_y: int, m: int, chunk: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Every pair of subsets, `chunk` at a time."""
    pairs = itertools.product(itertools.combinations(range(n_x), m), itertools.combinations(range(n_y), m))
    while block := list(itertools.islice(pairs, chunk)):
        yield np.array([p[0] for p in block]), np.array([p[1] for p in block])


@dataclass(frozen=True)
class Points:
    """`n` points of one shape, numpy (also memory-mapped) or torch."""

    name: str
    data: Any

    @classmethod
    def of(cls, name: str, data: Any) -> Points:
        """Arrays, tensors, or the path of an `.npy` file (memory-mapped) or `.npz` file (its first array)."""
        if isinstance(data, str | Path):
            data = _open(name, Path(data))
        if not isinstance(data, Tensor | np.ndarray) and not hasattr(data, "toarray"):
            data = np.asarray(data)
        check_dense(data, name)
        numbers = not data.is_complex() if isinstance(data, Tensor) else data.dtype.kind in "fiub"
        if not numbers:
            raise ArgumentError(f"{name}: dtype {data.dtype}; points must be real numbers.")
        if data.ndim == 1:
            data = data[:, None]
        if data.ndim < 2 or 0 in data.shape:
            raise ArgumentError(f"{name}: shape {tuple(data.shape)}; it must be (points, coordinates), not empty.")
        return cls(name, _readable(data))

    @property
    def n(self) -> int:
        return int(self.data.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape[1:])

    def rows(self, index: np.ndarray) -> Tensor:
        """The points at `index`, with its shape in front, in float64."""
        if isinstance(self.data, Tensor):
            out = self.data.detach()[torch.from_numpy(index).to(self.data.device)].double()
        else:
            out = torch.from_numpy(np.asarray(self.data[index], dtype=np.float64))
        if not bool(torch.isfinite(out.sum())) and not bool(torch.isfinite(out).all()):
            bad = np.unique(index[~torch.isfinite(out).flatten(index.ndim).all(-1).cpu().numpy()])
            raise ArgumentError(f"{self.name}: row {bad[0]} contains NaN or infinity; clean the data first.")
        return out

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest coordinate, read in blocks."""
        step = max(1, (1 << 22) // max(1, int(np.prod(self.shape))))
        low = high = None
        for first in range(0, self.n, step):
            block = self.data[first : first + step]
            block = block.detach().cpu().numpy() if isinstance(block, Tensor) else np.asarray(block)
            least, greatest = block.min(0), block.max(0)
            low = least if low is None else np.minimum(low, least)
            high = greatest if high is None else np.maximum(high, greatest)
        assert low is not None
        assert high is not None
        return low.astype(np.float64), high.astype(np.float64)


def _readable(data: Any) -> Any:
    """As the compiled passes read it: on the CPU an array, without a copy, except for half precision."""
    if isinstance(data, Tensor) and data.device.type == "cpu":
        data = data.detach()
        data = (data.float() if data.dtype == torch.bfloat16 else data).numpy()
    half = isinstance(data, np.ndarray) and data.dtype == np.float16 and not isinstance(data, np.memmap)
    return data.astype(np.float32) if half else data


def _open(name: str, path: Path) -> Any:
    if not path.exists():
        raise ArgumentError(f"{name}: {path} does not exist.")
    if path.suffix == ".npy":
        return read_arrays(path)
    if path.suffix == ".npz":
        arrays = read_arrays(path)
        if not arrays:
            raise ArgumentError(f"{name}: {path} contains no array.")
        return next(iter(arrays.values()))
    raise ArgumentError(f"{name}: {path.name} is neither .npy nor .npz; load it first and pass the array.")


def as_weights(name: str, weights: Any, n: int) -> np.ndarray | None:
    """Weights of all points in float64, or None for uniform of mass one."""
    if weights is None:
        return None
    try:
        out = np.asarray(weights.detach().cpu() if isinstance(weights, Tensor) else weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"{name}: got {type(weights).__name__}; pass an array of numbers.") from error
    if out.shape != (n,):
        raise ArgumentError(f"{name}: shape {out.shape}; there are {n} points, so it must be ({n},).")
    if not np.isfinite(out).all() or out.min() < 0 or out.sum() <= 0:
        raise ArgumentError(f"{name}: weights must be finite, non-negative and not all zero.")
    return out


Orders = dict[tuple[int, ...], tuple[int, np.ndarray]]
"""The order of the last pass, by the key of its samples: minibatches of one pass shuffle once."""


@dataclass(frozen=True)
class StratifiedSampler:
    """batch_size // classes samples of each class in every minibatch.

    Each class list is shuffled, read in slices, and reshuffled when it runs out; a class smaller than its share is
    repeated.  With more classes than places, the classes of a minibatch are drawn in the same way, one sample each.

    >>> labels = np.array([0, 0, 0, 1, 1, 2])
    >>> sampler = StratifiedSampler(labels, batch_size=7, seed=0)
    >>> np.bincount(labels[sampler.batch(0)])
    array([2, 2, 2])
    """

    labels: np.ndarray
    batch_size: int
    seed: int
    orders: Orders = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def members(self) -> list[np.ndarray]:
        """The samples of each class that has any."""
        return [np.flatnonzero(self.labels == c) for c in np.unique(self.labels[self.labels >= 0])]

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ArgumentError(f"batch_size must be at least 1, got {self.batch_size}.")
        if not self.members:
            raise ArgumentError("labels: no source sample is labelled.")

    def batch(self, i: int) -> np.ndarray:
        """Indices of minibatch i."""
        classes, share = len(self.members), self.batch_size // len(self.members)
        if share == 0:
            chosen = _slice(classes, self.batch_size, i, (self.seed, 0), self.orders)
            visits = i // (classes // self.batch_size)  # passes over the classes: each was chosen at most once in one
            return np.array(
                [
                    self.members[c][_slice(len(self.members[c]), 1, visits, (self.seed, 1, c), self.orders)[0]]
                    for c in chosen
                ]
            )
        return np.concatenate(
            [
                members[_slice(len(members), share, i, (self.seed, 1, c), self.orders)]
                for c, members in enumerate(self.members)
            ]
        )


@dataclass(frozen=True)
class ShuffledSampler:
    """Passes over all samples, each in a new order; what does not fill a minibatch is left to the next pass.

    Samplers of different `stream` draw independently.

    >>> sampler = ShuffledSampler(10, batch_size=5, seed=0)
    >>> sorted(np.concatenate([sampler.batch(2), sampler.batch(3)]).tolist()) == list(range(10))
    True
    """

    size: int
    batch_size: int
    seed: int
    stream: int = 2
    orders: Orders = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ArgumentError("target: there are no target samples.")

    def batch(self, i: int) -> np.ndarray:
        """Indices of minibatch i; all samples, where there are fewer than `batch_size`."""
        return _slice(self.size, min(self.batch_size, self.size), i, (self.seed, self.stream), self.orders)


def _slice(size: int, share: int, i: int, key: tuple[int, ...], orders: Orders) -> np.ndarray:
    """Places share*i ... of the numbers below `size`, reshuffled in every pass, none twice unless size < share."""
    if size < share:
        passes = -(-share // size)
        return np.concatenate([_permutation(size, (*key, i * passes + j)) for j in range(passes)])[:share]
    number, place = divmod(i, size // share)
    kept = orders.get(key)
    if kept is None or kept[0] != number:
        kept = orders[key] = number, _permutation(size, (*key, number))
    return kept[1][place * share : (place + 1) * share].copy()


def _permutation(size: int, key: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(key).permutation(size)
