"""epsilon = 0: which exact method fits, and its certificate, compiled.

For any P >= 0 and f + g <= C,  primal(P) - dual(f, g) = <P, C - f - g> + the Fenchel-Young terms of both marginals.

The deviation of a marginal from its weights is summed with its rounding errors: with tau = 1e9 and costs of one, the
last bit of a sum is worth 1e-7.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.transport import divergences
from jumbot.transport._certificate import ROUNDING, Certificate, round_to_marginals, without_rounding
from jumbot.transport._exact.balanced import balanced, partial, total_variation
from jumbot.transport._exact.kl import kl
from jumbot.transport._exact.potentials import Unbalanced
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import set_all, total
from jumbot.transport._kernels.threads import run
from jumbot.transport._kernels.vectormath import NEAR, greater, near_by_log
from jumbot.transport._marginal import Marginal, PartialMarginal
from jumbot.transport._outcome import (
    BALANCED,
    GAP,
    ITERATIONS,
    KL,
    LINEAR,
    OBJECTIVE,
    SCALE,
    TV,
    AnyOutcome,
    Outcome,
    RawOutcome,
    arguments,
)
from jumbot.transport._problem import Problem

_UNMOVED = 0.0, 0.0
#: plan, potentials, the two parts of t in (f + t, g - t), iterations
Solved = tuple[np.ndarray, np.ndarray, np.ndarray, tuple[float, float], int]


def solve_unregularised(
    problem: Problem, start: tuple[Tensor, Tensor] | None, tol: float, max_iterations: int
) -> AnyOutcome:
    """Each problem by its method; the combinatorial ones count no iterations."""
    device, batch = problem.cost.device, problem.cost.shape[0]
    cost = problem.cost.double().cpu().numpy()
    weights = [w.cpu().numpy() for w in (problem.a, problem.b)]
    a, b = (w if len(w) == batch else np.repeat(w, batch, 0) for w in weights)

    first = start and (start[0].cpu().numpy(), start[1].cpu().numpy())

    def one(k: int) -> Solved:
        near = first and (first[0][k], first[1][k])
        return _solve_one(problem, cost[k], a[k], b[k], near, tol, max_iterations)

    numbers = range(batch)
    results: list[Any] = run(one, numbers) if cost.size > 1 << 14 else [one(k) for k in numbers]
    out = np.array([[float(r[4]), 0.0, 0.0, 0.0, 0.0] for r in results])
    plan, f, g = (np.stack([r[i] for r in results]) if batch > 1 else results[0][i][None] for i in range(3))
    if isinstance(problem.source, PartialMarginal):
        return _certified(problem, plan, f, g, out)
    if problem.blocked is not None:
        plan = _unblocked(problem, plan)
    rows, columns = np.empty(f.shape), np.empty(g.shape)
    (kind_a, tau_a), (kind_b, tau_b) = (_kind(side) for side in (problem.source, problem.target))
    certify, memory = certifier(kind_a, kind_b), (np.empty((2, f.shape[1])), np.empty((2, g.shape[1])), np.empty(3))
    highest_price = 1e308 if problem.blocked is None else float(problem.cost[problem.blocked].min())
    for k in range(batch):
        shift: tuple[float, float] = results[k][3]
        one_problem, potentials = (cost[k], a[k], b[k], tau_a, tau_b), (f[k], g[k], *shift)
        certify(one_problem, potentials, plan[k], highest_price, (rows[k], columns[k]), out[k], memory)
        if any(shift):
            np.clip(f[k] + sum(shift), -tau_a, tau_a, out=f[k])
            np.clip(g[k] - sum(shift), -tau_b, tau_b, out=g[k])
    outcome = RawOutcome(1.0, f, g, plan, rows, columns, out)
    return outcome if device.type == "cpu" else outcome.to(device)


def _kind(side: Marginal) -> tuple[int, float]:
    """Its kind and its penalty for the certificate."""
    return arguments(side, 1.0)[0], np.inf if side.exact else side.tau


def _unblocked(problem: Problem, plan: np.ndarray) -> np.ndarray:
    """Mass that an interior point leaves on blocked pairs is moved to other pairs of an exact marginal."""
    cpu = replace(problem, a=problem.a.cpu(), b=problem.b.cpu())
    assert problem.blocked is not None
    left = torch.from_numpy(plan).masked_fill(problem.blocked.cpu(), 0.0)
    return (round_to_marginals(cpu, left) if problem.source.hard or problem.target.hard else left).contiguous().numpy()


def _solve_one(
    problem: Problem,
    cost: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    start: tuple[np.ndarray, np.ndarray] | None,
    tol: float,
    max_iterations: int,
) -> Solved:
    source, target = problem.source, problem.target
    if isinstance(source, PartialMarginal):
        return *partial(cost, a, b, source.mass, start and start[0]), _UNMOVED, 0
    if source.exact and target.exact:
        return *balanced(cost, a, b, start and start[0]), _UNMOVED, 0
    tau_a, tau_b = (np.inf if side.exact else side.tau for side in (source, target))
    soft = target if source.exact else source
    if isinstance(soft.divergence, divergences.KL):
        plan, f, g, iterations = kl(cost, a, b, tau_a, tau_b, tol, max_iterations, start)
        return plan, f, g, _UNMOVED, iterations
    return *total_variation(cost, a, b, tau_a, tau_b, start), 0


def _certified(problem: Problem, plan: np.ndarray, f: np.ndarray, g: np.ndarray, out: np.ndarray) -> Outcome:
    """Of partial transport."""
    device = problem.cost.device
    P, f_, g_, stats = (torch.from_numpy(x).to(device) for x in (plan, f, g, out))
    cost = problem.cost.double()
    rows, columns = P.sum(-1), P.sum(-2)
    linear, size = (cost * P).sum((-2, -1)), (cost.abs() * P).sum((-2, -1))
    slack = (cost - f_[:, :, None] - g_[:, None, :]).clamp_min(0)
    gap = (P * slack).sum((-2, -1))
    for (side, weights), potential, p in zip(problem.sides, (f_, g_), (rows, columns), strict=True):
        gap = torch.where(side.violated(p, weights), torch.inf, gap + side.fenchel_young(p, potential, weights))
    gap = without_rounding(gap, size, problem.a, problem.b, cost.abs().amax((-2, -1)))
    return Outcome(f_, g_, stats[:, ITERATIONS], Certificate(P, rows, columns, linear, linear, gap, size))


@compiled(fastmath=True)
def _extremes(C: Any, f: Any, g: Any, highest_price: float) -> tuple[float, float]:
    """How far f + g exceeds C, and the largest |C| below `highest_price`."""
    over = most = 0.0
    for i in range(C.shape[0]):
        row, t = C[i], f[i]
        for j in range(row.shape[0]):
            over = greater(over, t + g[j] - row[j])
            most = greater(most, abs(row[j]) if row[j] < highest_price else 0.0)
    return over, most


@compiled()
def _add(x: float, sums: Any, lost: Any, j: int) -> None:
    """sums[j] += x, and to `lost` what rounds off (Knuth's TwoSum)."""
    before = sums[j]
    after = before + x
    part = after - before
    sums[j] = after
    lost[j] += (before - (after - part)) + (x - part)


@compiled()
def _add_kl(tau: float, high: float, low: float, w: Any, f: Any, p: Any, off: Any, sums: Any) -> None:
    for i in range(w.shape[0]):
        if w[i] > 0.0:
            wanted, log_x = w[i] * math.exp(min(-f[i] / tau, 700.0)), 0.0
            if p[i] > 0.0:
                log_x = math.log1p(off[i] / w[i]) if abs(off[i]) < 0.5 * w[i] else math.log(p[i] / w[i])
            sums[0] += tau * _divergence(p[i], log_x + f[i] / tau, wanted)
            sums[1] += tau * _divergence(p[i], log_x, w[i])
        elif p[i] > 0.0:
            sums[2] = math.inf


@compiled()
def _divergence(p: float, r: float, q: float) -> float:
    """p log(p/q) - p + q with r = log(p/q), of which q may be too small to be a number."""
    if p > 0.0 and abs(r) < NEAR:
        return q * near_by_log(r)
    return p * (r - 1.0) + q if p > 0.0 else q


@compiled()
def _add_tv(tau: float, high: float, low: float, w: Any, f: Any, p: Any, off: Any, sums: Any) -> None:
    for i in range(w.shape[0]):
        above, below = tau - high - low - f[i], tau + high + low + f[i]  # tau - f, tau + f
        sums[0] += max(below, 0.0) * off[i] if off[i] > 0.0 else max(above, 0.0) * -off[i]
        sums[0] += max(-above, 0.0) * p[i]
        sums[1] += tau * abs(off[i])


@compiled()
def _add_exact(tau: float, high: float, low: float, w: Any, f: Any, p: Any, off: Any, sums: Any) -> None:
    for i in range(w.shape[0]):
        sums[2] += abs(off[i])


#: `add(tau, high, low, weights, f, marginal, what it misses them by, sums)`: Fenchel-Young gap, penalty, violation of a
#: side with the potential f + high + low, which as one number would be rounded.
_SIDES: dict[int, Any] = {KL: _add_kl, TV: _add_tv, BALANCED: _add_exact}


@compiled(inline="always")
def _sums(
    C: Any, a: Any, b: Any, f: Any, g: Any, P: Any, rows: Any, columns: Any, off_a: Any, off_b: Any
) -> tuple[float, float, float]:
    """Fill the marginals of P and what they miss (a, b) by; return <C, P>, <|C|, P> and <max(C - f - g, 0), P>.

    The second rows of `off_a` and `off_b` are for what rounds off of the first.
    """
    n, m = C.shape
    linear = size = slack = 0.0
    lost_a, lost_b = off_a[1], off_b[1]
    for i in range(n):
        off_a[0, i], lost_a[i] = -a[i], 0.0
    for j in range(m):
        columns[j], off_b[0, j], lost_b[j] = 0.0, -b[j], 0.0
    for i in range(n):
        plan, cost, mass = P[i], C[i], 0.0
        for j in range(m):
            p = plan[j]
            if p != 0.0:
                mass += p
                columns[j] += p
                _add(p, off_a[0], lost_a, i)
                _add(p, off_b[0], lost_b, j)
                linear += p * cost[j]
                size += p * abs(cost[j])
                slack += p * max(cost[j] - f[i] - g[j], 0.0)
        rows[i] = mass
    for i in range(n):
        off_a[0, i] += lost_a[i]
    for j in range(m):
        off_b[0, j] += lost_b[j]
    return linear, size, slack


@lru_cache(maxsize=8)
def certifier(kind_a: int, kind_b: int) -> Any:
    """The certificate for two kinds."""
    add_a, add_b = _SIDES[kind_a], _SIDES[kind_b]

    @compiled()
    def certify(
        problem: Unbalanced, potentials: Any, P: Any, highest_price: float, marginals: Any, out: Any, memory: Any
    ) -> None:
        """Objective, gap and scale of the plan P and the `potentials` (f + t, g - t) with t = high + low.

        An infinite tau is an exact marginal; costs from `highest_price` on mean that a pair is never matched.
        """
        C, a, b, tau_a, tau_b = problem
        f, g, high, low = potentials
        rows, columns = marginals
        off_a, off_b, sums = memory
        linear, size, slack = _sums(C, a, b, f, g, P, rows, columns, off_a, off_b)
        set_all(sums, 0.0)
        add_a(tau_a, high, low, a, f, rows, off_a[0], sums)
        add_b(tau_b, -high, -low, b, g, columns, off_b[0], sums)
        mass = max(total(a), total(b), total(rows))
        over, most = _extremes(C, f, g, highest_price)
        # f + g exceeds C by rounding at most, and lowered by as much it does not
        gap, scale = slack + sums[0] + over * mass, size + sums[1]
        if not sums[2] <= 1e-9 * mass:  # an exact marginal that is not
            gap = 1e300
        # where the optimum is zero, both gap and scale are rounding of what any plan costs, or of what it could
        prices = (tau_a if tau_a < math.inf else 0.0) + (tau_b if tau_b < math.inf else 0.0)
        nothing = ROUNDING * min(total(a), total(b)) * (min(most, tau_a + tau_b) if most > 0.0 else prices)
        if gap <= ROUNDING * scale or max(gap, scale) <= nothing:
            gap = 0.0
        out[LINEAR], out[OBJECTIVE], out[GAP], out[SCALE] = linear, linear + sums[1], gap, scale

    return certify
