"""Unregularised balanced transport."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from jumbot.transport._exact.assignment import assignment, is_assignment

Array = NDArray[np.float64]

#: Relative gap above which potentials are refined, and how often.
_ACCURATE = 1e-11
_REFINEMENTS = 4
_PIVOTS = 10**8


def balanced(cost: Array, a: Array, b: Array, start: Array | None = None) -> tuple[Array, Array, Array]:
    """min_{P >= 0} <C, P>  subject to  P1 = a, P'1 = b.

    `cost` is `(n, m)`, the masses of `a` and `b` are equal. Returns the plan and the potentials that maximise
    <a, f> + <b, g> subject to f_i + g_j <= C_ij, by the network simplex of POT.  From `start`, potentials of the rows
    near the optimum, it is several times quicker: the slack C - f - g then has its zeros where the plan will be.

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
    if cost.min() < 0:  # POT may call such problems infeasible
        f = cost.min(1)
        slack = cost - f[:, None]
    best, result = math.inf, (slack, f, f)
    for _ in range(_REFINEMENTS):
        unit = slack.max() or 1.0  # the simplex takes costs of 1e-12 for rounding
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
