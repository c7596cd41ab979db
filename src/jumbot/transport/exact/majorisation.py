"""Majorisation-minimisation (Chapel et al., 2021) for min <C, P> + tau_a KL(P1 | a) + tau_b KL(P'1 | b).

    P_ij <- P_ij (e^{-C_ij} (a_i / p_i)^{tau_a} (b_j / q_j)^{tau_b})^{1/(tau_a + tau_b)},    p = P1, q = P'1

Where most mass is destroyed a few sweeps are enough; each costs little beside an interior point iteration.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from jumbot.transport.compiled.decorator import compiled
from jumbot.transport.compiled.gibbs import shifted
from jumbot.transport.compiled.vectormath import exp
from jumbot.transport.entropic.shift import best_shift
from jumbot.transport.exact.potentials import (
    CAREFUL,
    gap_and_scale,
    marginals,
    relaxed_marginal,
    transform_columns,
    transform_rows,
)

#: Sweeps beyond which the interior point is quicker.
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
    C: NDArray, a: NDArray, b: NDArray, tau_a: float, tau_b: float, f: NDArray, g: NDArray,
    tol: float, max_iterations: int, K: NDArray, P: NDArray, rows: NDArray, columns: NDArray,
) -> tuple[int, float]:  # fmt: skip
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
        gap, scale = gap_and_scale(C, a, b, tau_a, tau_b, P, f, g, p, q, relaxed_a, relaxed_b)
        gap /= scale
        spacing = 2 if sweep <= 4 else 4
        if not gap > tol or (sweep > 2 and not gap * (gap / before) ** (HORIZON // spacing) < tol):
            break
    return sweep, gap


def majorise(
    C: NDArray, a: NDArray, b: NDArray, tau_a: float, tau_b: float, f: NDArray, g: NDArray,
    tol: float, max_iterations: int,
) -> tuple[NDArray, int, float]:  # fmt: skip
    """Plan, sweeps and relative gap, and fills (f, g); gives up where `HORIZON` more would not reach tol."""
    n, m = C.shape
    P, memory = np.empty((n, m)), (np.empty((3, n)), np.empty((3, m)))
    return P, *_sweeps(C, a, b, tau_a, tau_b, f, g, tol, max_iterations, np.empty((n, m)), P, *memory)
