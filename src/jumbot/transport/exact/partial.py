"""Unregularised partial transport."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jumbot.transport.exact.balanced import balanced

Array = NDArray[np.float64]


def partial(cost: Array, a: Array, b: Array, mass: float, start: Array | None = None) -> tuple[Array, Array, Array]:
    """min_{P >= 0} <C, P>  subject to  P1 <= a, P'1 <= b, sum P = mass.

    `cost` is `(n, m)`. Returns the plan and potentials with f_i + g_j <= C_ij that close the dual
    <C, P> = min{<f, p> : 0 <= p <= a, sum p = mass} + min{<g, q> : 0 <= q <= b, sum q = mass}.

    The rest goes to a dummy target or comes from a dummy source, at no cost (Chapel et al., 2020).

    >>> plan, f, g = partial(np.array([[1.0, 9.0], [9.0, 2.0]]), np.ones(2), np.ones(2), 1.0)
    >>> plan.tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    # between the dummies, anything above -min C is dear enough: undoing it sends one unit less from i to j
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
