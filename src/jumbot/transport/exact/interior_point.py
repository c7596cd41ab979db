"""Primal-dual interior point for unregularised unbalanced transport with KL.

    max_{f + g <= C}  -tau_a sum a (e^{-f/tau_a} - 1) - tau_b sum b (e^{-g/tau_b} - 1)

The plan P is the multiplier of the constraint, s = C - f - g its slack. The optimality conditions

    P1 = a e^{-f/tau_a},   P'1 = b e^{-g/tau_b},   P s = mu

are followed to mu = 0 by Mehrotra's predictor and corrector. A tau of infinity makes its marginal exact.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from jumbot.transport.exact.elimination import BLOCK, factor, solve
from jumbot.transport.vectormath import compiled

#: Reassociation without "nnan": the comparisons below have to see nan.
CAREFUL = frozenset({"reassoc", "contract", "arcp", "nsz"})
#: Stop when the gap has not fallen for this many iterations: rounding has the last word.
PATIENCE = 6


@compiled(fastmath=CAREFUL)
def kl_divergence(x: NDArray, y: NDArray) -> float:
    """KL(x | y) = sum x log(x/y) - x + y."""
    total = 0.0
    for i in range(x.size):
        total += y[i] - x[i]
        if x[i] > 0.0:
            total += x[i] * math.log(x[i] / y[i])
    return total


@compiled(fastmath=CAREFUL)
def destroyed(weights: NDArray, potential: NDArray, tau: float, out: NDArray) -> None:
    """The marginal that the potential asks for: weights e^{-potential/tau}."""
    for i in range(out.size):
        out[i] = max(weights[i] * math.exp(-potential[i] / tau), 1e-300)


@compiled(fastmath=True)
def marginals(P: NDArray, p: NDArray, q: NDArray) -> None:
    n, m = P.shape
    q[:] = 0.0
    for i in range(n):
        t = 0.0
        for j in range(m):
            t += P[i, j]
            q[j] += P[i, j]
        p[i] = t


@compiled(fastmath=True)
def _slack(C: NDArray, P: NDArray, f: NDArray, g: NDArray) -> tuple[float, float]:
    """<P, C - f - g> and <P, |C|>."""
    n, m = C.shape
    slack = size = 0.0
    for i in range(n):
        for j in range(m):
            slack += P[i, j] * (C[i, j] - f[i] - g[j])
            size += P[i, j] * abs(C[i, j])
    return slack, size


@compiled(fastmath=CAREFUL)
def relative_gap(
    C: NDArray, a: NDArray, b: NDArray, tau_a: float, tau_b: float, P: NDArray, f: NDArray, g: NDArray,
    p: NDArray, q: NDArray, wanted_a: NDArray, wanted_b: NDArray,
) -> float:  # fmt: skip
    """(<P, C - f - g> + tau_a KL(P1 | a e^{-f/tau_a}) + ...) / (<|C|, P> + tau_a KL(P1 | a) + ...).

    First a marginal that has to be exact is made so, by scaling P in place.
    """
    n, m = C.shape
    marginals(P, p, q)
    if tau_a == math.inf:
        for i in range(n):
            if p[i] == 0.0:
                return math.inf
            P[i, :] *= a[i] / p[i]
        marginals(P, p, q)
    if tau_b == math.inf:
        for j in range(m):
            if q[j] == 0.0:
                return math.inf
            q[j] = b[j] / q[j]
        for i in range(n):
            P[i, :] *= q
        marginals(P, p, q)
    gap, scale = _slack(C, P, f, g)
    if tau_a < math.inf:
        gap += tau_a * kl_divergence(p, wanted_a)
        scale += tau_a * kl_divergence(p, a)
    if tau_b < math.inf:
        gap += tau_b * kl_divergence(q, wanted_b)
        scale += tau_b * kl_divergence(q, b)
    return gap / scale


@compiled(fastmath=True)
def _slope(p: NDArray, wanted: NDArray, tau: float, out: NDArray) -> None:
    """Their logarithmic mean over tau: the linearisation of P1 = a e^{-f/tau} that is exact in P for fixed f and
    in f for fixed P, so that a step in f needs no cap when tau is small."""
    for i in range(out.size):
        x, y = p[i], wanted[i]
        if abs(x - y) > 1e-4 * y:
            out[i] = (x - y) / (math.log(x / y) * tau)
        else:
            out[i] = 0.5 * (x + y) / tau


@compiled(fastmath=True)
def _weights(P: NDArray, s: NDArray, inverse: NDArray, W: NDArray, D1: NDArray, D2: NDArray) -> float:
    """1/s, W = P/s with its row sums and column sums, and the mean of P s."""
    n, m = P.shape
    D2[:] = 0.0
    mu = 0.0
    for i in range(n):
        total = 0.0
        for j in range(m):
            r = 1.0 / s[i, j]
            w = P[i, j] * r
            inverse[i, j] = r
            W[i, j] = w
            total += w
            D2[j] += w
            mu += P[i, j] * s[i, j]
        D1[i] = total
    return mu / (n * m)


@compiled(fastmath=True)
def _predict(
    P: NDArray, s: NDArray, inverse: NDArray, df: NDArray, dg: NDArray, e: NDArray
) -> tuple[float, float]:
    """Relative step e = ds/s towards mu = 0 (there dP/P = -1 - e), and the share of mu that it would leave."""
    n, m = P.shape
    low, high = 0.0, 0.0
    x0 = x1 = x2 = 0.0
    for i in range(n):
        for j in range(m):
            t = -(df[i] + dg[j]) * inverse[i, j]
            e[i, j] = t
            low = min(low, t)
            high = max(high, t)
            x = P[i, j] * s[i, j]
            x0 += x
            x1 += x * t
            x2 += x * t * t
    alpha = 1.0 / max(1.0, 1.0 + high)
    beta = 1.0 / max(1.0, -low)
    left = ((1.0 - alpha) * x0 + (beta * (1.0 - alpha) - alpha) * x1 - alpha * beta * x2) / x0
    return left, alpha


@compiled(fastmath=True)
def _correct(P: NDArray, inverse: NDArray, e: NDArray, mu: float, r: NDArray, c: NDArray) -> None:
    """Subtract from (r, c) the marginals of the corrected plan mu/s - dP ds/s."""
    n, m = P.shape
    for i in range(n):
        total = 0.0
        for j in range(m):
            t = mu * inverse[i, j] + P[i, j] * e[i, j] * (1.0 + e[i, j])
            total += t
            c[j] -= t
        r[i] -= total


@compiled(fastmath=True)
def _steps(
    P: NDArray, inverse: NDArray, W: NDArray, e: NDArray, mu: float, df: NDArray, dg: NDArray, dP: NDArray
) -> tuple[float, float]:
    """Fill e = ds/s and dP/P; return the largest relative decrease of each."""
    n, m = P.shape
    low_s, low_P = 0.0, 0.0
    for i in range(n):
        for j in range(m):
            t = -(df[i] + dg[j]) * inverse[i, j]
            u = mu * inverse[i, j] / P[i, j] + e[i, j] * (1.0 + e[i, j]) - 1.0 - t
            e[i, j] = t
            dP[i, j] = u
            low_s = min(low_s, t)
            low_P = min(low_P, u)
    return -low_P, -low_s


@compiled(fastmath=True)
def _move(P: NDArray, s: NDArray, dP: NDArray, e: NDArray, alpha: float, beta: float) -> None:
    n, m = P.shape
    for i in range(n):
        for j in range(m):
            P[i, j] *= 1.0 + alpha * dP[i, j]
            s[i, j] *= 1.0 + beta * e[i, j]


@compiled(fastmath=True)
def _prune(C: NDArray, capped: NDArray, P: NDArray, W: NDArray, threshold: float, out: NDArray) -> None:
    """The plan without the entries that vanish with mu: those where P/s is small."""
    n, m = P.shape
    for i in range(n):
        for j in range(m):
            keep = W[i, j] > threshold and C[i, j] <= capped[i, j]
            out[i, j] = P[i, j] if keep else 0.0


@compiled(fastmath=CAREFUL)
def interior_point(
    C: NDArray, capped: NDArray, a: NDArray, b: NDArray, tau_a: float, tau_b: float, f: NDArray, g: NDArray,
    shift: float, spread: float, tol: float, max_iterations: int,
) -> tuple[NDArray, NDArray, NDArray, int, float]:  # fmt: skip
    """Plan, potentials, iterations and relative gap, from the feasible (f, g) lowered by `shift`."""
    n, m = C.shape
    width = (m + BLOCK - 1) // BLOCK * BLOCK
    W, V, U = np.zeros((n, width)), np.zeros((n, width)), np.zeros((m, width))
    s, inverse, e, dP, plan = np.empty((n, m)), np.empty((n, m)), np.empty((n, m)), np.empty((n, m)), np.empty((n, m))
    D1, slope_a, wanted_a, p, r, df = np.empty(n), np.zeros(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    D2, slope_b, wanted_b, q, dg = np.empty(m), np.zeros(m), np.empty(m), np.empty(m), np.empty(m)
    pivot, excess, weights = np.empty(m), np.empty(m), np.empty(max(n, m))
    f, g = f - 0.5 * shift, g - 0.5 * shift
    for i in range(n):
        for j in range(m):
            s[i, j] = capped[i, j] - f[i] - g[j]
    destroyed(a, f, tau_a, wanted_a)
    destroyed(b, g, tau_b, wanted_b)
    P = 1.0 / s
    P *= math.sqrt(wanted_a.sum() * wanted_b.sum()) / P.sum()

    best, best_plan, best_f, best_g, waited = math.inf, plan.copy(), f.copy(), g.copy(), 0
    for iteration in range(max_iterations + 1):
        marginals(P, p, q)
        mu = _weights(P, s, inverse, W, D1, D2)
        _prune(C, capped, P, W, p.sum() / (n * m * spread), plan)
        if tau_a < math.inf:
            _slope(p, wanted_a, tau_a, slope_a)
        if tau_b < math.inf:
            _slope(q, wanted_b, tau_b, slope_b)
        gap = relative_gap(C, a, b, tau_a, tau_b, plan, f, g, p, q, wanted_a, wanted_b)
        waited += 1
        if gap < best:
            best, waited = gap, 0
            best_plan[:], best_f[:], best_g[:] = plan, f, g
        if best <= tol or iteration == max_iterations or waited == PATIENCE or not mu > 0.0:
            break
        for i in range(n):
            D1[i] += slope_a[i]
        factor(W, D1, slope_a, slope_b, m, V, U, pivot, weights, excess)
        r[:], dg[:] = wanted_a, wanted_b
        solve(W, D1, U, pivot, m, r, df, dg)
        left, _ = _predict(P, s, inverse, df, dg, e)
        target = mu * left**3
        r[:], dg[:] = wanted_a, wanted_b
        _correct(P, inverse, e, target, r, dg)
        solve(W, D1, U, pivot, m, r, df, dg)
        low_P, low_s = _steps(P, inverse, W, e, target, df, dg, dP)
        reach = max(0.9, 1.0 - left)
        alpha, beta = min(1.0, reach / max(low_P, 1e-9)), min(1.0, reach / max(low_s, 1e-9))
        if not (alpha > 0.0 and beta > 0.0):
            break
        _move(P, s, dP, e, alpha, beta)
        for i in range(n):
            f[i] += beta * df[i]
        for j in range(m):
            g[j] += beta * dg[j]
        destroyed(a, f, tau_a, wanted_a)
        destroyed(b, g, tau_b, wanted_b)
    return best_plan, best_f, best_g, iteration, best
