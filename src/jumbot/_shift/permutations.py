"""The permutation test: views of the pool under the same exchanges, aggregated into one exact p-value.

Under the null hypothesis units are exchangeable: the labels "reference" and "current" could have fallen on them in any
other way that keeps how many units each set has.  A group that is in both sets, such as a patient before and after, has
its two parts swapped or not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import gamma

from jumbot._base.progress import Stretch
from jumbot._shift.pooled import Pool
from jumbot._shift.views import (
    blurred_distances,
    column_distances,
    exceedances,
    mean_distances,
    minibatch_divergences,
    moments,
    narrowed,
    neighbour_shares,
    principal_directions,
    radii,
    shape_distances,
    signed_weights,
    squared_distances,
    typical,
    whitened,
)
from jumbot.errors import ArgumentError

Array = np.ndarray[Any, Any]
EXCHANGES = 399
FEWEST = 19
"""Exchanges below which an interrupted test has no result: no p-value could be .05."""
_FEWEST_WAYS = 20  # of exchanging, below which no p-value can be .05
SCALES = ((0.05, 0.5), (1.0, 5.0))
"""(epsilon, tau) of the minibatch divergences, in units of the pool's median squared distance."""
WIDTHS = (0.1, 0.5, 2.0)
"""Of the kernels of blurred distances, in the same units."""
_AT_ONCE = 40  # exchanges between two looks at the clock
_ROWS = 1024  # of views whose tails are computed at once
_LEAST_SKEW = 1e-3
_LEAST_VARIANCE = 1e-12  # of values whose largest is about one


@dataclass(frozen=True, eq=False)
class Tested:
    """What the test found."""

    p_value: float
    exchanges: int
    views: dict[str, float]
    """The uncorrected p-value of each view."""
    columns: Array
    """(columns,) p-value of each column, corrected for their number."""
    scale: float
    """The median squared distance of two rows of the pool."""
    interrupted: bool = False


def run_test(
    pool: Pool, rng: np.random.Generator, advance: Stretch | None = None, count: int = EXCHANGES, until: float = np.inf
) -> Tested:
    """The test on a pool, exact under exchangeability of its units.

    If the smaller set has few rows, fewer exchanges exist than are drawn; the p-value is still valid.  Ctrl-C
    and the end of the time keep the exchanges that are done, if these are at least `FEWEST`.
    """
    current = exchange(pool.current, pool.units, count, rng)
    squared = squared_distances(pool.rows)
    scale = typical(squared)
    weights = signed_weights(current)
    columns = column_distances(pool.rows, weights)
    views = {"columns": _largest(columns)}
    directions = principal_directions(pool.rows)
    white = whitened(directions)
    if pool.rows.shape[1] > 1:
        views["directions"] = _largest(column_distances(directions, weights))
        views["means"] = mean_distances(white, weights)
        views["all columns"] = (columns / np.maximum(columns.mean(1, keepdims=True), 1e-300)).sum(0)
    views["shapes"] = _largest(shape_distances(pool.rows, weights))
    views["moments"] = mean_distances(moments(pool.rows, directions), weights)
    names = [*(f"kernel {width:g}" for width in WIDTHS), "energy"]
    views |= dict(zip(names, blurred_distances(squared, weights, WIDTHS, scale), strict=True))
    out = radii(pool.rows, white, squared)
    views |= {"radii": _largest(column_distances(out, weights)), "extremes": _largest(exceedances(out, weights))}
    views["neighbours"] = neighbour_shares(squared, current)
    if pool.rows.shape[1] > 1:
        views["whitened neighbours"] = neighbour_shares(squared_distances(white), current)
    del squared
    rows = narrowed(pool.rows)
    done, parts, interrupted = 0, [], False
    try:
        while done <= count and (done <= FEWEST or time.monotonic() < until):
            some = current[:, done : done + _AT_ONCE]
            parts.append(np.stack(list(minibatch_divergences(rows, some, scale, SCALES, rng))))
            done += some.shape[1]
            if advance is not None:
                advance(some.shape[1], "exchanges")
    except KeyboardInterrupt:
        if done <= FEWEST:
            raise
        interrupted = True
    minibatches = np.concatenate(parts, axis=1)
    views = {name: values[:done] for name, values in views.items()}
    views |= {f"minibatches {e:g}, {t:g}": v for (e, t), v in zip(SCALES, minibatches, strict=True)}
    if not np.ptp(pool.rows, axis=0).any():  # identical rows differ only by rounding
        views = {name: np.zeros(done) for name in views}
    by_column = _columns_of(columns[:, :done], pool)
    return Tested(
        p_value=aggregate(list(views.values())),
        exchanges=done - 1,
        views={name: rank_p(values) for name, values in views.items()},
        columns=by_column,
        scale=scale,
        interrupted=interrupted,
    )


def rank_p(values: Array) -> float:
    """(1 + number of exchanges that reach the first value) / (1 + number of exchanges).

    >>> rank_p(np.array([3.0, 1.0, 2.0, 0.0]))
    0.25
    """
    return float((values >= values[0]).mean())


def aggregate(views: Sequence[Array]) -> float:
    """One p-value of several views: that of the mean of 1 / sqrt(tail) over them, under the same exchanges.

    One view with a tiny tail decides, as with the smallest tail alone; views that agree count more than that.  What is
    ranked is the same symmetric function of all columns for the data and for every exchange, so the p-value is exact
    whatever the views are, and however they depend on each other.
    """
    return rank_p(logsumexp([-0.5 * log_tail(values) for values in views], axis=0))


def log_tail(values: Array) -> Array:
    """The logarithm of the upper tail at each value, by a gamma distribution with the moments of all the others in its
    row (..., exchanges + 1).

    Ranks would tie: of 400 exchanges one is the largest in every view.  With its own value among the moments, a large
    one would widen the distribution that it is judged by, most of all where it is one of many columns.
    """
    size = np.maximum(np.abs(values).max(-1, keepdims=True), 1e-300)
    x = (values - np.median(values, axis=-1, keepdims=True)) / size
    first, second, third = (((x**k).sum(-1, keepdims=True) - x**k) / (x.shape[-1] - 1) for k in (1, 2, 3))
    deviation = np.sqrt(np.maximum(second - first**2, _LEAST_VARIANCE))
    skew = (third - 3 * first * second + 2 * first**3) / deviation**3
    z = (x - first) / deviation
    shape = 4 / np.maximum(skew, _LEAST_SKEW) ** 2
    tail = gamma.logsf(np.maximum(z * np.sqrt(shape) + shape, 0.0), shape)
    found: Array = np.maximum(tail, -600.0) - 1e-6 * z  # beyond, the order alone
    return np.where(values.std(-1, keepdims=True) > 1e-9 * size, found, 0.0)


def _largest(columns: Array) -> Array:
    """The smallest tail among columns, with the sign changed so that it is large if one of them has moved."""
    found: Array = -_tails(columns).min(0)
    return found


def _tails(columns: Array) -> Array:
    """`log_tail` of many rows, some at a time."""
    return np.concatenate([log_tail(columns[start : start + _ROWS]) for start in range(0, len(columns), _ROWS)])


def _columns_of(features: Array, pool: Pool) -> Array:
    """p-value of each column: how many exchanges have a smaller tail in any of the columns."""
    count = len(pool.columns)
    if not count:
        return np.zeros(0)
    tails = np.zeros((count, features.shape[1]))
    np.minimum.at(tails, pool.owners, _tails(features))
    smallest = np.sort(tails[:, 1:].min(0))
    found: Array = (1 + np.searchsorted(smallest, tails[:, 0], side="right")) / features.shape[1]
    return found


def exchange(current: Array, units: Array, count: int, rng: np.random.Generator) -> Array:
    """(N, count + 1) whether each row is current: unchanged in the first column, exchanged in the others.

    >>> exchange(np.array([False, False, True, True] * 3), np.arange(12) // 2, 1, np.random.default_rng(0)).sum(0)
    array([6, 6])
    """
    numbers, places = np.unique(units, return_inverse=True)
    there = np.zeros(len(numbers), bool)
    here = np.zeros(len(numbers), bool)
    np.logical_or.at(there, places, current)
    np.logical_or.at(here, places, ~current)
    paired, alone = np.flatnonzero(there & here), np.flatnonzero(there != here)
    _check_enough(len(paired), len(alone), int(there[alone].sum()))
    found = np.empty((len(current), count + 1), bool)
    found[:, 0] = current
    for column in range(1, count + 1):
        side, swapped = np.zeros(len(numbers), bool), np.zeros(len(numbers), bool)
        side[alone] = rng.permutation(there[alone])
        swapped[paired] = rng.random(len(paired)) < 0.5
        both = np.isin(places, paired)
        found[:, column] = np.where(both, current ^ swapped[places], side[places])
    return found


def _check_enough(pairs: int, alone: int, there: int) -> None:
    """Refuse data whose units can be exchanged in too few ways for any p-value of .05."""
    ways = math.comb(alone, there) * 2**pairs if alone + pairs < 200 else math.inf
    if ways < _FEWEST_WAYS:
        raise ArgumentError(
            f"groups: {alone + pairs} groups can be exchanged in only {ways:.0f} ways, so no p-value can be below "
            f"{1 / max(ways, 1):.2g}; pass more groups, or smaller blocks."
        )
