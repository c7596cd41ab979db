"""A primal-dual interior point for small epsilon with exact marginals or a fixed mass: some twenty iterations.

Plan P, slack Z and potentials solve

    C + epsilon log(P/R) - f - g = Z,   P 1 = a,   P' 1 = b,   P Z = mu

and mu is followed to zero by Mehrotra's predictor and corrector.  For mu = 0 the slack is zero, and P is the entropic
plan; on the way it keeps entries that an exponential would lose.  Sweeps, and Newton's method on the dual, take
thousands of iterations where epsilon is a small part of the costs and the plan falls into groups; these do not.

Partial transport has one more row and column, of the mass that is not moved, without cost or entropy; that they
meet is ruled out.  The linear systems are those of `exact/elimination.py`, factored without a subtraction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from jumbot.transport.certificate import certify
from jumbot.transport.compiled.aligned import empty, zeros
from jumbot.transport.compiled.decorator import compiled
from jumbot.transport.compiled.sides import total
from jumbot.transport.compiled.threads import Stop, run
from jumbot.transport.compiled.vectormath import greater, lesser, log
from jumbot.transport.entropic.newton_steps import half_sweep
from jumbot.transport.exact.elimination import factor, padded, solve
from jumbot.transport.marginal import PartialMarginal
from jumbot.transport.outcome import Outcome
from jumbot.transport.problem import Problem

LARGEST = 1024  # points on the smaller side: an iteration factorises a matrix of that size
DIRECT = 400  # the same for partial transport without sweeps before
PATIENCE = 80
_TINY = 1e-290  # the least entry of a plan
_NONE = 1e-9  # a share of the mass below which nothing is left out
_ROUNDING = 1e-12  # of the mass, within which a marginal is met
_STALLS = 12  # iterations without progress after which rounding has the last word
_SHARE = 1e-3  # of tol, for what is left of P Z and of the equations


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
    """Whether this is quicker than sweeps from the start."""
    return isinstance(problem.source, PartialMarginal) and min(problem.cost.shape[-2:]) <= DIRECT and fits(problem)


def solve_all(problem: Problem, tol: float, limit: int = PATIENCE) -> Outcome:
    """Each problem of the batch by itself, in threads, by at most `limit` iterations."""
    (batch, n, m), like = problem.cost.shape, problem.a
    f, g, taken, plan = (like.new_zeros(batch, *shape) for shape in ((n,), (m,), (), (n, m)))
    stop = Stop()

    def one(k: int) -> None:
        part = problem.take(torch.tensor([k]))
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
    own_f, own_g, own_plan, taken = interior(C, a, b, r_a, r_b, problem.epsilon / unit, mass, tol, limit, stop)
    if turned:
        own_f, own_g, own_plan = own_g, own_f, own_plan.T
    f[on_a], g[on_b], plan[np.ix_(on_a, on_b)] = unit * own_f + least, unit * own_g, own_plan
    return taken


def interior(
    C: np.ndarray, a: np.ndarray, b: np.ndarray, r_a: np.ndarray, r_b: np.ndarray, epsilon: float, mass: float | None,
    tol: float, limit: int, stop: Stop,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:  # fmt: skip
    """The potentials f, g with P = r_a r_b' e^{(f+g-C)/epsilon}, P, and the iterations; costs from 0 to at most 1."""
    (n, m), whole = C.shape, a.sum()
    rest_a, rest_b = (0.0, 0.0) if mass is None else (whole - mass, b.sum() - mass)
    more = int(rest_b > _NONE * whole), int(rest_a > _NONE * whole)  # a row takes what columns leave, and a column rows
    N, M = n + more[0], m + more[1]
    A, B = np.full(N, rest_b / whole), np.full(M, rest_a / whole)
    A[:n], B[:m] = a / whole, b / whole
    if mass is not None:  # to the last bit: the systems are singular but for that
        B *= A.sum() / B.sum()
    costs, log_r, E = np.zeros((N, M)), np.zeros((N, M)), np.zeros((2, M))
    costs[:n, :m], log_r[:n, :m], E[0, :m] = C, np.log(r_a)[:, None] + np.log(r_b) - np.log(whole), epsilon
    P = np.outer(A, B) / A.sum() + 1e-3 * A.sum() / (N * M)
    Z, f, g = np.full((N, M), 0.1 + epsilon), np.zeros(N), np.zeros(M)
    corner = more == (1, 1)
    if corner:
        P[n, m] = 0.0
    taken = _iterate(
        costs, log_r, E, A, B, n, corner, _SHARE * tol, limit, P, Z, f, g,
        zeros(N, padded(M) + padded(N)), empty(4, N, M), np.zeros((5, N)), np.zeros((5, M)), np.empty(max(N, M)),
        stop.flag,
    )  # fmt: skip
    return f[:n], g[:m], whole * P[:n, :m], int(taken)


@compiled()
def _logs(P: Any, log_r: Any, out: Any) -> None:
    """log(P/R)."""
    for j in range(P.shape[0]):
        out[j] = log(greater(P[j], _TINY)) - log_r[j]


@compiled(fastmath=True)
def _linearise(
    P: Any, Z: Any, C: Any, E: Any, g: Any, f: float, H: Any, W: Any, inverse: Any, q: Any, D2: Any, B: Any
) -> tuple[float, float, float, float, float]:  # fmt: skip
    """Of one row, with log(P/R) in H: H = f + g - C - epsilon log(P/R), 1/(epsilon + Z), W = P/(epsilon + Z).

    Adds to the column sums of P, W and W H; returns <P, Z>, <P, |H + Z|>, <P, C>, and the row sums of P and W H.
    """
    left = off = cost = mass = pull = 0.0
    for j in range(P.shape[0]):
        h = f + g[j] - C[j] - E[j] * H[j]
        inv = 1.0 / (E[j] + Z[j])
        w = P[j] * inv
        H[j], inverse[j], W[j] = h, inv, w
        q[j] += P[j]
        D2[j] += w
        B[j] += w * h
        left += P[j] * Z[j]
        off += P[j] * abs(h + Z[j])
        cost += P[j] * C[j]
        mass += P[j]
        pull += w * h
    return left, off, cost, mass, pull


@compiled(fastmath=True)
def _predict(P: Any, Z: Any, H: Any, inverse: Any, df: float, dg: Any, x: Any) -> tuple[float, float, float, float]:
    """x = dP/P of the step to mu = 0, where dZ/Z = -1 - x; its least and greatest, and the sums of P Z x and P Z x^2."""
    low = high = x1 = x2 = 0.0
    for j in range(P.shape[0]):
        t = inverse[j] * (df + dg[j] + H[j])
        x[j] = t
        low, high = lesser(low, t), greater(high, t)
        y = P[j] * Z[j] * t
        x1 += y
        x2 += y * t
    return low, high, x1, x2


@compiled(fastmath=True)
def _correct(P: Any, Z: Any, x: Any, mu: float, H: Any, W: Any, base: Any) -> float:
    """H += mu/P - dP dZ/P, with dP and dZ as predicted; adds W H to the column sums `base`, returns the row sum."""
    pull = 0.0
    for j in range(P.shape[0]):
        h = H[j] + mu / P[j] + Z[j] * x[j] * (1.0 + x[j])
        H[j] = h
        base[j] += W[j] * h
        pull += W[j] * h
    return pull


@compiled(fastmath=True)
def _direct(
    P: Any, Z: Any, H: Any, inverse: Any, mu: float, df: float, dg: Any, x: Any, z: Any
) -> tuple[float, float]:  # fmt: skip
    """x = dP/P and z = dZ/Z of the corrected step; the least of each."""
    low_x = low_z = 0.0
    for j in range(P.shape[0]):
        t = inverse[j] * (df + dg[j] + H[j])
        u = mu / (P[j] * Z[j]) + x[j] * (1.0 + x[j]) - 1.0 - t
        x[j], z[j] = t, u
        low_x, low_z = lesser(low_x, t), lesser(low_z, u)
    return low_x, low_z


@compiled(fastmath=True)
def _move(P: Any, Z: Any, x: Any, z: Any, alpha: float) -> None:
    for j in range(P.shape[0]):
        P[j] = greater(P[j] * (1.0 + alpha * x[j]), _TINY)
        Z[j] = greater(Z[j] * (1.0 + alpha * z[j]), _TINY)


@compiled()
def _iterate(
    C: Any, log_r: Any, E: Any, a: Any, b: Any, real: int, corner: bool, tol: float, limit: int, P: Any, Z: Any,
    f: Any, g: Any, L: Any, matrices: Any, rows: Any, columns: Any, work: Any, stop: Any,
) -> int:  # fmt: skip
    """The iterations, in place; rows from `real` on have no entropy, and with `corner` the last entry is left out."""
    (n, m), H, W, inverse, X = P.shape, matrices[0], matrices[1], matrices[2], matrices[3]
    df, p, slope_a, root, excess = rows[0], rows[1], rows[2], rows[3], rows[4]
    dg, q, D2, slope_b, base = columns[0], columns[1], columns[2], columns[3], columns[4]
    count = 1.0 * n * m - (1.0 if corner else 0.0)
    taken, best, waited = 0, 1e300, 0
    for iteration in range(limit + 1):
        taken = iteration
        if stop[0] != 0:
            break
        for j in range(m):
            q[j] = D2[j] = base[j] = 0.0
        left = off = cost = missed = 0.0
        for i in range(n):
            last = m - 1 if corner and i == n - 1 else m
            if corner and i == n - 1:
                W[i, last] = 0.0
            _logs(P[i, :last], log_r[i, :last], H[i, :last])
            more = _linearise(
                P[i, :last], Z[i, :last], C[i, :last], E[0 if i < real else 1, :last], g[:last], f[i],
                H[i, :last], W[i, :last], inverse[i, :last], q[:last], D2[:last], base[:last],
            )  # fmt: skip
            left, off, cost = left + more[0], off + more[1], cost + more[2]
            p[i], df[i] = more[3], a[i] - more[3] - more[4]
            missed += abs(a[i] - more[3])
        for j in range(m):
            dg[j] = b[j] - q[j] - base[j]
            missed += abs(b[j] - q[j])
        error = left + off + missed
        waited = 0 if error < 0.9 * best else waited + 1
        best = min(best, error)
        if (max(left, off) <= tol * (cost + E[0, 0]) and (missed <= _ROUNDING or waited > 0)) or waited > _STALLS:
            break
        if iteration == limit:
            break
        # all potentials of rows up and of columns down change nothing: one of them is held
        slope_a[n - 1] = 1e-3 * total(D2) / m
        factor(W, D2, slope_a, slope_b, L, root, excess, work)
        mu, low, high, x1, x2, target, kept = left / count, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        solve(W, D2, L, root, df, dg, work)
        for i in range(n):
            last = m - 1 if corner and i == n - 1 else m
            found = _predict(
                P[i, :last], Z[i, :last], H[i, :last], inverse[i, :last], df[i], dg[:last], X[i, :last]
            )  # fmt: skip
            low, high, x1, x2 = min(low, found[0]), max(high, found[1]), x1 + found[2], x2 + found[3]
        # with a step of both by alpha, (1 + alpha x)(1 - alpha - alpha x) is left of P Z
        alpha = min(1.0, 1.0 / max(-low, 1e-9), 1.0 / max(1.0 + high, 1e-9))
        kept = max((1.0 - alpha) * left - alpha * alpha * (x1 + x2), 0.0) / left
        target = mu * kept**3
        for j in range(m):
            base[j] = 0.0
        for i in range(n):
            last = m - 1 if corner and i == n - 1 else m
            pull = _correct(
                P[i, :last], Z[i, :last], X[i, :last], target, H[i, :last], W[i, :last], base[:last]
            )  # fmt: skip
            df[i] = a[i] - p[i] - pull
        for j in range(m):
            dg[j] = b[j] - q[j] - base[j]
        solve(W, D2, L, root, df, dg, work)
        low_x = low_z = 0.0
        for i in range(n):
            last = m - 1 if corner and i == n - 1 else m
            lows = _direct(
                P[i, :last], Z[i, :last], H[i, :last], inverse[i, :last], target, df[i], dg[:last], X[i, :last],
                W[i, :last],
            )  # fmt: skip
            low_x, low_z = min(low_x, lows[0]), min(low_z, lows[1])
        reach = min(max(0.9, 1.0 - kept), 1.0 - 1e-9)
        alpha = min(1.0, reach / max(-low_x, 1e-9), reach / max(-low_z, 1e-9))
        if not alpha > 0.0:
            break
        for i in range(n):
            last = m - 1 if corner and i == n - 1 else m
            _move(P[i, :last], Z[i, :last], X[i, :last], W[i, :last], alpha)
            f[i] += alpha * df[i]
        for j in range(m):
            g[j] += alpha * dg[j]
    return taken
