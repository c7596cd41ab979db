"""How <C, P> changes with the weights.

The plan changes with them, so the envelope theorem says nothing.  But <C, P> is the derivative of the value V in a
factor s of the cost, and so

    d<C, P>/da_i = d/ds (dV/da_i)(s C)  at s = 1:

one direction in which the potentials move, found from one linear system.  With soft minima and proximal steps

    f = step_a(soft_a(g)),   g = step_b(soft_b(f)),   d soft_a = c_a - P dg,   d soft_b = c_b - Q df,

where P and Q are the plan with its rows, or its columns, normalised, and c_a, c_b the mean costs under them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jumbot.errors import UnsupportedError
from jumbot.transport.divergences import KL
from jumbot.transport.entropic import newton_steps
from jumbot.transport.marginal import Marginal, PartialMarginal
from jumbot.transport.outcome import AnyOutcome
from jumbot.transport.problem import Problem

_STEP = 1e-6  # of epsilon: potentials are moved so far to see which level they fill the weights to


class Unoffered(torch.autograd.Function):
    """Weights as they are; who asks for the gradient of <C, P> in them is refused, and nobody else."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor) -> Tensor:
        return weights.view_as(weights)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise UnsupportedError(
            "linear: its gradient in the weights is not supported at epsilon = 0 with a finite tau, where the plan may "
            "jump. Differentiate solution.value, or pass epsilon > 0."
        )


def linear_weight_gradient(problem: Problem, outcome: AnyOutcome, k: int) -> Tensor:
    """d<C, P>/da (k = 0) or d<C, P>/db (k = 1) for epsilon > 0, `(B, n)` or `(B, m)` in float64.

    With both marginals exact it is defined up to a constant; the representative of zero mean under the weights is
    returned, as for the value.
    """
    rows = k == 0
    side, weights = problem.sides[k]
    f, soft, df, dsoft = _moves(problem, outcome, rows)
    ratio = torch.exp((f - soft) / problem.epsilon)  # of the marginal to the weight
    if problem.reference == "product":  # R changes too: the potential's own move cancels
        level = _level_moves(side, f, weights, df, problem.epsilon) if isinstance(side, PartialMarginal) else 0.0
        gradient = ratio * (dsoft - level)
    else:
        gradient = ratio * df
    if problem.closed is not None:  # whatever their weight, nothing is transported there
        gradient = gradient.masked_fill(problem.closed.rows if rows else problem.closed.columns, 0.0)
    if problem.source.exact and problem.target.exact:
        mean = torch.where(weights > 0, weights * gradient, 0.0).sum(-1, keepdim=True) / weights.sum(-1, keepdim=True)
        gradient = gradient - mean
    return gradient


def _moves(problem: Problem, outcome: AnyOutcome, rows: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Potential and soft minimum of one side, and their derivatives in a factor of the cost."""
    paid = problem.cost.double() if problem.tilt is None else problem.cost.double() + problem.tilt
    cost = paid if rows else paid.mT
    other = outcome.g if rows else outcome.f
    f, soft_a, P = newton_steps._half(problem, other, rows)
    _, soft_b, Q = newton_steps._half(problem, f, not rows)
    P, Q = P.exp(), Q.exp()
    (own, a), (opposite, b) = problem.sides if rows else problem.sides[::-1]
    D_a, D_b = _slope(own, soft_a, a, problem.epsilon), _slope(opposite, soft_b, b, problem.epsilon)
    c_a, c_b = (P * cost).sum(-1, keepdim=True), (Q * cost.mT).sum(-1, keepdim=True)
    # df = D_a (c_a - P dg) with dg = D_b (c_b - Q df)
    DP, DQ = D_a @ P, D_b @ Q
    matrix = torch.eye(f.shape[-1], dtype=f.dtype, device=f.device) - DP @ DQ
    right = D_a @ c_a - DP @ (D_b @ c_b)
    df = _solved(problem, matrix, right)
    dg = D_b @ c_b - DQ @ df
    return f, soft_a, df[..., 0], (c_a - P @ dg)[..., 0]


def _slope(side: Marginal, soft: Tensor, weights: Tensor, epsilon: float) -> Tensor:
    if isinstance(side.divergence, KL) or side.exact:  # without the rounding of differences
        share = 1.0 if side.exact else side.tau / (side.tau + epsilon)
        return torch.diag_embed(torch.full_like(soft, share))
    return side.slope(soft, weights, epsilon).nan_to_num(0.0)


def _solved(problem: Problem, matrix: Tensor, right: Tensor) -> Tensor:
    """The shortest solution where there are many: potentials may be shifted against each other."""
    if isinstance(problem.source.divergence, KL) or isinstance(problem.target.divergence, KL):
        return newton_steps._solve(matrix, right[..., 0])[..., None]
    device = matrix.device
    found = [torch.linalg.lstsq(M.cpu(), r.cpu(), driver="gelsd").solution for M, r in zip(matrix, right, strict=True)]
    return torch.stack(found).to(device)


def _level_moves(side: PartialMarginal, f: Tensor, weights: Tensor, df: Tensor, epsilon: float) -> Tensor:
    """How the level moves to which the cheapest weights are filled."""
    step = _STEP * epsilon / df.abs().amax(-1, keepdim=True).clamp_min(1e-300)
    return (side._level(f + step * df, weights) - side._level(f - step * df, weights)) / (2 * step)
