"""The sweeps of `sinkhorn.py`, fused into one function for the CPU.

At 64 to 128 points a sweep is a microsecond of arithmetic, far less than one call into torch.  All is float64 and
in units of epsilon (F = f/epsilon, cost C/epsilon, tau/epsilon): float32 would meet denormals, ten times slower.
The certificate is evaluated at the plan itself, never at the sums over K.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jumbot.transport import certificate
from jumbot.transport.compiled.gibbs import (
    CUT,
    SPREAD,
    build,
    column_sums,
    fill,
    row_sums,
    scale_to_plan,
    scalings,
    spread,
    write_plan,
)
from jumbot.transport.compiled.mixing import DEPTH, GROWTH, LARGEST_TAU, STRIKES, SWEEPS, mix, remember
from jumbot.transport.compiled.sides import (
    both_sides,
    dot,
    log_ratios,
    side,
    step,
    total,
    translation,
)
from jumbot.transport.compiled.vectormath import compiled, log
from jumbot.transport.kinds import BALANCED, KL, RANGE
from jumbot.transport.outcome import GAP, ITERATIONS, LINEAR, OBJECTIVE, SCALE

solved = compiled()(certificate.solved)


@compiled()
def solve_range(
    costs: Any, a_all: Any, b_all: Any, r_a_all: Any, r_b_all: Any, o_a_all: Any, o_b_all: Any, epsilon: float,
    kind_a: int, tau_a: float, low_a: float, high_a: float, kind_b: int, tau_b: float, low_b: float, high_b: float,
    cold: bool, tol: float, limit: int, price: Any,
    F_all: Any, G_all: Any, plans: Any, rows_all: Any, columns_all: Any, outs: Any, stop: Any, first: int, last: int,
) -> None:  # fmt: skip
    """Solve the problems first <= k < last of the batch in place; F and G come in and go out in units of epsilon.

    Once `stop[0]` is not zero it returns, with nothing of use.

    The loop over problems and that over sweeps are one function, because one that calls the other is optimised twice,
    and what is called in two places is inlined twice: both are seconds of compilation.
    """
    n, m = costs.shape[1:]
    scale = 1.0 / epsilon
    F0, G0 = np.empty(n), np.empty(m)
    log_u, log_v = np.empty(n), np.empty(m)
    soft_a, soft_b, log_a, log_b = np.empty(n), np.empty(m), np.empty(n), np.empty(m)
    s, t, w_a, w_b, h_b, w = np.empty(n), np.empty(m), np.empty(n), np.empty(m), np.empty(m), np.empty(m)
    skip_a, skip_b = np.empty(n), np.empty(m)
    work_a, work_b, sums = np.empty((4, n)), np.empty((4, m)), np.empty(5)
    images, residuals = np.empty((DEPTH + 1, m)), np.empty((DEPTH + 1, m))
    normal, share = np.empty((DEPTH, DEPTH)), np.empty(DEPTH)
    hard = kind_a in (BALANCED, RANGE) or kind_b in (BALANCED, RANGE)
    both_kl = kind_a == KL and kind_b == KL
    movable = kind_a <= BALANCED and kind_b <= BALANCED
    rate_known = movable and (kind_a == KL or kind_b == KL)
    kappa_a = tau_a / (tau_a + 1.0) if kind_a == KL else 1.0
    kappa_b = tau_b / (tau_b + 1.0) if kind_b == KL else 1.0
    known_omega = 2.0 / (1.0 + math.sqrt(1.0 - kappa_a * kappa_b)) if rate_known else 1.0
    entropy_bound = math.log(1.0 * m)
    every = 1 if n * m > 20000 else 2

    for k in range(first, last):
        ka, kb = (k if a_all.shape[0] > 1 else 0), (k if b_all.shape[0] > 1 else 0)
        C, a, b, r_a, r_b, o_a, o_b = costs[k], a_all[ka], b_all[kb], r_a_all[ka], r_b_all[kb], o_a_all[ka], o_b_all[kb]
        F, G, P, rows, columns, out = F_all[k], G_all[k], plans[k], rows_all[k], columns_all[k], outs[k]
        K = P  # the buffer holds the kernel until the plan is written
        for i in range(n):
            skip_a[i] = 0.0 if r_a[i] > 0.0 else 1e200
        for j in range(m):
            skip_b[j] = 0.0 if r_b[j] > 0.0 else 1e200
            G[j] = 0.0 if cold else G[j]
        best_omega = known_omega
        mixing = both_kl and max(tau_a, tau_b) <= LARGEST_TAU
        held, strikes, last_norm, worth = 0, 0, 1e300, -1.0
        sweep, ramp, safety = 0, 0, 1.0
        last_residual, best_residual, last_sweep, growth, grown = -1.0, 1e300, 0, 0, -1.0
        next_check, last_check, last_estimate = every, 0, 0.0
        while True:
            if stop[0] != 0:
                return
            sweep += 1
            # rows: F given G
            for j in range(m):
                log_v[j] = G[j] - G0[j]
            if sweep == 1 or spread(log_v, r_b) > SPREAD:
                build(C, scale, F, G, skip_a, skip_b, True, F0, G0, K)
                if cold and sweep == 1:
                    shift = translation(kind_a, tau_a, kind_b, tau_b, a, b, F0, G0, work_a[0], work_b[0])
                    for i in range(n):
                        F[i] = F0[i] + shift
                    for j in range(m):
                        G[j] = G0[j] - shift
                for j in range(m):
                    log_v[j] = G[j] - G0[j]
            top_b = scalings(r_b, log_v, w_b)
            row_sums(K, w_b, s)
            for i in range(n):
                soft_a[i] = F0[i] + o_a[i] - top_b - log(s[i])
            omega = 1.0
            if sweep > 1 and best_omega > 1.0 and not mixing:
                ramp += 1
                omega = min(best_omega, 2.0 - 6.0 / (ramp + 6.0))
            step(kind_a, tau_a, low_a, high_a, soft_a, omega, F, F)
            # columns: G given F
            for i in range(n):
                log_u[i] = F[i] - F0[i]
            moved = spread(log_u, r_a) > SPREAD
            if moved:
                build(C, scale, F, G, skip_a, skip_b, False, F0, G0, K)
                for i in range(n):
                    log_u[i] = F[i] - F0[i]
            top_a = scalings(r_a, log_u, w_a)
            column_sums(K, w_a, t)
            for j in range(m):
                soft_b[j] = G0[j] + o_b[j] - top_a - log(t[j])
            step(kind_b, tau_b, low_b, high_b, soft_b, omega, G, h_b)

            check = sweep >= next_check or sweep >= limit
            shift = 0.0
            if movable and (mixing or check):
                shift = translation(kind_a, tau_a, kind_b, tau_b, a, b, F, h_b, work_a[0], work_b[0])
            if mixing:
                norm = remember(G, h_b, shift, b, tau_b, sweep, images, residuals, w)
                held += 1
                if not norm <= GROWTH * last_norm:
                    strikes, held = strikes + 1, 1
                last_norm = norm
                # rows are at their optimum, so all of the gap is on the columns, and the residual predicts it; checked
                # once it should be tol/4, so that the check seldom fails
                near = 2.0 * tau_b * norm <= kappa_b**2 * safety * tol * worth
                check = near or (worth < 0.0 and check) or sweep >= limit
            done, at_plan, linear, size = False, False, 0.0, 0.0
            if check:
                for i in range(n):
                    log_a[i] = F[i] - soft_a[i]
                for j in range(m):
                    log_b[j] = G[j] - soft_b[j]
            while check:  # first at the kernel's marginals, which is an estimate, then at those of the plan itself
                mass = both_sides(
                    kind_a, tau_a, low_a, high_a, a, F, log_a, work_a,
                    kind_b, tau_b, low_b, high_b, b, G, log_b, work_b, sums,
                )  # fmt: skip
                if at_plan:
                    mass = total(rows)
                    weight = size + epsilon * (sums[1] + mass)
                    # <C, P> + epsilon <P, log(P/R)> = epsilon (<F, p> + <G, q>)
                    value = epsilon * (dot(F, rows) + dot(G, columns) - mass + sums[1])
                    gap = epsilon * sums[0]
                    out[ITERATIONS], out[LINEAR], out[OBJECTIVE] = sweep, linear, value
                    out[GAP], out[SCALE] = gap, weight
                    done = hard or solved(gap, weight, tol) or sweep >= limit
                    if not done:
                        safety *= max(0.5 * tol * weight / gap, 1e-3)
                        fill(C, scale, F0, G0, CUT, K)
                    break
                # <C, P> from below: <F, p> + <G, q> = <C, P> + <P, log(P/R)>, the last at most mass log m
                worth = sums[1] + mass + max(0.0, sums[3] - mass * entropy_bound)
                estimate = sums[0] + price[k] * scale * sums[2]
                # a check costs as much as a sweep or two: the next one where half of the way to tol should be left
                wait = every
                if every > 1 and 0.0 < estimate < last_estimate:
                    rate = math.log(last_estimate / estimate) / (sweep - last_check)
                    ahead = math.log(max(estimate / max(safety * tol * worth, 1e-300), 1.0)) / rate
                    wait = max(every, min(int(0.5 * ahead), 12))
                last_estimate, last_check, next_check = estimate, sweep, sweep + wait
                if not (solved(estimate, worth, safety * tol) or sweep >= limit):
                    break
                if not moved and abs(top_a + top_b) <= SPREAD:
                    for i in range(n):
                        w_a[i] *= math.exp(top_a + top_b)
                    linear, size = scale_to_plan(K, w_a, w_b, C, rows, columns)
                else:
                    linear, size = write_plan(C, scale, r_a, r_b, F, G, P, rows, columns)
                log_ratios(rows, a, log_a)
                log_ratios(columns, b, log_b)
                at_plan = True
            if done:
                break
            if mixing and strikes < STRIKES and sweep < SWEEPS:
                mix(images, residuals, w, sweep, held, normal, share, G)
                continue
            if check and not mixing:
                residual = 0.0
                for j in range(m):
                    residual = max(residual, abs(h_b[j] - G[j]) / omega if r_b[j] > 0.0 else 0.0)
                if rate_known:  # over-relaxation overshoots for a while; only a lasting rise means too far
                    best_residual = min(best_residual, residual)
                    growth = growth + 1 if residual > 100.0 * best_residual else 0
                    if growth >= 40:
                        best_omega, best_residual, grown = 1.0 + 0.5 * (best_omega - 1.0), residual, residual
                        ramp, growth = 0, 0
                    elif residual < 0.01 * grown:  # far from the optimum it was too far; from here it may not be
                        best_omega, ramp, grown = known_omega, 0, -1.0
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
            if mixing:  # over-relaxation from here, with a shorter ramp because the start is better
                mixing, ramp, next_check = False, 6, sweep + every
            for i in range(n):
                F[i] += shift
            for j in range(m):
                G[j] = h_b[j] - shift


@compiled()
def _solve_symmetric(
    C: Any, a: Any, r: Any, o: Any, epsilon: float, kind: int, tau: float, low: float, high: float,
    tol: float, limit: int, price: float, F: Any, P: Any, rows: Any, out: Any, stop: Any,
) -> None:  # fmt: skip
    """C = C' >= 0 with zero diagonal, a = b: the averaged fixed point F <- (F + T F)/2.

    It halves the error a sweep where e^{-C/epsilon} is a positive kernel.  The diagonal of K is one, so K needs no
    absorption while the potentials spread by less than SPREAD; beyond that the general sweep takes over.
    """
    n = C.shape[0]
    scale = 1.0 / epsilon
    K = P
    soft, s, w, h, columns, log_a = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    work, sums = np.empty((4, n)), np.empty(5)
    F[:] = 0.0
    hard = kind in (BALANCED, RANGE)
    fill(C, scale, F, F, CUT, K)
    sweep = 0
    safety = 1.0
    while stop[0] == 0:
        sweep += 1
        top = scalings(r, F, w)
        row_sums(K, w, s)
        for i in range(n):
            soft[i] = o[i] - top - log(s[i])
        step(kind, tau, low, high, soft, 0.5, F, h)
        for i in range(n):
            log_a[i] = F[i] - soft[i]
        sums[:] = 0.0
        side(kind, tau, low, high, a, F, log_a, work, sums)
        worth = 2.0 * sums[1] + sums[4] + max(0.0, 2.0 * sums[3] - sums[4] * math.log(1.0 * n))
        last = sweep >= limit or spread(F, r) > SPREAD
        if last or solved(2.0 * (sums[0] + price * scale * sums[2]), worth, safety * tol):
            linear, size = write_plan(C, scale, r, r, F, F, P, rows, columns)
            log_ratios(rows, a, log_a)
            sums[:] = 0.0
            side(kind, tau, low, high, a, F, log_a, work, sums)
            mass = total(rows)
            weight = size + epsilon * (2.0 * sums[1] + mass)
            value = epsilon * (2.0 * dot(F, rows) - mass + 2.0 * sums[1])
            gap = 2.0 * epsilon * sums[0]
            out[ITERATIONS], out[LINEAR], out[OBJECTIVE], out[GAP], out[SCALE] = sweep, linear, value, gap, weight
            if hard or last or solved(gap, weight, tol):
                break
            safety *= max(0.5 * tol * weight / gap, 1e-3)
            F_zero = s
            F_zero[:] = 0.0
            fill(C, scale, F_zero, F_zero, CUT, K)
        for i in range(n):
            F[i] = h[i]


@compiled()
def solve_symmetric_range(
    C: Any, a: Any, r: Any, o: Any, epsilon: float, kind: int, tau: float, low: float, high: float,
    tol: float, limit: int, price: Any, F: Any, P: Any, rows: Any, out: Any, stop: Any, first: int, last: int,
) -> None:  # fmt: skip
    """As `solve_range`, for symmetric problems."""
    many = a.shape[0] > 1
    for k in range(first, last):
        at = k if many else 0
        _solve_symmetric(
            C[k], a[at], r[at], o[at], epsilon, kind, tau, low, high,
            tol, limit, price[k], F[k], P[k], rows[k], out[k], stop,
        )  # fmt: skip
