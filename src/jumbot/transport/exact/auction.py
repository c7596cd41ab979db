"""Prices near those of the best assignment.

An auction with bids of at least epsilon finds, quickly, prices that are right within epsilon; shortest augmenting paths
(`assignment.py`) are exact from any prices, and short from good ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jumbot.transport.compiled.decorator import compiled

#: Least bids of the first and of the last round beside the spread of the cost, and their ratio between rounds.
_FIRST, _LAST, _FACTOR = 1.0, 3e-3, 5.0
_ROWS = 64
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


def auction(cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """A price for each column, so that rows of the least C + price are nearly a permutation; `cost` is `(n, n)`.

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
