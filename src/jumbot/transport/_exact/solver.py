"""epsilon = 0: which exact method fits, and its certificate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.transport._certificate import Certificate, round_to_marginals
from jumbot.transport._exact import balanced, kl, partial, total_variation
from jumbot.transport._exact.certifier import ROUNDING, certifier
from jumbot.transport._kernels.threads import run
from jumbot.transport._marginal import Marginal, PartialMarginal
from jumbot.transport._outcome import ITERATIONS, AnyOutcome, Outcome, RawOutcome, arguments
from jumbot.transport._problem import Problem
from jumbot.transport.divergences import KL

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
    if isinstance(soft.divergence, KL):
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
    # as in `certifier.py`: where the optimum is zero, both gap and scale are rounding of what any plan costs
    nothing = ROUNDING * torch.maximum(problem.a.sum(-1), problem.b.sum(-1)) * cost.abs().amax((-2, -1))
    gap = torch.where((gap <= ROUNDING * size) | (torch.maximum(gap, size) <= nothing), 0.0, gap)
    return Outcome(f_, g_, stats[:, ITERATIONS], Certificate(P, rows, columns, linear, linear, gap, size))
