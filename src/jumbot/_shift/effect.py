"""How large a shift is, in units that do not depend on how many rows there are.

Both figures compare minibatches of the current set and of the reference with two halves of the reference itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from jumbot._shift.views import costs_between, narrowed
from jumbot.minibatch._costs import Minibatches
from jumbot.minibatch._losses import Loss
from jumbot.minibatch._sampling import Points
from jumbot.transport._solve import solve

Array = np.ndarray[Any, Any]
CONFIDENCE = 0.95
_Z = 1.96
_MATCHED, _DIVERGED = 128, 64  # rows in a minibatch, of the share and of the distance
_REPEATS = 12  # minibatches behind the share
_PAIRS = 48  # minibatches behind the distance
_BOOTSTRAPS, _FEWEST = 40, 10
_LEAST = 1e-3  # divergence of two halves, in units of the median squared distance: that of constant data is zero
_OWN = 0.95  # share of the reference's own pairs that are near enough to explain each other


@dataclass(frozen=True)
class Effect:
    """The share of the current rows that have no counterpart in the reference, and how far the sets are apart."""

    share: float
    interval: tuple[float, float]
    distance: float
    """Divergence between minibatches of the sets, over that between two halves of the reference; 1 is no shift."""
    distance_interval: tuple[float, float]


@dataclass(frozen=True, eq=False)
class _Halves:
    """Rows to draw from: two halves of the reference, and the current set."""

    first: Array
    second: Array
    current: Array

    def drawn_again(self, rng: np.random.Generator) -> _Halves:
        return _Halves(
            *(part[rng.integers(0, len(part), len(part))] for part in (self.first, self.second, self.current))
        )

    def pairs(self, m: int, count: int, rng: np.random.Generator) -> tuple[list[Array], list[Array]]:
        """Minibatches (first, second) of the reference and (first, current), `count` of each."""

        def draw(part: Array) -> Array:
            found: Array = part[rng.permutation(len(part))[:m]]
            return found

        own = [np.stack([draw(self.first), draw(self.second)]) for _ in range(count)]
        # the halves take turns, so that all of the reference is compared with the current set
        other = [np.stack([draw((self.first, self.second)[i % 2]), draw(self.current)]) for i in range(count)]
        return own, other


def find_effect(rows: Array, current: Array, scale: float, rng: np.random.Generator, until: float = np.inf) -> Effect:
    """Share and distance with 95 % intervals: plus and minus 1.96 standard deviations over bootstraps."""
    rows = narrowed(rows)
    here, there = np.flatnonzero(~current), np.flatnonzero(current)
    first, second = np.array_split(rng.permutation(here), 2)
    halves = _Halves(first, second, there)
    smallest = min(len(first), len(second), len(there))
    matched, diverged = min(_MATCHED, smallest), min(_DIVERGED, smallest)
    near = _near(rows, halves, matched, rng)
    share = _share(rows, halves, matched, near, _REPEATS, rng)
    distance = _distance(rows, halves, diverged, scale, _PAIRS, rng)
    shares, distances = [], []
    for number in range(_BOOTSTRAPS):
        if number >= _FEWEST and time.monotonic() > until:
            break
        again = halves.drawn_again(rng)
        shares.append(_share(rows, again, matched, near, 2, rng))
        distances.append(_distance(rows, again, diverged, scale, _PAIRS // 4, rng))
    wide, far = _Z * float(np.std(shares, ddof=1)), _Z * float(np.std(np.log(distances), ddof=1))
    low, share, high = (min(max(x, 0.0), 1.0) for x in (share - wide, share, share + wide))
    return Effect(share, (low, high), distance, (distance * float(np.exp(-far)), distance * float(np.exp(far))))


def _near(rows: Array, halves: _Halves, m: int, rng: np.random.Generator) -> float:
    """The cost up to which rows explain each other: that of 95 % of the pairs of an optimal matching of the reference
    with itself."""
    costs = []
    for x, y in halves.pairs(m, 4, rng)[0]:
        cost = costs_between(rows[x], rows[y])
        plan = solve(cost, epsilon=0).plan
        costs.append(cost[plan > 0.5 / m])
    return max(float(np.quantile(np.concatenate(costs), _OWN)), 1e-12)


def _share(rows: Array, halves: _Halves, m: int, near: float, count: int, rng: np.random.Generator) -> float:
    """(u - u0) / (1 - u0) with u the mass that a matching of pairs below `near` leaves unmatched, u0 that of the
    halves.

    Total variation at tau = near / 2: a pair is matched if its cost is below 2 tau.
    """

    def left(pairs: list[Array]) -> float:
        costs = np.stack([costs_between(rows[x], rows[y]) for x, y in pairs])
        return 1 - float(np.mean(solve(costs, epsilon=0, tau=near / 2, divergence="tv").mass))

    own, other = map(left, halves.pairs(m, count, rng))
    return (other - own) / (1 - own) if own < 1 else 0.0


def _distance(rows: Array, halves: _Halves, m: int, scale: float, count: int, rng: np.random.Generator) -> float:
    loss = Loss("sinkhorn_divergence", 0.05 * scale, 0.5 * scale, tol=1e-2)
    points = Points.of("rows", np.ascontiguousarray(rows))

    def mean(pairs: list[Array]) -> float:
        first, second = np.stack(pairs, axis=1)
        batch = Minibatches(points, points, np.ascontiguousarray(first), np.ascontiguousarray(second), "sqeuclidean")
        return float(np.mean(loss(batch).value))

    own, other = map(mean, halves.pairs(m, count, rng))
    return max(other, _LEAST * scale) / max(own, _LEAST * scale)
