r"""Second derivatives of the value: how the plan moves with the cost and the weights.

The gradient of the value is P in the cost.  If the cost moves by W, the potentials move by (df, dg) and

    dP = P (df + dg - W) / epsilon,    s_a p df + P dg = (P W) 1,    P' df + s_b q dg = (P W)' 1

entry by entry, with p and q the marginals of P and s = 1 + epsilon/tau, 1 if a marginal is exact.  With the
reference a b' a move of the weights by (alpha, beta) adds epsilon alpha/a and epsilon beta/b to the potentials in dP.
The Hessian is symmetric, so one function gives its products from either side.

One linear system, and only products with P and P': conjugate gradients, after eliminating the columns.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jumbot.errors import NotConvergedWarning
from jumbot.transport._marginal import PartialMarginal
from jumbot.transport._outcome import AnyOutcome
from jumbot.transport._problem import Problem
from jumbot.transport.divergences import KL, Balanced

_RESIDUAL = 1e-11  # relative, at which a system is solved
_POOR = 1e-6  # relative, above which a warning is given
_STEPS = 2000  # at most
TRACE = 1e-200  # a smaller weight leaves no mass in the plan from which its share could be found
Product = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class System:
    """The plans of a batch by their products and their marginals `(B, n)` and `(B, m)`."""

    problem: Problem
    forward: Product  # P v
    back: Product  # P' v
    rows: Tensor
    columns: Tensor
    f: Tensor
    g: Tensor

    @property
    def _stiffness(self) -> tuple[float, float]:
        epsilon = self.problem.epsilon
        first, second = (1.0 if side.exact else 1.0 + epsilon / side.tau for side, _ in self.problem.sides)
        return first, second

    def moves(
        self, right: tuple[Tensor, Tensor], goal: float = _RESIDUAL, limit: int = _STEPS, warn: bool = True
    ) -> tuple[Tensor, Tensor]:
        """(df, dg) with s_a p df + P dg and P' df + s_b q dg as given; if there are many, any of them, because dP is
        the same.

        Solved to a relative residual of `goal`, or in `limit` steps.
        """
        stiff = self._stiffness
        diagonal, other = stiff[0] * self.rows, stiff[1] * self.columns
        inverse, inverse_other = (torch.where(x > 0, 1 / x, 0.0) for x in (diagonal, other))
        free = stiff == (1.0, 1.0)  # then (1, -1) moves no plan

        def projected(r: Tensor) -> Tensor:
            if not free:
                return r
            return r - self.rows * (r.sum(-1, keepdim=True) / self.rows.sum(-1, keepdim=True).clamp_min(1e-300))

        def system(v: Tensor) -> Tensor:
            return diagonal * v - self.forward(inverse_other * self.back(v))

        residual = projected(right[0] - self.forward(inverse_other * right[1]))
        df, left = conjugate_gradients(system, residual, inverse, projected, goal, limit)
        if warn and left > _POOR:
            warnings.warn(
                f"a linear system of a transport plan was solved to a relative residual of {left:.1e} only; raise "
                "epsilon.",
                NotConvergedWarning,
                stacklevel=2,
            )
        return df, inverse_other * (right[1] - self.back(df))

    def solved(
        self, pushed: tuple[Tensor, Tensor], weights: Sequence[Tensor | None]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """From the sums of P W along rows and columns, and a move of the weights: what is added to the exponents of P,
        in units of cost, on either side, and the moves of the gradients in the weights."""
        problem, epsilon = self.problem, self.problem.epsilon
        # what a move of the weights adds to the potentials in dP, in units of epsilon: alpha/a and beta/b
        shares = [None if move is None else move / w for (_, w), move in zip(problem.sides, weights, strict=True)]
        right = list(pushed)
        product = problem.reference == "product"
        for k, share in enumerate(shares):
            if share is None:
                continue
            if product:  # its own side also depends on it through its weights: that cancels
                right[1 - k] = right[1 - k] - epsilon * (self.back if k == 0 else self.forward)(share)
            else:
                right[k] = right[k] + epsilon * (self.rows, self.columns)[k] * share
        moved = list(self.moves((right[0], right[1])))
        slopes = []
        for k, ((side, _), potential) in enumerate(zip(problem.sides, (self.f, self.g), strict=True)):
            ratio = torch.ones_like(potential) if side.exact else torch.exp(-potential / side.tau)
            slope = ratio * moved[k]
            other = weights[1 - k]
            if product:
                slope = slope * self._stiffness[k]
                slope = slope if other is None else slope + epsilon * other.sum(-1, keepdim=True)
            slopes.append(slope)
        if product:
            moved = [x if share is None else x + epsilon * share for x, share in zip(moved, shares, strict=True)]
        return moved, slopes


def conjugate_gradients(
    system: Product, right: Tensor, inverse: Tensor, projected: Product, residual: float, limit: int
) -> tuple[Tensor, float]:
    """x `(B, n)` with system(x) = right for each of a batch, and the largest relative residual that is left.

    `inverse` is that of the diagonal, `projected` the projection onto the range.
    """
    x = torch.zeros_like(right)
    r, z = right, inverse * right
    p, size = z, (r * z).sum(-1, keepdim=True)
    first = size.clamp_min(1e-300)
    goal = residual**2 * size
    for _ in range(limit):
        if bool((size <= goal).all()):
            break
        image = system(p)
        curvature = (p * image).sum(-1, keepdim=True)
        length = torch.where((size > goal) & (curvature > 0), size / curvature, 0.0)
        x, r = x + length * p, projected(r - length * image)
        z = inverse * r
        before, size = size, (r * z).sum(-1, keepdim=True)
        p = z + torch.where(before > 0, size / before, 0.0) * p
    return x, math.sqrt(float((size / first).max()))


_AGAIN = "a gradient of a transport value was differentiated again; second derivatives are not supported"


def refusal(problem: Problem, in_weights: bool) -> str | None:
    """Why second derivatives, in the weights or at all, are not supported; None if they are."""
    if problem.epsilon == 0:
        return f"{_AGAIN} at epsilon = 0, where the plan jumps; pass epsilon > 0, or detach the gradient."
    for side, _ in problem.sides:
        if isinstance(side, PartialMarginal) or not isinstance(side.divergence, KL | Balanced):
            name = "mass=" if isinstance(side, PartialMarginal) else f"the divergence {side.divergence!r}"
            return (
                f"{_AGAIN} for {name}, only for 'kl' and for exact marginals. Detach the gradient; or, to hold the "
                "plan fixed, differentiate (solution.plan * cost).sum()."
            )
    if not in_weights:
        return None
    if problem.source.exact and problem.target.exact:
        return (
            f"{_AGAIN} in the weights of a balanced problem, where it is defined up to a constant. Give a finite tau, "
            "or detach the weights."
        )
    if problem.closed is not None or not all(bool((weights > TRACE).all()) for weights in problem.given):
        return f"{_AGAIN} in weights of which some are zero. Leave those points out, or detach the weights."
    return None


@dataclass(frozen=True)
class DenseCurvature:
    """The Hessian of the values of a batch in (cost, a, b), by its products."""

    problem: Problem
    outcome: AnyOutcome

    def refusal(self, k: int) -> str | None:
        return refusal(self.problem, in_weights=k > 0)

    def product(self, direction: Sequence[Tensor | None]) -> list[Tensor]:
        """Of moves `(B, n, m)`, `(B, n)`, `(B, m)`, None where there is none; likewise in all three."""
        W, *weights = direction
        P = self.outcome.plan.double()

        def forward(v: Tensor) -> Tensor:
            return (P @ v[..., None])[..., 0]

        def back(v: Tensor) -> Tensor:
            return (P.mT @ v[..., None])[..., 0]

        system = System(self.problem, forward, back, P.sum(-1), P.sum(-2), self.outcome.f, self.outcome.g)
        moved = torch.zeros_like(P) if W is None else P * W
        (df, dg), slopes = system.solved((moved.sum(-1), moved.sum(-2)), weights)
        return [(P * (df[..., :, None] + dg[..., None, :]) - moved) / self.problem.epsilon, *slopes]
