"""h, the loss of one minibatch, for many minibatches at once."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot._base.options import check_word
from jumbot.errors import ArgumentError, NotConvergedWarning
from jumbot.minibatch._costs import Minibatches
from jumbot.minibatch._tiles import SWEEPS, Sides, Solved, solve_tiles
from jumbot.transport import _placement
from jumbot.transport._certificate import reachable
from jumbot.transport._debiased import debiased, excess_mass, finer
from jumbot.transport._gradients import weight_gradient
from jumbot.transport._marginal import marginals
from jumbot.transport._problem import Terms, check_reference, make_problem
from jumbot.transport._solve import MAX_ITERATIONS, find_outcome
from jumbot.transport.divergences import Divergence

LOSSES = ("transport", "sinkhorn_divergence")
_TOGETHER = 64  # problems that `solve` finishes at once where tiles leave some open


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
        check_word("loss", self.name, LOSSES)
        check_reference(self.reference)
        if self.name == "sinkhorn_divergence":
            if self.reference != "product":
                raise ArgumentError("reference: the Sinkhorn divergence is defined with 'product' only.")
            if isinstance(self.tau, tuple | list):
                raise ArgumentError("tau: the Sinkhorn divergence is symmetric; pass one number.")

    @property
    def terms(self) -> Terms:
        return Terms(self.epsilon, self.tau, self.divergence, self.reference)

    def __call__(self, batch: Minibatches, a: Tensor | None, b: Tensor | None, plan: bool) -> Solved:
        """Weights are `(c, m)`, or None for uniform of mass one."""
        if self.name == "transport":
            return self._transport(batch, "x", "y", a, b, self.tol, plan)
        tol = finer(self.tol)
        between = self._transport(batch, "x", "y", a, b, tol, plan)
        x = self._transport(batch, "x", "x", a, a, tol, False)
        y = self._transport(batch, "y", "y", b, b, tol, False)
        excess = np.asarray(excess_mass(a, b), dtype=np.float64)
        shift = self.epsilon * excess[..., None]
        return Solved(
            debiased(between.value, x.value - x.gap, y.value - y.gap, self.epsilon, excess),
            between.gap + (x.gap + y.gap) / 2,
            np.unique(np.concatenate([between.unsolved, x.unsolved, y.unsolved])),
            (between.slopes[0] - x.slopes[0] + shift, between.slopes[1] - y.slopes[0] - shift),
            between.plan,
        )

    def _transport(
        self, batch: Minibatches, first: str, second: str, a: Tensor | None, b: Tensor | None, tol: float, plan: bool
    ) -> Solved:
        """In tiles where the problem is of the common kind; unfinished problems continue in the general solver."""
        many = batch.I.shape[1] * batch.J.shape[1] > _placement.LARGEST_MATRIX
        if many and self.epsilon > 0 and isinstance(batch.ground, str) and not plan:
            return self._from_points(batch, first, second, a, b, tol)
        sides = self._sides(batch, a, b)
        if sides is None:
            return self._general(batch, first, second, a, b, tol, plan)
        solved, reached = solve_tiles(batch, first, second, sides, tol, plan)
        left = []
        for number in range(0, len(solved.unsolved), _TOGETHER):
            at = solved.unsolved[number : number + _TOGETHER]
            part_a, part_b = None if a is None else a[at], None if b is None else b[at]
            start = None
            if all(k in reached for k in at):  # not where a point is not finite
                start = _stack([reached[k][0] for k in at]), _stack([reached[k][1] for k in at])
            part = self._general(batch.take(at), first, second, part_a, part_b, tol, plan, start)
            solved.put(at, part)
            left.append(at[part.unsolved])
        return replace(solved, unsolved=np.concatenate(left)) if left else solved

    def _from_points(
        self, batch: Minibatches, first: str, second: str, a: Tensor | None, b: Tensor | None, tol: float
    ) -> Solved:
        """Minibatches whose matrices would not fit, one after the other."""
        from jumbot.transport._points.sample_gradients import weight_gradient as slope
        from jumbot.transport._points.solve_sample import solve_sample

        found, slopes = [], []
        for k in range(len(batch.I)):
            x, y = (points.rows(index[k]) for points, index in map(batch.side, (first, second)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotConvergedWarning)  # `estimate` counts them
                solution = solve_sample(
                    x,
                    y,
                    None if a is None else a[k],
                    None if b is None else b[k],
                    cost=batch.ground,
                    epsilon=self.epsilon,
                    tau=self.tau,
                    divergence=self.divergence,
                    reference=self.reference,
                    tol=tol,
                )
            (solved,) = solution._solved
            found.append((float(solution.value), solved.proof.gap, solution.converged))
            slopes.append([_array(slope(solved, side)) for side in (0, 1)])
        value, gap, converged = map(np.array, zip(*found, strict=True))
        unsolved = np.flatnonzero(~converged)
        return Solved(value, gap, unsolved, tuple(np.stack(part) for part in zip(*slopes, strict=True)))

    def _sides(self, batch: Minibatches, a: Tensor | None, b: Tensor | None) -> Sides | None:
        """The problem as tiles take it, None where they do not."""
        if not batch.plain or self.reference != "product":
            return None
        p, q = (
            np.full((1, index.shape[1]), 1 / index.shape[1]) if w is None else w.numpy()
            for w, index in ((a, batch.I), (b, batch.J))
        )
        sides = Sides(p, q, self.epsilon, *marginals(self.divergence, self.tau))
        return sides if sides.fit else None

    def _general(
        self,
        batch: Minibatches,
        first: str,
        second: str,
        a: Tensor | None,
        b: Tensor | None,
        tol: float,
        plan: bool,
        start: tuple[Tensor, Tensor] | None = None,
    ) -> Solved:
        """By the general solver, starting from the result of the tiles."""
        cost = batch.cost(first, second)
        try:
            problem = make_problem(cost, a, b, self.terms)
        except ArgumentError:
            batch.check()  # if it is a point that is not finite, name its row rather than the cost
            raise
        swept = 0 if start is None else SWEEPS
        outcome = find_outcome(problem, start, tol, MAX_ITERATIONS, first == second, swept)
        certificate = outcome.certificate
        return Solved(
            _array(certificate.objective + problem.constant),
            _array(certificate.gap),
            np.flatnonzero(_array(~(certificate.relative_gap <= reachable(tol, self.epsilon)))),
            tuple(_array(weight_gradient(problem, outcome, k)) for k in (0, 1)),
            _array(outcome.plan) if plan else None,
        )


def _array(x: Tensor) -> np.ndarray:
    return x.detach().cpu().numpy()


def _stack(arrays: list[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.stack(arrays))
