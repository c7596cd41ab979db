"""The two marginals of one problem in the compiled sweeps: proximal steps, gaps.

All is in units of epsilon (F = f/epsilon, tau/epsilon); `marginal.py` is the same for any divergence.  Each kind has
functions of its own, so that a caller holds what its kinds need and no more.
"""

from __future__ import annotations

import math
from typing import Any

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import set_all
from jumbot.transport._kernels.vectormath import NEAR, exp, greater, log, near_by_log
from jumbot.transport._marginal import MISSED
from jumbot.transport._outcome import BALANCED, KL, POWER, RANGE, TV


@compiled()
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
def step_kl(tau: float, low: float, high: float, soft: Any, omega: float, h: Any, out: Any) -> None:
    kept = tau / (tau + 1.0)
    for i in range(soft.shape[0]):
        out[i] = h[i] + omega * (kept * soft[i] - h[i])


@compiled()
def step_exact(tau: float, low: float, high: float, soft: Any, omega: float, h: Any, out: Any) -> None:
    for i in range(soft.shape[0]):
        out[i] = h[i] + omega * (soft[i] - h[i])


@compiled()
def step_tv(tau: float, low: float, high: float, soft: Any, omega: float, h: Any, out: Any) -> None:
    for i in range(soft.shape[0]):
        out[i] = min(max(h[i] + omega * (soft[i] - h[i]), -tau), tau)


@compiled()
def step_range(tau: float, low: float, high: float, soft: Any, omega: float, h: Any, out: Any) -> None:
    log_low = math.log(low) if low > 0.0 else -1e300
    log_high = math.log(high) if high < 1e300 else 1e300
    for i in range(soft.shape[0]):
        out[i] = max(h[i] + omega * (soft[i] + log_low - h[i]), 0.0) + min(
            h[i] + omega * (soft[i] + log_high - h[i]), 0.0
        )


@compiled()
def step_power(tau: float, low: float, high: float, soft: Any, omega: float, h: Any, out: Any) -> None:
    q = low - 1.0
    floor = -1e300 if q > 0.0 else tau / q  # the recession price, where there is one
    for i in range(soft.shape[0]):
        full = (tau - _lambert(math.log(tau) + tau - q * soft[i])) / q
        out[i] = max(h[i] + omega * (full - h[i]), floor)


@compiled()
def farthest(r: Any, x: Any, y: Any) -> float:
    """The largest |x - y| where there is weight."""
    most = 0.0
    for i in range(r.shape[0]):
        most = greater(most, abs(x[i] - y[i]) if r[i] > 0.0 else 0.0)
    return most


#: The gap where e^x was cut off: more than any, and proof of nothing.  Finite, or loops would not be vectorised safely.
OVER = 1e300


@compiled()
def _power(p: float, log_x: float, s: float) -> tuple[float, float]:
    """phi(x) + phi*(s) - s x = y^p phi(x/y) with y = phi*'(s), and phi(x), of the power divergence."""
    q = p - 1.0
    slope = 1.0 + q * s
    # e^600 times the potential of a closed row is still a float
    log_y = math.log(max(slope, 1e-300)) / q
    over = max(log_x, p * log_x, p * log_y, log_y if p > 0.0 else 0.0) > 600.0
    log_y = min(max(log_y, -600.0), 600.0)
    x, x_p = math.exp(min(log_x, 600.0)), math.exp(min(p * log_x, 600.0))
    y, y_p = math.exp(log_y), math.exp(min(p * log_y, 600.0))
    if slope <= 0.0 and q > 0.0:
        y = y_p = 0.0
    r = log_x - log_y
    if abs(r) < 1e-4 and y > 0.0:
        gap = y_p * r * r * (0.5 + r * (p + 1.0) / 6.0)
    else:
        gap = max((x_p - y_p - p * slope * (x - y)) / (p * q), 0.0)
    if over or (slope <= 0.0 and 0.0 < p < 1.0):  # the recession price proves nothing
        gap = math.inf
    if abs(log_x) < 1e-3:
        tail = (p + 1.0) / 6.0 + log_x * ((p * (p + 1.0) + 1.0) / 24.0 + log_x * (p + 1.0) * (p * p + 1.0) / 120.0)
        return gap, log_x * log_x * (0.5 + log_x * tail)
    return gap, (x_p - p * (x - 1.0) - 1.0) / (p * q)


@compiled(fastmath=True)
def _add_up(work: Any, F: Any, sums: Any) -> None:
    """What a side has written to `work`, added to `sums`."""
    for k in range(4):
        terms, result, product = work[k], 0.0, 0.0
        for i in range(F.shape[0]):
            result += terms[i]
            product += terms[i] * F[i]
        sums[k] += result if k < 3 else product
        sums[4] = result  # the last one is the mass


@compiled()
def side_kl(tau: float, low: float, high: float, a: Any, F: Any, log_ratio: Any, work: Any, sums: Any) -> None:
    gap, penalty, p, inverse = work[0], work[1], work[3], 1.0 / tau
    set_all(work[2], 0.0)
    for i in range(a.shape[0]):
        # a point without weight adds nothing, and its potential may be anything: 0 * inf would be NaN
        log_x, tilt = (log_ratio[i], F[i] * inverse) if a[i] > 0.0 else (0.0, 0.0)
        slope = exp(min(-tilt, 700.0))
        r = log_x + tilt
        x = exp(min(log_x, 700.0))
        far = x * r - x + slope
        gap[i] = tau * a[i] * max(far if abs(r) > NEAR else slope * near_by_log(r), 0.0) if log_x < 700.0 else OVER
        penalty[i] = tau * a[i] * (x * (log_x - 1.0) + 1.0 if abs(log_x) > NEAR else near_by_log(log_x))
        p[i] = a[i] * x
    _add_up(work, F, sums)


@compiled()
def side_tv(tau: float, low: float, high: float, a: Any, F: Any, log_ratio: Any, work: Any, sums: Any) -> None:
    gap, penalty, p = work[0], work[1], work[3]
    set_all(work[2], 0.0)
    for i in range(a.shape[0]):
        log_x, slope = log_ratio[i] if a[i] > 0.0 else 0.0, -F[i] / tau
        x = exp(min(log_x, 700.0))
        inside = min(max(slope, -1.0), 1.0)
        young = abs(x - 1.0) - inside * (x - 1.0) + max(-1.0 - slope, 0.0) * x
        gap[i] = a[i] * tau * young if log_x < 700.0 else OVER
        penalty[i] = a[i] * tau * abs(x - 1.0)
        p[i] = a[i] * x
    _add_up(work, F, sums)


@compiled()
def side_range(tau: float, low: float, high: float, a: Any, F: Any, log_ratio: Any, work: Any, sums: Any) -> None:
    """Of bounds, and of an exact marginal, whose bounds are both one."""
    gap, violation, p = work[0], work[2], work[3]
    set_all(work[1], 0.0)
    for i in range(a.shape[0]):
        x = exp(min(log_ratio[i], 700.0))
        inside = min(max(x, low), high)
        violation[i] = a[i] * abs(x - inside)
        slack = high - inside if F[i] < 0.0 else inside - low
        gap[i] = a[i] * abs(F[i]) * slack if F[i] != 0.0 else 0.0  # an upper bound may be infinite
        p[i] = a[i] * x
    _add_up(work, F, sums)


@compiled()
def side_exact(tau: float, low: float, high: float, a: Any, F: Any, log_ratio: Any, work: Any, sums: Any) -> None:
    """Of a marginal that the last step meets: the violation is the square of what is left to do."""
    violation, p = work[2], work[3]
    set_all(work[0], 0.0)
    set_all(work[1], 0.0)
    for i in range(a.shape[0]):
        x = exp(min(log_ratio[i], 300.0)) if a[i] > 0.0 else 1.0
        violation[i] = a[i] * (x - 1.0) * (x - 1.0)
        p[i] = a[i] * x
    _add_up(work, F, sums)


@compiled()
def refit(a: Any, w: Any, s: Any, times: float) -> bool:
    """w such that the sums times w s are a; False, with nothing of use, where too little is left of them."""
    lost = 0.0
    for i in range(a.shape[0]):
        p = times * s[i]
        lost += a[i] if not p > 1e-280 else 0.0
        w[i] = a[i] / max(p, 1e-280)
    return lost == 0.0


@compiled()
def misses(p: Any, a: Any) -> bool:
    """Whether an exact marginal is missed by more than rounding, as where potentials are too large to know a plan."""
    off, mass = 0.0, 0.0
    for i in range(a.shape[0]):
        off += abs(p[i] - a[i])
        mass += a[i]
    return not off <= MISSED * mass


@compiled()
def side_power(tau: float, low: float, high: float, a: Any, F: Any, log_ratio: Any, work: Any, sums: Any) -> None:
    gap, penalty, p = work[0], work[1], work[3]
    set_all(work[2], 0.0)
    for i in range(a.shape[0]):
        gap[i], penalty[i] = _power(low, log_ratio[i], -F[i] / tau)
        gap[i] = gap[i] * a[i] * tau if a[i] > 0.0 else 0.0
        penalty[i] *= a[i] * tau
        p[i] = a[i] * exp(min(log_ratio[i], 700.0))
    _add_up(work, F, sums)


#: The functions of each kind.  `step(tau, low, high, soft, omega, h, out)`: out = the proximal step of the soft minimum
#: from h, over-relaxed by omega.  `side(tau, low, high, a, F, log_ratio, work, sums)`: add to `sums` Fenchel-Young gap,
#: penalty, violation of a constraint, <F, p>; set the mass.  `log_ratio` is log(p/a): F less its soft minimum in the
#: sweeps, but from p itself at a plan, because the difference of two potentials of size 1e12 knows it to 1e-4 only.
#: Terms go to `work` first and are summed after: a sum inside would keep `exp` from being vectorised.
STEPS: dict[int, Any] = {KL: step_kl, BALANCED: step_exact, TV: step_tv, RANGE: step_range, POWER: step_power}
SIDES: dict[int, Any] = {KL: side_kl, BALANCED: side_range, TV: side_tv, RANGE: side_range, POWER: side_power}


@compiled()
def log_ratios(p: Any, a: Any, out: Any) -> None:
    """log(p/a) of the plan itself, finite where p is zero; nothing is written where a is."""
    for i in range(p.shape[0]):
        if a[i] > 0.0:
            out[i] = log(max(p[i], 1e-300) / a[i])
