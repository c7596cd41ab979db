"""The result of every engine.

An engine is a function (problem, start, tol, limit, ...) -> outcome.  The potentials of an outcome are a start: the
next engine continues what one does not finish.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor

from jumbot.transport import divergences
from jumbot.transport._certificate import Certificate, solved
from jumbot.transport._marginal import Marginal, PartialMarginal
from jumbot.transport._problem import Problem

Start = tuple[Tensor, Tensor]
#: columns of the statistics of a problem
ITERATIONS, LINEAR, OBJECTIVE, GAP, SCALE = range(5)


@dataclass(frozen=True)
class Outcome:
    """What an engine returns: potentials `(B, n)` and `(B, m)`, iterations taken, and what they prove."""

    f: Tensor
    g: Tensor
    taken: Tensor
    certificate: Certificate

    @property
    def plan(self) -> Tensor:
        return self.certificate.plan

    def objective_and_gap(self) -> tuple[np.ndarray, np.ndarray]:
        return self.certificate.objective.numpy(), self.certificate.gap.numpy()

    def largest(self) -> float:
        """The largest of all numbers, potentials apart."""
        return float(self.certificate.largest.max())

    def all_within(self, tol: float) -> bool:
        return bool(solved(self.certificate.gap, self.certificate.scale, tol).all())


@dataclass
class RawOutcome:
    """An `Outcome` whose tensors are made when asked for: at 65 points they cost as much as a third of the sweeps."""

    epsilon: float
    F: np.ndarray
    G: np.ndarray
    raw_plan: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    out: np.ndarray

    @cached_property
    def f(self) -> Tensor:
        return torch.from_numpy(self.F) * self.epsilon

    @cached_property
    def g(self) -> Tensor:
        return torch.from_numpy(self.G) * self.epsilon

    @cached_property
    def taken(self) -> Tensor:
        return torch.from_numpy(self.out[:, ITERATIONS])

    @cached_property
    def plan(self) -> Tensor:
        return torch.from_numpy(self.raw_plan)

    @cached_property
    def certificate(self) -> Certificate:
        linear, objective, gap, scale = (torch.from_numpy(self.out[:, k]) for k in (LINEAR, OBJECTIVE, GAP, SCALE))
        rows, columns = torch.from_numpy(self.rows), torch.from_numpy(self.columns)
        return Certificate(self.plan, rows, columns, linear, objective, gap, scale)

    def put(self, at: np.ndarray, by: RawOutcome) -> None:
        """Copy the problems `at` from another outcome."""
        for name in ("F", "G", "raw_plan", "rows", "columns", "out"):
            getattr(self, name)[at] = getattr(by, name)

    def to(self, device: torch.device) -> Outcome:
        by = self.certificate
        certificate = Certificate(*(getattr(by, name).to(device) for name in by.__dataclass_fields__))
        return Outcome(self.f.to(device), self.g.to(device), self.taken.to(device), certificate)

    def objective_and_gap(self) -> tuple[np.ndarray, np.ndarray]:
        return self.out[:, OBJECTIVE], self.out[:, GAP]

    def largest(self) -> float:
        if len(self.out) == 1:
            _, linear, objective, gap, _ = self.out[0].tolist()
            return max(abs(linear), abs(objective), gap, float(self.rows.sum()))
        return float(max(np.abs(self.out[:, LINEAR:SCALE]).max(), self.rows.sum(1).max()))

    def all_within(self, tol: float) -> bool:
        if len(self.out) == 1:  # a few microseconds of numpy matter here
            _, _, _, gap, scale = self.out[0].tolist()
            return bool(solved(gap, scale, tol))
        return bool(solved(self.out[:, GAP], self.out[:, SCALE], tol).all())


AnyOutcome = Outcome | RawOutcome


#: A power divergence has its exponent p in the place of the lower bound; chi-square is twice that of p = 2.
KL, BALANCED, TV, RANGE, POWER = range(5)
_KINDS: dict[type, int] = {
    divergences.KL: KL,
    divergences.Balanced: BALANCED,
    divergences.TV: TV,
    divergences.Range: RANGE,
    divergences.ChiSquare: POWER,
    divergences.Power: POWER,
}


def kinds_known(problem: Problem) -> bool:
    """Whether the kernels know both marginals."""
    if isinstance(problem.source, PartialMarginal):
        return False
    if problem.reference == "ones":
        r_a, r_b = problem.reference_weights
        if bool(((problem.a <= 0) & (r_a > 0)).any()) or bool(((problem.b <= 0) & (r_b > 0)).any()):
            return False
    return type(problem.source.divergence) in _KINDS and type(problem.target.divergence) in _KINDS


@lru_cache(maxsize=64)
def arguments(side: Marginal, epsilon: float) -> tuple[int, float, float, float]:
    """(kind, tau/epsilon, lower or the exponent, upper), as the kernels take them."""
    phi, tau = side.divergence, side.tau / epsilon
    if isinstance(phi, divergences.ChiSquare):
        return _KINDS[type(phi)], 2 * tau, 2.0, 1e300
    lower = phi.p if isinstance(phi, divergences.Power) else phi.lower
    return _KINDS[type(phi)], tau, lower, min(phi.upper, 1e300)


def reference(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Reference weights r and offsets log(a/r) of either side: r_a, r_b, o_a, o_b."""
    a, b = problem.a.contiguous().numpy(), problem.b.contiguous().numpy()
    if problem.reference == "product":
        return a, b, _zeros(a.shape), _zeros(b.shape)
    r_a, r_b = (r.contiguous().numpy() for r in problem.reference_weights)
    o_a, o_b = problem.offsets
    return r_a, r_b, o_a.numpy() / problem.epsilon, o_b.numpy() / problem.epsilon


@lru_cache(maxsize=8)
def _zeros(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros, not to be modified."""
    return np.zeros(shape)
