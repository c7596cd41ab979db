"""The sweeps of `sinkhorn.py`, fused into one loop a problem for the CPU.

At 64 to 128 points a sweep is a microsecond of arithmetic, far less than one call into torch.  All is float64 and
in units of epsilon (F = f/epsilon, cost C/epsilon, tau/epsilon): float32 would meet denormals, ten times slower.

The kernel K = e^{F0 + G0 - C/epsilon} has its row and column maxima at one, and entries below e^-CUT are dropped.
A pass over it is exact to e^(SPREAD - CUT) while the log-scalings of the other side spread by at most SPREAD;
where they spread further K is built anew around the current potentials.  The certificate never uses K: it is
evaluated at the plan itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jumbot.transport.mixing import DEPTH, LARGEST_TAU, STRIKES, SWEEPS, mix, remember
from jumbot.transport.vectormath import compiled, exp, log

CUT = 400.0
SPREAD = 250.0
HUGE = 1e200
GROWTH = 4.0  # of the squared residual, after which past images mislead
KL, BALANCED, TV, RANGE, CHI2 = range(5)
#: columns of the statistics that a problem returns
ITERATIONS, LINEAR, OBJECTIVE, GAP, SCALE = range(5)


@compiled(fastmath=True)
def row_sums(K: Any, w: Any, s: Any) -> None:
    n, m = K.shape
    blocked = n // 4 * 4
    for i in range(0, blocked, 4):
        s0 = s1 = s2 = s3 = 0.0
        for j in range(m):
            s0 += K[i, j] * w[j]
            s1 += K[i + 1, j] * w[j]
            s2 += K[i + 2, j] * w[j]
            s3 += K[i + 3, j] * w[j]
        s[i], s[i + 1], s[i + 2], s[i + 3] = s0, s1, s2, s3
    for i in range(blocked, n):
        total = 0.0
        for j in range(m):
            total += K[i, j] * w[j]
        s[i] = total


@compiled(fastmath=True)
def add_columns(K: Any, w: Any, t: Any) -> None:
    """t += K' w."""
    n, m = K.shape
    blocked = n // 8 * 8
    for i in range(0, blocked, 8):
        w0, w1, w2, w3 = w[i], w[i + 1], w[i + 2], w[i + 3]
        w4, w5, w6, w7 = w[i + 4], w[i + 5], w[i + 6], w[i + 7]
        for j in range(m):
            t[j] += (w0 * K[i, j] + w1 * K[i + 1, j] + w2 * K[i + 2, j] + w3 * K[i + 3, j]) + (
                w4 * K[i + 4, j] + w5 * K[i + 5, j] + w6 * K[i + 6, j] + w7 * K[i + 7, j]
            )
    for i in range(blocked, n):
        wi = w[i]
        for j in range(m):
            t[j] += wi * K[i, j]


@compiled()
def column_sums(K: Any, w: Any, t: Any) -> None:
    t[:] = 0.0
    add_columns(K, w, t)


@compiled(fastmath=True)
def row_minima(C: Any, scale: float, G: Any, skip: Any, out: Any) -> None:
    n, m = C.shape
    blocked = m // 8 * 8
    for i in range(n):  # a minimum is not vectorised across a row, but eight running ones are
        m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = 1e300
        for j in range(0, blocked, 8):
            m0 = min(m0, C[i, j] * scale - G[j] + skip[j])
            m1 = min(m1, C[i, j + 1] * scale - G[j + 1] + skip[j + 1])
            m2 = min(m2, C[i, j + 2] * scale - G[j + 2] + skip[j + 2])
            m3 = min(m3, C[i, j + 3] * scale - G[j + 3] + skip[j + 3])
            m4 = min(m4, C[i, j + 4] * scale - G[j + 4] + skip[j + 4])
            m5 = min(m5, C[i, j + 5] * scale - G[j + 5] + skip[j + 5])
            m6 = min(m6, C[i, j + 6] * scale - G[j + 6] + skip[j + 6])
            m7 = min(m7, C[i, j + 7] * scale - G[j + 7] + skip[j + 7])
        least = min(min(min(m0, m1), min(m2, m3)), min(min(m4, m5), min(m6, m7)))
        for j in range(blocked, m):
            least = min(least, C[i, j] * scale - G[j] + skip[j])
        out[i] = least


@compiled(fastmath=True)
def lower_column_minima(C: Any, scale: float, F: Any, skip: Any, out: Any) -> None:
    n, m = C.shape
    for i in range(n):
        shift = skip[i] - F[i]
        for j in range(m):
            out[j] = min(out[j], C[i, j] * scale + shift)


@compiled(fastmath=True)
def column_minima(C: Any, scale: float, F: Any, skip: Any, out: Any) -> None:
    out[:] = 1e300
    lower_column_minima(C, scale, F, skip, out)


@compiled()
def minima(C: Any, scale: float, G: Any, skip_a: Any, skip_b: Any, F0: Any, G0: Any) -> None:
    """Row minima F0, then column minima G0 at F0, reading C once: eight rows stay in the cache in between."""
    n = C.shape[0]
    G0[:] = 1e300
    for i in range(0, n, 8):
        j = min(i + 8, n)
        row_minima(C[i:j], scale, G, skip_b, F0[i:j])
        lower_column_minima(C[i:j], scale, F0[i:j], skip_a[i:j], G0)


@compiled()
def _kernel_row(C: Any, scale: float, shift: float, G: Any, cut: float, K: Any) -> None:
    for j in range(C.shape[0]):
        x = min(shift + G[j] - C[j] * scale, 0.0)
        K[j] = exp(x) if x > -cut else 0.0


@compiled()
def fill(C: Any, scale: float, F: Any, G: Any, cut: float, K: Any) -> None:
    for i in range(C.shape[0]):
        _kernel_row(C[i], scale, F[i], G, cut, K[i])


@compiled()
def _build(
    C: Any, scale: float, F: Any, G: Any, skip_a: Any, skip_b: Any, rows_first: bool, F0: Any, G0: Any, K: Any
) -> None:
    """K around F0, G0 whose row and column maxima are one: made for a pass over rows at G, or over columns at F."""
    if rows_first:
        row_minima(C, scale, G, skip_b, F0)
        column_minima(C, scale, F0, skip_a, G0)
    else:
        column_minima(C, scale, F, skip_a, G0)
        row_minima(C, scale, G0, skip_b, F0)
    fill(C, scale, F0, G0, CUT, K)


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
        for i in range(n):
            full = 2.0 * tau - _lambert(math.log(2.0 * tau) + 2.0 * tau - soft[i])
            out[i] = h[i] + omega * (full - h[i])


@compiled(fastmath=True)
def total(x: Any) -> float:
    result = 0.0
    for i in range(x.shape[0]):
        result += x[i]
    return result


@compiled(fastmath=True)
def dot(x: Any, y: Any) -> float:
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@compiled()
def side(
    kind: int, tau: float, low: float, high: float, a: Any, F: Any, soft: Any, work: Any, sums: Any
) -> None:  # fmt: skip
    """Add to `sums`: Fenchel-Young gap, penalty, violation of a constraint, <F, p>; set the mass.

    Terms go to `work` first and are summed after: a sum inside would keep `exp` from being vectorised.
    """
    gap, penalty, violation, p = work[0], work[1], work[2], work[3]
    n = a.shape[0]
    if kind == KL:
        inverse = 1.0 / tau
        for i in range(n):
            log_x = F[i] - soft[i]
            slope = exp(min(-F[i] * inverse, 700.0))
            r = log_x + F[i] * inverse
            x = exp(min(log_x, 700.0))
            series = slope * r * r * (0.5 + r * (1.0 / 3.0))
            gap[i] = tau * a[i] * (x * r - x + slope if abs(r) > 1e-4 else series)
            penalty[i] = tau * a[i] * (x * (log_x - 1.0) + 1.0)
            p[i] = a[i] * x
    else:
        for i in range(n):
            p[i] = exp(min(F[i] - soft[i], 700.0))
        for i in range(n):
            x, s = p[i], -F[i] / tau
            gap[i] = penalty[i] = violation[i] = 0.0
            if kind == TV:
                gap[i] = a[i] * tau * (abs(x - 1.0) - min(max(s, -1.0), 1.0) * (x - 1.0) + max(-1.0 - s, 0.0) * x)
                penalty[i] = a[i] * tau * abs(x - 1.0)
            elif kind == CHI2:
                gap[i] = a[i] * tau * ((x - 1.0 - 0.5 * s) ** 2 if s > -2.0 else x * (x - 2.0 - s))
                penalty[i] = a[i] * tau * (x - 1.0) ** 2
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


@compiled()
def _sides(
    kind_a: int, tau_a: float, low_a: float, high_a: float, a: Any, F: Any, soft_a: Any, work_a: Any,
    kind_b: int, tau_b: float, low_b: float, high_b: float, b: Any, G: Any, soft_b: Any, work_b: Any, sums: Any,
) -> float:  # fmt: skip
    """`side` of both marginals; returns the mass of the rows."""
    sums[:] = 0.0
    side(kind_a, tau_a, low_a, high_a, a, F, soft_a, work_a, sums)
    mass = sums[4]
    side(kind_b, tau_b, low_b, high_b, b, G, soft_b, work_b, sums)
    return mass


@compiled()
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
def _plan_row(C: Any, scale: float, shift: float, weight: float, r_b: Any, G: Any, P: Any) -> None:
    for j in range(C.shape[0]):
        x = min(shift + G[j] - C[j] * scale, 700.0)
        P[j] = weight * r_b[j] * exp(x) if x > -650.0 else 0.0


@compiled(fastmath=True)
def _plan_sums(P: Any, C: Any, columns: Any) -> tuple[float, float, float]:
    """Mass, <C, P> and <|C|, P> of a row, which is added to `columns`, in one loop: long rows leave the cache."""
    mass = linear = size = 0.0
    for j in range(P.shape[0]):
        p = P[j]
        columns[j] += p
        mass += p
        linear += p * C[j]
        size += p * abs(C[j])
    return mass, linear, size


@compiled()
def write_plan(
    C: Any, scale: float, r_a: Any, r_b: Any, F: Any, G: Any, P: Any, rows: Any, columns: Any
) -> tuple[float, float]:  # fmt: skip
    """P = R e^{F + G - C/epsilon} with its marginals; returns <C, P> and <|C|, P>."""
    columns[:] = 0.0
    linear = size = 0.0
    for i in range(C.shape[0]):
        _plan_row(C[i], scale, F[i], r_a[i], r_b, G, P[i])
        rows[i], row_linear, row_size = _plan_sums(P[i], C[i], columns)
        linear += row_linear
        size += row_size
    return linear, size


@compiled(fastmath=True)
def scale_to_plan(K: Any, u: Any, v: Any, C: Any, rows: Any, columns: Any) -> tuple[float, float]:
    """K becomes P = u K v, as `write_plan` without its exponentials, a sixth of the time."""
    n, m = K.shape
    columns[:] = 0.0
    linear = size = 0.0
    for i in range(n):
        for j in range(m):
            K[i, j] = u[i] * K[i, j] * v[j]
            columns[j] += K[i, j]
        mass = 0.0
        for j in range(m):
            p = K[i, j]
            mass += p
            linear += p * C[i, j]
            size += p * abs(C[i, j])
        rows[i] = mass
    return linear, size


@compiled()
def soft_from_marginal(F: Any, p: Any, a: Any, soft: Any) -> None:
    """The soft minimum that the plan itself shows; where a marginal underflows the kernel's own stays."""
    for i in range(F.shape[0]):
        if p[i] > 1e-290 and a[i] > 0.0:
            soft[i] = F[i] - log(p[i] / a[i])


@compiled()
def spread(x: Any, r: Any) -> float:
    low, high = 1e300, -1e300
    for i in range(x.shape[0]):
        v = x[i]
        low = min(low, v if r[i] > 0.0 else 1e300)
        high = max(high, v if r[i] > 0.0 else -1e300)
    return high - low


@compiled()
def scalings(r: Any, log_scaling: Any, out: Any) -> float:
    """out = r e^{log_scaling - top}; returns top."""
    top = -1e300
    for i in range(r.shape[0]):
        top = max(top, log_scaling[i] if r[i] > 0.0 else -1e300)
    for i in range(r.shape[0]):
        x = min(log_scaling[i] - top, 0.0)
        out[i] = r[i] * exp(x) if x > -SPREAD * 2 else 0.0
    return top


@compiled()
def _solve(
    C: Any, a: Any, b: Any, r_a: Any, r_b: Any, o_a: Any, o_b: Any, epsilon: float,
    kind_a: int, tau_a: float, low_a: float, high_a: float, kind_b: int, tau_b: float, low_b: float, high_b: float,
    cold: bool, tol: float, limit: int, price: float,
    F: Any, G: Any, P: Any, rows: Any, columns: Any, out: Any,
) -> None:  # fmt: skip
    n, m = C.shape
    scale = 1.0 / epsilon
    K = P  # the buffer holds the kernel until the plan is written
    F0, G0 = np.empty(n), np.empty(m)
    log_u, log_v = np.empty(n), np.empty(m)
    soft_a, soft_b = np.empty(n), np.empty(m)
    s, t, w_a, w_b, h_b = np.empty(n), np.empty(m), np.empty(n), np.empty(m), np.empty(m)
    skip_a, skip_b = np.zeros(n), np.zeros(m)
    work_a, work_b, sums = np.empty((4, n)), np.empty((4, m)), np.empty(5)
    for i in range(n):
        skip_a[i] = 0.0 if r_a[i] > 0.0 else 1e200
    for j in range(m):
        skip_b[j] = 0.0 if r_b[j] > 0.0 else 1e200
    hard = kind_a in (BALANCED, RANGE) or kind_b in (BALANCED, RANGE)

    kappa_a = tau_a / (tau_a + 1.0) if kind_a == KL else 1.0
    kappa_b = tau_b / (tau_b + 1.0) if kind_b == KL else 1.0
    known = kind_a <= BALANCED and kind_b <= BALANCED and (kind_a == KL or kind_b == KL)
    best_omega = 2.0 / (1.0 + math.sqrt(1.0 - kappa_a * kappa_b)) if known else 1.0
    entropy_bound = math.log(1.0 * m)
    mixing = kind_a == KL and kind_b == KL and max(tau_a, tau_b) <= LARGEST_TAU
    images, residuals = np.empty((DEPTH + 1, m)), np.empty((DEPTH + 1, m))
    normal, share = np.empty((DEPTH, DEPTH)), np.empty(DEPTH)
    known_images, strikes, last_norm, worth = 0, 0, 1e300, -1.0

    if cold:
        for j in range(m):
            G[j] = 0.0
    _build(C, scale, F, G, skip_a, skip_b, True, F0, G0, K)
    if cold:
        shift = translation(kind_a, tau_a, kind_b, tau_b, a, b, F0, G0, work_a[0], work_b[0])
        for i in range(n):
            F[i] = F0[i] + shift
        for j in range(m):
            G[j] = G0[j] - shift
    fresh = True

    sweep = 0
    ramp = 0
    safety = 1.0
    last_residual, best_residual, last_sweep, growth = -1.0, 1e300, 0, 0
    every = 1 if n * m > 20000 else 2
    next_check, last_check, last_estimate = every, 0, 0.0
    while True:
        sweep += 1
        # rows: F given G
        for j in range(m):
            log_v[j] = G[j] - G0[j]
        if not fresh and spread(log_v, r_b) > SPREAD:
            _build(C, scale, F, G, skip_a, skip_b, True, F0, G0, K)
            for j in range(m):
                log_v[j] = G[j] - G0[j]
        fresh = False
        top = scalings(r_b, log_v, w_b)
        row_sums(K, w_b, s)
        for i in range(n):
            soft_a[i] = F0[i] + o_a[i] - top - log(s[i])
        omega = 1.0
        if sweep > 1 and best_omega > 1.0 and not mixing:
            ramp += 1
            omega = min(best_omega, 2.0 - 6.0 / (ramp + 6.0))
        step(kind_a, tau_a, low_a, high_a, soft_a, omega, F, F)
        # columns: G given F
        for i in range(n):
            log_u[i] = F[i] - F0[i]
        if spread(log_u, r_a) > SPREAD:
            _build(C, scale, F, G, skip_a, skip_b, False, F0, G0, K)
            for i in range(n):
                log_u[i] = F[i] - F0[i]
        top = scalings(r_a, log_u, w_a)
        column_sums(K, w_a, t)
        for j in range(m):
            soft_b[j] = G0[j] + o_b[j] - top - log(t[j])
        step(kind_b, tau_b, low_b, high_b, soft_b, omega, G, h_b)

        if mixing:
            norm = remember(G, h_b, b, tau_b, sweep, images, residuals, w_b)
            known_images += 1
            if not norm <= GROWTH * last_norm:
                strikes, known_images = strikes + 1, 1
            last_norm = norm
            # rows are at their optimum, so all of the gap is on the columns, and the residual tells it
            if worth >= 0.0:
                next_check = sweep if 2.0 * tau_b * norm <= kappa_b**2 * safety * tol * worth else sweep + 1
        check = sweep >= next_check or sweep >= limit
        if check:
            mass_a = _sides(
                kind_a, tau_a, low_a, high_a, a, F, soft_a, work_a,
                kind_b, tau_b, low_b, high_b, b, G, soft_b, work_b, sums,
            )  # fmt: skip
            # <C, P> from below: <F, p> + <G, q> = <C, P> + <P, log(P/R)>, the last at most mass log m
            worth = sums[1] + mass_a + max(0.0, sums[3] - mass_a * entropy_bound)
            estimate = sums[0] + price * scale * sums[2]
            # a check costs as much as a sweep or two: the next one where half of the way to tol should be left
            wait = every
            if every > 1 and 0.0 < estimate < last_estimate and worth < HUGE:
                rate = math.log(last_estimate / estimate) / (sweep - last_check)
                ahead = math.log(max(estimate / max(safety * tol * worth, 1e-300), 1.0)) / rate
                wait = max(every, min(int(0.5 * ahead), 12))
            last_estimate, last_check, next_check = estimate, sweep, sweep + wait
            # over-relaxation may pass through plans that overflow, whose gap means nothing
            if (estimate <= safety * tol * worth and worth < HUGE) or sweep >= limit:
                for i in range(n):
                    log_u[i] = F[i] - F0[i]
                for j in range(m):
                    log_v[j] = G[j] - G0[j]
                top = scalings(r_a, log_u, w_a) + scalings(r_b, log_v, t)
                if max(spread(log_u, r_a), spread(log_v, r_b)) <= SPREAD and abs(top) <= SPREAD:
                    for i in range(n):
                        w_a[i] *= math.exp(top)
                    linear, size = scale_to_plan(K, w_a, t, C, rows, columns)
                else:
                    linear, size = write_plan(C, scale, r_a, r_b, F, G, P, rows, columns)
                soft_from_marginal(F, rows, a, soft_a)
                soft_from_marginal(G, columns, b, soft_b)
                mass = _sides(
                    kind_a, tau_a, low_a, high_a, a, F, soft_a, work_a,
                    kind_b, tau_b, low_b, high_b, b, G, soft_b, work_b, sums,
                )  # fmt: skip
                mass = total(rows)
                weight = size + epsilon * (sums[1] + mass)
                # <C, P> + epsilon <P, log(P/R)> = epsilon (<F, p> + <G, q>)
                value = epsilon * (dot(F, rows) + dot(G, columns) - mass + sums[1])
                gap = epsilon * sums[0]
                out[ITERATIONS], out[LINEAR], out[OBJECTIVE], out[GAP], out[SCALE] = sweep, linear, value, gap, weight
                if hard or (gap <= tol * weight and weight < HUGE) or sweep >= limit:
                    break
                safety *= max(0.5 * tol * weight / gap, 1e-3)
                fill(C, scale, F0, G0, CUT, K)
            residual = 0.0
            for j in range(m):
                residual = max(residual, abs(h_b[j] - G[j]) / omega if r_b[j] > 0.0 else 0.0)
            if mixing:
                pass
            elif known:  # over-relaxation overshoots for a while; only a lasting rise means too far
                best_residual = min(best_residual, residual)
                growth = growth + 1 if residual > 100.0 * best_residual else 0
                if growth >= 40:
                    best_omega, best_residual = 1.0 + 0.5 * (best_omega - 1.0), residual
                    ramp, growth = 0, 0
            elif sweep - last_sweep >= 12 and residual > 0.0:
                if last_residual > 0.0 and omega >= best_omega:
                    rate = (residual / last_residual) ** (1.0 / (sweep - last_sweep))
                    if best_omega - 1.0 < rate < 1.0:
                        # Young's relation between the rate of the relaxed and of the plain sweep
                        plain = (rate + best_omega - 1.0) ** 2 / (best_omega**2 * rate)
                        better = 2.0 / (1.0 + math.sqrt(1.0 - min(plain, 1.0 - 1e-7)))
                        best_omega = max(best_omega, better)
                    elif rate >= 1.0:
                        best_omega = 1.0 + 0.7 * (best_omega - 1.0)
                last_residual, last_sweep = residual, sweep
        if mixing and strikes < STRIKES and sweep < SWEEPS:
            mix(images, residuals, w_b, sweep, known_images, normal, share, G)
            continue
        if mixing:  # over-relaxation from here, with a shorter ramp because the start is better
            mixing, ramp, next_check = False, 6, sweep + every
        for j in range(m):
            G[j] = h_b[j]
        if check and kind_a <= BALANCED and kind_b <= BALANCED:
            shift = translation(kind_a, tau_a, kind_b, tau_b, a, b, F, G, work_a[0], work_b[0])
            for i in range(n):
                F[i] += shift
            for j in range(m):
                G[j] -= shift


@compiled()
def _solve_symmetric(
    C: Any, a: Any, r: Any, o: Any, epsilon: float, kind: int, tau: float, low: float, high: float,
    tol: float, limit: int, price: float, F: Any, P: Any, rows: Any, out: Any,
) -> None:  # fmt: skip
    """C = C' >= 0 with zero diagonal, a = b: the averaged fixed point F <- (F + T F)/2.

    It halves the error a sweep where e^{-C/epsilon} is a positive kernel.  The diagonal of K is one, so K needs no
    absorption while the potentials spread by less than SPREAD; beyond that the general sweep takes over.
    """
    n = C.shape[0]
    scale = 1.0 / epsilon
    K = P
    soft, s, w, h, columns = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    work, sums = np.empty((4, n)), np.empty(5)
    F[:] = 0.0
    hard = kind in (BALANCED, RANGE)
    fill(C, scale, F, F, CUT, K)
    sweep = 0
    safety = 1.0
    while True:
        sweep += 1
        top = scalings(r, F, w)
        row_sums(K, w, s)
        for i in range(n):
            soft[i] = o[i] - top - log(s[i])
        step(kind, tau, low, high, soft, 0.5, F, h)
        sums[:] = 0.0
        side(kind, tau, low, high, a, F, soft, work, sums)
        worth = 2.0 * sums[1] + sums[4] + max(0.0, 2.0 * sums[3] - sums[4] * math.log(1.0 * n))
        last = sweep >= limit or spread(F, r) > SPREAD
        if last or 2.0 * (sums[0] + price * scale * sums[2]) <= safety * tol * worth:
            linear, size = write_plan(C, scale, r, r, F, F, P, rows, columns)
            soft_from_marginal(F, rows, a, soft)
            sums[:] = 0.0
            side(kind, tau, low, high, a, F, soft, work, sums)
            mass = total(rows)
            weight = size + epsilon * (2.0 * sums[1] + mass)
            value = epsilon * (2.0 * dot(F, rows) - mass + 2.0 * sums[1])
            gap = 2.0 * epsilon * sums[0]
            out[ITERATIONS], out[LINEAR], out[OBJECTIVE], out[GAP], out[SCALE] = sweep, linear, value, gap, weight
            if hard or last or gap <= tol * weight:
                break
            safety *= max(0.5 * tol * weight / gap, 1e-3)
            F_zero = s
            F_zero[:] = 0.0
            fill(C, scale, F_zero, F_zero, CUT, K)
        for i in range(n):
            F[i] = h[i]


@compiled()
def solve_range(
    C: Any, a: Any, b: Any, r_a: Any, r_b: Any, o_a: Any, o_b: Any, epsilon: float,
    kind_a: int, tau_a: float, low_a: float, high_a: float, kind_b: int, tau_b: float, low_b: float, high_b: float,
    cold: bool, tol: float, limit: int, price: Any,
    F: Any, G: Any, P: Any, rows: Any, columns: Any, out: Any, first: int, last: int,
) -> None:  # fmt: skip
    """Solve the problems first <= k < last of the batch in place; F and G come in and go out in units of epsilon."""
    many_a, many_b = a.shape[0] > 1, b.shape[0] > 1
    for k in range(first, last):
        ka, kb = (k if many_a else 0), (k if many_b else 0)
        _solve(
            C[k], a[ka], b[kb], r_a[ka], r_b[kb], o_a[ka], o_b[kb], epsilon,
            kind_a, tau_a, low_a, high_a, kind_b, tau_b, low_b, high_b,
            cold, tol, limit, price[k], F[k], G[k], P[k], rows[k], columns[k], out[k],
        )  # fmt: skip


@compiled()
def solve_symmetric_range(
    C: Any, a: Any, r: Any, o: Any, epsilon: float, kind: int, tau: float, low: float, high: float,
    tol: float, limit: int, price: Any, F: Any, P: Any, rows: Any, out: Any, first: int, last: int,
) -> None:  # fmt: skip
    """The same for symmetric problems."""
    many = a.shape[0] > 1
    for k in range(first, last):
        at = k if many else 0
        _solve_symmetric(
            C[k], a[at], r[at], o[at], epsilon, kind, tau, low, high,
            tol, limit, price[k], F[k], P[k], rows[k], out[k],
        )  # fmt: skip


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
    soft_a, soft_b, sums = np.empty(n), np.empty(m), np.empty(5)
    for i in range(n):
        soft_a[i] = f[i] - math.log(max(rows[i] / a[i], 1e-300))
    for j in range(m):
        soft_b[j] = g[j] - math.log(max(columns[j] / b[j], 1e-300))
    mass = _sides(
        kind_a, tau_a, low_a, high_a, a, f, soft_a, np.empty((4, n)),
        kind_b, tau_b, low_b, high_b, b, g, soft_b, np.empty((4, m)), sums,
    )  # fmt: skip
    # where the optimum is zero, both gap and scale are rounding
    rounding = 1e-15 * size
    if kind_a in (KL, TV):
        rounding += 1e-15 * tau_a * (total(a) + mass)
    if kind_b in (KL, TV):
        rounding += 1e-15 * tau_b * (total(b) + mass)
    gap = slack + sums[0]
    out[LINEAR], out[OBJECTIVE], out[SCALE] = linear, linear + sums[1], size + sums[1]
    out[GAP] = gap if gap > rounding else 0.0
