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

from jumbot.transport.vectormath import compiled, exp, log

CUT = 400.0
SPREAD = 250.0
KL, BALANCED, TV, RANGE, CHI2 = range(5)
#: columns of the statistics that a problem returns
ITERATIONS, LINEAR, SIZE, PENALTY, GAP, ENTROPY, MASS, ESTIMATE = range(8)


@compiled(fastmath=True)
def _row_sums(K: Any, w: Any, s: Any) -> None:
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
def _column_sums(K: Any, w: Any, t: Any) -> None:
    n, m = K.shape
    t[:] = 0.0
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
def _row_minima(C: Any, scale: float, G: Any, skip: Any, out: Any) -> None:
    n, m = C.shape
    for i in range(n):
        least = 1e300
        for j in range(m):
            least = min(least, C[i, j] * scale - G[j] + skip[j])
        out[i] = least


@compiled()
def _column_minima(C: Any, scale: float, F: Any, skip: Any, out: Any) -> None:
    n, m = C.shape
    out[:] = 1e300
    for i in range(n):
        shift = skip[i] - F[i]
        for j in range(m):
            out[j] = min(out[j], C[i, j] * scale + shift)


@compiled()
def _fill(C: Any, scale: float, F: Any, G: Any, K: Any) -> None:
    n, m = C.shape
    for i in range(n):
        for j in range(m):
            x = min(F[i] + G[j] - C[i, j] * scale, 0.0)
            K[i, j] = exp(x) if x > -CUT else 0.0


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
def _step(kind: int, tau: float, low: float, high: float, soft: Any, out: Any) -> None:
    """out = the proximal step of the soft minimum, epsilon = 1."""
    n = soft.shape[0]
    if kind == KL:
        kappa = tau / (tau + 1.0)
        for i in range(n):
            out[i] = kappa * soft[i]
    elif kind == BALANCED:
        for i in range(n):
            out[i] = soft[i]
    elif kind == TV:
        for i in range(n):
            out[i] = min(max(soft[i], -tau), tau)
    elif kind == RANGE:
        log_low = math.log(low) if low > 0.0 else -1e300
        log_high = math.log(high) if high < 1e300 else 1e300
        for i in range(n):
            out[i] = max(soft[i] + log_low, 0.0) + min(soft[i] + log_high, 0.0)
    else:
        for i in range(n):
            out[i] = 2.0 * tau - _lambert(math.log(2.0 * tau) + 2.0 * tau - soft[i])


@compiled()
def _side(
    kind: int, tau: float, low: float, high: float, a: Any, F: Any, soft: Any, sums: Any
) -> None:  # fmt: skip
    """Add to `sums`: Fenchel-Young gap, penalty, violation of a constraint, <F, p>, mass."""
    gap = penalty = violation = cross = mass = 0.0
    n = a.shape[0]
    if kind == KL:
        for i in range(n):
            log_x = F[i] - soft[i]
            slope = exp(-F[i] / tau)
            r = min(log_x + F[i] / tau, 700.0)
            e = exp(r)
            exact = r * e - e + 1.0
            gap += a[i] * slope * (exact if abs(r) > 1e-4 else r * r * (0.5 + r * (1.0 / 3.0)))
            x = slope * e
            penalty += a[i] * (x * log_x - x + 1.0)
            cross += a[i] * x * F[i]
            mass += a[i] * x
        gap, penalty = gap * tau, penalty * tau
    else:
        for i in range(n):
            x = exp(min(F[i] - soft[i], 700.0))
            if kind == TV:
                s = -F[i] / tau
                gap += a[i] * tau * (abs(x - 1.0) - max(s, -1.0) * (x - 1.0) + max(-1.0 - s, 0.0) * x)
                penalty += a[i] * tau * abs(x - 1.0)
            elif kind == CHI2:
                s = -F[i] / tau
                gap += a[i] * tau * ((x - 1.0 - 0.5 * s) ** 2 if s > -2.0 else x * (x - 2.0 - s))
                penalty += a[i] * tau * (x - 1.0) ** 2
            else:
                inside = min(max(x, low), high)
                violation += a[i] * abs(x - inside)
                if kind == RANGE:
                    s = -F[i]
                    slack = high - inside if s > 0.0 else inside - low
                    gap += a[i] * abs(s) * slack if s != 0.0 else 0.0
            cross += a[i] * x * F[i]
            mass += a[i] * x
    sums[0] += gap
    sums[1] += penalty
    sums[2] += violation
    sums[3] += cross
    sums[4] = mass


@compiled()
def _translation(kind_a: int, tau_a: float, kind_b: int, tau_b: float, a: Any, b: Any, F: Any, G: Any) -> float:
    """The t that makes the dual at (F + t, G - t) largest, for KL and exact marginals; else 0."""
    if kind_a > BALANCED or kind_b > BALANCED or (kind_a == BALANCED and kind_b == BALANCED):
        return 0.0
    log_a = log_b = 0.0
    if kind_a == KL:
        top = F[0]
        for i in range(a.shape[0]):
            top = min(top, F[i])
        total = 0.0
        for i in range(a.shape[0]):
            total += a[i] * exp((top - F[i]) / tau_a)
        log_a = math.log(total) - top / tau_a
    else:
        log_a = math.log(a.sum())
    if kind_b == KL:
        top = G[0]
        for j in range(b.shape[0]):
            top = min(top, G[j])
        total = 0.0
        for j in range(b.shape[0]):
            total += b[j] * exp((top - G[j]) / tau_b)
        log_b = math.log(total) - top / tau_b
    else:
        log_b = math.log(b.sum())
    weight = (1.0 / tau_a if kind_a == KL else 0.0) + (1.0 / tau_b if kind_b == KL else 0.0)
    return (log_a - log_b) / weight


@compiled()
def _certify(
    C: Any, scale: float, r_a: Any, r_b: Any, F: Any, G: Any, P: Any, rows: Any, columns: Any, out: Any
) -> None:  # fmt: skip
    """P = R e^{F + G - C/epsilon} with its marginals, <C, P>, <|C|, P> and <P, log(P/R)>."""
    n, m = C.shape
    columns[:] = 0.0
    linear = size = entropy = mass = 0.0
    for i in range(n):
        total = row_linear = row_size = row_entropy = 0.0
        for j in range(m):
            x = min(F[i] + G[j] - C[i, j] * scale, 700.0)
            p = r_a[i] * r_b[j] * exp(x) if x > -650.0 else 0.0
            P[i, j] = p
            columns[j] += p
            total += p
            row_linear += p * C[i, j]
            row_size += p * abs(C[i, j])
            row_entropy += p * x
        rows[i] = total
        linear += row_linear
        size += row_size
        entropy += row_entropy
        mass += total
    out[LINEAR], out[SIZE], out[ENTROPY], out[MASS] = linear, size, entropy, mass


@compiled()
def _soft_from_marginal(F: Any, p: Any, a: Any, soft: Any) -> None:
    """The soft minimum that the plan itself shows; where a marginal underflows the kernel's own stays."""
    for i in range(F.shape[0]):
        if p[i] > 1e-290 and a[i] > 0.0:
            soft[i] = F[i] - log(p[i] / a[i])


@compiled()
def _spread(x: Any, r: Any) -> float:
    low, high = 1e300, -1e300
    for i in range(x.shape[0]):
        v = x[i]
        low = min(low, v if r[i] > 0.0 else 1e300)
        high = max(high, v if r[i] > 0.0 else -1e300)
    return high - low


@compiled()
def _scalings(r: Any, log_scaling: Any, out: Any) -> float:
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
    s, t, w_a, w_b, h_a, h_b = np.empty(n), np.empty(m), np.empty(n), np.empty(m), np.empty(n), np.empty(m)
    skip_a, skip_b = np.zeros(n), np.zeros(m)
    sums = np.empty(5)
    for i in range(n):
        skip_a[i] = 0.0 if r_a[i] > 0.0 else 1e200
    for j in range(m):
        skip_b[j] = 0.0 if r_b[j] > 0.0 else 1e200
    hard = kind_a == BALANCED or kind_a == RANGE or kind_b == BALANCED or kind_b == RANGE

    kappa_a = tau_a / (tau_a + 1.0) if kind_a == KL else 1.0
    kappa_b = tau_b / (tau_b + 1.0) if kind_b == KL else 1.0
    known = kind_a <= BALANCED and kind_b <= BALANCED and (kind_a == KL or kind_b == KL)
    best_omega = 2.0 / (1.0 + math.sqrt(1.0 - kappa_a * kappa_b)) if known else 1.0
    entropy_bound = math.log(1.0 * m)

    if cold:
        G[:] = 0.0
        _row_minima(C, scale, G, skip_b, F0)
        _column_minima(C, scale, F0, skip_a, G0)
        shift = _translation(kind_a, tau_a, kind_b, tau_b, a, b, F0, G0)
        for i in range(n):
            F[i] = F0[i] + shift
        for j in range(m):
            G[j] = G0[j] - shift
    _row_minima(C, scale, G, skip_b, F0)
    _column_minima(C, scale, F0, skip_a, G0)
    _fill(C, scale, F0, G0, K)
    fresh = True

    sweep = 0
    ramp = 0
    safety = 1.0
    last_residual, last_sweep, growth = -1.0, 0, 0
    every = 1 if n * m > 20000 else 3
    while True:
        sweep += 1
        # rows: F given G
        for j in range(m):
            log_v[j] = G[j] - G0[j]
        if not fresh and _spread(log_v, r_b) > SPREAD:
            _row_minima(C, scale, G, skip_b, F0)
            _column_minima(C, scale, F0, skip_a, G0)
            _fill(C, scale, F0, G0, K)
            for j in range(m):
                log_v[j] = G[j] - G0[j]
        fresh = False
        top = _scalings(r_b, log_v, w_b)
        _row_sums(K, w_b, s)
        for i in range(n):
            soft_a[i] = F0[i] + o_a[i] - top - log(s[i])
        _step(kind_a, tau_a, low_a, high_a, soft_a, h_a)
        omega = 1.0
        if sweep > 1 and best_omega > 1.0:
            ramp += 1
            omega = min(best_omega, 2.0 - 6.0 / (ramp + 6.0))
        if sweep == 1 and cold:
            for i in range(n):
                F[i] = h_a[i]
        else:
            for i in range(n):
                F[i] += omega * (h_a[i] - F[i])
        # columns: G given F
        for i in range(n):
            log_u[i] = F[i] - F0[i]
        if _spread(log_u, r_a) > SPREAD:
            _column_minima(C, scale, F, skip_a, G0)
            _row_minima(C, scale, G0, skip_b, F0)
            _fill(C, scale, F0, G0, K)
            for i in range(n):
                log_u[i] = F[i] - F0[i]
        top = _scalings(r_a, log_u, w_a)
        _column_sums(K, w_a, t)
        for j in range(m):
            soft_b[j] = G0[j] + o_b[j] - top - log(t[j])
        _step(kind_b, tau_b, low_b, high_b, soft_b, h_b)

        if sweep % every == 0 or sweep >= limit:
            sums[:] = 0.0
            _side(kind_a, tau_a, low_a, high_a, a, F, soft_a, sums)
            mass_a = sums[4]
            _side(kind_b, tau_b, low_b, high_b, b, G, soft_b, sums)
            # <C, P> from below: <F, p> + <G, q> = <C, P> + <P, log(P/R)>, the last at most mass log m
            worth = sums[1] + mass_a + max(0.0, sums[3] - mass_a * entropy_bound)
            estimate = sums[0] + price * scale * sums[2]
            if estimate <= safety * tol * worth or sweep >= limit:
                _certify(C, scale, r_a, r_b, F, G, P, rows, columns, out)
                _soft_from_marginal(F, rows, a, soft_a)
                _soft_from_marginal(G, columns, b, soft_b)
                sums[:] = 0.0
                _side(kind_a, tau_a, low_a, high_a, a, F, soft_a, sums)
                _side(kind_b, tau_b, low_b, high_b, b, G, soft_b, sums)
                gap = epsilon * sums[0]
                penalty = epsilon * sums[1]
                weight = out[SIZE] + penalty + epsilon * out[MASS]
                out[ITERATIONS], out[PENALTY], out[GAP] = sweep, penalty, gap
                out[ESTIMATE] = epsilon * estimate
                if hard or gap <= tol * weight or sweep >= limit:
                    break
                safety *= max(0.5 * tol * weight / gap, 1e-3)
                _fill(C, scale, F0, G0, K)
            residual = 0.0
            for j in range(m):
                residual = max(residual, abs(h_b[j] - G[j]) if r_b[j] > 0.0 else 0.0)
            if residual > 2.0 * last_residual and last_residual > 0.0:
                growth += 1
                if growth >= 8 and omega > 1.0:  # over-relaxed too far for this problem
                    best_omega = 1.0 + 0.5 * (best_omega - 1.0)
                    ramp, growth, last_residual, last_sweep = 0, 0, -1.0, sweep
            elif not known and sweep - last_sweep >= 12 and residual > 0.0:
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
            elif known:
                last_residual = residual if last_residual < 0.0 else min(last_residual, residual)
        for j in range(m):
            G[j] += omega * (h_b[j] - G[j])
        if sweep % every == 0 and kind_a <= BALANCED and kind_b <= BALANCED:
            shift = _translation(kind_a, tau_a, kind_b, tau_b, a, b, F, G)
            for i in range(n):
                F[i] += shift
            for j in range(m):
                G[j] -= shift


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
