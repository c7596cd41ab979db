"""Unregularised balanced and partial transport, and with total variation; all are one balanced problem."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from jumbot.errors import UnboundedError
from jumbot.transport._exact.assignment import assignment, assignment_with_prices, is_assignment
from jumbot.transport._kernels.linear_algebra import lowest

Array = NDArray[np.float64]
Solved = tuple[Array, Array, Array, tuple[float, float]]

#: Relative gap above which potentials are refined, and how often.
_ACCURATE = 1e-11
_REFINEMENTS = 4
_PIVOTS = 10**8
#: Masses that differ by less than this share of them are equal up to rounding.
_SAME_MASS = 1e-14
#: Rounding errors of the marginals, times tau and relative to the costs, that are tolerated.
_ROUNDING = 1e-10


def balanced(cost: Array, a: Array, b: Array, start: Array | None = None) -> tuple[Array, Array, Array]:
    """min_{P >= 0} <C, P>  subject to  P1 = a, P'1 = b.

    `cost` is `(n, m)`, the masses of `a` and `b` are equal. Returns the plan and the potentials that maximise
    <a, f> + <b, g> subject to f_i + g_j <= C_ij, by the network simplex of POT.  From `start`, potentials of the rows
    near the optimum, it is several times faster: the slack C - f - g then is zero where the plan will be.

    >>> plan, f, g = balanced(np.array([[0.0, 1.0], [1.0, 0.0]]), np.ones(2), np.ones(2))
    >>> plan.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if start is not None:
        first_g = (cost - start[:, None]).min(0)
        first_f = (cost - first_g).min(1)  # differs by no more than the costs do, however far `start` is off
        first_f -= first_f.mean()
        first_g = (cost - first_f[:, None]).min(0)
        plan, f, g = balanced(cost - first_f[:, None] - first_g, a, b)
        return plan, first_f + f, first_g + g
    if is_assignment(a, b):
        plan, f, g = assignment(cost, a[0])
        if np.vdot(plan, cost - f[:, None] - g) <= _ACCURATE * np.vdot(plan, np.abs(cost)):
            return plan, f, g
    rows, columns = a > 0, b > 0
    if rows.all() and columns.all():
        return _positive(cost, a, b)
    plan, f, g = np.zeros(cost.shape), np.zeros(a.shape), np.zeros(b.shape)
    if rows.any() and columns.any():
        inside = np.ix_(rows, columns)
        plan[inside], f[rows], g[columns] = _positive(cost[inside], a[rows], b[columns])
        f[~rows] = (cost[~rows][:, columns] - g[columns]).min(1)
    g[~columns] = (cost[:, ~columns] - f[:, None]).min(0)
    return plan, f, g


def _positive(cost: Array, a: Array, b: Array) -> tuple[Array, Array, Array]:
    """The same for positive weights.

    The simplex is accurate to rounding of its largest cost. Where that is too coarse (forbidden pairs of
    cost 1e7 beside costs of 1) it is run again on the slack C - f - g, cut off well above the entries that
    the plan uses: what is optimal for the cut slack is so for C if the plan uses no entry that was cut.
    """
    import ot  # POT takes a second to load

    mass = a.sum()
    a, b = a / mass, b / b.sum()
    f, slack = np.zeros(a.shape), cost
    if cost.min() < 0:  # POT may report such problems as infeasible
        f = cost.min(1)
        slack = cost - f[:, None]
    best, result = math.inf, (slack, f, f)
    for _ in range(_REFINEMENTS):
        unit = slack.max() or 1.0  # the simplex treats costs of 1e-12 as rounding errors
        plan, log = ot.lp.emd(a, b, slack / unit, numItermax=_PIVOTS, log=True, center_dual=False)
        g = (cost - (f + unit * log["u"])[:, None]).min(0)
        f = (cost - g).min(1)
        slack = cost - f[:, None] - g
        gap, scale = np.vdot(plan, slack), np.vdot(plan, np.abs(cost))
        if gap < best:
            best, result = gap, (plan * mass, f, g)
        if gap <= _ACCURATE * scale:
            break
        slack = np.minimum(slack, 1e4 * slack[plan > 0].max())
    return result


def partial(cost: Array, a: Array, b: Array, mass: float, start: Array | None = None) -> tuple[Array, Array, Array]:
    """min_{P >= 0} <C, P>  subject to  P1 <= a, P'1 <= b, sum P = mass.

    `cost` is `(n, m)`. Returns the plan and potentials with f_i + g_j <= C_ij that close the dual
    <C, P> = min{<f, p> : 0 <= p <= a, sum p = mass} + min{<g, q> : 0 <= q <= b, sum q = mass}.

    The rest goes to a dummy target or comes from a dummy source, at no cost (Chapel et al., 2020).

    >>> plan, f, g = partial(np.array([[1.0, 9.0], [9.0, 2.0]]), np.ones(2), np.ones(2), 1.0)
    >>> plan.tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    # between the dummies, anything above -min C is expensive enough: undoing it sends one unit less from i to j
    forbidden = 2 * np.abs(cost).max() or 1.0
    extended = np.pad(cost, ((0, 1), (0, 1)))
    extended[-1, -1] = forbidden
    rest_a, rest_b = max(b.sum() - mass, 0.0), max(a.sum() - mass, 0.0)
    if start is not None:
        start = np.append(start, -(cost - start[:, None]).min(0).max())
    plan, f, g = balanced(extended, np.append(a, rest_a), np.append(b, rest_b), start)
    # potentials against the dummy target: 0 for a source that is not sent whole, negative for the others
    f = f[:-1] + g[-1]
    g = (cost - f[:, None]).min(0)
    plan = plan[:-1, :-1]
    return plan * (mass / max(plan.sum(), 1e-300)), (cost - g).min(1), g


def total_variation(
    cost: Array, a: Array, b: Array, tau_a: float, tau_b: float, start: tuple[Array, Array] | None = None
) -> Solved:
    """min_{P >= 0} <C, P> + tau_a |P1 - a|_1 + tau_b |P'1 - b|_1.

    `cost` is `(n, m)`; one of `tau_a`, `tau_b` may be `math.inf`, and then that marginal is exact. Returns the plan and
    the potentials that maximise <a, f> + <b, g> over f_i + g_j <= C_ij, |f| <= tau_a and |g| <= tau_b: (f, g) and a
    pair whose sum t is to be added to f and taken from g.  With tau = 1e9 and costs of one, f + t would be rounded to
    1e-7.

    A unit of source i costs at most u_i = min(tau_a, tau_b + min_j C_ij): it is destroyed, or sent where a
    target is created for it; likewise v_j for target j. So this is balanced transport for the cost
    min(C, u + v), with a dummy source of cost v for what the targets have more. (For C >= 0 and equal tau
    the cost is min(C, 2 tau).)

    >>> plan, f, g, t = total_variation(np.array([[1.0, 9.0]]), np.ones(1), np.ones(2), 2.0, 2.0)
    >>> plan.tolist()
    [[1.0, 0.0]]
    """
    least = lowest(cost.ravel())
    if least < -(tau_a + tau_b):
        raise UnboundedError(
            "cost must be at least -(tau_a + tau_b) = {bound:g}, got {least:g}: transporting ever more mass would pay. "
            "Raise tau or shift the cost.",
            bound=-(tau_a + tau_b),
            least=float(least),
        )
    if least >= 0 and tau_a == tau_b and is_assignment(a, b):
        return *assignment_with_prices(cost, a[0], tau_a), (0.0, 0.0)
    surplus = math.fsum((*b, *-a))
    if surplus < 0:
        plan, g, f, (high, low) = total_variation(cost.T, b, a, tau_b, tau_a, start and start[::-1])
        return plan.T, f, g, (-high, -low)
    u, v = np.minimum(tau_a, tau_b + cost.min(1)), np.minimum(tau_b, tau_a + cost.min(0))
    spared = u[:, None] + v
    cut = np.minimum(cost, spared)
    more = surplus if surplus > _SAME_MASS * b.sum() else 0.0
    plan, unserved, f, g = _with_dummy(cut, v, a, b, more, start and start[0])
    rounded = min(tau_a, tau_b) * np.finfo(float).eps * a.sum() > _ROUNDING * np.vdot(plan, np.abs(cut))
    if (surplus if rounded else more) > 0.0:  # some target is not served, the nearest to its price
        last = np.argmax(np.where(b > 0, g - v, -np.inf))
        high, low = -v[last], g[last]
    else:  # every shift that keeps f <= u and g <= v is right: take the middle one
        high, low = _middle(u - f, g - v, a, b), 0.0
    dropped = np.where(cost >= spared, plan, 0.0)
    plan = plan - dropped
    unsent, unserved = dropped.sum(1), unserved + dropped.sum(0)
    _add_cheapest(plan, cost, np.where(u < tau_a, unsent, 0.0))
    _add_cheapest(plan.T, cost.T, np.where(v < tau_b, unserved, 0.0))
    u, v = u - high - low, v + high + low
    f = np.minimum(u, f)
    g = np.minimum(v, (cost - f[:, None]).min(0))
    f = np.minimum(u, (cost - g).min(1))
    f, g = np.maximum(f, -tau_a - high - low), np.maximum(g, -tau_b + high + low)  # both hold up to rounding
    if rounded:
        rows = (f < tau_a - high - low) & (f > -tau_a - high - low)
        columns = (g < tau_b + high + low) & (g > -tau_b + high + low)
        _keep_marginals(plan, a, b, rows, columns, cost < spared)
    return plan, f, g, (float(high), float(low))


def _add_cheapest(plan: Array, cost: Array, masses: Array) -> None:
    """Each of the masses to the cheapest pair of its row."""
    for i in np.flatnonzero(masses > 0):
        plan[i, cost[i].argmin()] += masses[i]


def _with_dummy(
    cost: Array, price: Array, a: Array, b: Array, surplus: float, start: Array | None
) -> tuple[Array, Array, Array, Array]:
    """The balanced plan, what the dummy source of mass `surplus` serves, and the potentials of the others."""
    if not surplus:
        plan, f, g = balanced(cost, a, b, start)
        return plan, np.zeros(b.shape), f, g
    first = None if start is None else np.append(start, 0.0)
    plan, f, g = balanced(np.vstack([cost, price]), np.append(a, surplus), b, first)
    return plan[:-1], plan[-1], f[:-1], g


def _keep_marginals(plan: Array, a: Array, b: Array, rows: Array, columns: Array, allowed: Array) -> None:
    """Give `rows` and `columns` the sums a and b, more exactly than their large entries can.

    The last bit of an entry is 1e-16 of it, and sums that miss their weights by as much pay tau for it.  So what they
    have too much is taken from their largest entry, rounded down, and what they lack then goes as grains to pairs that
    the plan uses little or not: a transport of its own, with dummies for what the others may keep.
    """
    for sums, weights, kept in ((plan, a, rows), (plan.T, b, columns)):
        for i in np.flatnonzero(kept):
            if (excess := math.fsum((*sums[i], -weights[i]))) > 0:
                at = sums[i].argmax()
                sums[i, at] = math.nextafter(sums[i, at] - excess, 0.0)
    lack_a, lack_b = (
        np.array([max(-math.fsum((*row, -w)), 0.0) for row, w in zip(sums, weights, strict=True)])
        for sums, weights in ((plan, a), (plan.T, b))
    )
    most = lack_a[rows].sum() + lack_b[columns].sum()
    lack_a, lack_b = np.minimum(lack_a, most), np.minimum(lack_b, most)
    coarse = np.where(allowed, plan / max(plan.max(), 1e-300), 2.0)
    coarse = np.block([[coarse, rows[:, None]], [columns, 0.0]])
    grains, _, _ = balanced(coarse, np.append(lack_a, lack_b.sum()), np.append(lack_b, lack_a.sum()))
    plan += np.where(allowed, grains[:-1, :-1], 0.0)


def _middle(above: Array, below: Array, a: Array, b: Array) -> float:
    """The middle of [max below, min above], over the points that have weight."""
    return float(above[a > 0].min() + below[b > 0].max()) / 2
