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

from jumbot.transport._exact.potentials import CAREFUL, Unbalanced, gap_and_scale, marginals, relaxed_marginal
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import total
from jumbot.transport._kernels.linear_algebra import add, copy, factor, lowest, padded, solve
from jumbot.transport._kernels.memory import empty, zeros
from jumbot.transport._kernels.vectormath import greater, lesser


def _typical(s: NDArray, noise: float) -> float:
    """The mean of the slacks above the noise; where some are huge (forbidden pairs), that of the others."""
    inside = s[s > noise]
    if not inside.size:
        return noise
    typical = float(inside.mean())
    # none is below where all are equal and their mean is rounded down
    while (below := inside[inside <= typical]).size and below.mean() < 1e-3 * typical:
        typical = float(below.mean())
    return typical


def open_slack(C: NDArray, tau_a: float, tau_b: float, f: NDArray, g: NDArray) -> tuple[NDArray, float]:
    """Lower the feasible f + g by a tenth of the typical slack; returns s = C - f - g > 0 and the typical slack.

    By one tau at most, and in proportion to tau: a e^{-f/tau} explodes where f falls by many tau.
    """
    s = C - f[:, None] - g
    size = max(min(tau_a, tau_b), float(np.abs(C).max()), float(np.abs(f).max()))
    typical = _typical(s, 1e-13 * size)
    shift, share = min(0.1 * typical, tau_a + tau_b), 1.0 / (1.0 + tau_b / tau_a)
    f -= share * shift
    g -= (1.0 - share) * shift
    s += shift
    return s, typical


def first_plan(
    a: NDArray, b: NDArray, tau_a: float, tau_b: float, relaxed_a: NDArray, relaxed_b: NDArray, s: NDArray
) -> NDArray:
    """P_ij proportional to 1 / ((1/a_i + 1/b_j) s_ij): near P s = mu, yet no light point far too heavy."""
    P = a[:, None] * b / ((a[:, None] + b) * s)
    P *= math.sqrt(relaxed_a.sum()) * math.sqrt(relaxed_b.sum()) / P.sum()
    if tau_a == math.inf:
        P *= (a / P.sum(1))[:, None]
    elif tau_b == math.inf:
        P *= b / P.sum(0)
    return P


#: Stop when the gap has not fallen for this many iterations: rounding errors dominate.
PATIENCE = 25
#: A potential falls by at most this many tau an iteration: further away the model of e^{-f/tau} is wrong.
STEP = 3.0


@compiled(fastmath=True)
def _slope(p: NDArray, relaxed: NDArray, tau: float, out: NDArray) -> None:
    """How fast a e^{-f/tau} falls with f: its logarithmic mean with P1, over tau.

    So linearised, P1 = a e^{-f/tau} is solved exactly in P for fixed f, and in f for fixed P. The derivative
    at f instead would ask for a step of many tau wherever P1 is far larger.
    """
    for i in range(out.size):
        x, y = p[i], relaxed[i]
        if abs(x - y) > 1e-4 * y:
            out[i] = (x - y) / (math.log(x / y) * tau)
        else:
            out[i] = 0.5 * (x + y) / tau


@compiled(fastmath=True)
def _weights(P: NDArray, s: NDArray, inverse: NDArray, W: NDArray, D2: NDArray) -> float:
    """Fill 1/s, W = P/s and its column sums; return the mean of P s."""
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
def _prune(P: NDArray, W: NDArray, threshold: float, out: NDArray) -> None:
    """The plan without the entries that vanish with mu, where P/s is small: they make up most of <P, s>."""
    n, m = P.shape
    for i in range(n):
        plan, w, kept = P[i], W[i], out[i]
        for j in range(m):
            kept[j] = plan[j] if w[j] > threshold else 0.0


@compiled(fastmath=True)
def _predict(P: NDArray, s: NDArray, inverse: NDArray, df: NDArray, dg: NDArray, e: NDArray) -> float:
    """Fill e = ds/s of the step to mu = 0, where dP/P = -1 - e; return the share of mu that would be left."""
    n, m = P.shape
    low = high = x0 = x1 = x2 = 0.0
    for i in range(n):
        plan, slack, r, out, d = P[i], s[i], inverse[i], e[i], df[i]
        for j in range(m):
            t = -(d + dg[j]) * r[j]
            out[j] = t
            low = lesser(low, t)
            high = greater(high, t)
            x = plan[j] * slack[j]
            x0 += x
            x1 += x * t
            x2 += x * t * t
    alpha, beta = 1.0 / max(1.0, 1.0 + high), 1.0 / max(1.0, -low)
    left = (1.0 - alpha) * x0 + (beta * (1.0 - alpha) - alpha) * x1 - alpha * beta * x2
    return max(left / x0, 0.0)


@compiled(fastmath=True)
def _correct(P: NDArray, inverse: NDArray, e: NDArray, mu: float, r: NDArray, c: NDArray) -> None:
    """Subtract the marginals of (mu - dP ds)/s from (r, c), with dP and ds as predicted."""
    n, m = P.shape
    for i in range(n):
        plan, inv, d, row = P[i], inverse[i], e[i], 0.0
        for j in range(m):
            t = mu * inv[j] + plan[j] * d[j] * (1.0 + d[j])
            row += t
            c[j] -= t
        r[i] -= row


@compiled(fastmath=True)
def _direct(
    P: NDArray, inverse: NDArray, mu: float, df: NDArray, dg: NDArray, e: NDArray, dP: NDArray
) -> tuple[float, float]:
    """Fill dP/P and e = ds/s of the corrected step; return the largest decrease of each."""
    n, m = P.shape
    low_P = low_s = 0.0
    for i in range(n):
        plan, inv, out, out_P, d = P[i], inverse[i], e[i], dP[i], df[i]
        for j in range(m):
            t = -(d + dg[j]) * inv[j]
            x = mu * inv[j] / plan[j] + out[j] * (1.0 + out[j]) - 1.0 - t
            out[j] = t
            out_P[j] = x
            low_s = lesser(low_s, t)
            low_P = lesser(low_P, x)
    return -low_P, -low_s


@compiled(fastmath=True)
def _move(P: NDArray, s: NDArray, dP: NDArray, e: NDArray, alpha: float, beta: float) -> None:
    """The step, alpha of it in P and beta in s."""
    n, m = P.shape
    for i in range(n):
        plan, slack, d_P, d = P[i], s[i], dP[i], e[i]
        for j in range(m):
            plan[j] *= 1.0 + alpha * d_P[j]
            slack[j] *= 1.0 + beta * d[j]


#: (P, s, f, g, a e^{-f/tau_a}, b e^{-g/tau_b}).
Point = tuple[NDArray, NDArray, NDArray, NDArray, NDArray, NDArray]
#: L, which begins as zero; what has the size of the plan; of the rows; of the columns; of the longer of both.
Memory = tuple[NDArray, NDArray, NDArray, NDArray, NDArray]


@compiled(fastmath=CAREFUL)
def _linearise(problem: Unbalanced, point: Point, memory: Memory) -> float:
    """Fill 1/s, W = P/s, its column sums and the slopes of both marginals; return the mean of P s."""
    _, _, _, tau_a, tau_b = problem
    P, s, _, _, relaxed_a, relaxed_b = point
    _, matrices, rows, columns, _ = memory
    marginals(P, rows[1], columns[1])
    if tau_a < math.inf:
        _slope(rows[1], relaxed_a, tau_a, rows[2])
    if tau_b < math.inf:
        _slope(columns[1], relaxed_b, tau_b, columns[2])
    return _weights(P, s, matrices[0], matrices[1], columns[3])


@compiled(fastmath=CAREFUL)
def _pruned_gap(problem: Unbalanced, point: Point, memory: Memory, typical: float) -> tuple[float, float]:
    """The gap and the scale of the plan without what vanishes with mu, which `matrices[4]` is left with."""
    P, _, x, y, relaxed_a, relaxed_b = point
    _, matrices, rows, columns, _ = memory
    threshold, gap, scale = total(rows[1]) / (P.size * typical), math.inf, 0.0
    while gap == math.inf and threshold >= 0.0:
        _prune(P, matrices[1], threshold, matrices[4])
        gap, scale = gap_and_scale(problem, matrices[4], x, y, rows[1], columns[1], relaxed_a, relaxed_b)
        # where a row or column that has to be exact was pruned away, once more with all
        threshold = 0.0 if threshold > 0.0 else -1.0
    return gap, scale


@compiled(fastmath=CAREFUL)
def _direction(point: Point, memory: Memory, mu: float) -> tuple[float, float, float]:
    """Fill df, dg, e = ds/s and dP/P; return the largest decreases of P and s, and how much of each may be taken."""
    P, s, _, _, relaxed_a, relaxed_b = point
    L, matrices, rows, columns, work = memory
    inverse, W, e = matrices[0], matrices[1], matrices[2]
    df, slope_a, root, excess = rows[0], rows[2], rows[3], rows[4]
    dg, slope_b, D2 = columns[0], columns[2], columns[3]
    add(D2, 1.0, slope_b)
    factor(W, D2, slope_a, slope_b, L, root, excess, work)
    left = target = 0.0
    for corrects in range(2):
        copy(relaxed_a, df)
        copy(relaxed_b, dg)
        if corrects == 1:
            _correct(P, inverse, e, target, df, dg)
        solve(W, D2, L, root, df, dg, work)
        if corrects == 0:
            left = _predict(P, s, inverse, df, dg, e)
            target = mu * left**3
    low_P, low_s = _direct(P, inverse, target, df, dg, e, matrices[3])
    return low_P, low_s, min(max(0.9, 1.0 - left), 1.0 - 1e-9)


@compiled(fastmath=CAREFUL)
def _step(problem: Unbalanced, point: Point, memory: Memory, low_P: float, low_s: float, reach: float) -> bool:
    """Move the point along its direction, as far as P and s stay positive; False where that is nowhere."""
    _, a, b, tau_a, tau_b = problem
    P, s, x, y, relaxed_a, relaxed_b = point
    _, matrices, rows, columns, _ = memory
    df, dg = rows[0], columns[0]
    alpha, beta = min(1.0, reach / max(low_P, 1e-9)), min(1.0, reach / max(low_s, 1e-9))
    beta = min(beta, STEP * tau_a / max(-lowest(df), 1e-300), STEP * tau_b / max(-lowest(dg), 1e-300))
    if not (alpha > 0.0 and beta > 0.0):
        return False
    _move(P, s, matrices[3], matrices[2], alpha, beta)
    add(x, beta, df)
    add(y, beta, dg)
    relaxed_marginal(a, x, tau_a, relaxed_a)
    relaxed_marginal(b, y, tau_b, relaxed_b)
    return True


@compiled(fastmath=CAREFUL)
def _iterate(
    problem: Unbalanced,
    best: tuple[NDArray, NDArray, NDArray],
    point: Point,
    memory: Memory,
    typical: float,
    tol: float,
    rounding: float,
    max_iterations: int,
) -> int:
    """The iterations, from `point`; the `best` plan and potentials are kept."""
    plan, f, g = best
    lowest_gap, waited = math.inf, 0
    for iteration in range(max_iterations + 1):
        mu = _linearise(problem, point, memory)
        gap, scale = _pruned_gap(problem, point, memory, typical)
        waited += 1
        if abs(gap) < lowest_gap:
            lowest_gap, waited = abs(gap), 0
            copy(point[2], f)
            copy(point[3], g)
            _prune(memory[1][4], memory[1][1], 0.0, plan)
        reached = waited == 0 and lowest_gap <= max(tol * scale, rounding)
        if reached or iteration == max_iterations or waited == PATIENCE or not mu > 0.0:
            break
        low_P, low_s, reach = _direction(point, memory, mu)
        if not _step(problem, point, memory, low_P, low_s, reach):
            break
    return iteration


def interior_point(problem: Unbalanced, f: NDArray, g: NDArray, tol: float, max_iterations: int, plan: NDArray) -> int:
    """Start near the feasible (f, g), fill `plan`, f and g with the best found, and return the iterations.

    Quickest with n <= m: the matrix that is factored has the size of the rows.
    """
    C, a, b, tau_a, tau_b = problem
    (n, m), x, y = C.shape, f.copy(), g.copy()
    s, typical = open_slack(C, tau_a, tau_b, x, y)
    relaxed_a, relaxed_b = (np.maximum(w * np.exp(-z / tau), 1e-300) for w, z, tau in ((a, x, tau_a), (b, y, tau_b)))
    with np.errstate(over="ignore", invalid="ignore"):  # of weights near the end of float64: no gap is finite then
        P = first_plan(a, b, tau_a, tau_b, relaxed_a, relaxed_b, s)
    # a gap below this is noise, which matters where the optimal value is 0
    most, prices = float(np.abs(C).max()), sum(tau for tau in (tau_a, tau_b) if tau < math.inf)
    rounding = 1e-16 * max(a.sum(), b.sum()) * (min(tau_a + tau_b, most) if most > 0 else prices)
    memory = zeros(n, padded(m) + padded(n)), empty(5, n, m), np.zeros((5, n)), np.zeros((4, m)), np.empty(max(n, m))
    point = P, s, x, y, relaxed_a, relaxed_b
    return _iterate(problem, (plan, f, g), point, memory, typical, tol, rounding, max_iterations)
