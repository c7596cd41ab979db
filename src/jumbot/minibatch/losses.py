"""h, the loss of one minibatch, for many minibatches at once."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.errors import ArgumentError
from jumbot.minibatch.costs import Minibatches
from jumbot.transport.autograd import weight_gradient
from jumbot.transport.divergences import Divergence
from jumbot.transport.problem import make_problem
from jumbot.transport.sinkhorn_divergence import finer
from jumbot.transport.solution import Solution
from jumbot.transport.solve import MAX_ITERATIONS, solve_problem

LOSSES = ("transport", "sinkhorn_divergence")


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
            near = difflib.get_close_matches(str(self.name), LOSSES, n=1, cutoff=0.3)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ArgumentError(f"loss: {self.name!r} is not known; use {LOSSES[0]!r} or {LOSSES[1]!r}.{hint}")
        if self.name == "sinkhorn_divergence":
            if self.reference != "product":
                raise ArgumentError("reference: the Sinkhorn divergence is defined with 'product' only.")
            if isinstance(self.tau, tuple | list):
                raise ArgumentError("tau: the Sinkhorn divergence is symmetric; pass one number.")

    def __call__(self, batch: Minibatches, a: Tensor | None, b: Tensor | None, plan: bool) -> Evaluated:
        """Weights are `(c, m)`, or None for uniform of mass one."""
        if self.name == "transport":
            solution = self._transport(batch, "x", "y", a, b, self.tol)
            return Evaluated(
                _array(solution.value), _array(weight_gradient(solution, 0)), _array(weight_gradient(solution, 1)),
                _array(solution.plan) if plan else None, _short(solution),
            )  # fmt: skip
        tol = finer(self.tol)
        between = self._transport(batch, "x", "y", a, b, tol)
        within_x = self._transport(batch, "x", "x", a, a, tol)
        within_y = self._transport(batch, "y", "y", b, b, tol)
        mass_a = 1.0 if a is None else a.sum(-1)
        mass_b = 1.0 if b is None else b.sum(-1)
        excess = torch.as_tensor(mass_a - mass_b, dtype=torch.float64)
        value = between.value - sum(s.value - s.gap for s in (within_x, within_y)) / 2 + self.epsilon / 2 * excess**2
        shift = self.epsilon * excess[..., None]
        return Evaluated(
            _array(value),
            _array(weight_gradient(between, 0) - weight_gradient(within_x, 0) + shift),
            _array(weight_gradient(between, 1) - weight_gradient(within_y, 0) - shift),
            _array(between.plan) if plan else None,
            _short(between, within_x, within_y),
        )

    def _transport(
        self, batch: Minibatches, first: str, second: str, a: Tensor | None, b: Tensor | None, tol: float
    ) -> Solution:  # fmt: skip
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
        return solve_problem(problem, None, tol, MAX_ITERATIONS, (cost, None, None), False, symmetric=first == second)


def _array(x: Tensor) -> np.ndarray:
    return x.detach().cpu().numpy()


def _short(*solutions: Solution) -> int:
    return sum(
        0
        if s.outcome.all_within(s.reachable_tol)
        else int((s.outcome.certificate.relative_gap > s.reachable_tol).sum())
        for s in solutions
    )
