"""The sweeps of small problems whose marginals are both exact, all of a problem in one function.

A sweep maps G to the soft minima at F, the soft minima at G; its rate is not known beforehand, and sweeps are mixed
(`policy.py`) from the start: 12 sweeps instead of 20 at epsilon = a 20th of the largest cost, 45 instead of 300 at a
200th.  A mixed step after which the residual has grown is taken back.  Where that happens often, or takes long, sweeps
are over-relaxed by a factor that is found on the way.

Where cost and weights are symmetric the soft minima T are one map, with factors -p for p in [0, 1] where e^{-C/epsilon}
is a positive kernel.  The mean of T G and T T G then has the factors -p (1 - p)/2, an eighth at most, at any epsilon.

Rows are exact after each plain sweep, and the gap of the rounded plan (`rounded_plan.py`) is estimated from some of its
rows: it is quadratic in the residual where all entries of the plan have mass, and linear where most have none.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import (
    CUT,
    LEAST,
    SPREAD,
    add_columns,
    build,
    fill,
    inner,
    row_sums,
    scalings,
    set_all,
    shifted,
    soften,
    total,
)
from jumbot.transport._kernels.memory import own
from jumbot.transport._kernels.policy import LONG, dot, mix, remember, shapes, subtract
from jumbot.transport._kernels.rounded_plan import (
    begin,
    excess,
    extremes,
    plain_sweep,
    round_plan,
    sampled,
    sampled_size,
)
from jumbot.transport._kernels.sides import step_exact
from jumbot.transport._kernels.sweeps import best_factor, plain_rate, ramp, solved, stricter
from jumbot.transport._kernels.vectormath import log
from jumbot.transport._outcome import GAP, ITERATIONS, LINEAR, OBJECTIVE, SCALE

_REJECTED, _MIXED = 8, 1000  # steps taken back, and sweeps, after which mixing gives up
_GROWTH = 4.0  # of the squared residual, after which a mixed step is taken back
_LOWEST = math.exp(-SPREAD)
_NEAR = 0.8 * SPREAD  # exponents within which K is built around row minima alone
_PROBE = 60  # over-relaxed sweeps after which a plain one is made to see how large the gap is
_SURE = 0.1  # of tol, for what is estimated from some rows
_NEGLIGIBLE = 5e-12  # a gap, relative to its scale, of which a bound says enough: it is part of the value


def memory(n: int, m: int) -> list[np.ndarray]:
    """Work memory of a call of the solver, for this thread alone."""
    return own((8, n), (12, m), *shapes(m, LONG))


@compiled()
def _logs(r: Any, out: Any) -> None:
    """log r, zero where r is."""
    for i in range(r.shape[0]):
        out[i] = log(r[i]) if r[i] > 0.0 else 0.0


@compiled()
def _average(x: Any, y: Any) -> None:
    """y = (x + y)/2."""
    for j in range(y.shape[0]):
        y[j] = 0.5 * (x[j] + y[j])


@compiled()
def _over(a: Any, s: Any, out: Any) -> bool:
    """out = a/s, zero where s is next to nothing; returns whether it is nowhere where a is not."""
    lost = 0.0
    for i in range(a.shape[0]):
        out[i] = a[i] / max(s[i], 1e-280) if s[i] > 1e-280 else 0.0
        lost += a[i] if s[i] <= 1e-280 else 0.0
    return lost == 0.0


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
    cold: int,
    symmetric: bool,
    rounded: bool,
    tol: float,
    limit: int,
    F_all: Any,
    G_all: Any,
    plans: Any,
    rows_all: Any,
    columns_all: Any,
    outs: Any,
    work_a: Any,
    work_b: Any,
    ring: Any,
    changes: Any,
    system: Any,
    stop: Any,
    first: int,
    last: int,
) -> None:
    """Solve the problems first <= k < last of the batch in place; F and G come in and go out in units of epsilon.

    `cold` is 0 for a start from G, 1 for none, 2 for none where costs span no more of epsilon than one kernel holds:
    of others the count of sweeps is -1, and nothing is done.  `symmetric` promises C = C' and a = b.  Without `rounded`
    only F and G are of use.  Once `stop[0]` is not zero, it returns without a usable result.
    """
    m, scale, negligible = costs.shape[2], 1.0 / epsilon, min(0.05 * tol, _NEGLIGIBLE)
    F0, soft_a, s, w_a, log_r_a, low, A, spare_a = (
        work_a[0],
        work_a[1],
        work_a[2],
        work_a[3],
        work_a[4],
        work_a[5],
        work_a[6],
        work_a[7],
    )
    G0, soft_b, t, w_b, log_r_b, kept, cut, lack, terms, B, spare_b, shares = (
        work_b[0],
        work_b[1],
        work_b[2],
        work_b[3],
        work_b[4],
        work_b[5],
        work_b[6],
        work_b[7],
        work_b[8],
        work_b[9],
        work_b[10],
        work_b[11],
    )
    for k in range(first, last):
        ka, kb = (k if a_all.shape[0] > 1 else 0), (k if b_all.shape[0] > 1 else 0)
        C, K, F, G = costs[k], plans[k], F_all[k], G_all[k]
        rows, columns, out = rows_all[k], columns_all[k], outs[k]
        a, b, r_a, r_b, o_a, o_b = a_all[ka], b_all[kb], r_a_all[ka], r_b_all[kb], o_a_all[ka], o_b_all[kb]
        # the buffer of the plan holds the kernel K until the plan is written
        mass = total(a)
        _logs(r_a, log_r_a)
        _logs(r_b, log_r_b)
        built = False
        if cold > 0:
            set_all(G, 0.0)
            set_all(G0, 0.0)
            scalings(r_b, G, G0, w_b)
            built = begin(C, scale, -_NEAR, F0, K, low, w_b, a, s, w_a, t)
            if cold > 1 and not built:
                out[ITERATIONS] = -1.0
                continue
        begun = built  # and with it the first sweep
        mixing, held, rejected, last_norm = True, 0, 0, 1e300
        best_omega, ramped, last_residual, last_sweep = 1.0, 0, -1.0, 0
        sweep, safety, plain, probed = 0, 1.0, False, 0
        worth, estimate, seen = -1.0, 0.0, 1e300  # at the last sample: scale and gap of the rounded plan, and residual
        while True:
            if stop[0] != 0:
                return
            sweep += 1
            # rows: F given G
            top_b, wide = scalings(r_b, G, G0, w_b)
            if not built or wide > SPREAD:
                build(C, scale, F, G, r_a, r_b, True, F0, G0, K, spare_a, spare_b)
                set_all(low, 0.0)
                if cold > 0 and sweep == 1:
                    shifted(G0, 0.0, G)
                top_b, wide = scalings(r_b, G, G0, w_b)
                built = True
            omega = 1.0
            if not mixing and not plain and best_omega > 1.0:
                ramped += 1
                omega = min(best_omega, ramp(ramped))
            # a plain sweep leaves rows exact, to the last bit: f = a/s takes no logarithm and no exponential
            if not (begun and sweep == 1):
                plain_sweep(K, w_b, a, s, w_a, t)
            least, most = extremes(a, s)
            soften(F0, o_a, top_b, s, soft_a)
            direct, moved, top_a = omega == 1.0 and least > most * _LOWEST and least > 1e-280, False, -top_b
            if direct:
                shifted(soft_a, 0.0, F)
            else:
                if omega > 1.0:
                    step_exact(1.0, 1.0, 1.0, soft_a, omega, F, F)
                else:
                    shifted(soft_a, 0.0, F)
                top_a, wide = scalings(r_a, F, F0, w_a)
                moved = wide > SPREAD
                if moved:
                    build(C, scale, F, G, r_a, r_b, not moved, F0, G0, K, spare_a, spare_b)
                    set_all(low, 0.0)
                    top_a, wide = scalings(r_a, F, F0, w_a)
                set_all(t, 0.0)
                add_columns(K, w_a, t)
            soften(G0, o_b, top_a, t, soft_b)
            if symmetric:  # then F and G are one, and between what a sweep makes of G lies what is nearer than either
                _average(soft_a, soft_b)
            subtract(soft_b, 1.0, G, terms)
            # (F + t, G - t) is the same plan: without that direction, along which mixing would drift
            shift = 0.0 if symmetric else inner(b, terms) / mass
            residual = max(dot(b, terms, terms) - mass * shift * shift, 0.0)

            ends, near, lacking, part, squares, bound = sweep >= limit, sweep >= limit, 0.0, 0.0, 0.0, 1e290
            if direct:
                plain = False
                lacking, part, squares = excess(b, w_b, t, kept, cut, lack, shares, terms)
                if worth < 0.0 or part <= tol * worth:
                    worth = sampled_size(C, K, w_a, w_b, a, sweep) * scale + mass
                if part <= tol * worth:
                    subtract(F, -1.0, log_r_a, A)
                    subtract(G, -1.0, log_r_b, B)
                    enough = negligible * worth / mass
                    filled, bound = sampled(
                        C, scale, K, w_a, w_b, low, a, cut, lack, shares, lacking, squares, enough, A, B, sweep, terms
                    )
                    falls = residual < 0.1 * seen
                    estimate, seen, probed = part + filled, residual, sweep
                    close = solved(estimate, worth, _SURE * safety * tol)
                    # a sweep or two more, where they fall so fast, cost less than the logarithms of all entries
                    near = ends or (close and not (falls and mixing and bound > negligible * worth and bound < 1e280))
                elif seen >= 1e300:
                    estimate, seen, probed = part, residual, sweep
            if near:
                if not rounded:
                    break
                if not direct:
                    shifted(soft_a, 0.0, F)
                    fill(C, scale, F, G, LEAST, K)
                    shifted(r_b, 0.0, w_b)
                    row_sums(K, w_b, s)
                    _over(a, s, w_a)
                    set_all(t, 0.0)
                    add_columns(K, w_a, t)
                    set_all(low, 0.0)
                    lacking, part, squares = excess(b, w_b, t, kept, cut, lack, shares, terms)
                subtract(F, -1.0, log_r_a, A)
                subtract(G, -1.0, log_r_b, B)
                per_mass = negligible * max(worth / mass, 1.0)
                filled, linear, size = round_plan(
                    C,
                    scale,
                    K,
                    w_a,
                    w_b,
                    low,
                    a,
                    kept,
                    cut,
                    lack,
                    shares,
                    lacking,
                    squares,
                    per_mass,
                    bound <= negligible * worth,
                    A,
                    B,
                    spare_a,
                    rows,
                    columns,
                    terms,
                )
                gap, weight = epsilon * (part + filled), size + epsilon * mass
                out[ITERATIONS], out[LINEAR], out[GAP], out[SCALE] = sweep, linear, gap, weight
                out[OBJECTIVE] = epsilon * (inner(F, a) + inner(G, b) - mass) + gap
                if ends or solved(gap, weight, tol):
                    break
                safety = stricter(safety, tol, weight, gap)
                fill(C, scale, F0, G0, CUT, K)
            if mixing:
                remember(G, soft_b, shift, b, 0.0, sweep, ring)
                if held > 1 and residual > _GROWTH * last_norm:  # continue from the image before the step
                    shifted(ring[(sweep - 1) % 2][m:], 0.0, G)
                    rejected, held, last_norm = rejected + 1, 0, 1e300
                    continue
                held, last_norm = held + 1, residual
                mixing = rejected < _REJECTED and sweep < _MIXED
                if mixing:
                    mix(ring, b, sweep, held, changes, system, G)
                    continue
            residual = math.sqrt(residual)
            if sweep - last_sweep >= max(12.0, 2.0 / (2.0 - best_omega)) and residual > 0.0:
                if last_residual > 0.0 and omega >= best_omega:
                    rate = (residual / last_residual) ** (1.0 / (sweep - last_sweep))
                    if rate >= 1.0:
                        best_omega = 1.0 + 0.7 * (best_omega - 1.0)
                    elif rate > best_omega - 1.0:
                        best_omega = best_factor(min(plain_rate(rate, best_omega), 1.0 - 1e-7))
                    else:  # beyond the best factor the rate is the factor less one
                        best_omega = 1.0 + 0.95 * (best_omega - 1.0)
                last_residual, last_sweep = residual, sweep
            if not plain:
                closer = estimate * residual <= _SURE * safety * tol * worth * math.sqrt(seen)
                plain = sweep - probed >= _PROBE or (closer and sweep > probed)
            step_exact(1.0, 1.0, 1.0, soft_b, omega, G, G)
