"""Gradients of the transport value by the envelope theorem: one plan, no graph through the iterations.

    dOT/dC = P,    dOT/da_i = -tau_a phi*(-f_i/tau_a) + epsilon (m_b - (P1)_i / a_i)

The last term belongs to R = a b' only.  With both marginals exact dOT/da is defined up to a constant; the
representative of zero a-weighted mean is returned.  Total variation has a kink where the masses are equal and none is
destroyed: more and less of a side cost differently, and the mean of both derivatives is returned, as central
differences would.  At epsilon = 0 kinks are common (uniform weights); what is returned is one of the subgradients.

Nodes of the graph keep the outcome and not the `Solution`, which keeps them: a cycle would outlive its last name.

How the plan changes with its inputs is not in the graph, so a gradient that is differentiated again would lack that
part, and nobody would see it: `first` makes it an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from jumbot.errors import UnsupportedError
from jumbot.transport.entropic.translation import centre
from jumbot.transport.outcome import AnyOutcome
from jumbot.transport.problem import Problem

_FAR = 1e30  # the soft minimum of a point that nothing can be matched to; blocked pairs are dearer
Inputs = tuple[Tensor, Tensor | None, Tensor | None]


class _First(torch.autograd.Function):
    """A gradient as it is; its own derivative in the inputs is refused."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *inputs: Tensor | None) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        raise UnsupportedError(
            "a gradient of a transport value was differentiated again, which is not offered: how the plan changes "
            "would be left out. Detach the gradient; or, to hold the plan fixed, differentiate "
            "(solution.plan * cost).sum()."
        )


def first(gradients: Iterable[Tensor | None], inputs: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Gradients in `inputs` that cannot be differentiated again, for the end of a backward pass."""
    if not torch.is_grad_enabled():  # nor will they be
        return list(gradients)
    return [None if x is None else _First.apply(x, *inputs) for x in gradients]


class _Value(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, problem: Problem, outcome: AnyOutcome, *inputs: Tensor | None) -> Tensor:
        ctx.problem, ctx.outcome, ctx.inputs = problem, outcome, inputs
        ctx.like = [None if x is None else (x.shape, x.dtype) for x in inputs]
        # gradients in the weights read the cost again: kept by torch, it may not be written to meanwhile
        ctx.save_for_backward(outcome.plan, inputs[0] if any(ctx.needs_input_grad[4:]) else None)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        plan, batch = ctx.saved_tensors[0], ctx.like[0][0][:-2]
        grads: list[Tensor | None] = [None, None, None]
        with torch.no_grad():
            for k, needed in enumerate(ctx.needs_input_grad[3:]):
                if needed:
                    shape, dtype = ctx.like[k]
                    slope = plan if k == 0 else weight_gradient(ctx.problem, ctx.outcome, k - 1)
                    product = grad.reshape(-1, *[1] * (slope.ndim - 1)) * slope
                    grads[k] = product.reshape(*batch, *slope.shape[1:]).sum_to_size(shape).to(dtype)
        return None, None, None, *first(grads, ctx.inputs)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, linear: Tensor, plan: Tensor, cost: Tensor) -> Tensor:
        ctx.save_for_backward(plan)
        ctx.cost = cost
        return linear.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (plan,), cost = ctx.saved_tensors, ctx.cost
        with torch.no_grad():
            gradient = (grad[:, None, None] * plan).reshape(cost.shape).to(cost.dtype)
        return None, None, *first([gradient], [cost])


def with_gradients(value: Tensor, problem: Problem, outcome: AnyOutcome, inputs: Inputs) -> Tensor:
    """The objectives `(B,)` with their gradients in cost and weights."""
    return _Value.apply(value, problem, outcome, *inputs)


def with_plan(linear: Tensor, plan: Tensor, cost: Tensor) -> Tensor:
    """<C, P> `(B,)` with its gradient in the cost, the plan."""
    return _Linear.apply(linear, plan, cost)


def weight_gradient(problem: Problem, outcome: AnyOutcome, k: int) -> Tensor:
    """dOT/da (k = 0) or dOT/db (k = 1), `(B, n)` or `(B, m)` in float64."""
    epsilon, (side, weights) = problem.epsilon, problem.sides[k]
    mass = problem.given[1 - k].sum(-1, keepdim=True)
    f, g = centre(problem, outcome.f, outcome.g) if epsilon > 0 else (outcome.f, outcome.g)
    potential, other = (f, g) if k == 0 else (g, f)
    if epsilon > 0 and problem.reference == "product" and not side.hard and bool((weights > 0).all()):
        marginal = outcome.certificate.rows if k == 0 else outcome.certificate.columns
        gradient = side.weight_gradient(potential, weights) + epsilon * (mass - marginal / weights)
    elif epsilon > 0 and problem.reference == "product":
        other_side, other_weights = problem.sides[1 - k]
        if problem.closed is not None:  # a first grain of weight here opens what is closed for want of it
            closed = problem.closed.columns if k == 0 else problem.closed.rows
            price = other_side.step(torch.full_like(other, _FAR), other_weights, epsilon)
            other, other_weights = torch.where(closed, price, other), problem.given[1 - k]
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
        # under "ones" the slope at a weight of zero is -inf
        mean = torch.where(weights > 0, weights * gradient, 0.0).sum(-1, keepdim=True) / weights.sum(-1, keepdim=True)
        gradient = gradient - mean
    return gradient
