"""Gradients of the transport value by the envelope theorem: one plan, no graph through the iterations.

    dOT/dC = P,    dOT/da_i = -tau_a phi*(-f_i/tau_a) + epsilon (m_b - (P1)_i / a_i)

The last term belongs to R = a b' only.  With both marginals exact dOT/da is defined up to a constant; the
representative of zero a-weighted mean is returned.  Total variation has a kink if the masses are equal and none is
destroyed: adding and removing mass cost differently, and the mean of both derivatives is returned, as by central
differences.  At epsilon = 0 kinks are common (uniform weights); one of the subgradients is returned.

Nodes of the graph keep the outcome and not the `Solution`, which keeps them: a reference cycle would not be freed at
once.

A gradient that is differentiated again depends on the change of the plan, which is not part of the graph: `graphed`
gets it from `_curvature.py`.  Unsupported second derivatives raise an error when they are requested, and so do all
third ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from jumbot.errors import UnsupportedError
from jumbot.transport._curvature import TRACE, DenseCurvature
from jumbot.transport._entropic import newton_steps
from jumbot.transport._entropic.translation import centre
from jumbot.transport._marginal import L2Marginal, Marginal, PartialMarginal
from jumbot.transport._outcome import AnyOutcome
from jumbot.transport._problem import Problem
from jumbot.transport.divergences import KL

_STEP = 1e-6  # of epsilon: the move of potentials that shows to which level they fill the weights


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
    if problem.closed is not None:  # nothing is transported there, whatever their weight
        gradient = gradient.masked_fill(problem.closed.rows if rows else problem.closed.columns, 0.0)
    return _along_equal_masses(problem, weights, gradient)


def _along_equal_masses(problem: Problem, weights: Tensor, gradient: Tensor) -> Tensor:
    """A gradient in weights, without its mean if both masses must be equal."""
    if not (problem.source.exact and problem.target.exact):
        return gradient
    # under "ones" the slope at a weight of zero is -inf
    mean = torch.where(weights > 0, weights * gradient, 0.0).sum(-1, keepdim=True) / weights.sum(-1, keepdim=True)
    return gradient - mean


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
    """The shortest solution if there are many, because potentials may be shifted against each other."""
    if isinstance(problem.source.divergence, KL) or isinstance(problem.target.divergence, KL):
        return newton_steps._solve(matrix, right[..., 0])[..., None]
    device = matrix.device
    found = [torch.linalg.lstsq(M.cpu(), r.cpu(), driver="gelsd").solution for M, r in zip(matrix, right, strict=True)]
    return torch.stack(found).to(device)


def _level_moves(side: PartialMarginal, f: Tensor, weights: Tensor, df: Tensor, epsilon: float) -> Tensor:
    """How the level moves to which the cheapest weights are filled."""
    step = _STEP * epsilon / df.abs().amax(-1, keepdim=True).clamp_min(1e-300)
    return (side._level(f + step * df, weights) - side._level(f - step * df, weights)) / (2 * step)


_FAR = 1e30  # times all prices: the soft minimum of a point that nothing can be matched to; blocked pairs cost more
Inputs = tuple[Tensor, Tensor | None, Tensor | None]
Slope = Callable[[int], Tensor]


class Curvature(Protocol):
    """The Hessian of a value in its inputs."""

    def refusal(self, k: int) -> str | None:
        """Why it is not supported in the k-th input; None if it is."""

    def product(self, direction: Sequence[Tensor | None]) -> Sequence[Tensor]:
        """Of a move of the inputs, None where one does not move: the moves of all slopes."""


class _Refused(torch.autograd.Function):
    """Zero, with an error only if its derivative in the inputs is requested."""

    @staticmethod
    def forward(ctx: Any, why: str, *inputs: Tensor | None) -> Tensor:
        ctx.why = why
        return torch.zeros((), dtype=torch.float64)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        raise UnsupportedError(ctx.why)


class _Moved(torch.autograd.Function):
    """Products with a Hessian, which is symmetric: of a move of the inputs, the moves of the slopes."""

    @staticmethod
    def forward(ctx: Any, curvature: Curvature, token: Tensor | None, *direction: Tensor | None) -> Any:
        ctx.set_materialize_grads(False)
        ctx.curvature, ctx.token, ctx.moved = curvature, token, [move is not None for move in direction]
        for k, move in enumerate(direction):
            if move is not None and (why := curvature.refusal(k)) is not None:
                raise UnsupportedError(why)
        return tuple(curvature.product(direction))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        found = _Moved.apply(ctx.curvature, ctx.token, *grads)
        moves = [x if moved else None for x, moved in zip(found, ctx.moved, strict=True)]
        return None, torch.zeros((), dtype=torch.float64), *moves


class _Slopes(torch.autograd.Function):
    """The slopes of a value in its inputs; their derivatives are products with its Hessian."""

    @staticmethod
    def forward(ctx: Any, curvature: Curvature, slopes: Sequence[Tensor | None], *edges: Tensor | None) -> Any:
        ctx.set_materialize_grads(False)
        ctx.curvature, ctx.edges = curvature, edges
        return tuple(None if x is None else x.clone() for x in slopes)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        token = _Refused.apply(_THIRD, *ctx.edges) if torch.is_grad_enabled() else None
        found = _Moved.apply(ctx.curvature, token, *grads)
        return None, None, *(None if e is None else x for e, x in zip(ctx.edges, found, strict=True))


_THIRD = "third derivatives of a transport value are not supported; detach its second derivatives first."


class Barred(torch.autograd.Function):
    """An unchanged edge that raises an error only if its gradient is requested."""

    @staticmethod
    def forward(ctx: Any, why: str, x: Tensor) -> Tensor:
        ctx.why = why
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        raise UnsupportedError(ctx.why)


class _Edge(torch.autograd.Function):
    """Zeros in the shape of an input: a node that kept the input would keep its memory, and itself where the input is
    written to."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.dtype = x.dtype
        return torch.zeros((), dtype=torch.float64, device=x.device).expand(x.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad.to(ctx.dtype)


def edge(x: Tensor | None) -> Tensor | None:
    """The replacement of an input in `graphed`; None if it has no gradient."""
    return _Edge.apply(x) if x is not None and x.requires_grad else None


def graphed(
    slopes: Sequence[Tensor | None], edges: Sequence[Tensor | None], curvature: Curvature
) -> Sequence[Tensor | None]:
    """Slopes in a backward pass, in float64 and of the shapes of the edges, that may be differentiated again."""
    open_edges = []
    for k, x in enumerate(edges):
        why = None if x is None else curvature.refusal(k)
        open_edges.append(x if why is None else Barred.apply(why, x))
    found: Sequence[Tensor | None] = _Slopes.apply(curvature, slopes, *open_edges)
    return found


@dataclass(frozen=True)
class Held:
    """The Hessian of <C, P>, whose gradient in the cost is the plan itself."""

    def refusal(self, k: int) -> str:
        return (
            "second derivatives of solution.linear are not supported: its gradient holds the plan fixed. "
            "Differentiate solution.value, or detach the gradient."
        )

    def product(self, direction: Sequence[Tensor | None]) -> Sequence[Tensor]:
        raise AssertionError("refused before")


class _Total(torch.autograd.Function):
    """A number of each problem, with the slopes that `slope(k)` finds of it in the k-th of cost and weights."""

    @staticmethod
    def forward(
        ctx: Any,
        total: Tensor,
        slope: Slope,
        plan: Tensor,
        edges: Any,
        curvature: Curvature,
        *inputs: Tensor | None,
    ) -> Tensor:
        ctx.slope, ctx.edges, ctx.curvature = slope, edges, curvature
        ctx.like = [None if x is None else (x.shape, x.dtype) for x in inputs]
        # gradients in the weights read the cost again; as torch keeps it, it must not be modified in between
        ctx.save_for_backward(plan, inputs[0] if any(ctx.needs_input_grad[6:]) else None)
        return total.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        plan, batch = ctx.saved_tensors[0], ctx.like[0][0][:-2]
        needed = ctx.needs_input_grad[5:]
        with torch.no_grad():
            slopes = [(plan if k == 0 else ctx.slope(k - 1)) if need else None for k, need in enumerate(needed)]
        if torch.is_grad_enabled():
            edges = [_flat(x, batch, 2 if k == 0 else 1) for k, x in enumerate(ctx.edges)]
            slopes = list(graphed(slopes, edges, ctx.curvature))
        grads: list[Tensor | None] = [None, None, None]
        for k, slope in enumerate(slopes):
            if slope is not None:
                shape, dtype = ctx.like[k]
                product = grad.reshape(-1, *[1] * (slope.ndim - 1)) * slope
                grads[k] = product.reshape(*batch, *slope.shape[1:]).sum_to_size(shape).to(dtype)
        return None, None, None, None, None, *grads


def _flat(x: Tensor | None, batch: torch.Size, axes: int) -> Tensor | None:
    """An edge as `(B, ...)`."""
    return None if x is None else x.expand(*batch, *x.shape[-axes:]).reshape(-1, *x.shape[-axes:])


def with_gradients(value: Tensor, problem: Problem, outcome: AnyOutcome, inputs: Inputs) -> Tensor:
    """The objectives `(B,)` with their gradients in cost and weights."""
    slope = partial(weight_gradient, problem, outcome)
    curvature = DenseCurvature(problem, outcome)
    return _Total.apply(value, slope, outcome.plan, [edge(x) for x in inputs], curvature, *inputs)


def with_plan(linear: Tensor, problem: Problem, outcome: AnyOutcome, inputs: Inputs) -> Tensor:
    """<C, P> `(B,)` with its gradients: in the cost the plan, held fixed; in the weights those of the moving plan."""
    edges, slope = [edge(x) for x in inputs], partial(linear_weight_gradient, problem, outcome)
    if problem.epsilon == 0 and problem.source.hard and problem.target.hard:  # there it is the value
        slope = partial(weight_gradient, problem, outcome)
    elif (why := _unoffered(problem)) is not None:
        a, b = (None if w is None else Barred.apply(why, w) for w in inputs[1:])
        inputs = (inputs[0], a, b)
        slope = partial(_none, problem)
    return _Total.apply(linear, slope, outcome.plan, edges, Held(), *inputs)


def _unoffered(problem: Problem) -> str | None:
    """Why d<C, P>/da is not supported; None if it is."""
    instead = "Differentiate solution.value, or pass"
    if problem.epsilon == 0:
        return (
            "linear: its gradient in the weights is not supported at epsilon = 0 with a finite tau, where the plan may "
            f"jump. {instead} epsilon > 0."
        )
    if isinstance(problem.source, L2Marginal) or isinstance(problem.target, L2Marginal):
        return f"linear: its gradient in the weights is not supported for the divergence 'l2'. {instead} 'chi2'."
    return None


def _none(problem: Problem, k: int) -> Tensor:
    """What `Barred` gets, which is computed for the cost's sake where weights have gradients of their own."""
    return torch.zeros_like(problem.given[k])


def weight_gradient(problem: Problem, outcome: AnyOutcome, k: int) -> Tensor:
    """dOT/da (k = 0) or dOT/db (k = 1), `(B, n)` or `(B, m)` in float64."""
    epsilon, (side, weights) = problem.epsilon, problem.sides[k]
    mass = problem.given[1 - k].sum(-1, keepdim=True)
    f, g = centre(problem, outcome.f, outcome.g) if epsilon > 0 else (outcome.f, outcome.g)
    potential, other = (f, g) if k == 0 else (g, f)
    if epsilon > 0 and problem.reference == "product" and not side.hard and bool((weights > TRACE).all()):
        marginal = outcome.certificate.rows if k == 0 else outcome.certificate.columns
        gradient = side.weight_gradient(potential, weights) + epsilon * (mass - marginal / weights)
    elif epsilon > 0 and problem.reference == "product":
        other_side, other_weights = problem.sides[1 - k]
        far = _FAR * max(1.0, epsilon, *(s.tau for s, _ in problem.sides if not s.hard))
        if problem.closed is not None:  # a first bit of weight here opens points that are closed for lack of it
            closed = problem.closed.columns if k == 0 else problem.closed.rows
            price = other_side.step(torch.full_like(other, far), other_weights, epsilon)
            other, other_weights = torch.where(closed, price, other), problem.given[1 - k]
        cost = problem.cost if problem.blocked is None else problem.cost.masked_fill(problem.blocked, _FAR * far)
        cost = cost if k == 0 else cost.mT
        log_terms = (other[..., None, :] - cost) / epsilon + torch.log(other_weights)[..., None, :]
        soft = -epsilon * torch.logsumexp(log_terms, -1)
        # a point without weight does not affect the gap, so its potential is set to the best one here
        potential = torch.where(weights > 0, potential, side.step(soft, weights, epsilon))
        # (P1)_i / a_i without dividing by a_i
        ratio = torch.exp((potential - soft) / epsilon)
        gradient = side.weight_gradient(potential, weights)
        gradient = gradient + epsilon * (mass - ratio)
    else:
        gradient = side.weight_gradient(potential, weights)
    shut = None if problem.closed is None else problem.closed.rows if k == 0 else problem.closed.columns
    return with_closed_points(problem, k, gradient, shut)


def with_closed_points(problem: Problem, k: int, gradient: Tensor, closed: Tensor | None) -> Tensor:
    """The gradient in weights: a closed point loses all of its weight, and equal masses stay equal."""
    side, weights = problem.sides[k]
    if closed is not None:
        mass = problem.given[1 - k].sum(-1, keepdim=True)
        lost = side.lost_gradient(problem.given[k])
        gradient = torch.where(
            closed, lost + (problem.epsilon * mass if problem.reference == "product" else 0.0), gradient
        )
    return _along_equal_masses(problem, weights, gradient)
