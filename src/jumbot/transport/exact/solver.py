"""epsilon = 0: which exact method fits, and its certificate.

For any P >= 0 and f + g <= C,  primal(P) - dual(f, g) = <P, C - f - g> + the Fenchel-Young terms of both marginals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.transport.certificate import Certificate, round_to_marginals
from jumbot.transport.compiled.sides import certifier
from jumbot.transport.compiled.threads import run
from jumbot.transport.divergences import KL
from jumbot.transport.exact import balanced, kl, partial, total_variation
from jumbot.transport.exact.vectors import lowest
from jumbot.transport.kinds import arguments
from jumbot.transport.marginal import PartialMarginal
from jumbot.transport.outcome import AnyOutcome, Outcome, RawOutcome
from jumbot.transport.problem import Problem

Solved = tuple[np.ndarray, np.ndarray, np.ndarray, int]  # plan, potentials, iterations


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
    if device.type != "cpu" or not _plain(problem, weights):
        return _certified(problem, results)
    out = np.array([[float(r[3]), 0.0, 0.0, 0.0, 0.0] for r in results])
    plan, f, g = (np.stack([r[i] for r in results]) if batch > 1 else results[0][i][None] for i in range(3))
    rows, columns = np.empty(f.shape), np.empty(g.shape)
    (kind_a, *source), (kind_b, *target) = arguments(problem.source, 1.0), arguments(problem.target, 1.0)
    certify, memory = certifier(kind_a, kind_b), (np.empty((5, f.shape[1])), np.empty((5, g.shape[1])), np.empty(5))
    for k in range(batch):
        certify(cost[k], a[k], b[k], f[k], g[k], plan[k], *source, *target, rows[k], columns[k], out[k], *memory)
    return RawOutcome(1.0, f, g, plan, rows, columns, out)


def _plain(problem: Problem, weights: list[np.ndarray]) -> bool:
    """Whether the compiled certificate applies; it divides by the weights."""
    if isinstance(problem.source, PartialMarginal) or problem.blocked is not None:
        return False
    return all(lowest(w.ravel()) > 0 for w in weights)


def _certified(problem: Problem, results: list[Solved]) -> Outcome:
    device = problem.cost.device
    plan, f, g = (torch.from_numpy(np.stack([r[i] for r in results])).to(device) for i in range(3))
    taken = torch.tensor([float(r[3]) for r in results], dtype=torch.float64, device=device)
    return Outcome(f, g, taken, certify_unregularised(problem, plan, f, g))


def _solve_one(
    problem: Problem, cost: np.ndarray, a: np.ndarray, b: np.ndarray, start: tuple[np.ndarray, np.ndarray] | None,
    tol: float, max_iterations: int,
) -> Solved:  # fmt: skip
    source, target = problem.source, problem.target
    if isinstance(source, PartialMarginal):
        return *partial(cost, a, b, source.mass, start and start[0]), 0
    if source.exact and target.exact:
        return *balanced(cost, a, b, start and start[0]), 0
    tau_a, tau_b = (np.inf if side.exact else side.tau for side in (source, target))
    soft = target if source.exact else source
    if isinstance(soft.divergence, KL):
        return kl(cost, a, b, tau_a, tau_b, tol, max_iterations, start)
    return *total_variation(cost, a, b, tau_a, tau_b, start), 0


def certify_unregularised(problem: Problem, plan: Tensor, f: Tensor, g: Tensor) -> Certificate:
    """What the plan and the potentials prove."""
    if problem.blocked is not None:  # what an interior point leaves there goes back to the pairs of an exact marginal
        plan = plan.masked_fill(problem.blocked, 0.0)
        if problem.source.hard or problem.target.hard:
            plan = round_to_marginals(problem, plan)
    cost = problem.cost.double()
    rows, columns = plan.sum(-1), plan.sum(-2)
    linear, size = (cost * plan).sum((-2, -1)), (cost.abs() * plan).sum((-2, -1))
    slack = (cost - f[:, :, None] - g[:, None, :]).clamp_min(0)
    gap, penalty, rounding = (plan * slack).sum((-2, -1)), torch.zeros_like(linear), 1e-15 * size
    for (side, weights), potential, p in zip(problem.sides, (f, g), (rows, columns), strict=True):
        gap = torch.where(side.broken(p, weights), torch.inf, gap + side.fenchel_young(p, potential, weights))
        penalty = penalty + side.penalty(p, weights)
        if not side.hard:
            rounding = rounding + 1e-15 * side.tau * (weights.sum(-1) + p.sum(-1))
    gap = torch.where(gap <= rounding, 0.0, gap)  # where the optimum is zero, both gap and scale are rounding
    return Certificate(plan, rows, columns, linear, linear + penalty, gap, size + penalty)
