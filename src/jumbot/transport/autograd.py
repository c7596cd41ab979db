"""Gradients of the transport value by the envelope theorem: one plan, no graph through the iterations.

    dOT/dC = P,    dOT/da_i = -tau_a phi*(-f_i/tau_a) + epsilon (m_b - (P1)_i / a_i)

The last term belongs to R = a b' only.  With both marginals exact dOT/da is defined up to a constant; the
representative of zero a-weighted mean is returned.  Total variation has a kink where the masses are equal and none is
destroyed: more and less of a side cost differently, and the mean of both derivatives is returned, as central
differences would.  At epsilon = 0 kinks are common (uniform weights); what is returned is one of the subgradients.

Nodes of the graph keep the outcome and not the `Solution`, which keeps them: a cycle would outlive its last name.

How the plan changes with its inputs is not in the graph, so a gradient that is differentiated again would lack that
part, and nobody would see it: `fixed` makes it an error.  What a gradient is multiplied with may be differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from jumbot.errors import UnsupportedError
from jumbot.transport.entropic.translation import centre
from jumbot.transport.linear_slopes import Unoffered, linear_weight_gradient
from jumbot.transport.outcome import AnyOutcome
from jumbot.transport.problem import Problem

_FAR = 1e30  # times all prices: the soft minimum of a point that nothing can be matched to; blocked pairs are dearer
_TRACE = 1e-200  # a weight that is smaller leaves no mass in the plan to tell its share from
Inputs = tuple[Tensor, Tensor | None, Tensor | None]
Slope = Callable[[int], Tensor]


class _Fixed(torch.autograd.Function):
    """A slope as it is; its own derivative in the inputs is refused."""

    @staticmethod
    def forward(ctx: Any, slope: Tensor, *inputs: Tensor | None) -> Tensor:
        return slope.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        raise UnsupportedError(
            "a gradient of a transport value was differentiated again, which is not offered: how the plan changes "
            "would be left out. Detach the gradient; or, to hold the plan fixed, differentiate "
            "(solution.plan * cost).sum()."
        )


def fixed(slope: Tensor, inputs: Sequence[Tensor | None]) -> Tensor:
    """A slope in `inputs`, in a backward pass, that is refused to be differentiated in them."""
    return _Fixed.apply(slope, *inputs) if torch.is_grad_enabled() else slope  # else nobody will


def _edges(inputs: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Tensors of no entries where the inputs are in the graph, for `fixed`: a node that kept those would keep their
    memory, and itself where they are written to."""
    return tuple(
        x.index_select(-1, torch.empty(0, dtype=torch.long, device=x.device))
        if x is not None and x.requires_grad
        else None
        for x in inputs
    )


class _Total(torch.autograd.Function):
    """A number of each problem, with the slopes that `slope(k)` finds of it in the k-th of cost and weights."""

    @staticmethod
    def forward(ctx: Any, total: Tensor, slope: Slope, plan: Tensor, edges: Any, *inputs: Tensor | None) -> Tensor:
        ctx.slope, ctx.edges = slope, edges
        ctx.like = [None if x is None else (x.shape, x.dtype) for x in inputs]
        # gradients in the weights read the cost again: kept by torch, it may not be written to meanwhile
        ctx.save_for_backward(plan, inputs[0] if any(ctx.needs_input_grad[5:]) else None)
        return total.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        plan, batch = ctx.saved_tensors[0], ctx.like[0][0][:-2]
        grads: list[Tensor | None] = [None, None, None]
        for k, needed in enumerate(ctx.needs_input_grad[4:]):
            if needed:
                shape, dtype = ctx.like[k]
                with torch.no_grad():
                    slope = plan if k == 0 else ctx.slope(k - 1)
                product = grad.reshape(-1, *[1] * (slope.ndim - 1)) * fixed(slope, ctx.edges)
                grads[k] = product.reshape(*batch, *slope.shape[1:]).sum_to_size(shape).to(dtype)
        return None, None, None, None, *grads


def with_gradients(value: Tensor, problem: Problem, outcome: AnyOutcome, inputs: Inputs) -> Tensor:
    """The objectives `(B,)` with their gradients in cost and weights."""
    slope = partial(weight_gradient, problem, outcome)
    return _Total.apply(value, slope, outcome.plan, _edges(inputs), *inputs)


def with_plan(linear: Tensor, problem: Problem, outcome: AnyOutcome, inputs: Inputs) -> Tensor:
    """<C, P> `(B,)` with its gradients: in the cost the plan, held fixed; in the weights those of the moving plan."""
    edges, slope = _edges(inputs), partial(linear_weight_gradient, problem, outcome)
    if problem.epsilon == 0 and problem.source.hard and problem.target.hard:  # there it is the value
        slope = partial(weight_gradient, problem, outcome)
    elif problem.epsilon == 0:
        a, b = (None if w is None else Unoffered.apply(w) for w in inputs[1:])
        inputs = (inputs[0], a, b)
        slope = partial(_none, problem)
    return _Total.apply(linear, slope, outcome.plan, edges, *inputs)


def _none(problem: Problem, k: int) -> Tensor:
    """What `Unoffered` gets, which is computed for the cost's sake where weights have gradients of their own."""
    return torch.zeros_like(problem.given[k])


def weight_gradient(problem: Problem, outcome: AnyOutcome, k: int) -> Tensor:
    """dOT/da (k = 0) or dOT/db (k = 1), `(B, n)` or `(B, m)` in float64."""
    epsilon, (side, weights) = problem.epsilon, problem.sides[k]
    mass = problem.given[1 - k].sum(-1, keepdim=True)
    f, g = centre(problem, outcome.f, outcome.g) if epsilon > 0 else (outcome.f, outcome.g)
    potential, other = (f, g) if k == 0 else (g, f)
    if epsilon > 0 and problem.reference == "product" and not side.hard and bool((weights > _TRACE).all()):
        marginal = outcome.certificate.rows if k == 0 else outcome.certificate.columns
        gradient = side.weight_gradient(potential, weights) + epsilon * (mass - marginal / weights)
    elif epsilon > 0 and problem.reference == "product":
        other_side, other_weights = problem.sides[1 - k]
        far = _FAR * max(1.0, epsilon, *(s.tau for s, _ in problem.sides if not s.hard))
        if problem.closed is not None:  # a first grain of weight here opens what is closed for want of it
            closed = problem.closed.columns if k == 0 else problem.closed.rows
            price = other_side.step(torch.full_like(other, far), other_weights, epsilon)
            other, other_weights = torch.where(closed, price, other), problem.given[1 - k]
        cost = problem.cost if problem.blocked is None else problem.cost.masked_fill(problem.blocked, _FAR * far)
        cost = cost if k == 0 else cost.mT
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
