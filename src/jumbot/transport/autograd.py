"""Gradients of the transport value by the envelope theorem: one plan, no graph through the iterations.

    dOT/dC = P,    dOT/da_i = -tau_a phi*(-f_i/tau_a) + epsilon (m_b - (P1)_i / a_i)

The last term belongs to R = a b' only.  With both marginals exact dOT/da is defined up to a constant; the
representative of zero a-weighted mean is returned.  Total variation has a kink where the masses are equal and none is
destroyed: more and less of a side cost differently, and the mean of both derivatives is returned, as central
differences would.  At epsilon = 0 kinks are common (uniform weights); what is returned is one of the subgradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from jumbot.transport.translation import centre

if TYPE_CHECKING:
    from jumbot.transport.solution import Solution


class _Envelope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, solution: Solution, *inputs: Tensor | None) -> Tensor:
        ctx.solution = solution
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        solution = ctx.solution
        cost, a, b = solution.inputs
        grads: list[Tensor | None] = [None, None, None]
        if ctx.needs_input_grad[2]:
            grads[0] = grad[..., None, None] * solution.plan
        for k, (weights, needed) in enumerate(zip((a, b), ctx.needs_input_grad[3:], strict=True)):
            if needed:
                slope = weight_gradient(solution, k).reshape(*cost.shape[:-2], -1).to(cost.dtype)
                grads[k + 1] = (grad[..., None] * slope).sum_to_size(weights.shape)
        return None, None, *grads


def transport_value(value: Tensor, solution: Solution) -> Tensor:
    """`value` with its gradient in the inputs of `solution`, where any is asked for."""
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in solution.inputs):
        return _Envelope.apply(value, solution, *solution.inputs)
    return value


def weight_gradient(solution: Solution, k: int) -> Tensor:
    """dOT/da (k = 0) or dOT/db (k = 1), `(B, n)` or `(B, m)` in float64."""
    problem, outcome, epsilon = solution.problem, solution.outcome, solution.problem.epsilon
    side, weights = problem.sides[k]
    mass = problem.given[1 - k].sum(-1, keepdim=True)
    f, g = centre(problem, outcome.f, outcome.g) if epsilon > 0 else (outcome.f, outcome.g)
    potential, other = (f, g) if k == 0 else (g, f)
    if epsilon > 0 and problem.reference == "product" and not side.hard and bool((weights > 0).all()):
        marginal = outcome.certificate.rows if k == 0 else outcome.certificate.columns
        gradient = side.weight_gradient(potential, weights) + epsilon * (mass - marginal / weights)
    elif epsilon > 0 and problem.reference == "product":
        other_weights = problem.sides[1 - k][1]
        cost = problem.cost if k == 0 else problem.cost.mT
        log_terms = (other[..., None, :] - cost) / epsilon + torch.log(other_weights)[..., None, :]
        soft = -epsilon * torch.logsumexp(log_terms, -1)
        # a point without weight leaves no trace in the gap, so its potential is set here to the best one
        potential = torch.where(weights > 0, potential, side.step(soft, weights, epsilon))
        # (P1)_i / a_i without dividing by a_i
        ratio = torch.exp((potential - soft) / epsilon)
        gradient = side.weight_gradient(potential, weights)
        gradient = gradient + epsilon * (mass - ratio)
    else:
        gradient = side.weight_gradient(potential, weights)
    if problem.closed is not None:  # a closed point loses all of its weight
        closed = problem.closed.rows if k == 0 else problem.closed.columns
        lost = side.tau * side.divergence.phi(torch.zeros_like(gradient))
        gradient = torch.where(closed, lost + (epsilon * mass if problem.reference == "product" else 0.0), gradient)
    if problem.source.exact and problem.target.exact:
        mean = (weights * gradient).sum(-1, keepdim=True) / weights.sum(-1, keepdim=True)
        gradient = gradient - mean
    return gradient
