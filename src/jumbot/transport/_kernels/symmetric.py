"""The averaged fixed point of symmetric problems: C = C' >= 0 with zero diagonal, a = b."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import (
    CUT,
    LEAST,
    SPREAD,
    cut_off,
    fill,
    row_sums,
    scale_to_plan,
    scalings,
    set_all,
    shifted,
    soften,
)
from jumbot.transport._kernels.memory import own
from jumbot.transport._kernels.policy import subtract
from jumbot.transport._kernels.sides import OVER, SIDES, STEPS, log_ratios
from jumbot.transport._kernels.sweeps import solved, stricter
from jumbot.transport._outcome import GAP, ITERATIONS, LINEAR, OBJECTIVE, RANGE, SCALE


@compiled()
def is_symmetric(C: Any) -> bool:
    """C = C' >= 0 with zero diagonal."""
    for i in range(C.shape[0]):
        if C[i, i] != 0.0:
            return False
        for j in range(i):
            if not (C[i, j] >= 0.0 and C[i, j] == C[j, i]):
                return False
    return True


def memory(n: int) -> list[np.ndarray]:
    """What a call of a solver works in, of this thread alone."""
    return own((11, n), (5,))


@lru_cache(maxsize=8)
def solver(kind: int) -> Any:
    """The function that solves symmetric problems of a kind."""
    hard = kind == RANGE
    side, step = SIDES[kind], STEPS[kind]

    @compiled()
    def solve_range(
        costs: Any,
        a_all: Any,
        r_all: Any,
        o_all: Any,
        epsilon: float,
        tau: float,
        low: float,
        high: float,
        tol: float,
        limit: int,
        price: Any,
        F_all: Any,
        plans: Any,
        rows_all: Any,
        outs: Any,
        work: Any,
        sums: Any,
        stop: Any,
        first: int,
        last: int,
    ) -> None:
        """F <- (F + T F)/2 for the problems first <= k < last.

        It halves the error a sweep where e^{-C/epsilon} is a positive kernel.  The diagonal of K is one, so K needs no
        absorption while the potentials spread by less than SPREAD; beyond that the general sweep takes over.
        """
        n = costs.shape[1]
        scale, entropy_bound = 1.0 / epsilon, math.log(1.0 * n)
        soft, s, w, h, columns, log_a, zero = work[4], work[5], work[6], work[7], work[8], work[9], work[10]
        set_all(zero, 0.0)
        for k in range(first, last):
            at = k if a_all.shape[0] > 1 else 0
            C, K, F, rows, out, a, r, o = (
                costs[k],
                plans[k],
                F_all[k],
                rows_all[k],
                outs[k],
                a_all[at],
                r_all[at],
                o_all[at],
            )
            set_all(F, 0.0)
            sweep, safety, built = 0, 1.0, False
            while stop[0] == 0:
                if not built:
                    fill(C, scale, zero, zero, CUT, K)
                    built = True
                sweep += 1
                top, wide = scalings(r, F, zero, w)
                row_sums(K, w, s)
                soften(zero, o, top, s, soft)
                subtract(F, 1.0, soft, log_a)
                step(tau, low, high, soft, 0.5, F, h)
                ends, at_plan, done, linear, size = sweep >= limit or wide > SPREAD, False, False, 0.0, 0.0
                while True:  # an estimate first, then at the plan itself
                    set_all(sums, 0.0)
                    side(tau, low, high, a, F, log_a, work, sums)
                    if at_plan:
                        weight = size + epsilon * (2.0 * sums[1] + sums[4])
                        value = epsilon * (2.0 * sums[3] - sums[4] + 2.0 * sums[1])
                        gap = 2.0 * epsilon * sums[0] if sums[0] < OVER else OVER
                        out[ITERATIONS], out[LINEAR], out[OBJECTIVE] = sweep, linear, value
                        out[GAP], out[SCALE] = gap, weight
                        done = hard or ends or solved(gap, weight, tol)
                        safety, built = stricter(safety, tol, weight, gap), False
                        break
                    worth = 2.0 * sums[1] + sums[4] + max(0.0, 2.0 * sums[3] - sums[4] * entropy_bound)
                    estimate = 2.0 * (sums[0] + price[k] * scale * sums[2])
                    if not (ends or solved(estimate, worth, safety * tol)):
                        break
                    fill(C, scale, F, F, LEAST, K)
                    over = cut_off(K)
                    set_all(columns, 0.0)
                    linear, size = scale_to_plan(K, 1.0, r, r, C, rows, columns)
                    if over:
                        size = OVER
                    log_ratios(rows, a, log_a)
                    at_plan = True
                if done:
                    break
                shifted(h, 0.0, F)

    return solve_range
