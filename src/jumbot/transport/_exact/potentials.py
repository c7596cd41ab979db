"""What both solvers for KL share: potentials, the marginals that they imply, and the gap to a plan.

    min_{P >= 0} <C, P> + tau_a KL(P1 | a) + tau_b KL(P'1 | b)
        = max_{f + g <= C} -tau_a sum a (e^{-f/tau_a} - 1) - tau_b sum b (e^{-g/tau_b} - 1)

A tau of infinity makes its marginal exact and its term of the dual linear.
"""

from __future__ import annotations

import math

from numpy.typing import NDArray

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.vectormath import NEAR, near_by_ratio

#: (C, a, b, tau_a, tau_b).  No named tuple: compiled code is stored by the types of its arguments, not by their names.
Unbalanced = tuple[NDArray, NDArray, NDArray, float, float]
#: Infinities, and in CAREFUL nan as well, keep their meaning.
FINITE_OR_INF = frozenset({"reassoc", "contract", "arcp", "nsz", "nnan"})
CAREFUL = FINITE_OR_INF - {"nnan"}


@compiled(fastmath=FINITE_OR_INF)
def transform_rows(C: NDArray, g: NDArray, f: NDArray) -> None:
    """f_i = min_j C_ij - g_j."""
    for i in range(f.size):
        row, low = C[i], math.inf
        for j in range(g.size):
            t = row[j] - g[j]
            low = t if t < low else low
        f[i] = low


@compiled(fastmath=FINITE_OR_INF)
def transform_columns(C: NDArray, f: NDArray, g: NDArray) -> None:
    """g_j = min_i C_ij - f_i."""
    for j in range(g.size):
        g[j] = math.inf
    for i in range(f.size):
        row, t = C[i], f[i]
        for j in range(g.size):
            x = row[j] - t
            g[j] = x if x < g[j] else g[j]


@compiled(fastmath=CAREFUL)
def relaxed_marginal(weights: NDArray, potential: NDArray, tau: float, out: NDArray) -> None:
    """The marginal that the potential implies: weights e^{-potential/tau}."""
    for i in range(out.size):
        out[i] = max(weights[i] * math.exp(-potential[i] / tau), 1e-300)


@compiled(fastmath=True)
def marginals(P: NDArray, p: NDArray, q: NDArray) -> None:
    for j in range(q.size):
        q[j] = 0.0
    for i in range(p.size):
        row, total = P[i], 0.0
        for j in range(q.size):
            total += row[j]
            q[j] += row[j]
        p[i] = total


@compiled(fastmath=CAREFUL)
def _divergence(x: NDArray, y: NDArray) -> float:
    """KL(x | y) = sum x log(x/y) - x + y, by its series where they are near."""
    total = 0.0
    for i in range(x.size):
        ratio = x[i] / y[i]
        d = ratio - 1.0
        far = x[i] * math.log(max(ratio, 1e-300)) - y[i] * d
        total += y[i] * near_by_ratio(d) if abs(d) < NEAR else far
    return total


@compiled(fastmath=True)
def _slack(C: NDArray, P: NDArray, f: NDArray, g: NDArray) -> tuple[float, float]:
    """<P, C - f - g> and <P, |C|>."""
    slack = size = 0.0
    for i in range(f.size):
        row, c, t = P[i], C[i], f[i]
        for j in range(g.size):
            slack += row[j] * (c[j] - t - g[j])
            size += row[j] * abs(c[j])
    return slack, size


@compiled(fastmath=CAREFUL)
def rescale(P: NDArray, p: NDArray, q: NDArray, a: NDArray, b: NDArray, by_rows: bool) -> bool:
    """Give P the row sums a, or else the column sums b; False if a sum is 0. Overwrites (p, q)."""
    for i in range(p.size):
        p[i] = a[i] / p[i] if by_rows else 1.0
    for j in range(q.size):
        q[j] = 1.0 if by_rows else b[j] / q[j]
    finite = True
    for i in range(p.size):
        row, t = P[i], p[i]
        for j in range(q.size):
            row[j] *= t * q[j]
            finite &= math.isfinite(row[j])
    return finite


@compiled(fastmath=CAREFUL)
def gap_and_scale(
    problem: Unbalanced,
    P: NDArray,
    f: NDArray,
    g: NDArray,
    p: NDArray,
    q: NDArray,
    relaxed_a: NDArray,
    relaxed_b: NDArray,
) -> tuple[float, float]:
    """<P, C - f - g> + tau_a KL(P1 | a e^{-f/tau_a}) + ...  and  <|C|, P> + tau_a KL(P1 | a) + ...

    A marginal that must be exact is made so first, by scaling P in place; infinite if that is impossible.
    (p, q) is left with the marginals of P.
    """
    C, a, b, tau_a, tau_b = problem
    marginals(P, p, q)
    if tau_a == math.inf or tau_b == math.inf:
        if not rescale(P, p, q, a, b, tau_a == math.inf):
            return math.inf, 0.0
        marginals(P, p, q)
    gap, scale = _slack(C, P, f, g)
    if tau_a < math.inf:
        gap += tau_a * _divergence(p, relaxed_a)
        scale += tau_a * _divergence(p, a)
    if tau_b < math.inf:
        gap += tau_b * _divergence(q, relaxed_b)
        scale += tau_b * _divergence(q, b)
    return gap, scale
