"""Where the interior point starts: potentials with slack everywhere, a plan of the mass that they ask for."""

from __future__ import annotations

import math

from numpy.typing import NDArray

from jumbot.transport.compiled.decorator import compiled
from jumbot.transport.exact.potentials import CAREFUL, marginals, relaxed_marginal, rescale
from jumbot.transport.exact.vectors import total


@compiled(fastmath=True)
def _mean_between(s: NDArray, low: float, high: float) -> float:
    """The mean of the entries in (low, high]; 0 if there are none."""
    entries, count = 0.0, 0.0
    for i in range(s.shape[0]):
        row = s[i]
        for j in range(row.size):
            inside = low < row[j] <= high
            entries += row[j] if inside else 0.0
            count += 1.0 if inside else 0.0
    return entries / max(count, 1.0)


@compiled(fastmath=True)
def _typical(s: NDArray, noise: float) -> float:
    """The mean of the slacks above the noise; where some are huge (forbidden pairs), that of the others."""
    typical = _mean_between(s, noise, 1e300)
    below = _mean_between(s, noise, typical)
    while 0.0 < below < 1e-3 * typical:
        typical, below = below, _mean_between(s, noise, below)
    return max(typical, noise)


@compiled(fastmath=CAREFUL)
def open_slack(C: NDArray, tau_a: float, tau_b: float, f: NDArray, g: NDArray, s: NDArray) -> float:
    """Lower the feasible f + g by a tenth of the typical slack, which is returned; fill s = C - f - g > 0.

    By one tau at most, and in proportion to tau: a e^{-f/tau} explodes where f falls by many tau.
    """
    n, m = s.shape
    size = min(tau_a, tau_b)
    for i in range(n):
        for j in range(m):
            s[i, j] = C[i, j] - f[i] - g[j]
            size = max(size, abs(C[i, j]), abs(f[i]))
    typical = _typical(s, 1e-13 * size)
    shift, share = min(0.1 * typical, tau_a + tau_b), 1.0 / (1.0 + tau_b / tau_a)
    for i in range(n):
        f[i] -= share * shift
        for j in range(m):
            s[i, j] += shift
    for j in range(m):
        g[j] -= (1.0 - share) * shift
    return typical


@compiled(fastmath=CAREFUL)
def first_plan(
    a: NDArray, b: NDArray, tau_a: float, tau_b: float, f: NDArray, g: NDArray, s: NDArray,
    P: NDArray, p: NDArray, q: NDArray, relaxed_a: NDArray, relaxed_b: NDArray,
) -> None:  # fmt: skip
    """P_ij proportional to 1 / ((1/a_i + 1/b_j) s_ij): near P s = mu, yet no light point far too heavy."""
    n, m = s.shape
    relaxed_marginal(a, f, tau_a, relaxed_a)
    relaxed_marginal(b, g, tau_b, relaxed_b)
    mass = 0.0
    for i in range(n):
        for j in range(m):
            P[i, j] = a[i] * b[j] / ((a[i] + b[j]) * s[i, j])
            mass += P[i, j]
    factor = math.sqrt(total(relaxed_a)) * math.sqrt(total(relaxed_b)) / mass
    for i in range(n):
        for j in range(m):
            P[i, j] *= factor
    if tau_a == math.inf or tau_b == math.inf:
        marginals(P, p, q)
        rescale(P, p, q, a, b, tau_a == math.inf)
