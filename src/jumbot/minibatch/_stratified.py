"""The samples of minibatch i, which depend on (seed, i) only, so that a run can be resumed and repeated."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from jumbot.errors import ArgumentError

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
