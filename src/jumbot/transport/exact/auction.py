"""The best permutation: prices by auction, then the assignment of scipy on what they leave.

An auction with bids of at least epsilon finds, quickly, prices that are right within epsilon; the shortest augmenting
paths of scipy are exact from any prices, and short from good ones.  At 1,024 points the two together take a quarter to
a tenth of the time of either the paths alone or the network simplex.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jumbot.transport.compiled.decorator import compiled

#: Least bids of the first and of the last round, in standard deviations of the cost, and their ratio between rounds.
_FIRST, _LAST, _FACTOR = 0.3, 1e-3, 5.0
_BIDS = 100  # per point, at most: prices that are dearer to find than this are not worth it


@compiled(allocates=True)
def _auction(cost: Any, price: Any, first: float, last: float, most: int) -> None:
    """Rows bid for the column of least cost + price; whoever is outbid bids again."""
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


def permutation(cost: NDArray[np.float64]) -> NDArray[np.int64]:
    """argmin_s sum_i C_{i, s(i)} over permutations s; `cost` is `(n, n)`, finite.

    >>> permutation(np.array([[1.0, 0.0, 9.0], [0.0, 9.0, 9.0], [9.0, 9.0, 5.0]])).tolist()
    [1, 0, 2]
    """
    from scipy.optimize import linear_sum_assignment

    cost = np.ascontiguousarray(cost, dtype=np.float64)
    spread = float(cost.std())
    if len(cost) > 1 and spread > 0:
        price = np.zeros(len(cost))
        _auction(cost, price, _FIRST * spread, _LAST * spread, _BIDS * len(cost))
        cost = cost + price
        cost -= cost.min(1, keepdims=True)
        cost -= cost.min(0)
    return linear_sum_assignment(cost)[1].astype(np.int64, copy=False)
