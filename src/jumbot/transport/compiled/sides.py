"""The two marginals of one problem in the compiled sweeps: proximal steps, gaps, the best translation.

All is in units of epsilon (F = f/epsilon, tau/epsilon).  A divergence is a number here, its `kind`, because compiled
code takes no objects; `marginal.py` is the same for any divergence.
"""

from __future__ import annotations

import math
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


@compiled()
def step(kind: int, tau: float, low: float, high: float, soft: Any, omega: float, h: Any, out: Any) -> None:
    """out = the proximal step of the soft minimum from h, over-relaxed by omega, epsilon = 1."""
    n = soft.shape[0]
    if kind == KL:
        kappa = tau / (tau + 1.0)
        for i in range(n):
            out[i] = h[i] + omega * (kappa * soft[i] - h[i])
    elif kind == BALANCED:
        for i in range(n):
            out[i] = h[i] + omega * (soft[i] - h[i])
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


@compiled()
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
            x, s = p[i], -F[i] / tau
            gap[i] = penalty[i] = violation[i] = 0.0
            if kind == TV:
                gap[i] = a[i] * tau * (abs(x - 1.0) - min(max(s, -1.0), 1.0) * (x - 1.0) + max(-1.0 - s, 0.0) * x)
                penalty[i] = a[i] * tau * abs(x - 1.0)
            elif kind == POWER:
                gap[i], penalty[i] = _power(low, log_ratio[i], s)
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
def both_sides(
    kind_a: int, tau_a: float, low_a: float, high_a: float, a: Any, F: Any, log_a: Any, work_a: Any,
    kind_b: int, tau_b: float, low_b: float, high_b: float, b: Any, G: Any, log_b: Any, work_b: Any, sums: Any,
) -> float:  # fmt: skip
    """`side` of both marginals; returns the mass of the rows."""
    sums[:] = 0.0
    side(kind_a, tau_a, low_a, high_a, a, F, log_a, work_a, sums)
    mass = sums[4]
    side(kind_b, tau_b, low_b, high_b, b, G, log_b, work_b, sums)
    return mass


@compiled(internal=True)
def _log_tilted_mass(tau: float, a: Any, F: Any, work: Any) -> float:
    """log sum_i a_i e^{-F_i/tau}."""
    least = F[0]
    for i in range(a.shape[0]):
        least = min(least, F[i])
    for i in range(a.shape[0]):
        work[i] = a[i] * exp((least - F[i]) / tau)
    return math.log(total(work)) - least / tau


@compiled()
def translation(
    kind_a: int, tau_a: float, kind_b: int, tau_b: float, a: Any, b: Any, F: Any, G: Any, work_a: Any, work_b: Any
) -> float:
    """The t that makes the dual at (F + t, G - t) largest, for KL and exact marginals; else 0."""
    if kind_a > BALANCED or kind_b > BALANCED or (kind_a == BALANCED and kind_b == BALANCED):
        return 0.0
    log_a = _log_tilted_mass(tau_a, a, F, work_a) if kind_a == KL else math.log(total(a))
    log_b = _log_tilted_mass(tau_b, b, G, work_b) if kind_b == KL else math.log(total(b))
    weight = (1.0 / tau_a if kind_a == KL else 0.0) + (1.0 / tau_b if kind_b == KL else 0.0)
    return (log_a - log_b) / weight


@compiled()
def log_ratios(p: Any, a: Any, out: Any) -> None:
    """log(p/a) of the plan itself, finite where p is zero; nothing is written where a is."""
    for i in range(p.shape[0]):
        if a[i] > 0.0:
            out[i] = log(max(p[i], 1e-300) / a[i])


@compiled()
def certify_exact(
    C: Any, a: Any, b: Any, f: Any, g: Any, P: Any,
    kind_a: int, tau_a: float, low_a: float, high_a: float, kind_b: int, tau_b: float, low_b: float, high_b: float,
    rows: Any, columns: Any, out: Any,
) -> None:  # fmt: skip
    """epsilon = 0: marginals, objective, gap and scale of the plan P and the potentials f + g <= C; weights > 0."""
    n, m = C.shape
    linear = size = slack = 0.0
    columns[:] = 0.0
    for i in range(n):
        rows[i] = total(P[i])
        for j in range(m):
            p = P[i, j]
            if p != 0.0:
                columns[j] += p
                linear += p * C[i, j]
                size += p * abs(C[i, j])
                slack += p * max(C[i, j] - f[i] - g[j], 0.0)
    log_a, log_b, sums = np.empty(n), np.empty(m), np.empty(5)
    for i in range(n):
        log_a[i] = math.log(max(rows[i] / a[i], 1e-300))
    for j in range(m):
        log_b[j] = math.log(max(columns[j] / b[j], 1e-300))
    mass = both_sides(
        kind_a, tau_a, low_a, high_a, a, f, log_a, np.empty((4, n)),
        kind_b, tau_b, low_b, high_b, b, g, log_b, np.empty((4, m)), sums,
    )  # fmt: skip
    # where the optimum is zero, both gap and scale are rounding
    rounding = 1e-15 * size
    if kind_a in (KL, TV):
        rounding += 1e-15 * tau_a * (total(a) + mass)
    if kind_b in (KL, TV):
        rounding += 1e-15 * tau_b * (total(b) + mass)
    gap = slack + sums[0]
    if not sums[2] <= 1e-9 * (total(a) + total(b)):  # an exact marginal that is not
        gap = 1e300
    out[LINEAR], out[OBJECTIVE], out[SCALE] = linear, linear + sums[1], size + sums[1]
    out[GAP] = gap if gap > rounding else 0.0
