"""Unregularised unbalanced transport with total variation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jumbot.errors import UnboundedError
from jumbot.transport.exact.assignment import assignment_with_prices, is_assignment
from jumbot.transport.exact.balanced import balanced
from jumbot.transport.exact.vectors import lowest

Array = NDArray[np.float64]
Solved = tuple[Array, Array, Array]

#: Masses that differ by less than this share of them are equal up to rounding.
_SAME_MASS = 1e-14


def total_variation(
    cost: Array, a: Array, b: Array, tau_a: float, tau_b: float, start: tuple[Array, Array] | None = None
) -> Solved:
    """min_{P >= 0} <C, P> + tau_a |P1 - a|_1 + tau_b |P'1 - b|_1.

    `cost` is `(n, m)`; one of `tau_a`, `tau_b` may be `math.inf`, and then that marginal is exact. Returns
    the plan and the potentials that maximise <a, f> + <b, g> over f_i + g_j <= C_ij, |f| <= tau_a and
    |g| <= tau_b.

    A unit of source i costs at most u_i = min(tau_a, tau_b + min_j C_ij): it is destroyed, or sent where a
    target is created for it; likewise v_j for target j. So this is balanced transport for the cost
    min(C, u + v), with a dummy source of cost v for what the targets have more. (For C >= 0 and equal tau
    the cost is min(C, 2 tau).)

    >>> plan, f, g = total_variation(np.array([[1.0, 9.0]]), np.ones(1), np.ones(2), 2.0, 2.0)
    >>> plan.tolist()
    [[1.0, 0.0]]
    """
    least = lowest(cost.ravel())
    if least < -(tau_a + tau_b):
        raise UnboundedError(
            f"cost: {least:g} is below -(tau_a + tau_b) = {-(tau_a + tau_b):g}, so transporting ever more mass pays; "
            "raise tau or shift the cost."
        )
    if least >= 0 and tau_a == tau_b and is_assignment(a, b):
        return assignment_with_prices(cost, a[0], tau_a)
    surplus = b.sum() - a.sum()
    if surplus < 0:
        plan, g, f = total_variation(cost.T, b, a, tau_b, tau_a, start and start[::-1])
        return plan.T, f, g
    u, v = np.minimum(tau_a, tau_b + cost.min(1)), np.minimum(tau_b, tau_a + cost.min(0))
    spared = u[:, None] + v
    cut = np.minimum(cost, spared)
    if surplus > _SAME_MASS * b.sum():
        plan, f, g = balanced(np.vstack([cut, v]), np.append(a, surplus), b, start and np.append(start[0], 0.0))
        unserved, shift = plan[-1], -f[-1]
        plan, f = plan[:-1], f[:-1]
    else:
        plan, f, g = balanced(cut, a, b, start and start[0])
        # every shift that keeps f <= u and g <= v is right: take the middle one
        unserved, shift = np.zeros(b.shape), _middle(u - f, g - v, a, b)
    dropped = np.where(cost >= spared, plan, 0.0)
    plan = plan - dropped
    unsent, unserved = dropped.sum(1), unserved + dropped.sum(0)
    for i in np.flatnonzero((u < tau_a) & (unsent > 0)):
        plan[i, cost[i].argmin()] += unsent[i]
    for j in np.flatnonzero((v < tau_b) & (unserved > 0)):
        plan[cost[:, j].argmin(), j] += unserved[j]
    f = np.minimum(u, f + shift)
    g = np.minimum(v, (cost - f[:, None]).min(0))
    f = np.minimum(u, (cost - g).min(1))
    return plan, np.maximum(f, -tau_a), np.maximum(g, -tau_b)  # both hold but for rounding


def _middle(above: Array, below: Array, a: Array, b: Array) -> float:
    """The middle of [max below, min above], over the points that have weight."""
    return float(above[a > 0].min() + below[b > 0].max()) / 2 if a.any() else 0.0
