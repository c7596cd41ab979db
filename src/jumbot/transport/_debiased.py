"""The Sinkhorn divergence of three problems: how tightly they are solved, its value, and its gradient in the points.

`divergence` is that of small clouds under |x - y|^2: NumPy around the compiled sweeps, one node of the graph.
At 64 points the sweeps of all three problems take a tenth of a millisecond; made of tensors and of a graph with a node
for each cost and each value, everything around them takes ten times as long.  So both self terms are one batch where
their sizes are the same, and the gradient is written down:

    dS/dx = 2 ((P 1) x - P y) - 2 ((Q 1) x - Q x),    dS/da = dOT(a, b)/da - dOT(a, a)/da + epsilon (m_a - m_b)

with P the plan between x and y and Q, symmetric, that of x with itself; likewise in y and b.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.cost import Cost, squared_euclidean
from jumbot.transport._gradients import weight_gradient, with_gradients
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import set_all
from jumbot.transport._kernels.memory import contiguous
from jumbot.transport._problem import Terms, make_problem
from jumbot.transport._solution import Solution
from jumbot.transport._solve import solve_problem

#: The divergence is a small difference of three values, so each is solved more tightly by this factor.
_MARGIN = 1e-3
_FINEST = 1e-13


def finer(tol: float) -> float:
    """The tolerance of the three problems behind a divergence."""
    return max(_MARGIN * tol, min(tol, _FINEST))


def debiased(between: Any, below_x: Any, below_y: Any, epsilon: float, excess: Any = 0.0) -> Any:
    """OT(a, b) - (OT(a, a) + OT(b, b))/2 + epsilon/2 (m_a - m_b)^2, of arrays or tensors.

    `between` is a value and the self terms are lower bounds, value - gap, so that the result bounds S from above.
    """
    return between - (below_x + below_y) / 2 + epsilon / 2 * excess**2


def excess_mass(a: Tensor | None, b: Tensor | None) -> Any:
    """m_a - m_b, in float64; weights that are not given have mass one."""
    mass_a, mass_b = (1.0 if w is None else w.double().sum(-1) for w in (a, b))
    return mass_a - mass_b


def pulled(between: Any, x: Any, y: Any, within: Any = None) -> Any:
    """(P 1 - Q 1) x - P y + Q x: half the gradient in x of OT, or with `within` of S, under |x - y|^2.

    `between` is the plan P of x and y, `within` the symmetric plan Q of x with itself.
    """
    mass = between.sum(-1) if within is None else between.sum(-1) - within.sum(-1)
    moved = mass[..., None] * x - between @ y
    return moved if within is None else moved + within @ x


_FEW = 8  # coordinates: more are the business of matrix products
_MOST = 1 << 16  # entries of the costs: torch's threads do not help with fewer
Clouds = tuple[Tensor, Tensor, Tensor | None, Tensor | None]  # x, y, a, b


def fits(ground: Cost, x: Tensor, y: Tensor) -> bool:
    size = max(x.shape[-2], y.shape[-2])
    return (
        ground is squared_euclidean
        and x.device.type == "cpu"
        and x.shape[:-2] == y.shape[:-2]
        and x.shape[-1] <= _FEW
        and x.shape[:-2].numel() * size * size <= _MOST
    )


def solve_three(inputs: Clouds, terms: Terms, tol: float, limit: int) -> list[Solution]:
    """The problem between the clouds, then each with itself; or, second and last, both of these as one batch."""
    x, y, a, b = (None if z is None else z.detach() for z in inputs)
    assert x is not None
    assert y is not None
    batch, points, dtype = x.shape[:-2], (x.numpy(), y.numpy()), x.dtype

    def solve(cost: np.ndarray, p: Tensor | None, q: Tensor | None, symmetric: bool) -> Solution:
        c = torch.from_numpy(cost).to(dtype)  # what float32 cannot hold, or may miss, is told as for any such cost
        problem = make_problem(c, p, q, terms)
        return solve_problem(problem, None, tol, limit, (c, p, q), False, symmetric)

    between = solve(squared(*points), a, b, False)
    if x.shape != y.shape or (a is None) != (b is None):
        return [between, *(solve(squared(z, z), w, w, True) for z, w in zip(points, (a, b), strict=True))]
    weights = None
    if a is not None and b is not None:
        weights = torch.stack([w.expand(*batch, x.shape[-2]) for w in (a, b)])
    return [between, solve(squared(both := np.stack(points), both), weights, weights, True)]


def divergence(inputs: Clouds, solutions: list[Solution]) -> Tensor:
    """S in float64, in the shape of the batch, with its gradients.

    The parts epsilon sum(R) of the three values and the mass term add up to zero.
    """
    (between, gap), *within = (s._outcome.objective_and_gap() for s in solutions)
    below = np.concatenate([objective - gap for objective, gap in within])
    found: np.ndarray = debiased(between, below[: len(gap)], below[len(gap) :], 0.0)
    value = torch.from_numpy(found).reshape(inputs[0].shape[:-2])
    if torch.is_grad_enabled() and any(z is not None and z.requires_grad for z in inputs):
        return _Divergence.apply(value, solutions, *inputs)
    return value


def squared(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """|x_i - y_j|^2 in float64, `(..., n, m)`.

    >>> squared(np.array([[0.0, 1.0]]), np.array([[3.0, 5.0], [0.0, 1.0]])).tolist()
    [[25.0, 0.0]]
    """
    n, m, d = x.shape[-2], y.shape[-2], x.shape[-1]
    out = np.empty((*x.shape[:-1], m))
    points, coordinates = contiguous(x).reshape(-1, n, d), contiguous(y.swapaxes(-1, -2)).reshape(-1, d, m)
    _square(points, coordinates, out.reshape(-1, n, m))
    return out


@compiled()
def _square(points: Any, coordinates: Any, out: Any) -> None:
    for k in range(points.shape[0]):
        for i in range(points.shape[1]):
            set_all(out[k, i], 0.0)
            for e in range(points.shape[2]):
                _add_square(points[k, i, e], coordinates[k, e], out[k, i])


@compiled()
def _add_square(x: float, y: Any, out: Any) -> None:
    for j in range(out.shape[0]):
        out[j] += (x - y[j]) ** 2


class _Divergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, solutions: list[Solution], *inputs: Tensor | None) -> Tensor:
        ctx.solutions = solutions
        if any(ctx.needs_input_grad[4:]):  # made later under `inference_mode`, these tensors would be of no use
            for solution in solutions:
                _ = solution._outcome.certificate, solution._outcome.f, solution._outcome.g
        ctx.save_for_backward(*inputs)  # kept by torch, they may not be written to meanwhile
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            return None, None, *_graphed(ctx, grad)
        return None, None, *_Divergence._gradients(ctx, grad.detach().numpy())

    @staticmethod
    def _gradients(ctx: Any, scale: np.ndarray) -> list[Any]:
        inputs, needed = ctx.saved_tensors, ctx.needs_input_grad[2:]
        plans = [s._outcome.plan.numpy().reshape(s._inputs[0].shape) for s in ctx.solutions]
        between, *within = plans if len(plans) == 3 else [plans[0], *plans[1]]
        x, y = (z.detach().numpy() for z in inputs[:2])
        centre = x.sum(-2, keepdims=True) / x.shape[-2]  # around it the products cancel least
        clouds = x - centre, y - centre
        grads: list[Any] = [None] * 4
        for k in (0, 1):
            if needed[k]:
                P, z = between if k == 0 else between.swapaxes(-1, -2), clouds[k]
                moved = 2 * scale[..., None, None] * pulled(P, z, clouds[1 - k], within[k])
                grads[k] = torch.from_numpy(moved).to(inputs[k].dtype)
            if needed[2 + k]:
                grads[2 + k] = _weight_gradient(ctx.solutions, k, scale, inputs[2 + k])
        return grads


def _graphed(ctx: Any, grad: Tensor) -> list[Tensor | None]:
    """The gradients with a graph of their own, from the same plans: through the costs and the three values."""
    x, y, a, b = ctx.saved_tensors
    between, *within = ctx.solutions
    if len(within) == 1:
        both = torch.stack([x, y])
        weights = None if a is None else torch.stack([w.expand(x.shape[:-1]) for w in (a, b)])
        own_x, own_y = _value(within[0], both, both, weights, weights).reshape(2, -1)
    else:
        own_x, own_y = (_value(s, z, z, w, w) for s, z, w in zip(within, (x, y), (a, b), strict=True))
    total = debiased(_value(between, x, y, a, b), own_x, own_y, between._problem.epsilon, excess_mass(a, b))
    needed = [k for k, need in enumerate(ctx.needs_input_grad[2:]) if need]
    inputs = [ctx.saved_tensors[k] for k in needed]
    found = torch.autograd.grad(total, inputs, grad.reshape(total.shape), create_graph=True)
    grads: list[Tensor | None] = [None] * 4
    for k, slope in zip(needed, found, strict=True):
        grads[k] = slope
    return grads


def _value(solution: Solution, x: Tensor, y: Tensor, a: Tensor | None, b: Tensor | None) -> Tensor:
    """The values of a solution `(B,)`, in the graph of its points and weights."""
    value = solution._outcome.certificate.objective + solution._problem.constant
    return with_gradients(value, solution._problem, solution._outcome, (squared_euclidean(x, y).double(), a, b))


def _weight_gradient(solutions: list[Solution], k: int, scale: np.ndarray, weights: Tensor) -> Tensor:
    """dS/da (k = 0) or dS/db (k = 1), times `scale`."""
    between, stacked = solutions[0], len(solutions) == 2
    own = solutions[1 if stacked else 1 + k]
    slope = weight_gradient(between._problem, between._outcome, k)
    for side in (0, 1):
        part = weight_gradient(own._problem, own._outcome, side)
        slope = slope - 0.5 * (part.reshape(2, *slope.shape)[k] if stacked else part)
    masses = [w.sum(-1, keepdim=True) for w in between._problem.given]
    slope = slope + between._problem.epsilon * (masses[k] - masses[1 - k])
    slope = slope.reshape(*scale.shape, -1) * torch.from_numpy(scale)[..., None]
    return slope.sum_to_size(weights.shape).to(weights.dtype)
