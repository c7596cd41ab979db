"""The sweeps of small problems, all of a problem in one function.

At 64 to 128 points a sweep is a microsecond of arithmetic, far less than one call into torch.  All is float64 and
in units of epsilon (F = f/epsilon, cost C/epsilon, tau/epsilon): float32 would meet denormals, ten times slower.
The certificate is evaluated at the plan itself, never at the sums over K.

To compile takes seconds, so each pair of kinds has a function of its own that holds what it needs and no more.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from jumbot.transport import _certificate as certificate
from jumbot.transport._kernels import policy
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import (
    CUT,
    LEAST,
    SPREAD,
    add_columns,
    build,
    cut_off,
    fill,
    inner,
    row_sums,
    scale_to_plan,
    scalings,
    set_all,
    shifted,
    soften,
)
from jumbot.transport._kernels.memory import own
from jumbot.transport._kernels.policy import (
    DEPTH,
    EVERY,
    GROWTH,
    LARGEST_TAU,
    LONG,
    LONGEST,
    MIXED,
    STRIKES,
    SWEEPS,
    WARM,
    best_shift,
    log_tilted_mass,
    mix,
    remember,
    shapes,
    subtract,
)
from jumbot.transport._kernels.sides import OVER, SIDES, STEPS, farthest, log_ratios, misses, refit, side_exact
from jumbot.transport._outcome import BALANCED, GAP, ITERATIONS, KL, LINEAR, OBJECTIVE, POWER, RANGE, SCALE

_inlined = compiled(inline="always")
solved, kappa, best_factor = _inlined(certificate.solved), _inlined(policy.kappa), _inlined(policy.best_factor)
plain_rate, ramp, stricter = _inlined(policy.plain_rate), _inlined(policy.ramp), _inlined(policy.stricter)


def memory(n: int, m: int, one_exact: bool = False) -> list[np.ndarray]:
    """What a call of a solver works in, of this thread alone."""
    return own((9, n), (11, m), (5,), *shapes(m, LONG if one_exact else DEPTH))


def one_exact(kind_a: int, kind_b: int) -> bool:
    """Whether one marginal is exact and the other at a smooth price.

    The exact side then needs no rounding: its plain step, taken last, leaves a plan that meets it.
    """
    return (kind_a == BALANCED and kind_b in (KL, POWER)) or (kind_b == BALANCED and kind_a in (KL, POWER))


@lru_cache(maxsize=32)
def solver(kind_a: int, kind_b: int) -> Any:
    """The function that solves problems of two kinds."""
    meets = one_exact(kind_a, kind_b)
    hard = not meets and (kind_a in (BALANCED, RANGE) or kind_b in (BALANCED, RANGE))
    rate_known = max(kind_a, kind_b) <= BALANCED and min(kind_a, kind_b) == KL
    mixes, most_mixed = rate_known, MIXED if meets else SWEEPS
    exact_a, exact_b = meets and kind_a == BALANCED, meets and kind_b == BALANCED
    side_a, side_b = side_exact if exact_a else SIDES[kind_a], side_exact if exact_b else SIDES[kind_b]
    step_a, step_b = STEPS[kind_a], STEPS[kind_b]

    @compiled()
    def solve_range(
        costs: Any,
        a_all: Any,
        b_all: Any,
        r_a_all: Any,
        r_b_all: Any,
        o_a_all: Any,
        o_b_all: Any,
        epsilon: float,
        tau_a: float,
        low_a: float,
        high_a: float,
        tau_b: float,
        low_b: float,
        high_b: float,
        cold: bool,
        tol: float,
        limit: int,
        price: Any,
        F_all: Any,
        G_all: Any,
        plans: Any,
        rows_all: Any,
        columns_all: Any,
        outs: Any,
        work_a: Any,
        work_b: Any,
        sums: Any,
        ring: Any,
        changes: Any,
        system: Any,
        stop: Any,
        first: int,
        last: int,
    ) -> None:
        """Solve the problems first <= k < last of the batch in place; F and G come in and go out in units of epsilon.

        Once `stop[0]` is not zero it returns, with nothing of use.

        The loop over problems and that over sweeps are one function, because one that calls the other is optimised
        twice, and what is called in two places is inlined twice: both are seconds of compilation.
        """
        n, m = costs.shape[1:]
        scale = 1.0 / epsilon
        F0, soft_a, log_a, s, w_a = work_a[4], work_a[5], work_a[6], work_a[7], work_a[8]
        G0, soft_b, log_b, t, w_b = work_b[4], work_b[5], work_b[6], work_b[7], work_b[8]
        h_b, w = work_b[9], work_b[10]
        known_omega, inverse_a, inverse_b, largest_tau = 1.0, 0.0, 0.0, 0.0
        kappa_a = kappa_b = 1.0
        if kind_a == KL:
            kappa_a, inverse_a, largest_tau = kappa(tau_a), 1.0 / tau_a, tau_a
        if kind_b == KL:
            kappa_b, inverse_b, largest_tau = kappa(tau_b), 1.0 / tau_b, max(largest_tau, tau_b)
        # a unit of the squared residual in the gap: on the columns, or where they are met, on the rows
        gap_unit = 0.5 * (tau_a if exact_b else tau_b / kappa_b**2)
        if rate_known:
            known_omega = best_factor(kappa_a * kappa_b)
        entropy_bound = math.log(1.0 * m)
        every = 1 if n * m > 20000 else EVERY

        for k in range(first, last):
            ka, kb = (k if a_all.shape[0] > 1 else 0), (k if b_all.shape[0] > 1 else 0)
            C, K, F, G = costs[k], plans[k], F_all[k], G_all[k]
            rows, columns, out = rows_all[k], columns_all[k], outs[k]
            a, b, r_a, r_b, o_a, o_b = a_all[ka], b_all[kb], r_a_all[ka], r_b_all[kb], o_a_all[ka], o_b_all[kb]
            # the buffer K of the plan holds the kernel until the plan is written
            if cold:
                set_all(G, 0.0)
            best_omega, mixing = known_omega, mixes and (meets or largest_tau <= LARGEST_TAU)
            held, strikes, last_norm, worth = 0, 0, 1e300, -1.0
            sweep, ramped, safety = 0, 0, 1.0
            last_residual, best_residual, last_sweep, growth, grown = -1.0, 1e300, 0, 0, -1.0
            next_check, last_check, last_estimate = every, 0, 0.0
            while True:
                if stop[0] != 0:
                    return
                sweep += 1
                # rows: F given G
                top_b, wide = scalings(r_b, G, G0, w_b)
                anew = sweep == 1 or wide > SPREAD
                if anew:
                    build(C, scale, F, G, r_a, r_b, anew, F0, G0, K, work_a[0], work_b[0])
                    if cold and sweep == 1:
                        shift = 0.0
                        if rate_known:
                            shift = best_shift(inverse_a, inverse_b, a, b, F0, G0, work_a[0], work_b[0])
                        shifted(F0, shift, F)
                        shifted(G0, -shift, G)
                    top_b, wide = scalings(r_b, G, G0, w_b)
                row_sums(K, w_b, s)
                soften(F0, o_a, top_b, s, soft_a)
                omega = 1.0
                if sweep > 1 and best_omega > 1.0 and not mixing:
                    ramped += 1
                    omega = min(best_omega, ramp(ramped))
                step_a(tau_a, low_a, high_a, soft_a, omega, F, F)
                # columns: G given F
                top_a, wide = scalings(r_a, F, F0, w_a)
                moved, mass_a = wide > SPREAD, 0.0
                if mixes and mixing:  # rows are at their optimum: what the plan gives them is a e^{-F/tau}
                    mass_a = inner(w_a, s)
                    if 1e-290 < mass_a < 1e290:
                        mass_a = math.log(mass_a) + top_a + top_b
                    else:  # of costs near 1e20 epsilon, or weights near 1e-150, nothing is left in it
                        mass_a = log_tilted_mass(inverse_a, a, F, work_a[0])
                if moved:
                    build(C, scale, F, G, r_a, r_b, not moved, F0, G0, K, work_a[0], work_b[0])
                    top_a, wide = scalings(r_a, F, F0, w_a)
                set_all(t, 0.0)
                add_columns(K, w_a, t)
                soften(G0, o_b, top_a, t, soft_b)
                step_b(tau_b, low_b, high_b, soft_b, omega, G, h_b)

                check = sweep >= next_check or sweep >= limit
                shift = 0.0
                if mixes and mixing:
                    mass_b = log_tilted_mass(inverse_b, b, h_b, w)
                    shift = (mass_a - mass_b) / (inverse_a + inverse_b)
                    norm = remember(G, h_b, shift, w, mass_b, sweep, ring)
                    held += 1
                    if not norm <= GROWTH * last_norm:
                        strikes, held = strikes + 1, 1
                    last_norm = norm
                    # rows are at their optimum, so all of the gap is on the columns, and the residual predicts it to
                    # a half percent; `worth` is from an earlier sweep, and at most a tenth too large
                    near = gap_unit * norm <= 0.8 * safety * tol * worth
                    check = near or (worth < 0.0 and check) or sweep >= limit
                elif rate_known and check:
                    shift = best_shift(inverse_a, inverse_b, a, b, F, h_b, work_a[0], work_b[0])
                done, at_plan, linear, size = False, False, 0.0, 0.0
                if check:
                    subtract(F, 1.0, soft_a, log_a)
                    subtract(G, 1.0, soft_b, log_b)
                while check:  # first at the kernel's marginals, which is an estimate, then at those of the plan itself
                    set_all(sums, 0.0)
                    side_a(tau_a, low_a, high_a, a, F, log_a, work_a, sums)
                    mass = sums[4]
                    side_b(tau_b, low_b, high_b, b, G, log_b, work_b, sums)
                    if at_plan:
                        weight = size + epsilon * (sums[1] + mass)
                        # <C, P> + epsilon <P, log(P/R)> = epsilon (<F, p> + <G, q>)
                        value = epsilon * (sums[3] - mass + sums[1])
                        gap = epsilon * sums[0] if sums[0] < OVER else OVER
                        out[ITERATIONS], out[LINEAR], out[OBJECTIVE] = sweep, linear, value
                        out[GAP], out[SCALE] = gap, weight
                        done = hard or solved(gap, weight, tol) or sweep >= limit
                        if not done:
                            safety = stricter(safety, tol, weight, gap)
                            fill(C, scale, F0, G0, CUT, K)
                        break
                    # <C, P> from below: <F, p> + <G, q> = <C, P> + <P, log(P/R)>, the last at most mass log m
                    worth = sums[1] + mass + max(0.0, sums[3] - mass * entropy_bound)
                    estimate = sums[0] + price[k] * scale * sums[2]
                    if meets:  # the last step moves the other marginal by as much at most as its own one
                        estimate = 2.0 * sums[0] + (tau_b if exact_a else tau_a) * sums[2]
                    # a check costs as much as a sweep or two: the next one where half of the way to tol should be left
                    wait = 1.0 * every
                    if every > 1 and 0.0 < estimate < last_estimate:
                        rate = math.log(last_estimate / estimate) / (sweep - last_check)
                        ahead = math.log(max(estimate / max(safety * tol * worth, 1e-300), 1.0)) / rate
                        wait = max(1.0 * every, min(0.5 * ahead, 1.0 * LONGEST))
                    last_estimate, last_check, next_check = estimate, sweep, sweep + int(wait)
                    if not (solved(estimate, worth, safety * tol) or sweep >= limit):
                        break
                    set_all(columns, 0.0)
                    u, v, times = w_a, w_b, math.exp(top_a + top_b)
                    reached = not moved and abs(top_a + top_b) <= SPREAD
                    if exact_a:
                        reached = reached and refit(a, w_a, s, times)
                        shifted(soft_a, 0.0, F)
                    if exact_b:
                        reached = reached and refit(b, w_b, t, times)
                        shifted(soft_b, 0.0, G)
                    over = False
                    if not reached:  # the kernel does not reach so far
                        fill(C, scale, F, G, LEAST, K)
                        u, v, times, over = r_a, r_b, 1.0, cut_off(K)
                    linear, size = scale_to_plan(K, times, u, v, C, rows, columns)
                    if exact_a:
                        over = over or misses(rows, a)
                    if exact_b:
                        over = over or misses(columns, b)
                    if over:
                        size = OVER
                    log_ratios(rows, a, log_a)
                    log_ratios(columns, b, log_b)
                    at_plan = True
                if done:
                    break
                if mixes:  # noqa: SIM102  by itself, so that it is left out for other kinds
                    if mixing and strikes < STRIKES and sweep < most_mixed:
                        mix(ring, w, sweep, held, changes, system, G)
                        continue
                if check and not mixing:
                    residual = farthest(r_b, h_b, G) / omega
                    if rate_known:  # over-relaxation overshoots for a while; only a lasting rise means too far
                        best_residual = min(best_residual, residual)
                        growth = growth + 1 if residual > 100.0 * best_residual else 0
                        if growth >= 40:
                            best_omega, best_residual, grown = 1.0 + 0.5 * (best_omega - 1.0), residual, residual
                            ramped, growth = 0, 0
                        elif residual < 0.01 * grown:  # far from the optimum it was too far; from here it may not be
                            best_omega, ramped, grown = known_omega, 0, -1.0
                    else:
                        if sweep - last_sweep >= LONGEST and residual > 0.0:
                            if last_residual > 0.0 and omega >= best_omega:
                                rate = (residual / last_residual) ** (1.0 / (sweep - last_sweep))
                                if best_omega - 1.0 < rate < 1.0:
                                    plain = min(plain_rate(rate, best_omega), 1.0 - 1e-7)
                                    best_omega = max(best_omega, best_factor(plain))
                                elif rate >= 1.0:
                                    best_omega = 1.0 + 0.7 * (best_omega - 1.0)
                            last_residual, last_sweep = residual, sweep
                if mixing:  # over-relaxation from here
                    mixing, ramped, next_check = False, WARM, sweep + every
                shifted(F, shift, F)
                shifted(h_b, -shift, G)

    return solve_range
