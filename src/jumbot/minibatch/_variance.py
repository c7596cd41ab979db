"""The variance of the incomplete estimator: what the draw adds, and what comes from the data.

    Var(h~_k) = E[s^2]/k + Var(U),    s^2 the variance of h over minibatches, U the complete estimator

U is a two-sample U-statistic of orders (m, m), so Var(U) = m^2 zeta_x/n_x + m^2 zeta_y/n_y + smaller terms, where
zeta_x is the variance of E[h | x_1].  By the envelope theorem the derivative z_i of h in the weight of a point is m
times that point's influence on h, so that m^2 zeta_x is the variance of E[z | x_i] over the points: the between-point
component of a one-way analysis of variance of z.  It needs no further solves, and far fewer minibatches than estimates
that correlate h with the presence of each point.  What h owes to interactions of points enters Var(U) with a factor
of at most (m/n_x)(m/n_y), and is added with that factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jumbot._base.distributed import sum_over_processes
from jumbot.transport._kernels.decorator import compiled

_ENOUGH = 30  # minibatches from which the amplitude is estimated
_TRACKED = 5_000_000  # points up to which repeated appearances are distinguished


@compiled()
def _add(index: Any, slopes: Any, tracked: bool, sums: Any) -> None:
    """Count, sum and sum of squares of z for each point, in the order of the minibatches whatever the chunks are."""
    count, m = slopes.shape
    factor = math.sqrt(m / (m - 1)) if m > 1 else 1.0
    for k in range(count):
        # a minibatch shifts all its slopes together (wholly arbitrary when balanced): only differences count
        mean = slopes[k].sum() / m
        for i in range(m):
            z = factor * (slopes[k, i] - mean)
            row = sums[index[k, i] if tracked else 0]
            row[0] += 1.0
            row[1] += z
            row[2] += z * z


@compiled(allocates=True)
def _means(table: Any, index: Any) -> Any:
    """The mean of `table` over each row of `index`."""
    out = np.zeros(index.shape[0])
    for k in range(index.shape[0]):
        for i in range(index.shape[1]):
            out[k] += table[index[k, i]]
    return out / index.shape[1]


@dataclass
class Influence:
    """Sums over all appearances of the points of one side in minibatches."""

    n: int
    sums: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.tracked = self.n <= _TRACKED
        self.sums = np.zeros((self.n if self.tracked else 1, 3))

    def add(self, index: np.ndarray, slopes: np.ndarray) -> None:
        """`slopes` `(c, m)`: the derivative in each drawn point's weight, times what that weight is when uniform."""
        _add(np.ascontiguousarray(index), np.ascontiguousarray(slopes), self.tracked, self.sums)

    def reduced(self) -> Influence:
        """The sums over all processes."""
        out = Influence(self.n)
        out.sums = sum_over_processes(self.sums)
        return out

    def variance(self) -> float:
        """The variance over points of E[z | point], bias of the finite number of appearances taken off."""
        count, total, square = self.sums.T
        n = count.sum()
        if n < 2:
            return 0.0
        pooled = float(square.sum() / n)
        seen = count > 0
        groups = int(seen.sum())
        if not self.tracked or n - groups < 2 or groups < 2:
            return pooled
        means = total[seen] / count[seen]
        within = float((square[seen] - total[seen] * means).sum() / (n - groups))
        between = float((count[seen] * means**2).sum() / (groups - 1))
        size = (n - (count**2).sum() / n) / (groups - 1)
        return min(max((between - within) / size, 0.0), pooled)

    def degrees(self) -> float:
        """How many degrees of freedom `variance` has: 2n/(kurtosis - 1), fewer than n where few points weigh much."""
        count, total, _ = self.sums.T
        if not self.tracked:
            return float(self.n)
        means = total[count > 0] / count[count > 0]
        square = float((means**2).mean()) if len(means) else 0.0
        if square == 0.0 or len(means) < 2:
            return 1.0
        kurtosis = float((means**4).mean()) / square**2
        return min(max(2 * len(means) / max(kurtosis - 1, 1e-9), 1.0), float(len(means)))

    def mean_slope(self, index: np.ndarray) -> np.ndarray:
        """The mean over each minibatch of its points' average z, `(c,)`."""
        count, total, _ = self.sums.T
        return _means(total / np.maximum(count, 1), index)


def amplitude(values: np.ndarray, predicted: np.ndarray) -> float:
    """How much more h moves than its derivatives say: the slope of `values` on what they predict.

    A derivative gives the effect of an infinitesimal weight, while a minibatch holds a point with weight 1/m or not
    at all; for unbalanced losses the difference is some 20 %.
    """
    if len(values) < _ENOUGH:
        return 1.0
    (_, covariance), (_, spread) = np.cov(values, predicted)
    return float(min(max(covariance / spread, 1.0), 1.6)) if spread > 0 else 1.0
