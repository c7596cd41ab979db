"""Which rows are paired: a permutation, pairs drawn from the plan, or the plan rounded to an assignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from jumbot.errors import ArgumentError
from jumbot.transport.draws import Generator, uniform
from jumbot.transport.problem import make_problem
from jumbot.transport.solve import solve

_TIE = 1e-9  # of the largest entry: among pairs that the plan does not tell apart the cheaper ones are taken


@dataclass(frozen=True)
class Pairs:
    """Rows i and j, and by which factor mass grows from one to the other."""

    i: Tensor
    j: Tensor
    growth: Tensor


def find_pairs(
    cost: Tensor, settings: dict[str, Any], tol: float, draw: int | None, replace: bool | None, generator: Generator
) -> Pairs:
    n, m = cost.shape
    count = n if draw is None else draw
    if replace is False and count > min(n, m):
        if draw is not None:
            raise ArgumentError(f"draw must be at most {min(n, m)} with replace=False, which uses each sample once.")
        count = m  # fewer columns than rows
    problem = make_problem(cost, None, None, **settings, reference="product")
    balanced = problem.source.exact and problem.target.exact
    if n == m and problem.epsilon == 0 and balanced and replace is not True and (replace is False or count == n):
        from jumbot.transport.exact.assignment import permutation  # numba takes a moment to load

        j = torch.from_numpy(permutation(cost.cpu().numpy())).to(cost.device)
        i = torch.arange(n, device=cost.device)
        if count < n:
            i = _some(torch.ones_like(cost[0]), count, generator)
        return Pairs(i, j[i], torch.ones_like(cost[0, :1]).expand(count))
    solution = solve(cost, **settings, tol=tol)
    if replace is False:
        i, j = _assigned(solution.plan, cost)
        if count < len(i):
            kept = _some(solution.plan[i, j], count, generator)
            i, j = i[kept], j[kept]
    else:
        i, j = solution.sample(count, generator)
    rows, columns = solution.marginals
    grown, shrunk = n * rows[i], m * columns[j]
    growth = torch.where(shrunk > 0, grown / torch.where(shrunk > 0, shrunk, 1.0), 0.0)
    return Pairs(i, j, growth)


def _assigned(plan: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
    """The assignment on which the plan has most mass; each row, or each column if they are fewer, once."""
    from scipy.optimize import linear_sum_assignment

    finite = torch.where(cost.isfinite(), cost, 0.0)
    dear = torch.where(cost.isfinite(), cost, 2 * finite.abs().max() + 1)
    score = plan / plan.max().clamp_min(1e-300) - _TIE * dear / dear.abs().max().clamp_min(1e-300)
    i, j = linear_sum_assignment(score.cpu().double().numpy(), maximize=True)
    return torch.from_numpy(i).to(cost.device), torch.from_numpy(j).to(cost.device)


def _some(weights: Tensor, count: int, generator: Generator) -> Tensor:
    """Places of `count` different entries, drawn by weight one after the other (by the largest of Gumbel keys)."""
    noise = uniform((1, len(weights)), generator)[0].to(weights.device).clamp_min(1e-300)
    keys = weights.double().log() - (-noise.log()).log()
    return keys.topk(count).indices.sort().values
