"""h, the loss of one minibatch, for many minibatches at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from jumbot.errors import ArgumentError, suggest
from jumbot.minibatch.costs import Minibatches
from jumbot.minibatch.tiles import Sides, Solved, solve_tiles
from jumbot.transport.autograd import weight_gradient
from jumbot.transport.divergences import Divergence, parse
from jumbot.transport.marginal import Marginal
from jumbot.transport.problem import check_taus, make_problem
from jumbot.transport.sinkhorn_divergence import finer
from jumbot.transport.solve import MAX_ITERATIONS, solve_problem

LOSSES = ("transport", "sinkhorn_divergence")
_TOGETHER = 64  # problems that `solve` finishes at once where tiles leave some open


@dataclass(frozen=True)
class Evaluated:
    """Values `(c,)` of c minibatches, their derivatives in the weights `(c, m)`, and the plans if asked for."""

    values: np.ndarray
    slopes_x: np.ndarray
    slopes_y: np.ndarray
    plans: np.ndarray | None
    short: int  # how many stopped above tol


@dataclass(frozen=True)
class Loss:
    """`transport` is OT(a, b, C); `sinkhorn_divergence` takes off half of the two self terms and adds the mass term."""

    name: str
    epsilon: float
    tau: Any
    divergence: str | Divergence
    reference: str
    tol: float

    def __post_init__(self) -> None:
        if self.name not in LOSSES:
            raise ArgumentError(f"loss: {self.name!r} is not known; {suggest(self.name, LOSSES)}")
        if self.name == "sinkhorn_divergence":
            if self.reference != "product":
                raise ArgumentError("reference: the Sinkhorn divergence is defined with 'product' only.")
            if isinstance(self.tau, tuple | list):
                raise ArgumentError("tau: the Sinkhorn divergence is symmetric; pass one number.")

    def __call__(self, batch: Minibatches, a: Tensor | None, b: Tensor | None, plan: bool) -> Evaluated:
        """Weights are `(c, m)`, or None for uniform of mass one."""
        if self.name == "transport":
            solved = self._transport(batch, "x", "y", a, b, self.tol, plan)
            return Evaluated(solved.value, *solved.slopes, solved.plan, len(solved.unsolved))
        tol = finer(self.tol)
        between = self._transport(batch, "x", "y", a, b, tol, plan)
        within_x = self._transport(batch, "x", "x", a, a, tol, False)
        within_y = self._transport(batch, "y", "y", b, b, tol, False)
        mass_a, mass_b = (1.0 if w is None else w.sum(-1).numpy() for w in (a, b))
        excess = np.asarray(mass_a - mass_b, dtype=np.float64)
        self_terms = (within_x.value - within_x.gap) + (within_y.value - within_y.gap)
        shift = self.epsilon * excess[..., None]
        return Evaluated(
            between.value - self_terms / 2 + self.epsilon / 2 * excess**2,
            between.slopes[0] - within_x.slopes[0] + shift,
            between.slopes[1] - within_y.slopes[0] - shift,
            between.plan,
            sum(len(solved.unsolved) for solved in (between, within_x, within_y)),
        )

    def _transport(
        self, batch: Minibatches, first: str, second: str, a: Tensor | None, b: Tensor | None, tol: float, plan: bool
    ) -> Solved:  # fmt: skip
        """In tiles where the problem is of the common kind; what they leave open, and all others, by `solve`."""
        sides = self._sides(batch, a, b)
        if sides is None:
            return self._general(batch, first, second, a, b, tol, plan)
        solved = solve_tiles(batch, first, second, sides, tol, plan)
        left = []
        for start in range(0, len(solved.unsolved), _TOGETHER):
            at = solved.unsolved[start : start + _TOGETHER]
            part_a, part_b = None if a is None else a[at], None if b is None else b[at]
            part = self._general(batch.take(at), first, second, part_a, part_b, tol, plan)
            solved.put(at, part)
            left.append(at[part.unsolved])
        return replace(solved, unsolved=np.concatenate(left)) if left else solved

    def _sides(self, batch: Minibatches, a: Tensor | None, b: Tensor | None) -> Sides | None:
        """The problem as tiles take it, None where they do not."""
        if not batch.plain or self.reference != "product":
            return None
        source, target = (Marginal.of(parse(self.divergence), tau) for tau in check_taus(self.tau))
        p, q = (
            np.full((1, index.shape[1]), 1 / index.shape[1]) if w is None else w.numpy()
            for w, index in ((a, batch.I), (b, batch.J))
        )
        sides = Sides(p, q, self.epsilon, source, target)
        return sides if sides.fit else None

    def _general(
        self, batch: Minibatches, first: str, second: str, a: Tensor | None, b: Tensor | None, tol: float, plan: bool
    ) -> Solved:  # fmt: skip
        cost = batch.cost(first, second)
        shape = (*batch.I.shape, batch.J.shape[1])
        if cost.shape != shape:
            raise ArgumentError(f"cost: the callable returned shape {tuple(cost.shape)} where {shape} was due.")
        try:
            problem = make_problem(
                cost, a, b, epsilon=self.epsilon, tau=self.tau, divergence=self.divergence,
                reference=self.reference, mass=None,
            )  # fmt: skip
        except ArgumentError:
            batch.check()  # if it is a point that is not finite, name its row rather than the cost
            raise
        solution = solve_problem(
            problem, None, tol, MAX_ITERATIONS, (cost, None, None), False, symmetric=first == second
        )  # fmt: skip
        return Solved(
            _array(solution.value), _array(solution.gap),
            (_array(weight_gradient(problem, solution._outcome, 0)),
             _array(weight_gradient(problem, solution._outcome, 1))),
            _array(solution.plan) if plan else None, solution._unsolved,
        )  # fmt: skip


def _array(x: Tensor) -> np.ndarray:
    return x.detach().cpu().numpy()
