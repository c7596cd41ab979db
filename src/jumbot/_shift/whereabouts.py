"""Where a shift is: which samples, which columns, which classes, by plans between the sets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls

from jumbot._shift.permutations import FEWEST, Tested, run_test
from jumbot._shift.pooled import Pool
from jumbot._shift.views import costs_between, principal_directions, whitened
from jumbot.errors import ArgumentError
from jumbot.transport._solve import solve

Array = np.ndarray[Any, Any]
_SHARP = 0.25  # epsilon, as a share of the cost between neighbours
_PLANNED = 1000  # rows of each set between which a plan moves
_BOOTSTRAPS = 200
_WIDEST = 200  # columns that are left out one by one
_ROWS = 500  # of each set, behind what leaving a column out does
_CHECKED = 99  # exchanges of the test whether a shift is in the labels alone, or in single rows alone
COPIES = 0.2  # share of rows that are copies, from which they are remarked on
ODD = 0.01
"""p-value up to which nothing explains a row."""


@dataclass(frozen=True)
class Sample:
    """A row of the current set."""

    row: int
    name: str
    received: float
    """How well the reference explains it: 1 for a typical row of it, near 0 for one that nothing explains."""
    p_value: float
    """Share of reference rows that are explained no better."""


@dataclass(frozen=True)
class ColumnShift:
    """What a column does between the sets."""

    name: str
    p_value: float
    """Of this column, corrected for the number of columns."""
    moved: float
    """Mean displacement along the plan in robust deviations; of categories, of their largest share."""
    without: float
    """Share of the distance that goes where the column is left out."""


@dataclass(frozen=True)
class Proportion:
    """The share of a class in the current set, with its interval of 95 %, and in the reference."""

    value: float
    low: float
    high: float
    reference: float


@dataclass(frozen=True, eq=False)
class Explained:
    """What the reference says of the current rows, and of its own."""

    shares: Array
    """(half, current) columns of the plan from half of the reference, each of sum 1."""
    own: Array
    """(half, other half) likewise."""
    levels: tuple[Array, Array]
    """Potentials of current rows and of the reference's, in units of the cost between neighbours: high where nothing is
    near, in the rows or in whitened rows."""
    halves: tuple[Array, Array]
    """Rows of the pool."""


def explain(pool: Pool, rng: np.random.Generator) -> Explained:
    """The semi-relaxed plan from the reference, whose rows may give any mass: columns are by themselves.

    A row y has the potential g = -epsilon log mean_i e^{-C(x_i, y) / epsilon}, and receives e^{-g / tau} of its mass,
    with the penalty tau, the median cost between a row of the reference and its nearest.  Potentials are from all of
    the reference, those of its own rows without themselves: what a current row has does not depend on the others, so
    its rank among rows of the reference is a p-value for "one more like these".
    """
    half, rest = np.array_split(rng.permutation(np.flatnonzero(~pool.current)), 2)
    here, there = np.flatnonzero(~pool.current), np.flatnonzero(pool.current)

    def neighbours(rows: Array) -> tuple[float, Array]:
        """The median cost between a row of the reference and its nearest, and all costs, infinite to itself."""
        own = costs_between(rows[here], rows[here])
        np.fill_diagonal(own, np.inf)
        price = float(np.median(own.min(0)))
        return price if price > 0 else max(float(own[np.isfinite(own)].mean()), 1e-12), own

    price = neighbours(pool.rows)[0]
    shares = [_columns(costs_between(pool.rows[half], pool.rows[rows]), _SHARP * price)[0] for rows in (there, rest)]
    white, joined = whitened(principal_directions(pool.rows)), pool.rows / math.sqrt(price)
    if white.shape[1] > 1:  # what columns have to do with each other counts as much as the columns
        joined = np.concatenate([joined, white / math.sqrt(neighbours(white)[0])], axis=1)
    price, own = neighbours(joined)
    levels = [_columns(cost, _SHARP * price)[1] / price for cost in (costs_between(joined[here], joined[there]), own)]
    return Explained(shares[0], shares[1], (levels[0], levels[1]), (half, rest))


def _columns(cost: Array, epsilon: float) -> tuple[Array, Array]:
    """Shares of the columns of e^{-C / epsilon}, and their potentials."""
    lowest = cost.min(0)
    weights = np.exp((lowest - cost) / epsilon)
    total = weights.sum(0)
    return weights / total, lowest - epsilon * np.log(total / len(cost))


def find_copies(pool: Pool) -> tuple[str, ...]:
    """Remarks on sets with rows that were counted several times: copies in their own set, and not in the other.

    Of columns with few values rows are often the same, but then in both sets.
    """
    rows = np.array([hash(row.tobytes()) for row in pool.rows])
    sides = [rows[~pool.current], rows[pool.current]]
    found = []
    for name, own, other in zip(pool.names, sides, sides[::-1], strict=True):
        _, places, counts = np.unique(own, return_inverse=True, return_counts=True)
        within, between = float((counts[places] > 1).mean()), float(np.isin(own, other).mean())
        if within >= COPIES and between < within / 2:
            found.append(
                f"{name}: {(counts[places] > 1).sum()} of {len(own)} rows are copies of each other, which makes the "
                f"p-value too small. Drop the copies, or pass them as groups."
            )
    return tuple(found)


def displacements(pool: Pool, scale: float, rng: np.random.Generator) -> Array:
    """(d,) how far the plan moves the reference on average to become the current set, for each feature.

    Beyond a price of the median squared distance of two rows mass is rather left than moved.  Between the two halves of
    the reference nothing moves but by chance, of which the mean is taken off.
    """
    here, there = (rng.permutation(np.flatnonzero(side))[:_PLANNED] for side in (~pool.current, pool.current))
    first, second = np.array_split(here, 2)
    moved = []
    for x, y in ((here, there), (first, second)):
        plan = solve(costs_between(pool.rows[x], pool.rows[y]), epsilon=0.02 * scale, tau=scale, tol=1e-4).plan
        moved.append((plan.sum(0) @ pool.rows[y] - plan.sum(1) @ pool.rows[x]) / max(float(plan.sum()), 1e-300))
    found: Array = moved[0]
    return np.sign(found) * np.maximum(np.abs(found) - np.abs(moved[1]), 0.0)


def find_samples(pool: Pool, explained: Explained) -> tuple[Sample, ...]:
    """The current rows that were looked at, the least explained first."""
    current = np.flatnonzero(pool.current)
    levels, own = explained.levels[0], np.sort(explained.levels[1])
    received = np.exp(-np.maximum(levels - np.median(own), 0.0))
    worse = len(own) - np.searchsorted(own, levels, side="left")
    order = np.argsort(-levels, kind="stable")
    return tuple(
        Sample(
            int(pool.numbers[current[i]]),
            pool.name_of(int(current[i])),
            float(received[i]),
            float((1 + worse[i]) / (1 + len(own))),
        )
        for i in order
    )


def find_columns(pool: Pool, tested: Tested, rng: np.random.Generator) -> tuple[ColumnShift, ...]:
    """The columns, those that moved most first; none where rows have no columns with names."""
    if not pool.columns:
        return ()
    largest = np.zeros(len(pool.columns))
    for owner, value in zip(pool.owners, displacements(pool, tested.scale, rng), strict=True):
        largest[owner] = value if abs(value) > abs(largest[owner]) else largest[owner]
    without = _left_out(pool, tested, rng)
    found = [
        ColumnShift(name, float(p), float(far), float(gone))
        for name, p, far, gone in zip(pool.columns, tested.columns, largest, without, strict=True)
    ]
    return tuple(sorted(found, key=lambda column: (column.p_value, -column.without, -abs(column.moved))))


def _left_out(pool: Pool, tested: Tested, rng: np.random.Generator) -> Array:
    """1 - E_c / E with E the energy distance of the sets and E_c that without column c; zero where they are alike."""
    parts = [rng.permutation(rows)[:_ROWS] for rows in (np.flatnonzero(~pool.current), np.flatnonzero(pool.current))]
    x, y = (pool.rows[part] for part in parts)

    def squares(columns: Array) -> list[Array]:
        u, v = x[:, columns], y[:, columns]
        return [(a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T for a, b in ((u, v), (u, u), (v, v))]

    def energy(costs: list[Array]) -> float:
        between, within_x, within_y = (np.sqrt(np.maximum(cost, 0.0)) for cost in costs)
        n, m = len(x), len(y)
        return float(2 * between.mean() - within_x.sum() / (n * (n - 1)) - within_y.sum() / (m * (m - 1)))

    every = squares(np.arange(pool.rows.shape[1]))
    whole = energy(every)
    found = np.zeros(len(pool.columns))
    if whole <= 0 or len(pool.columns) == 1:
        return found
    for column in np.argsort(tested.columns, kind="stable")[:_WIDEST]:
        own = squares(np.flatnonzero(pool.owners == column))
        found[column] = 1 - energy([a - b for a, b in zip(every, own, strict=True)]) / whole
    return np.clip(found, -1.0, 1.0)


def find_proportions(pool: Pool, explained: Explained, rng: np.random.Generator) -> dict[str, Proportion] | None:
    r"""The shares \pi of the classes in the current set: those that mix the votes of single classes into its own.

    Each row votes for the classes by its column of the plan.  With M the mean vote of each class, on rows of the
    reference that are not in the plan, and v the mean vote of the current set, M' \pi = v under a shift of the labels.
    None where a class is too rare to be in both halves.
    """
    if pool.labels is None or len(pool.classes) < 2:
        return None
    half, rest = explained.halves
    known = pool.labels >= 0
    classes = [
        c for c in range(len(pool.classes)) if (pool.labels[rest] == c).sum() >= 2 and (pool.labels[half] == c).any()
    ]
    if len(classes) < 2 or not known[half].any():
        return None
    member = np.stack([(pool.labels[half] == c) for c in classes]).astype(float)
    votes, own = ((member @ shares).T for shares in (explained.shares, explained.own))
    labels = pool.labels[rest]
    point = _mixture([own[labels == c] for c in classes], votes)
    again = []
    for _ in range(_BOOTSTRAPS):
        parts = [own[rng.choice(np.flatnonzero(labels == c), (labels == c).sum())] for c in classes]
        again.append(_mixture(parts, votes[rng.integers(0, len(votes), len(votes))]))
    low, high = np.quantile(again, (0.025, 0.975), axis=0)
    counts = np.bincount(pool.labels[~pool.current & known], minlength=len(pool.classes))
    return {
        pool.classes[c]: Proportion(
            float(point[i]),
            float(min(low[i], point[i])),
            float(max(high[i], point[i])),
            float(counts[c] / counts.sum()),
        )
        for i, c in enumerate(classes)
    }


def _mixture(by_class: list[Array], votes: Array) -> Array:
    """Non-negative shares of sum one that explain the mean vote best."""
    matrix = np.stack([some.mean(0) for some in by_class], axis=1)
    heavy = 10.0  # the sum is one to a hundredth of a per cent
    rows, goal = np.vstack([matrix, np.full(matrix.shape[1], heavy)]), np.append(votes.mean(0), heavy)
    found: Array = nnls(rows, goal)[0]
    return found / max(float(found.sum()), 1e-300)


def what_shifted(
    pool: Pool, proportions: dict[str, Proportion] | None, tested: Tested, rng: np.random.Generator
) -> str | None:
    """ "labels", "features", "both", or None if nothing has shifted or there are no labels.

    In the labels alone: a reference with the proportions of the current set cannot be distinguished from it.
    """
    if proportions is None or pool.labels is None or tested.p_value > 0.05:
        return None
    other = [p for p in proportions.values() if not p.low <= p.reference <= p.high]
    if not other:
        return "features"
    chance = np.zeros(len(pool.classes))
    for name, p in proportions.items():
        chance[pool.classes.index(name)] = p.value / p.reference if p.reference > 0 else 0.0
    here = ~pool.current
    keep = np.where(here, rng.random(len(here)) < chance[pool.labels] / max(float(chance.max()), 1e-300), True)
    if (keep & here).sum() <= FEWEST:
        return "both"
    return "both" if _differ(pool.only(keep), rng) else "labels"


def alone(pool: Pool, explained: Explained, rng: np.random.Generator) -> bool:
    """Whether the unexplained rows make up all of the shift: without them no shift is found.

    The rows of the reference that are as hard to explain are also left out, so that both sets are cut in the same way.
    """
    levels = np.empty(len(pool.rows))
    levels[pool.current], levels[~pool.current] = explained.levels
    keep = levels < np.sort(explained.levels[1])[-max(round(ODD * len(explained.levels[1])), 1)]
    enough = min((keep & pool.current).sum(), (keep & ~pool.current).sum()) > FEWEST
    return enough and not _differ(pool.only(keep), rng)


def _differ(pool: Pool, rng: np.random.Generator) -> bool:
    """Whether there is still a shift; where too few groups are left for a test, there is."""
    try:
        tested = run_test(pool, rng, count=_CHECKED)
    except ArgumentError:
        return True
    if tested.interrupted:
        raise KeyboardInterrupt
    return tested.p_value <= 0.05
