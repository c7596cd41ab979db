r"""The derivative of an entropic plan in cost and weights, by the implicit function theorem.

The plan :math:`P = R e^{(f + g - C)/\varepsilon}` has the marginals that its potentials ask for.  What these conditions
say of df and dg is a symmetric system of n + m equations, solved once by its Schur complement: no sweep is recorded.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def with_gradients(
    plan: Tensor, given: tuple[Tensor, Tensor, Tensor], epsilon: float, taus: tuple[float, float], product: bool
) -> Tensor:
    """`plan`, differentiable in the cost and the weights `given`; R is a b' where `product`, else constant."""
    M, a, b = given
    out: Tensor = _Plan.apply(M, a, b, plan, epsilon, taus, product)
    return out


class _Plan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, M: Tensor, a: Tensor, b: Tensor, plan: Tensor, *settings: Any) -> Tensor:
        ctx.save_for_backward(a, b, plan)
        ctx.settings = settings
        return plan.to(M.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        a, b, P = ctx.saved_tensors
        epsilon, taus, product = ctx.settings
        rows, columns = P.sum(1), P.sum(0)
        weighted = grad.double() * P / epsilon
        left, right = weighted.sum(1), weighted.sum(0)
        diagonal_a, diagonal_b = (
            p * (1 / epsilon + (0.0 if math.isinf(tau) else 1 / tau))
            for p, tau in zip((rows, columns), taus, strict=True)
        )
        inverse = torch.where(diagonal_a > 0, 1 / torch.where(diagonal_a > 0, diagonal_a, 1.0), 0.0)
        schur = torch.diag(torch.where(diagonal_b > 0, diagonal_b, 1.0)) - (P.T * inverse) @ P / epsilon**2
        if math.isinf(taus[0]) and math.isinf(taus[1]):
            schur += diagonal_b.mean() / len(diagonal_b)  # along constants, in which the system is singular
        y = torch.linalg.solve(schur, right - P.T @ (inverse * left) / epsilon)
        x = inverse * (left - P @ y / epsilon)
        slope = P * (x[:, None] + y) / epsilon - weighted
        of_weights = []
        for u, p, w, tau in ((x, rows, a.double(), taus[0]), (y, columns, b.double(), taus[1])):
            ratio = torch.where(w > 0, p / torch.where(w > 0, w, 1.0), 1.0)
            of_weights.append(u * ratio * (1 + epsilon / tau if product else 1.0))
        return slope.to(grad.dtype), of_weights[0].to(a.dtype), of_weights[1].to(b.dtype), None, None, None, None
