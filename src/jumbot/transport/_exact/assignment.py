"""Balanced transport between equally many points of equal weight is an assignment.

    min_s sum_i C_{i, s(i)} over permutations s,    max sum f + sum g subject to f_i + g_j <= C_ij

Shortest augmenting paths, one for each row that tight pairs leave free (Jonker and Volgenant, 1987); with many points,
they start from the prices of an auction, near which paths are short.  scipy's assignment has no potentials and takes
two to four times as long, the network simplex three to ten times (65 to 4,096 points).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import set_all
from jumbot.transport._kernels.memory import contiguous
from jumbot.transport._kernels.vectormath import greater, lesser

#: Least bids of the first and of the last round relative to the spread of the cost, and their ratio between rounds.
_FIRST, _LAST, _FACTOR = 1.0, 3e-3, 5.0
_ROWS = 64
_BIDS = 100  # per point, at most: prices that take longer to find are not worth it


@compiled(allocates=True)
def _auction(cost: Any, price: Any, first: float, last: float, most: int) -> None:
    """Rows bid for the column of least cost + price; outbid rows bid again."""
    n = cost.shape[0]
    owner, waiting = np.empty(n, np.int64), np.empty(n, np.int64)
    epsilon = first
    while True:
        for i in range(n):
            owner[i], waiting[i] = -1, i
        left = n
        while left > 0:
            if most == 0:
                return
            most -= 1
            left -= 1
            bidder = waiting[left]
            row = cost[bidder]
            best, second, column = 1e300, 1e300, 0
            for j in range(n):
                x = row[j] + price[j]
                if x < second:
                    if x < best:
                        second, best, column = best, x, j
                    else:
                        second = x
            price[column] += second - best + epsilon
            if owner[column] >= 0:
                waiting[left] = owner[column]
                left += 1
            owner[column] = bidder
        if epsilon <= last:
            return
        epsilon = max(epsilon / _FACTOR, last)


def auction(cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """A price for each column, such that the rows' least C + price is nearly a permutation; `cost` is `(n, n)`.

    >>> auction(np.zeros((2, 2))).tolist()
    [0.0, 0.0]
    """
    price, spread = np.zeros(len(cost)), _spread(cost)
    if spread > 0:
        _auction(cost, price, _FIRST * spread, _LAST * spread, _BIDS * len(cost))
    return price


def _spread(cost: NDArray[np.float64]) -> float:
    """How far the least tenth of a row reaches, in the median of some: pairs that are to be avoided play no part."""
    rows = cost[:: -(-len(cost) // _ROWS)]
    tenth = len(cost) // 10
    least = np.partition(rows, (0, tenth), axis=1)
    return float(np.median(least[:, tenth] - least[:, 0]))


Array = NDArray[np.float64]

_MOST = 4096  # points: more were not tried
_AUCTIONED = 257  # points: for fewer, the paths alone are faster
_FAR = 1e306
_HUGE, _SHRINK = 1e290, 2.0**-600  # costs above are made smaller, so that no sum of them comes near `_FAR`
_ACCURATE = 1e-11  # rounding of the potentials relative to the costs of the assignment, at most


@compiled()
def _largest(cost: Any) -> float:
    most = 0.0
    for i in range(cost.shape[0]):
        row = cost[i]
        for j in range(row.shape[0]):
            most = greater(most, abs(row[j]))
    return most


@compiled()
def _all_equal(a: Any, b: Any) -> bool:
    equal = True
    for i in range(a.shape[0]):
        equal = equal and a[i] == a[0] and b[i] == a[0]
    return equal


@compiled()
def _reduce(cost: Any, f: Any, g: Any) -> None:
    """f = row minima, g = column minima of C - f."""
    n = cost.shape[0]
    set_all(g, _FAR)
    for i in range(n):
        row, least = cost[i], _FAR
        for j in range(n):
            least = lesser(least, row[j])
        f[i] = least
        for j in range(n):
            g[j] = min(g[j], row[j] - least)


@compiled()
def _reach(row: Any, base: float, i: int, g: Any, closed: Any, distance: Any, before: Any) -> float:
    """Shorten the distances by way of row `i`, and return the least of those that are not `closed`."""
    least = _FAR
    for j in range(g.shape[0]):
        x, old = base + row[j] - g[j], distance[j]
        nearer = x < old and closed[j] == 0.0
        old = x if nearer else old
        distance[j] = old
        before[j] = i if nearer else before[j]
        least = lesser(least, old if closed[j] == 0.0 else _FAR)
    return least


@compiled()
def _assign(cost: Any, f: Any, g: Any, partner: Any, owner: Any, before: Any, closed: Any, distance: Any) -> None:
    """The best assignment of rows to columns, `partner` and `owner`, and its potentials."""
    n = cost.shape[0]
    _reduce(cost, f, g)
    for i in range(n):
        partner[i], owner[i] = -1, -1
    for i in range(n):
        row = cost[i]
        for j in range(n):
            if owner[j] < 0 and row[j] - f[i] <= g[j]:
                partner[i], owner[j] = j, i
                break
    for free in range(n):
        if partner[free] >= 0:
            continue
        set_all(closed, 0.0)
        set_all(distance, _FAR)
        for j in range(n):
            before[j] = free
        i, last, low = free, 0, 0.0
        for _ in range(n):
            low = _reach(cost[i], low - f[i], i, g, closed, distance, before)
            for j in range(n):  # of equally near columns one that is free, which ends the path
                if distance[j] == low and closed[j] == 0.0:
                    last = j
                    if owner[j] < 0:
                        break
            if owner[last] < 0:
                break
            closed[last] = 1.0
            i = owner[last]
        f[free] += low
        for j in range(n):
            if closed[j] != 0.0:
                f[owner[j]] += low - distance[j]
                g[j] -= low - distance[j]
        for _ in range(n):
            i = before[last]
            owner[last] = i
            partner[i], last = last, partner[i]
            if i == free:
                break


@compiled()
def _within_prices(cost: Any, partner: Any, weight: float, tau: float, plan: Any, f: Any, g: Any) -> None:
    """Drop what costs 2 tau or more, and shift the potentials of min(C, 2 tau) into [-tau, tau]."""
    n = cost.shape[0]
    high, low = 1e300, -1e300
    for i in range(n):
        set_all(plan[i], 0.0)
        if cost[i, partner[i]] < 2.0 * tau:
            plan[i, partner[i]] = weight
        high, low = min(high, tau - f[i]), max(low, g[i] - tau)
    shift = 0.5 * (high + low)
    for i in range(n):
        f[i] = min(f[i] + shift, tau)
    set_all(g, tau)
    for i in range(n):
        row = cost[i]
        for j in range(n):
            g[j] = min(g[j], row[j] - f[i])
    for i in range(n):
        row, least = cost[i], tau
        for j in range(n):
            least = lesser(least, row[j] - g[j])
        f[i] = max(least, -tau)
    for j in range(n):
        g[j] = max(g[j], -tau)


def _assigned(cost: Array, most: float | None = None) -> tuple[NDArray[np.int64], Array, Array]:
    """The column of each row, and the potentials; no entry is larger than `most`."""
    cost = contiguous(cost)
    if (_largest(cost) if most is None else most) > _HUGE:
        partner, f, g = _assigned(cost * _SHRINK)
        return partner, f / _SHRINK, g / _SHRINK
    if len(cost) >= _AUCTIONED:
        price = auction(cost)
        partner, f, g = _paths(cost + price)
        matched = np.abs(cost[np.arange(len(cost)), partner]).mean()
        if max(np.abs(f).max(), np.abs(g).max()) * 8 * np.finfo(float).eps <= _ACCURATE * matched:
            return partner, f, g - price
        # prices so far above the costs that matter have rounded them off
    return _paths(cost)


def _paths(cost: Array) -> tuple[NDArray[np.int64], Array, Array]:
    n = len(cost)
    f, g, whole = np.empty(n), np.empty(n), np.empty((3, n), dtype=np.int64)
    _assign(cost, f, g, whole[0], whole[1], whole[2], np.empty(n), np.empty(n))
    return whole[0], f, g


def permutation(cost: Array) -> NDArray[np.int64]:
    """argmin_s sum_i C_{i, s(i)} over permutations s; `cost` is `(n, n)`, finite.

    >>> permutation(np.array([[1.0, 0.0, 9.0], [0.0, 9.0, 9.0], [9.0, 9.0, 5.0]])).tolist()
    [1, 0, 2]
    """
    return _assigned(cost)[0]


def assignment_with_prices(cost: Array, weight: float, tau: float) -> tuple[Array, Array, Array]:
    """Total variation with one penalty tau between equally many points of equal weight, C >= 0."""
    partner, f, g = _assigned(np.minimum(cost, 2 * tau), 2 * tau if 2 * tau <= _HUGE else None)
    plan = np.empty(cost.shape)
    _within_prices(contiguous(cost), partner, weight, tau, plan, f, g)
    return plan, f, g


def is_assignment(a: Array, b: Array) -> bool:
    """Equally many points of equal weight, and not too many."""
    return len(a) == len(b) <= _MOST and _all_equal(contiguous(a), contiguous(b))


def assignment(cost: Array, weight: float) -> tuple[Array, Array, Array]:
    """min <C, P> over P = weight times a permutation, `cost` `(n, n)`; the plan and the optimal potentials.

    >>> plan, f, g = assignment(np.array([[0.0, 1.0], [1.0, 0.0]]), 0.5)
    >>> plan.tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    partner, f, g = _assigned(cost)
    plan = np.zeros(cost.shape)
    plan[np.arange(len(cost)), partner] = weight
    return plan, f, g
