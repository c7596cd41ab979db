"""epsilon > 0: which engine sweeps, and what happens to the problems that it leaves unfinished."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from jumbot.transport import fused, newton, sinkhorn
from jumbot.transport.certificate import Certificate, certify
from jumbot.transport.divergences import KL
from jumbot.transport.problem import Problem
from jumbot.transport.solution import Status

Sweep = Callable[..., tuple[Tensor, Tensor, Tensor, Certificate]]

_STALLS = 4  # rounds without much progress before a problem is given up
_PATIENCE = 3000  # sweeps before a Newton step of the same cost is tried


def solve_entropic(
    problem: Problem, start: tuple[Tensor, Tensor] | None, tol: float, max_iterations: int, symmetric: bool = False
) -> tuple[Tensor, Tensor, Tensor, Certificate, np.ndarray]:
    """Potentials, iterations, certificate and statuses."""
    compiled = fused.fits(problem)
    hard = problem.source.hard or problem.target.hard
    price = _price(problem) if hard else torch.zeros(problem.cost.shape[0], dtype=torch.float64)
    sweep = fused.sweep if compiled else sinkhorn.sweep
    patience = _PATIENCE if newton.fits(problem) else max_iterations
    limit = min(patience, max_iterations)
    if symmetric and fused.is_symmetric(problem):
        f, g, taken, certificate = fused.sweep_symmetric(problem, tol, limit, price)
    else:
        if start is None and _needs_annealing(problem):
            start = _anneal(problem, sweep, price)
        f, g, taken, certificate = sweep(problem, start, tol, limit, price)
    if hard and compiled:
        certificate = certify(problem, f, g)
    if bool((certificate.gap <= tol * certificate.scale).all()):
        return f, g, taken, certificate, np.full(taken.shape[0], Status.CONVERGED, dtype=object)
    relative = certificate.relative_gap

    stalls = torch.zeros_like(relative, dtype=torch.long)
    while True:
        open_ = torch.nonzero(~(relative <= tol) & (taken < max_iterations) & (stalls < _STALLS))[:, 0]
        if open_.numel() == 0:
            break
        part = problem.take(open_)
        before = relative[open_]
        left = max_iterations - int(taken[open_].max())
        f_part, g_part, used, certificate_part = _push(part, f[open_], g[open_], tol, left, price[open_], sweep)
        after = certificate_part.relative_gap
        improved = ~(after >= before)
        at = open_[improved]
        f[at], g[at] = f_part[improved], g_part[improved]
        for name in Certificate.__dataclass_fields__:
            getattr(certificate, name)[at] = getattr(certificate_part, name)[improved]
        relative[open_] = torch.where(improved, after, before)
        taken[open_] += used
        price[open_] *= 10
        stalls[open_] += (~(after < 0.5 * before)).long()
    return f, g, taken, certificate, _statuses(relative <= tol, taken, max_iterations)


def _push(problem, f, g, tol, left, price, sweep):  # type: ignore[no-untyped-def]
    """A round of Newton steps, then sweeps for those that still need them."""
    used = torch.zeros(f.shape[0], dtype=torch.long, device=f.device)
    best = certify(problem, f, g)
    if newton.fits(problem):
        for _ in range(6):
            f_new, g_new = newton.newton(problem, f, g, 5)
            candidate = certify(problem, f_new, g_new)
            used += 5
            better = candidate.relative_gap < best.relative_gap
            f, g = torch.where(better[:, None], f_new, f), torch.where(better[:, None], g_new, g)
            if not bool(better.any()):
                break
            best = certify(problem, f, g)
            if bool((best.relative_gap <= tol).all()):
                return f, g, used, best
    f, g, taken, best = sweep(problem, (f, g), tol, max(min(4 * _PATIENCE, left), 1), price)
    return f, g, used + taken, certify(problem, f, g)


def _needs_annealing(problem: Problem) -> bool:
    """Whether epsilon is small and no price on the marginals keeps the potentials from wandering."""
    known = all(isinstance(side.divergence, KL) for side, _ in problem.sides)
    return not known and float(problem.cost.max() - problem.cost.min()) > 100 * problem.epsilon


def _anneal(problem: Problem, sweep: Sweep, price: Tensor) -> tuple[Tensor, Tensor] | None:
    """Potentials of the problem at ever smaller epsilon, each the start of the next."""
    start = None
    epsilon = float(problem.cost.max() - problem.cost.min()) / 20
    while epsilon > 1.5 * problem.epsilon:
        start = sweep(replace(problem, epsilon=epsilon), start, 1e-3, 60, price)[:2]
        epsilon /= 3
    return start


def _price(problem: Problem) -> Tensor:
    """A first guess of what rounding a unit of violated constraint costs: the average cost under R."""
    weights = problem.a[:, :, None] * problem.b[:, None, :]
    total = (problem.cost.abs() * weights).sum((-2, -1)) / weights.sum((-2, -1))
    return total.double() + problem.epsilon


def _statuses(done: Tensor, taken: Tensor, limit: int) -> np.ndarray:
    out = np.empty(done.shape[0], dtype=object)
    for k, (ok, n) in enumerate(zip(done.tolist(), taken.tolist(), strict=True)):
        out[k] = Status.CONVERGED if ok else (Status.MAX_ITERATIONS if n >= limit else Status.FAILED)
    return out
