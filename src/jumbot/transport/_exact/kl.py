"""Unregularised unbalanced transport with KL."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from jumbot.errors import UnboundedError
from jumbot.transport._exact.interior_point import interior_point
from jumbot.transport._exact.potentials import (
    CAREFUL,
    Unbalanced,
    gap_and_scale,
    marginals,
    relaxed_marginal,
    transform_columns,
    transform_rows,
)
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import shifted
from jumbot.transport._kernels.policy import best_shift
from jumbot.transport._kernels.vectormath import exp

#: Sweeps beyond which the interior point is faster.
HORIZON = 32
_TINY = 1e-290


@compiled()
def _start(C: NDArray, a: NDArray, b: NDArray, tau: float, K: NDArray, P: NDArray) -> None:
    """K = e^{-C/tau} and P = a b'."""
    for i in range(a.size):
        cost, kernel, plan, t = C[i], K[i], P[i], a[i]
        for j in range(b.size):
            kernel[j] = exp(-cost[j] / tau)
            plan[j] = t * b[j]


@compiled(fastmath=True)
def _sweep(P: NDArray, K: NDArray, u: NDArray, v: NDArray, p: NDArray, q: NDArray) -> None:
    """P_ij <- u_i P_ij K_ij v_j and its marginals; tiny entries become 0, since denormal numbers are slow."""
    for j in range(q.size):
        q[j] = 0.0
    for i in range(p.size):
        row, k, t, total = P[i], K[i], u[i], 0.0
        for j in range(q.size):
            x = row[j] * k[j] * t * v[j]
            x = x if x > 1e-200 else 0.0
            row[j] = x
            q[j] += x
            total += x
        p[i] = total


@compiled(fastmath=CAREFUL)
def _sweeps(
    problem: Unbalanced,
    f: NDArray,
    g: NDArray,
    tol: float,
    max_iterations: int,
    K: NDArray,
    P: NDArray,
    rows: NDArray,
    columns: NDArray,
) -> tuple[int, float]:
    C, a, b, tau_a, tau_b = problem
    n, m = C.shape
    share_a, share_b = tau_a / (tau_a + tau_b), tau_b / (tau_a + tau_b)
    p, u, relaxed_a = rows[0], rows[1], rows[2]
    q, v, relaxed_b = columns[0], columns[1], columns[2]
    _start(C, a, b, tau_a + tau_b, K, P)
    marginals(P, p, q)
    gap, sweep = math.inf, 0
    while sweep < max_iterations:
        for i in range(n):
            u[i] = (a[i] / max(p[i], _TINY)) ** share_a
        for j in range(m):
            v[j] = (b[j] / max(q[j], _TINY)) ** share_b
        _sweep(P, K, u, v, p, q)
        sweep += 1
        if sweep != 2 and sweep % 4 != 0:
            continue
        for j in range(m):
            g[j] = tau_b * math.log(b[j] / max(q[j], _TINY))
        transform_rows(C, g, f)
        transform_columns(C, f, g)
        shift = best_shift(1.0 / tau_a, 1.0 / tau_b, a, b, f, g, u, v)
        shifted(f, shift, f)
        shifted(g, -shift, g)
        relaxed_marginal(a, f, tau_a, relaxed_a)
        relaxed_marginal(b, g, tau_b, relaxed_b)
        before = gap
        gap, scale = gap_and_scale(problem, P, f, g, p, q, relaxed_a, relaxed_b)
        gap /= scale
        spacing = 2 if sweep <= 4 else 4
        if not gap > tol or (sweep > 2 and not gap * (gap / before) ** (HORIZON // spacing) < tol):
            break
    return sweep, gap


def majorise(
    problem: Unbalanced, f: NDArray, g: NDArray, tol: float, max_iterations: int
) -> tuple[NDArray, int, float]:
    """Plan, sweeps and relative gap, and fills (f, g); gives up where `HORIZON` more would not reach tol."""
    n, m = problem[0].shape
    P, memory = np.empty((n, m)), (np.empty((3, n)), np.empty((3, m)))
    return P, *_sweeps(problem, f, g, tol, max_iterations, np.empty((n, m)), P, *memory)


Array = NDArray[np.float64]

#: A point whose optimal potential exceeds this many tau keeps e^-40 of its weight: none, in float64.
_EMPTY = 40.0
#: Potentials above so many tau prove no more, since e^-800 is zero; beside costs of 1e20 tau they are rounding.
_MOST = 800.0
#: Logarithm of the largest mass that stays clear of overflow.
_HUGE = 300.0


def kl(
    cost: Array,
    a: Array,
    b: Array,
    tau_a: float,
    tau_b: float,
    tol: float,
    max_iterations: int,
    start: tuple[Array, Array] | None = None,
) -> tuple[Array, Array, Array, int]:
    """min_{P >= 0} <C, P> + tau_a KL(P1 | a) + tau_b KL(P'1 | b),   KL(x | y) = sum x log(x/y) - x + y.

    `cost` is `(n, m)`, and both sides have mass; one of `tau_a`, `tau_b` may be `math.inf`, and then that marginal is
    exact. Returns the plan, potentials with f_i + g_j <= C_ij, and the iterations taken to the relative gap `tol` (or
    short of it): sweeps of majorisation-minimisation, then of an interior point where those would be slow.

    >>> plan, f, g, _ = kl(np.ones((1, 1)), np.ones(1), np.ones(1), 1.0, 1.0, tol=1e-9, max_iterations=100)
    >>> bool(np.isclose(plan[0, 0], math.exp(-0.5)))
    True
    """
    rows, columns = a > 0, b > 0
    if rows.all() and columns.all():
        return _positive((cost, a, b, tau_a, tau_b), tol, max_iterations, start)
    plan, f, g, inside = np.zeros(cost.shape), np.zeros(a.shape), np.zeros(b.shape), np.ix_(rows, columns)
    near = start and (start[0][rows], start[1][columns])
    within = cost[inside], a[rows], b[columns], tau_a, tau_b
    plan[inside], f[rows], g[columns], iterations = _positive(within, tol, max_iterations, near)
    # a point without weight gets the potential of its first grain, so that gradients in the weights are right
    f[~rows] = np.minimum((cost[~rows][:, columns] - g[columns]).min(1), _MOST * tau_a)
    g[~columns] = np.minimum((cost[:, ~columns] - f[:, None]).min(0), _MOST * tau_b)
    return plan, f, g, iterations


def _positive(
    problem: Unbalanced, tol: float, max_iterations: int, start: tuple[Array, Array] | None
) -> tuple[Array, Array, Array, int]:
    """The same for positive weights."""
    cost, a, b, tau_a, tau_b = problem
    if cost.shape[0] > cost.shape[1]:  # the interior point factors a matrix of the size of the rows
        turned = cost.T, b, a, tau_b, tau_a
        plan, g, f, iterations = _positive(turned, tol, max_iterations, start and start[::-1])
        return plan.T, f, g, iterations
    # the solvers are compiled for contiguous, writable arrays
    cost, a, b = (np.require(x, np.float64, ["C", "W"]) for x in (cost, a, b))
    problem, iterations = (cost, a, b, tau_a, tau_b), 0
    if max(tau_a, tau_b) < math.inf:
        _refuse_overflow(problem)
    if start is not None:
        g = (cost - start[0][:, None]).min(0)
        return _without_empty(problem, (cost - g).min(1), g, tol, max_iterations)
    if max(tau_a, tau_b) < math.inf:
        f, g = np.empty(a.shape), np.empty(b.shape)
        plan, iterations, gap = majorise(problem, f, g, tol, max_iterations)
        if gap <= tol:
            return plan, f, g, iterations
    # potentials that differ by many tau are a bad start: those of the smaller tau differ by one at most
    if tau_a < tau_b:
        g = cost.min(0)
        f = np.minimum((cost - g).min(1), tau_a)
    else:
        f = cost.min(1)
        g = np.minimum((cost - f[:, None]).min(0), tau_b)
    plan, f, g, more = _without_empty(problem, f, g, tol, max_iterations - iterations)
    return plan, f, g, iterations + more


def _refuse_overflow(problem: Unbalanced) -> None:
    cost, a, b, tau_a, tau_b = problem
    exponent = -cost.min() / (tau_a + tau_b)
    if exponent + max(math.log(a.sum()), math.log(b.sum()), 0.0) > _HUGE:
        raise UnboundedError(
            f"cost: {{least:g}} with tau = ({{tau_a:g}}, {{tau_b:g}}) makes a plan of e^{exponent:.0f} times the given "
            "mass optimal, which float64 cannot hold. Raise tau or shift the cost.",
            least=float(cost.min()),
            tau_a=tau_a,
            tau_b=tau_b,
        )


def _without_empty(problem: Unbalanced, f: Array, g: Array, tol: float, limit: int) -> tuple[Array, Array, Array, int]:
    """Set points aside whose mass is destroyed in any case, and solve for the rest."""
    cost, a, b, tau_a, tau_b = problem
    if max(tau_a, tau_b) == math.inf or _none_empty(problem):
        return _interior(problem, f, g, tol, limit)
    lower_a, lower_b = _lower_bounds(problem)
    lower_a, lower_b = np.minimum(lower_a, _MOST * tau_a), np.minimum(lower_b, _MOST * tau_b)
    rows, columns = lower_a < _EMPTY * tau_a, lower_b < _EMPTY * tau_b
    if rows.all() and columns.all():
        return _interior(problem, f, g, tol, limit)
    plan, iterations = np.zeros(cost.shape), 0
    if rows.any() and columns.any():
        inside = np.ix_(rows, columns)
        within = cost[inside], a[rows], b[columns], tau_a, tau_b
        plan[inside], f, g, iterations = _interior(within, f[rows], g[columns], tol, limit)
        # exact potentials leave room for the lower bounds of the others
        room_a = cost[rows][:, ~columns] - lower_b[~columns]
        room_b = cost[~rows][:, columns] - lower_a[~rows, None]
        lower_a[rows] = np.minimum(f, room_a.min(1, initial=math.inf))
        lower_b[columns] = np.minimum(g, room_b.min(0, initial=math.inf))
    return plan, lower_a, lower_b, iterations


def _none_empty(problem: Unbalanced) -> bool:
    """Whether it is plain that no potential exceeds `_EMPTY` tau: `_lower_bounds` of all points take twice as long.

    With one bound for all P_ij, g >= tau_b (log b - largest - log n), and f_i <= min_j C_ij - g_j.
    """
    cost, a, b, tau_a, tau_b = problem
    rows, columns = cost.min(1), cost.min(0)
    largest = (tau_a * math.log(a.max()) + tau_b * math.log(b.max()) - rows.min()) / (tau_a + tau_b)
    upper_a = rows.max() - tau_b * (math.log(b.min()) - largest - math.log(a.size))
    upper_b = columns.max() - tau_a * (math.log(a.min()) - largest - math.log(b.size))
    return bool(upper_a < _EMPTY * tau_a and upper_b < _EMPTY * tau_b)


def _lower_bounds(problem: Unbalanced) -> tuple[Array, Array]:
    """Lower bounds on all optimal potentials.

    Where P_ij > 0, f_i + g_j = C_ij; and P_ij is at most a_i e^{-f_i/tau_a} and b_j e^{-g_j/tau_b}, so at
    most their weighted geometric mean e^{largest_ij}. Its row sums bound f from below, f + g <= C then bounds
    g from above, and f_i = min_j C_ij - g_j bounds f from below once more.
    """
    cost, a, b, tau_a, tau_b = problem
    log_a, log_b = np.log(a), np.log(b)
    largest = (tau_a * log_a[:, None] + tau_b * log_b - cost) / (tau_a + tau_b)
    f = tau_a * (log_a - largest.max(1) - math.log(b.size))
    g = tau_b * (log_b - largest.max(0) - math.log(a.size))
    upper_a, upper_b = (cost - g).min(1), (cost - f[:, None]).min(0)
    return np.maximum(f, (cost - upper_b).min(1)), np.maximum(g, (cost - upper_a[:, None]).min(0))


def _interior(problem: Unbalanced, f: Array, g: Array, tol: float, limit: int) -> tuple[Array, Array, Array, int]:
    cost, a, b, tau_a, tau_b = problem
    shift = best_shift(1 / tau_a, 1 / tau_b, a, b, f, g, np.empty(a.shape), np.empty(b.shape))
    f, g = f + shift, g - shift
    plan = np.zeros(cost.shape)
    iterations = interior_point(problem, f, g, tol, limit, plan)
    # both steps raise the dual
    transform_rows(cost, g, f)
    transform_columns(cost, f, g)
    return plan, f, g, iterations
