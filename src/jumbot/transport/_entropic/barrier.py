"""A primal-dual interior point for small epsilon with exact marginals or a fixed mass: some twenty iterations.

Plan P, slack Z and potentials solve

    C + epsilon log(P/R) - f - g = Z,   P 1 = a,   P' 1 = b,   P Z = mu

and mu is followed to zero by Mehrotra's predictor and corrector.  For mu = 0 the slack is zero, and P is the entropic
plan; before that, it keeps entries that an exponential would lose.  Sweeps, and Newton's method on the dual, take
thousands of iterations if epsilon is small compared with the costs and the plan has separate groups; these do not.

Partial transport has one more row and column, for the mass that is not moved, without cost or entropy; their common
entry is excluded.  The linear systems are those of `linear_algebra.py`, factored without a subtraction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from jumbot.transport._certificate import certify
from jumbot.transport._entropic.newton_steps import half_sweep
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import total
from jumbot.transport._kernels.linear_algebra import factor, padded, solve
from jumbot.transport._kernels.memory import empty, zeros
from jumbot.transport._kernels.threads import Stop, run
from jumbot.transport._kernels.vectormath import greater, lesser, log
from jumbot.transport._marginal import PartialMarginal
from jumbot.transport._outcome import Outcome
from jumbot.transport._problem import Problem

LARGEST = 1024  # points on the smaller side: an iteration factorises a matrix of that size
DIRECT = 400  # the same for partial transport without sweeps before
PATIENCE = 80
_TINY = 1e-290  # the least entry of a plan
_NONE = 1e-9  # a share of the mass below which nothing is left out
_ROUNDING = 1e-9  # of the mass, within which all equations are met as far as they can be
_STALLS = 12  # iterations without progress, after which rounding errors dominate
_SHARE = 1e-2  # of tol, for what is left of P Z and of the equations


def fits(problem: Problem) -> bool:
    """Whether both marginals are exact, or a mass is fixed, and the problem is not too large."""
    n, m = problem.cost.shape[-2:]
    exact = problem.source.exact and problem.target.exact
    if not (exact or isinstance(problem.source, PartialMarginal)) or problem.cost.device.type != "cpu":
        return False
    if problem.blocked is not None or min(n, m) > LARGEST or n * m > 4 * LARGEST**2:
        return False
    return problem.reference == "product" or bool((problem.a > 0).all() and (problem.b > 0).all())


def is_direct(problem: Problem) -> bool:
    """Whether this is faster than sweeps from the start."""
    return isinstance(problem.source, PartialMarginal) and min(problem.cost.shape[-2:]) <= DIRECT and fits(problem)


def solve_all(problem: Problem, tol: float, limit: int = PATIENCE) -> Outcome:
    """Each problem of the batch by itself, in threads, by at most `limit` iterations."""
    (batch, n, m), like = problem.cost.shape, problem.a
    f, g, taken, plan = (like.new_zeros(batch, *shape) for shape in ((n,), (m,), (), (n, m)))
    stop = Stop()

    def one(k: int) -> None:
        part = problem.take(slice(k, k + 1))
        taken[k] = _solve_one(part, tol, min(limit, PATIENCE), stop, f[k].numpy(), g[k].numpy(), plan[k].numpy())

    run(one, range(batch), stop) if batch > 1 or n * m > _LONG else one(0)
    # points without weight have no place on the central path
    absent_a, absent_b = problem.a <= 0, problem.b <= 0
    if bool(absent_a.any()) or bool(absent_b.any()):
        f = torch.where(absent_a, half_sweep(problem, g, rows=True), f)
        g = torch.where(absent_b, half_sweep(problem, f, rows=False), g)
    return Outcome(f, g, taken, certify(problem, f, g, plan))


_LONG = 1 << 14  # entries of a problem that takes long enough to be interrupted


def _solve_one(
    problem: Problem, tol: float, limit: int, stop: Stop, f: np.ndarray, g: np.ndarray, plan: np.ndarray
) -> int:
    """Fill in potentials and plan of the only problem of a batch: the rows are the side that has fewer points."""
    cost, a, b = problem.cost[0].double().numpy(), problem.a[0].numpy(), problem.b[0].numpy()
    r_a, r_b = (r[0].numpy() for r in problem.reference_weights)
    on_a, on_b = a > 0, b > 0
    C, a, b, r_a, r_b = cost[np.ix_(on_a, on_b)], a[on_a], b[on_b], r_a[on_a], r_b[on_b]
    least, turned = C.min(), len(a) > len(b)
    unit = max(C.max() - least, problem.epsilon)
    C = (C - least) / unit
    if turned:
        C, a, b, r_a, r_b = C.T, b, a, r_b, r_a
    mass = problem.source.mass if isinstance(problem.source, PartialMarginal) else None
    with np.errstate(all="ignore"):  # masses and references too far apart for floats, which shows in the certificate
        own_f, own_g, own_plan, taken = interior(C, (a, b), (r_a, r_b), problem.epsilon / unit, mass, tol, limit, stop)
    if turned:
        own_f, own_g, own_plan = own_g, own_f, own_plan.T
    f[on_a], g[on_b], plan[np.ix_(on_a, on_b)] = unit * own_f + least, unit * own_g, own_plan
    return taken


def interior(
    C: np.ndarray,
    weights: tuple[np.ndarray, np.ndarray],
    reference: tuple[np.ndarray, np.ndarray],
    epsilon: float,
    mass: float | None,
    tol: float,
    limit: int,
    stop: Stop,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """The potentials f, g with P = r_a r_b' e^{(f+g-C)/epsilon}, P, and the iterations; costs from 0 to at most 1."""
    (n, m), (a, b) = C.shape, weights
    whole = a.sum()
    rest_a, rest_b = (0.0, 0.0) if mass is None else (whole - mass, b.sum() - mass)
    more = int(rest_b > _NONE * whole), int(rest_a > _NONE * whole)  # a row for what columns leave, and vice versa
    N, M = n + more[0], m + more[1]
    rows, columns, parts = np.zeros((7, N)), np.zeros((7, M)), empty(8, N, M)
    A, B = rows[_WEIGHT], columns[_WEIGHT]
    A[:], B[:] = rest_b / whole, rest_a / whole
    A[:n], B[:m] = a / whole, b / whole
    B *= A.sum() / B.sum()  # equal to the last bit, or the systems would be singular
    parts[_COST : _LOG_R + 1] = 0.0
    parts[_COST, :n, :m] = C
    parts[_LOG_R, :n, :m] = np.log(reference[0])[:, None] + np.log(reference[1]) - np.log(whole)
    parts[_PLAN] = np.outer(A, B) / A.sum() + 1e-3 * A.sum() / (N * M)
    parts[_SLACK] = 0.1 + epsilon
    heat = np.zeros((2, M))  # epsilon for each column, of a row with entropy and of one without
    heat[0, :m] = epsilon
    corner = more == (1, 1)
    parts[_PLAN : _SLACK + 1, N - 1, M - corner :] = 0.0
    memory = zeros(N, padded(M) + padded(N)), np.empty(max(N, M))
    taken = _iterate(parts, rows, columns, heat, n, corner, _SHARE * tol, limit, *memory, stop.flag)
    return rows[_POTENTIAL, :n], columns[_POTENTIAL, :m], whole * parts[_PLAN, :n, :m], int(taken)


#: Matrices: what is given, plan and slack, and what an iteration works in.
_COST, _LOG_R, _PLAN, _SLACK, _PULL, _W, _INVERSE, _CHANGE = range(8)
#: Vectors of rows and of columns: weights, potentials, their change, the marginal of the plan, and what `factor` takes.
_WEIGHT, _POTENTIAL, _STEP, _MARGINAL, _SLOPE, _D, _EXCESS = range(7)


@compiled()
def _width(parts: Any, i: int, corner: bool) -> int:
    """Entries of a row: what is left out meets nothing that is left out."""
    return parts.shape[2] - 1 if corner and i == parts.shape[1] - 1 else parts.shape[2]


@compiled()
def _logs(P: Any, log_r: Any, out: Any) -> None:
    """log(P/R)."""
    for j in range(P.shape[0]):
        out[j] = log(greater(P[j], _TINY)) - log_r[j]


@compiled(fastmath=True)
def _linearise_row(part: Any, heat: Any, f: float, columns: Any) -> tuple[float, float, float, float, float]:
    """H = f + g - C - epsilon log(P/R), with that logarithm in H before, 1/(epsilon + Z), and W = P/(epsilon + Z).

    Adds to the column sums of P and W, and takes W H from the change that is asked for.  Returns <P, Z>, <P, |H + Z|>,
    <P, C>, and the sums of P and of W H.
    """
    C, P, Z, H, W, inverse = part[_COST], part[_PLAN], part[_SLACK], part[_PULL], part[_W], part[_INVERSE]
    g, asked, q, D = columns[_POTENTIAL], columns[_STEP], columns[_MARGINAL], columns[_D]
    left = off = cost = mass = pull = 0.0
    for j in range(P.shape[0]):
        h = f + g[j] - C[j] - heat[j] * H[j]
        inv = 1.0 / (heat[j] + Z[j])
        w = P[j] * inv
        H[j], inverse[j], W[j] = h, inv, w
        q[j] += P[j]
        D[j] += w
        asked[j] -= w * h
        left += P[j] * Z[j]
        off += P[j] * abs(h + Z[j])
        cost += P[j] * C[j]
        mass += P[j]
        pull += w * h
    return left, off, cost, mass, pull


@compiled()
def _linearise(parts: Any, rows: Any, columns: Any, heat: Any, real: int, corner: bool) -> tuple[float, float, float]:
    """The linear system of an iteration; returns <P, Z>, how far the equations are off, and <P, C>."""
    n, m = parts.shape[1], parts.shape[2]
    for j in range(m):
        columns[_STEP, j] = columns[_WEIGHT, j]
        columns[_MARGINAL, j] = columns[_D, j] = 0.0
    left = off = cost = 0.0
    for i in range(n):
        width = _width(parts, i, corner)
        part = parts[:, i, :width]
        if width < m:
            parts[_W, i, width] = 0.0
        _logs(part[_PLAN], part[_LOG_R], part[_PULL])
        sums = _linearise_row(part, heat[0 if i < real else 1], rows[_POTENTIAL, i], columns)
        left, off, cost = left + sums[0], off + sums[1], cost + sums[2]
        rows[_MARGINAL, i], rows[_STEP, i] = sums[3], rows[_WEIGHT, i] - sums[3] - sums[4]
        off += abs(rows[_WEIGHT, i] - sums[3])
    for j in range(m):
        columns[_STEP, j] -= columns[_MARGINAL, j]
        off += abs(columns[_WEIGHT, j] - columns[_MARGINAL, j])
    return left, off, cost


@compiled(fastmath=True)
def _predict_row(part: Any, df: float, dg: Any) -> tuple[float, float, float, float]:
    """x = dP/P of the step to mu = 0, where dZ/Z = -1 - x: its least and greatest, the sums of P Z x and of P Z x^2."""
    P, Z, H, inverse, x = part[_PLAN], part[_SLACK], part[_PULL], part[_INVERSE], part[_CHANGE]
    low = high = x1 = x2 = 0.0
    for j in range(P.shape[0]):
        t = inverse[j] * (df + dg[j] + H[j])
        x[j] = t
        low, high = lesser(low, t), greater(high, t)
        y = P[j] * Z[j] * t
        x1 += y
        x2 += y * t
    return low, high, x1, x2


@compiled()
def _predict(parts: Any, rows: Any, columns: Any, left: float, corner: bool) -> float:
    """The share of <P, Z> that the step to mu = 0 would leave."""
    low = high = x1 = x2 = 0.0
    for i in range(parts.shape[1]):
        part = parts[:, i, : _width(parts, i, corner)]
        found = _predict_row(part, rows[_STEP, i], columns[_STEP])
        low, high, x1, x2 = min(low, found[0]), max(high, found[1]), x1 + found[2], x2 + found[3]
    # of P Z a step of both by alpha leaves (1 + alpha x)(1 - alpha - alpha x)
    alpha = min(1.0, 1.0 / max(-low, 1e-9), 1.0 / max(1.0 + high, 1e-9))
    return max((1.0 - alpha) * left - alpha * alpha * (x1 + x2), 0.0) / left


@compiled(fastmath=True)
def _correct_row(part: Any, mu: float, asked: Any) -> float:
    """H += mu/P - dP dZ/P, with dP and dZ as predicted; takes W H from what is asked of columns, returns its sum."""
    P, Z, H, W, x, pull = part[_PLAN], part[_SLACK], part[_PULL], part[_W], part[_CHANGE], 0.0
    for j in range(P.shape[0]):
        h = H[j] + mu / P[j] + Z[j] * x[j] * (1.0 + x[j])
        H[j] = h
        asked[j] -= W[j] * h
        pull += W[j] * h
    return pull


@compiled()
def _correct(parts: Any, rows: Any, columns: Any, mu: float, corner: bool) -> None:
    for j in range(parts.shape[2]):
        columns[_STEP, j] = columns[_WEIGHT, j] - columns[_MARGINAL, j]
    for i in range(parts.shape[1]):
        pull = _correct_row(parts[:, i, : _width(parts, i, corner)], mu, columns[_STEP])
        rows[_STEP, i] = rows[_WEIGHT, i] - rows[_MARGINAL, i] - pull


@compiled(fastmath=True)
def _direct_row(part: Any, mu: float, df: float, dg: Any) -> float:
    """dP/P and, in the place of W, dZ/Z of the corrected step; the least of them."""
    P, Z, H, inverse, x, z = part[_PLAN], part[_SLACK], part[_PULL], part[_INVERSE], part[_CHANGE], part[_W]
    low = 0.0
    for j in range(P.shape[0]):
        t = inverse[j] * (df + dg[j] + H[j])
        u = mu / (P[j] * Z[j]) + x[j] * (1.0 + x[j]) - 1.0 - t
        x[j], z[j] = t, u
        low = lesser(low, lesser(t, u))
    return low


@compiled(fastmath=True)
def _move_row(part: Any, alpha: float) -> None:
    P, Z, x, z = part[_PLAN], part[_SLACK], part[_CHANGE], part[_W]
    for j in range(P.shape[0]):
        P[j] = greater(P[j] * (1.0 + alpha * x[j]), _TINY)
        Z[j] = greater(Z[j] * (1.0 + alpha * z[j]), _TINY)


@compiled()
def _move(parts: Any, rows: Any, columns: Any, mu: float, reach: float, corner: bool) -> bool:
    """The step, as far as `reach` of the way to where an entry would be zero; False if no step is possible."""
    low = 0.0
    for i in range(parts.shape[1]):
        part = parts[:, i, : _width(parts, i, corner)]
        low = min(low, _direct_row(part, mu, rows[_STEP, i], columns[_STEP]))
    alpha = min(1.0, reach / max(-low, 1e-9))
    if not alpha > 0.0:
        return False
    for i in range(parts.shape[1]):
        _move_row(parts[:, i, : _width(parts, i, corner)], alpha)
        rows[_POTENTIAL, i] += alpha * rows[_STEP, i]
    for j in range(parts.shape[2]):
        columns[_POTENTIAL, j] += alpha * columns[_STEP, j]
    return True


@compiled()
def _iterate(
    parts: Any,
    rows: Any,
    columns: Any,
    heat: Any,
    real: int,
    corner: bool,
    tol: float,
    limit: int,
    L: Any,
    work: Any,
    stop: Any,
) -> int:
    """The iterations, in place; rows from `real` on have no entropy, and with `corner` the last entry is left out."""
    n, m = parts.shape[1], parts.shape[2]
    W, D, dg, df = parts[_W], columns[_D], columns[_STEP], rows[_STEP]
    root = rows[_D]
    best, waited = 1e300, 0
    for iteration in range(limit + 1):
        left, off, cost = _linearise(parts, rows, columns, heat, real, corner)
        worth = cost + heat[0, 0]
        waited = 0 if left + off < 0.9 * best else waited + 1
        best = min(best, left + off)
        near = left <= tol * worth and (off <= tol * worth or (off <= _ROUNDING and waited > 0))
        if near or waited > _STALLS or iteration == limit or stop[0] != 0:
            return iteration
        # all potentials of rows up and of columns down change nothing: one of them is held
        rows[_SLOPE, n - 1] = 1e-3 * total(D) / m
        factor(W, D, rows[_SLOPE], columns[_SLOPE], L, root, rows[_EXCESS], work)
        solve(W, D, L, root, df, dg, work)
        kept = _predict(parts, rows, columns, left, corner)
        mu = left / (n * m) * kept**3
        _correct(parts, rows, columns, mu, corner)
        solve(W, D, L, root, df, dg, work)
        if not _move(parts, rows, columns, mu, min(max(0.9, 1.0 - kept), 1.0 - 1e-9), corner):
            return iteration
    return limit
