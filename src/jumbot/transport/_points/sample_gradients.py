"""Gradients of the value in the points and the weights: one more pass, no graph through the sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.transport._entropic.translation import centre
from jumbot.transport._gradients import edge, graphed, with_closed_points
from jumbot.transport._points._point_moves import SampleCurvature
from jumbot.transport._points.callable_tiles import CallableTiles
from jumbot.transport._points.rounding import Solved, exponents

_TRACE = 1e-200  # a weight that is smaller leaves no mass in the plan to tell its share from


def point_gradients(solved: Solved, needed: tuple[bool, bool]) -> list[Tensor | None]:
    """dOT/dx and dOT/dy: sum_j P_ij dC_ij/dx_i."""
    plan, stream, epsilon = solved.proof.plan, solved.stream, solved.problem.epsilon
    if isinstance(stream, CallableTiles):
        return stream.pull_back(plan.F, plan.G, needed)
    out: list[Tensor | None] = []
    points = [cells.points for cells in stream.cells]
    for k, need in enumerate(needed):
        if not need:
            out.append(None)
            continue
        own, other = points[k], points[1 - k]
        v = np.concatenate([other, np.ones((len(other), 1))], axis=1)
        sums = stream.products(k, plan.F, plan.G, v, by_slopes=True)
        slope = 2 * epsilon * stream.ground.factor * (sums[:, -1:] * own - sums[:, :-1])
        out.append(torch.from_numpy(slope))
    return out


def weight_gradient(solved: Solved, k: int) -> Tensor:
    """dOT/da (k = 0) or dOT/db (k = 1), `(n,)` or `(m,)`: as `autograd.weight_gradient`, soft minima by a pass."""
    problem, epsilon = solved.problem, solved.problem.epsilon
    side, weights = problem.sides[k]
    f, g = centre(problem, solved.f, solved.g)
    potential, mass = (f, g)[k], problem.given[1 - k].sum(-1, keepdim=True)
    if problem.reference == "product":
        rows = torch.from_numpy((solved.proof.rows, solved.proof.columns)[k])[None]
        ratio = rows / torch.where(weights > _TRACE, weights, 1.0)
        if not bool((weights > _TRACE).all()) or side.hard:
            # a point without weight leaves no trace in the gap, so its potential is set here to the best one
            other = exponents(problem, solved.stream, f, g)[1 - k]
            soft = -epsilon * torch.from_numpy(solved.stream.log_sums(k, other, None, np.float64))[None]
            potential = torch.where(weights > 0, potential, side.step(soft, weights, epsilon))
            ratio = torch.exp((potential - soft) / epsilon)
        gradient = side.weight_gradient(potential, weights) + epsilon * (mass - ratio)
    else:
        gradient = side.weight_gradient(potential, weights)
    shut = solved.stream.closed[k]
    closed = None if shut is None or not shut.any() else torch.from_numpy(shut)[None]
    return with_closed_points(problem, k, gradient, closed)[0]


class SampleValue(torch.autograd.Function):
    """The value of each problem of a batch `(B,)`; the points and weights come flattened to `(B, ...)`."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, solved: list[Solved], *inputs: Tensor | None) -> Tensor:
        ctx.solved = solved
        ctx.save_for_backward(*inputs)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        needed, inputs = ctx.needs_input_grad[2:], ctx.saved_tensors
        with torch.no_grad():
            slopes = _slopes(ctx.solved, needed)
        if torch.is_grad_enabled():
            slopes = list(graphed(slopes, [edge(x) for x in inputs], SampleCurvature(ctx.solved)))
        grads = [
            None if slope is None else (grad.reshape(-1, *[1] * (slope.ndim - 1)) * slope).to(x)
            for slope, x in zip(slopes, inputs, strict=True)
        ]
        return None, None, *grads


def _slopes(solved: list[Solved], needed: Sequence[bool]) -> list[Tensor | None]:
    """Those in x, y, a and b that are needed, for all problems of the batch, in float64."""
    found: list[list[Tensor]] = [[] for _ in needed]
    for s in solved:
        points = point_gradients(s, (needed[0], needed[1]))
        weights = [weight_gradient(s, k) if needed[2 + k] else None for k in (0, 1)]
        for at, slope in enumerate([*points, *weights]):
            if slope is not None:
                found[at].append(slope.double())
    return [torch.stack(slopes) if slopes else None for slopes in found]
