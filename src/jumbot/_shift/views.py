"""What the test looks at: statistics of a pool under many exchanges at once, each a distance between the sets.

- `minibatch_divergences`: the mean Sinkhorn divergence, with its mass term, between minibatches of the two sets;
- `blurred_distances`: its limit for large epsilon on all rows.  S tends to minus one half of the cost averaged against
  (alpha - beta) x (alpha - beta), which for the cost 1 - k(x, y) is the squared distance of the means in the space of
  the kernel k, and for |x - y| the energy distance;
- `column_distances`: transport of single columns, and of single directions, weighted towards the tails; the largest
  sees one column, the sum sees what is small in many;
- `mean_distances`: how far the means are apart, in the pool's own deviations: of rows, and of the moments of `shapes`;
- `shape_distances`: location, spread, skewness and tails of ranks, all columns together: Neyman's smooth tests;
- `radii`, whose transport and whose extremes are compared: how far a row is from the middle and from its neighbours;
- `neighbour_shares`: how often the nearest rows are of the same set, the limit of small epsilon; also in whitened
  rows, where columns that depend on each other weigh as much as others.

Every one is large where the sets differ.  The first column of `current` is the unchanged data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.polynomial.legendre import legvander
from scipy.stats import rankdata

from jumbot.cost import squared_euclidean
from jumbot.minibatch._costs import Minibatches
from jumbot.minibatch._losses import Loss
from jumbot.minibatch._sampling import Points

Array = np.ndarray[Any, Any]
MINIBATCH = 64
_PAIRS = 8  # of minibatches, for each exchange
_TOL = 1e-2  # of the values: the noise of the draw is far larger
WIDE = 512  # columns, beyond which directions and the costs of minibatches are approximate
_NARROW = 128  # columns, beyond which moments are those of directions
_BLOCK = 512  # rows whose distances are computed at once


def squared_distances(rows: Array) -> Array:
    """(N, N) float32."""
    square = (rows**2).sum(1)
    found = np.empty((len(rows), len(rows)), np.float32)
    for start in range(0, len(rows), _BLOCK):
        part = rows[start : start + _BLOCK]
        found[start : start + _BLOCK] = np.maximum(square[start : start + _BLOCK, None] + square - 2 * part @ rows.T, 0)
    np.fill_diagonal(found, 0.0)
    return found


def costs_between(x: Array, y: Array) -> Array:
    """|x_i - y_j|^2, in float64."""
    found: Array = squared_euclidean(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    return found


def typical(squared: Array) -> float:
    """The median squared distance of two rows of the pool; 1 where all are the same."""
    above = squared[np.triu_indices(len(squared), 1)]
    found = float(np.median(above))
    return found if found > 0 else float(above.mean()) or 1.0


def minibatch_divergences(
    rows: Array, current: Array, scale: float, settings: Sequence[tuple[float, float]], rng: np.random.Generator
) -> Iterator[Array]:
    """For each (epsilon, tau), in units of `scale`, the mean divergence between minibatches of the sets."""
    sizes = current.sum(0)
    m = int(min(MINIBATCH, sizes.min(), (len(rows) - sizes).min()))
    pairs = int(min(_PAIRS, min(sizes.min(), (len(rows) - sizes).min()) // m))
    draws = [_split(side, m, pairs, rng) for side in (~current, current)]
    points = Points.of("rows", np.ascontiguousarray(rows))
    for epsilon, tau in settings:
        loss = Loss("sinkhorn_divergence", epsilon * scale, tau * scale, tol=_TOL)
        found = loss(Minibatches(points, points, draws[0], draws[1], "sqeuclidean"))
        yield np.asarray(found.value).reshape(-1, pairs).mean(1)


def _split(here: Array, m: int, pairs: int, rng: np.random.Generator) -> Array:
    """(exchanges * pairs, m): minibatches without a common row, of each exchange."""
    drawn = [rng.permutation(np.flatnonzero(column))[: m * pairs].reshape(pairs, m) for column in here.T]
    return np.concatenate(drawn)


def signed_weights(current: Array) -> Array:
    """(N, exchanges) float32: the current set minus the reference, as measures of mass one."""
    there = current.sum(0)
    return np.where(current, 1 / there, -1 / (len(current) - there)).astype(np.float32)


def blurred_distances(squared: Array, weights: Array, widths: Sequence[float], scale: float) -> Iterator[Array]:
    """(alpha - beta)' K (alpha - beta) with K = exp(-|x - y|^2 / (width scale)) for each width, then for -|x - y|."""
    signed = torch.from_numpy(weights)
    distances = torch.from_numpy(squared)
    for width in (*widths, None):
        kernel = -distances.sqrt() if width is None else (distances / (-width * scale)).exp_()
        yield (signed * (kernel @ signed)).sum(0).double().numpy()


def column_distances(rows: Array, weights: Array) -> Array:
    """(columns, exchanges): transport in one dimension, of ranks, weighted towards the tails.

    With F and G the distribution functions of the sets and H that of the pool, the integral of (F - G)^2 / (H (1 - H))
    dH: in the middle and in the tails a difference counts as much as chance allows it to be.  Ties are one step.
    """
    found = np.zeros((rows.shape[1], weights.shape[1]))
    n = len(rows)
    for place, values in enumerate(rows.T):
        order = np.argsort(values, kind="stable")
        sorted_values = values[order]
        ends = np.concatenate([[0], np.flatnonzero(sorted_values[1:] > sorted_values[:-1]) + 1, [n]])
        if len(ends) == 2:
            continue
        # sums over all rows are zero: those from the top suffice for steps above the most common value, which is left
        # out
        most = int(np.argmax(np.diff(ends)))
        low, high = ends[1 : most + 1], ends[most + 1 : -1]
        below = np.cumsum(weights[order[: ends[most]]], axis=0, dtype=np.float64)[low - 1]
        above = np.cumsum(weights[order[: ends[most + 1] - 1 : -1]], axis=0, dtype=np.float64)[n - 1 - high]
        height = ends / n
        wide = (height[2:] - height[:-2]) / 2 / (height[1:-1] * (1 - height[1:-1]))
        found[place] = np.einsum("sb,sb,s->b", below, below, wide[:most]) + np.einsum(
            "sb,sb,s->b", above, above, wide[most:]
        )
    return found


def principal_directions(rows: Array, most: int = 50) -> Array:
    """The pool along its principal directions, those with the largest deviations first.

    Of more than `WIDE` columns they are found by iterating a subspace, near enough for a view.
    """
    centred = rows - rows.mean(0)
    if rows.shape[1] > WIDE:
        space = np.random.default_rng(0).normal(size=(rows.shape[1], most + 10))
        for _ in range(4):
            space, _ = np.linalg.qr(centred.T @ (centred @ space))
        centred = centred @ space
    _, vectors = np.linalg.eigh(centred.T @ centred)
    found: Array = centred @ vectors[:, ::-1][:, :most]
    return found


def narrowed(rows: Array) -> Array:
    """Rows of more than `WIDE` columns in a random subspace, where squared distances are right to some 9 %: for views
    that compute many costs from rows."""
    if rows.shape[1] <= WIDE:
        return rows
    found: Array = rows @ np.random.default_rng(0).normal(size=(rows.shape[1], WIDE // 2)) / np.sqrt(WIDE // 2)
    return found


def whitened(directions: Array) -> Array:
    """Principal directions in units of their deviations; those in which nothing varies are left out."""
    deviations = directions.std(0)
    seen = deviations > 1e-6 * deviations.max(initial=0.0)
    found: Array = directions[:, seen] / deviations[seen]
    return found


def mean_distances(white: Array, weights: Array) -> Array:
    """The squared distance of the means of the sets in whitened rows: Hotelling's statistic, up to a factor."""
    found: Array = ((white.T @ weights.astype(np.float64)) ** 2).sum(0)
    return found


def shapes(rows: Array) -> Array:
    """(N, d, 4) Legendre polynomials of the ranks of each column, in (-1, 1): their means are the location, spread,
    skewness and tails of a set in the pool, of which Neyman's smooth tests are made.  Ties share their mean rank."""
    found: Array = legvander((2 * rankdata(rows, axis=0) - 1) / len(rows) - 1, 4)[..., 1:]
    return found


def moments(rows: Array, directions: Array) -> Array:
    """The shapes of all columns, or of the principal directions of more than `_NARROW`, whitened."""
    made = shapes(rows if rows.shape[1] <= _NARROW else directions).reshape(len(rows), -1)
    return whitened(principal_directions(made, most=min(200, len(rows) // 3)))


def shape_distances(rows: Array, weights: Array) -> Array:
    """(3, exchanges): the squared difference of spread, skewness and tails, each averaged over all columns."""
    total = np.zeros((len(rows), 3))
    for start in range(0, rows.shape[1], _NARROW):
        total += shapes(rows[:, start : start + _NARROW])[..., 1:].sum(1)
    found: Array = ((total - total.mean(0)).T @ weights.astype(np.float64)) ** 2
    return found


def radii(rows: Array, white: Array, squared: Array, count: int = 5) -> Array:
    """(N, 5) how far out each row of the pool lies: from the medians by squares, by sums and by its largest column;
    from the mean in whitened rows, which sees what columns have to do with each other; from its nearest rows."""
    away = np.abs(rows - np.median(rows, axis=0))
    few = min(count, len(rows) - 1)
    nearest = np.sort(np.partition(squared, few, axis=1)[:, : few + 1], axis=1)[:, 1:].mean(1)
    return np.stack([(away**2).sum(1), away.sum(1), away.max(1), (white**2).sum(1), nearest], axis=1)


def exceedances(values: Array, weights: Array, shares: Sequence[float] = (0.01, 0.02, 0.05)) -> Array:
    """(columns * shares, exchanges): the squared difference of the sets' shares of the most extreme rows.

    The extreme rows are those that reach the value at the given share from the top, three at least; ties are in.
    """
    found = []
    for column in values.T:
        ordered = np.sort(column)[::-1]
        for share in shares:
            least = ordered[min(max(round(share * len(column)), 3), len(column)) - 1]
            found.append(weights[column >= least].sum(0, dtype=np.float64) ** 2)
    return np.stack(found)


def neighbour_shares(squared: Array, current: Array, count: int = 5) -> Array:
    """The share of the `count` nearest rows that are in the same set, averaged over sets."""
    own = squared + np.diag(np.full(len(squared), np.inf, np.float32))
    nearest = np.argpartition(own, min(count, len(own) - 2), axis=1)[:, :count]
    found = np.empty(current.shape[1])
    for place, side in enumerate(current.T):
        alike = (side[nearest] == side[:, None]).mean(1)
        found[place] = alike[side].mean() + alike[~side].mean()
    return found
