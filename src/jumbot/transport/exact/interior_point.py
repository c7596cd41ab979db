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

from jumbot.transport.exact.elimination import factor, padded, solve
from jumbot.transport.exact.potentials import CAREFUL, gap_and_scale, marginals, relaxed_marginal, rescale
from jumbot.transport.vectormath import compiled

#: Stop when the gap has not fallen for this many iterations: rounding has the last word.
PATIENCE = 25
#: A potential falls by at most this many tau in one iteration, so that e^{-f/tau} stays in the range of its model.
STEP = 3.0


@compiled(fastmath=True)
def _mean_between(s: NDArray, low: float, high: float) -> float:
    """The mean of the entries in (low, high]."""
    total, count = 0.0, 0.0
    for i in range(s.shape[0]):
        row = s[i]
        for j in range(row.size):
            inside = low < row[j] <= high
            total += row[j] if inside else 0.0
            count += 1.0 if inside else 0.0
    return total / max(count, 1.0)


@compiled(fastmath=True)
def _spread(s: NDArray, noise: float) -> float:
    """A typical slack above the noise: the mean, or where that is the size of a few huge ones, the mean of the others."""
    typical = _mean_between(s, noise, 1e300)
    below = _mean_between(s, noise, typical)
    while 0.0 < below < 1e-3 * typical:
        typical, below = below, _mean_between(s, noise, below)
    return max(typical, noise)


@compiled(fastmath=True)
def _slope(p: NDArray, relaxed: NDArray, tau: float, out: NDArray) -> None:
    """How fast a e^{-f/tau} falls with f: its logarithmic mean with P1, over tau.

    So linearised, P1 = a e^{-f/tau} is solved exactly in P for fixed f and in f for fixed P. The derivative at f alone
    would ask for a step of many tau wherever P1 is far larger.
    """
    for i in range(out.size):
        x, y = p[i], relaxed[i]
        if abs(x - y) > 1e-4 * y:
            out[i] = (x - y) / (math.log(x / y) * tau)
        else:
            out[i] = 0.5 * (x + y) / tau


@compiled(fastmath=True)
def _weights(P: NDArray, s: NDArray, inverse: NDArray, W: NDArray, D2: NDArray) -> float:
    """1/s, W = P/s with its column sums, and the mean of P s."""
    n, m = P.shape
    mu = 0.0
    for j in range(m):
        D2[j] = 0.0
    for i in range(n):
        plan, slack, r, w = P[i], s[i], inverse[i], W[i]
        for j in range(m):
            t = 1.0 / slack[j]
            r[j] = t
            w[j] = plan[j] * t
            D2[j] += w[j]
            mu += plan[j] * slack[j]
    return mu / (n * m)


@compiled(fastmath=True)
def _predict(P: NDArray, s: NDArray, inverse: NDArray, df: NDArray, dg: NDArray, e: NDArray) -> float:
    """e = ds/s for the step towards mu = 0, where dP/P = -1 - e; returns the share of mu that it would leave."""
    n, m = P.shape
    low = high = x0 = x1 = x2 = 0.0
    for i in range(n):
        plan, slack, r, out, d = P[i], s[i], inverse[i], e[i], df[i]
        for j in range(m):
            t = -(d + dg[j]) * r[j]
            out[j] = t
            low = min(low, t)
            high = max(high, t)
            x = plan[j] * slack[j]
            x0 += x
            x1 += x * t
            x2 += x * t * t
    alpha, beta = 1.0 / max(1.0, 1.0 + high), 1.0 / max(1.0, -low)
    return ((1.0 - alpha) * x0 + (beta * (1.0 - alpha) - alpha) * x1 - alpha * beta * x2) / x0


@compiled(fastmath=True)
def _correct(P: NDArray, inverse: NDArray, e: NDArray, mu: float, r: NDArray, c: NDArray) -> None:
    """Subtract the marginals of (mu - dP ds)/s from (r, c), with the dP and ds of the prediction."""
    n, m = P.shape
    for i in range(n):
        plan, inv, d, total = P[i], inverse[i], e[i], 0.0
        for j in range(m):
            t = mu * inv[j] + plan[j] * d[j] * (1.0 + d[j])
            total += t
            c[j] -= t
        r[i] -= total


@compiled(fastmath=True)
def _direct(
    P: NDArray, inverse: NDArray, mu: float, df: NDArray, dg: NDArray, e: NDArray, dP: NDArray
) -> tuple[float, float]:
    """Corrected e = ds/s and dP/P, and the largest relative decrease of P and of s."""
    n, m = P.shape
    low_P = low_s = 0.0
    for i in range(n):
        plan, inv, out, out_P, d = P[i], inverse[i], e[i], dP[i], df[i]
        for j in range(m):
            t = -(d + dg[j]) * inv[j]
            x = mu * inv[j] / plan[j] + out[j] * (1.0 + out[j]) - 1.0 - t
            out[j] = t
            out_P[j] = x
            low_s = min(low_s, t)
            low_P = min(low_P, x)
    return -low_P, -low_s


@compiled(fastmath=True)
def _move(P: NDArray, s: NDArray, dP: NDArray, e: NDArray, alpha: float, beta: float) -> None:
    n, m = P.shape
    for i in range(n):
        plan, slack, d_P, d = P[i], s[i], dP[i], e[i]
        for j in range(m):
            plan[j] *= 1.0 + alpha * d_P[j]
            slack[j] *= 1.0 + beta * d[j]


@compiled(fastmath=True)
def _prune(P: NDArray, W: NDArray, threshold: float, out: NDArray) -> None:
    """The plan without the entries that vanish with mu, where P/s is small: they carry most of <P, s>."""
    n, m = P.shape
    for i in range(n):
        plan, w, kept = P[i], W[i], out[i]
        for j in range(m):
            kept[j] = plan[j] if w[j] > threshold else 0.0


@compiled(fastmath=CAREFUL)
def _start(C: NDArray, tau_a: float, tau_b: float, f: NDArray, g: NDArray, s: NDArray) -> float:
    """Lower f + g, in proportion to tau, so that all slacks s become positive; returns the typical slack before."""
    n, m = s.shape
    size = min(tau_a, tau_b)
    for i in range(n):
        for j in range(m):
            s[i, j] = C[i, j] - f[i] - g[j]
            size = max(size, abs(C[i, j]), abs(f[i]))
    spread = _spread(s, 1e-13 * size)
    shift = min(0.1 * spread, tau_a + tau_b)
    share = 1.0 / (1.0 + tau_b / tau_a)
    for i in range(n):
        f[i] -= share * shift
        for j in range(m):
            s[i, j] += shift
    for j in range(m):
        g[j] -= (1.0 - share) * shift
    return spread


@compiled(fastmath=True)
def _sum(x: NDArray) -> float:
    total = 0.0
    for i in range(x.size):
        total += x[i]
    return total


@compiled(fastmath=True)
def _first_plan(s: NDArray, a: NDArray, b: NDArray, mass: float, P: NDArray) -> None:
    """P proportional to a b' / s."""
    n, m = s.shape
    total = 0.0
    for i in range(n):
        for j in range(m):
            P[i, j] = a[i] * b[j] / ((a[i] + b[j]) * s[i, j])
            total += P[i, j]
    for i in range(n):
        for j in range(m):
            P[i, j] *= mass / total


@compiled(fastmath=True)
def _lowest(x: NDArray) -> float:
    low = x[0]
    for i in range(x.size):
        low = min(low, x[i])
    return low


@compiled(fastmath=True)
def _add(x: NDArray, t: float, d: NDArray) -> None:
    """x += t d."""
    for i in range(x.size):
        x[i] += t * d[i]


@compiled(fastmath=True)
def _copy(x: NDArray, out: NDArray) -> None:
    for i in range(x.size):
        out[i] = x[i]


@compiled(fastmath=CAREFUL)
def interior_point(
    C: NDArray, a: NDArray, b: NDArray, tau_a: float, tau_b: float, f: NDArray, g: NDArray,
    tol: float, max_iterations: int, plan: NDArray,
) -> int:  # fmt: skip
    """Fills the plan and returns the iterations; starts near the feasible (f, g) and replaces them.

    Quickest with n <= m: the matrix that is factored has the size of the rows.
    """
    n, m = C.shape
    L = np.zeros((n, padded(m) + padded(n)))
    P, s, inverse, W, e, dP, sparse = (
        np.empty((n, m)), np.empty((n, m)), np.empty((n, m)), np.empty((n, m)), np.empty((n, m)), np.empty((n, m)), np.empty((n, m))
    )  # fmt: skip
    work = np.empty(max(n, m))
    root, excess, slope_a, relaxed_a, p, df, x = (
        np.empty(n), np.empty(n), np.zeros(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    )  # fmt: skip
    D2, slope_b, relaxed_b, q, dg, y = np.empty(m), np.zeros(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m)

    _copy(f, x)
    _copy(g, y)
    spread = _start(C, tau_a, tau_b, x, y, s)
    relaxed_marginal(a, x, tau_a, relaxed_a)
    relaxed_marginal(b, y, tau_b, relaxed_b)
    _first_plan(s, a, b, math.sqrt(_sum(relaxed_a)) * math.sqrt(_sum(relaxed_b)), P)
    if tau_a == math.inf or tau_b == math.inf:
        marginals(P, p, q)
        rescale(P, p, q, a, b, tau_a == math.inf)
    # below this a gap is rounding: that matters where the optimal value is 0
    floor = 0.0
    if tau_a < math.inf:
        floor += 1e-16 * tau_a * _sum(a)
    if tau_b < math.inf:
        floor += 1e-16 * tau_b * _sum(b)
    best, waited = math.inf, 0
    for iteration in range(max_iterations + 1):
        marginals(P, p, q)
        mu = _weights(P, s, inverse, W, D2)
        _prune(P, W, _sum(p) / (n * m * spread), sparse)
        if tau_a < math.inf:
            _slope(p, relaxed_a, tau_a, slope_a)
        if tau_b < math.inf:
            _slope(q, relaxed_b, tau_b, slope_b)
        gap, scale = gap_and_scale(C, a, b, tau_a, tau_b, sparse, x, y, p, q, relaxed_a, relaxed_b)
        if gap == math.inf:  # a row or column that has to be full was pruned away
            _prune(P, W, 0.0, sparse)
            gap, scale = gap_and_scale(C, a, b, tau_a, tau_b, sparse, x, y, p, q, relaxed_a, relaxed_b)
        waited += 1
        if gap < best:
            best, waited = gap, 0
            _copy(x, f)
            _copy(y, g)
            _prune(sparse, W, 0.0, plan)
        if gap <= max(tol * scale, floor) or iteration == max_iterations or waited == PATIENCE or not mu > 0.0:
            break
        _add(D2, 1.0, slope_b)
        factor(W, D2, slope_a, slope_b, L, root, excess, work)
        _copy(relaxed_a, df)
        _copy(relaxed_b, dg)
        solve(W, D2, L, root, df, dg)
        left = _predict(P, s, inverse, df, dg, e)
        target = mu * left**3
        _copy(relaxed_a, df)
        _copy(relaxed_b, dg)
        _correct(P, inverse, e, target, df, dg)
        solve(W, D2, L, root, df, dg)
        low_P, low_s = _direct(P, inverse, target, df, dg, e, dP)
        reach = min(max(0.9, 1.0 - left), 1.0 - 1e-9)
        alpha, beta = min(1.0, reach / max(low_P, 1e-9)), min(1.0, reach / max(low_s, 1e-9))
        beta = min(beta, STEP * tau_a / max(-_lowest(df), 1e-300), STEP * tau_b / max(-_lowest(dg), 1e-300))
        if not (alpha > 0.0 and beta > 0.0):
            break
        _move(P, s, dP, e, alpha, beta)
        _add(x, beta, df)
        _add(y, beta, dg)
        relaxed_marginal(a, x, tau_a, relaxed_a)
        relaxed_marginal(b, y, tau_b, relaxed_b)
    return iteration
