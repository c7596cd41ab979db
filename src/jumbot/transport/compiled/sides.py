"""The two marginals of one problem in the compiled sweeps: proximal steps, gaps, the best translation.

All is in units of epsilon (F = f/epsilon, tau/epsilon); `marginal.py` is the same for any divergence.  A `kind` is a
constant wherever `step` and `side` are used: they are inlined, the branches of other kinds are left out before anything
is compiled, and a caller holds what its kinds need and no more.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from jumbot.transport.compiled.vectormath import compiled, exp, log
from jumbot.transport.kinds import BALANCED, KL, POWER, RANGE, TV
from jumbot.transport.outcome import GAP, LINEAR, OBJECTIVE, SCALE


@compiled(internal=True)
def _lambert(z: float) -> float:
    """y with y + log y = z."""
    z = max(z, -700.0)
    if z > 1.0:
        y = z - math.log(z)
    else:
        y = math.exp(z)
        y = y / (1.0 + y)
    for _ in range(6):
        y = y * (1.0 + z - math.log(y)) / (1.0 + y)
    return y


@compiled(inline="always")
def step(kind: int, tau: float, low: float, high: float, soft: Any, omega: float, h: Any, out: Any) -> None:
    """out = the proximal step of the soft minimum from h, over-relaxed by omega, epsilon = 1."""
    n = soft.shape[0]
    if kind <= BALANCED:
        kept = tau / (tau + 1.0) if kind == KL else 1.0
        for i in range(n):
            out[i] = h[i] + omega * (kept * soft[i] - h[i])
    elif kind == TV:
        for i in range(n):
            out[i] = min(max(h[i] + omega * (soft[i] - h[i]), -tau), tau)
    elif kind == RANGE:
        log_low = math.log(low) if low > 0.0 else -1e300
        log_high = math.log(high) if high < 1e300 else 1e300
        for i in range(n):
            out[i] = max(h[i] + omega * (soft[i] + log_low - h[i]), 0.0) + min(
                h[i] + omega * (soft[i] + log_high - h[i]), 0.0
            )
    else:
        q = low - 1.0
        floor = -1e300 if q > 0.0 else tau / q  # the recession price, where there is one
        for i in range(n):
            full = (tau - _lambert(math.log(tau) + tau - q * soft[i])) / q
            out[i] = max(h[i] + omega * (full - h[i]), floor)


@compiled(fastmath=True, internal=True)
def total(x: Any) -> float:
    result = 0.0
    for i in range(x.shape[0]):
        result += x[i]
    return result


@compiled(fastmath=True, internal=True)
def dot(x: Any, y: Any) -> float:
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@compiled(internal=True)
def _power(p: float, log_x: float, s: float) -> tuple[float, float]:
    """phi(x) + phi*(s) - s x = y^p phi(x/y) with y = phi*'(s), and phi(x), of the power divergence."""
    q = p - 1.0
    slope = 1.0 + q * s
    # e^600 times the potential of a closed row is still a float
    log_y = min(max(math.log(max(slope, 1e-300)) / q, -600.0), 600.0)
    x, x_p = math.exp(min(log_x, 600.0)), math.exp(min(p * log_x, 600.0))
    y, y_p = math.exp(log_y), math.exp(min(p * log_y, 600.0))
    if slope <= 0.0 and q > 0.0:
        y = y_p = 0.0
    r = log_x - log_y
    if abs(r) < 1e-4 and y > 0.0:
        gap = y_p * r * r * (0.5 + r * (p + 1.0) / 6.0)
    else:
        gap = max((x_p - y_p - p * slope * (x - y)) / (p * q), 0.0)
    if slope <= 0.0 and 0.0 < p < 1.0:  # the recession price proves nothing
        gap = math.inf
    return gap, (x_p - p * (x - 1.0) - 1.0) / (p * q)


@compiled(inline="always")
def side(
    kind: int, tau: float, low: float, high: float, a: Any, F: Any, log_ratio: Any, work: Any, sums: Any
) -> None:  # fmt: skip
    """Add to `sums`: Fenchel-Young gap, penalty, violation of a constraint, <F, p>; set the mass.

    `log_ratio` is log(p/a): F less its soft minimum in the sweeps, but from p itself at a plan, because the difference
    of two potentials of size 1e12 knows it to 1e-4 only.  Terms go to `work` first and are summed after: a sum inside
    would keep `exp` from being vectorised.
    """
    gap, penalty, violation, p = work[0], work[1], work[2], work[3]
    n = a.shape[0]
    if kind == KL:
        inverse = 1.0 / tau
        for i in range(n):
            log_x = log_ratio[i]
            slope = exp(min(-F[i] * inverse, 700.0))
            r = log_x + F[i] * inverse
            x = exp(min(log_x, 700.0))
            series = slope * r * r * (0.5 + r * (1.0 / 3.0))
            gap[i] = tau * a[i] * max(x * r - x + slope if abs(r) > 1e-4 else series, 0.0)
            penalty[i] = tau * a[i] * (x * (log_x - 1.0) + 1.0)
            p[i] = a[i] * x
    else:
        for i in range(n):
            p[i] = exp(min(log_ratio[i], 700.0))
        for i in range(n):
            x = p[i]
            gap[i] = penalty[i] = violation[i] = 0.0
            if kind == TV:
                slope = -F[i] / tau
                gap[i] = (
                    a[i] * tau * (abs(x - 1.0) - min(max(slope, -1.0), 1.0) * (x - 1.0) + max(-1.0 - slope, 0.0) * x)
                )
                penalty[i] = a[i] * tau * abs(x - 1.0)
            elif kind == POWER:
                gap[i], penalty[i] = _power(low, log_ratio[i], -F[i] / tau)
                gap[i] = gap[i] * a[i] * tau if a[i] > 0.0 else 0.0
                penalty[i] *= a[i] * tau
            else:
                inside = min(max(x, low), high)
                violation[i] = a[i] * abs(x - inside)
                if kind == RANGE and F[i] != 0.0:
                    gap[i] = a[i] * abs(F[i]) * (high - inside if F[i] < 0.0 else inside - low)
            p[i] = a[i] * x
        sums[2] += total(violation)
    sums[0] += total(gap)
    sums[1] += total(penalty)
    sums[3] += dot(p, F)
    sums[4] = total(p)


@compiled(internal=True)
def _log_tilted_mass(inverse: float, a: Any, F: Any, work: Any) -> float:
    """log sum_i a_i e^{-F_i inverse}."""
    least = F[0]
    for i in range(a.shape[0]):
        least = min(least, F[i])
    for i in range(a.shape[0]):
        work[i] = a[i] * exp((least - F[i]) * inverse)
    return math.log(total(work)) - least * inverse


@compiled()
def translation(
    inverse_a: float, inverse_b: float, a: Any, b: Any, F: Any, G: Any, work_a: Any, work_b: Any
) -> float:  # fmt: skip
    """The t that makes the dual at (F + t, G - t) largest, for KL of price 1/inverse and exact marginals (0)."""
    mass_a, mass_b = _log_tilted_mass(inverse_a, a, F, work_a), _log_tilted_mass(inverse_b, b, G, work_b)
    return (mass_a - mass_b) / (inverse_a + inverse_b)


@compiled()
def log_ratios(p: Any, a: Any, out: Any) -> None:
    """log(p/a) of the plan itself, finite where p is zero; nothing is written where a is."""
    for i in range(p.shape[0]):
        if a[i] > 0.0:
            out[i] = log(max(p[i], 1e-300) / a[i])


@lru_cache(maxsize=8)
def side_of(kind: int) -> Any:
    """`side` for the kind."""

    @compiled()
    def side_of_kind(
        tau: float, low: float, high: float, a: Any, F: Any, log_ratio: Any, work: Any, sums: Any
    ) -> None:  # fmt: skip
        side(kind, tau, low, high, a, F, log_ratio, work, sums)

    return side_of_kind


@lru_cache(maxsize=8)
def step_of(kind: int) -> Any:
    """`step` for the kind."""

    @compiled()
    def step_of_kind(tau: float, low: float, high: float, soft: Any, omega: float, h: Any, out: Any) -> None:
        step(kind, tau, low, high, soft, omega, h, out)

    return step_of_kind


@lru_cache(maxsize=32)
def certifier(kind_a: int, kind_b: int) -> Any:
    """The certificate at epsilon = 0 for two kinds."""
    priced_a, priced_b = kind_a in (KL, TV), kind_b in (KL, TV)

    @compiled()
    def certify(
        C: Any, a: Any, b: Any, f: Any, g: Any, P: Any, tau_a: float, low_a: float, high_a: float,
        tau_b: float, low_b: float, high_b: float, rows: Any, columns: Any, out: Any,
    ) -> None:  # fmt: skip
        """Marginals, objective, gap and scale of the plan P and the potentials f + g <= C; weights > 0."""
        n, m = C.shape
        linear = size = slack = 0.0
        for j in range(m):
            columns[j] = 0.0
        for i in range(n):
            plan, cost, mass = P[i], C[i], 0.0
            for j in range(m):
                p = plan[j]
                mass += p
                if p != 0.0:
                    columns[j] += p
                    linear += p * cost[j]
                    size += p * abs(cost[j])
                    slack += p * max(cost[j] - f[i] - g[j], 0.0)
            rows[i] = mass
        log_a, log_b, sums = np.empty(n), np.empty(m), np.zeros(5)
        log_ratios(rows, a, log_a)
        log_ratios(columns, b, log_b)
        side(kind_a, tau_a, low_a, high_a, a, f, log_a, np.empty((4, n)), sums)
        mass = sums[4]
        side(kind_b, tau_b, low_b, high_b, b, g, log_b, np.empty((4, m)), sums)
        # where the optimum is zero, both gap and scale are rounding
        rounding = 1e-15 * size
        if priced_a:
            rounding += 1e-15 * tau_a * (total(a) + mass)
        if priced_b:
            rounding += 1e-15 * tau_b * (total(b) + mass)
        gap = slack + sums[0]
        if not sums[2] <= 1e-9 * (total(a) + total(b)):  # an exact marginal that is not
            gap = 1e300
        out[LINEAR], out[OBJECTIVE], out[SCALE] = linear, linear + sums[1], size + sums[1]
        out[GAP] = gap if gap > rounding else 0.0

    return certify
