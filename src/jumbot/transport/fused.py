"""Batches of problems through the compiled kernels, in threads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.transport import divergences
from jumbot.transport.certificate import Certificate, solved
from jumbot.transport.marginal import Marginal, PartialMarginal
from jumbot.transport.problem import Problem
from jumbot.transport.threads import NEVER, Stop, run, split

_KINDS: dict[type, int] = {
    divergences.KL: 0,
    divergences.Balanced: 1,
    divergences.TV: 2,
    divergences.Range: 3,
    divergences.ChiSquare: 4,
    divergences.Power: 4,
}
#: One problem larger than this gains more from float32 passes in threads than from fusion.
LARGEST = 1 << 20
_THREADED_FROM = 1 << 16  # entries: the sweeps of fewer take no longer than a user waits after Ctrl-C


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
        return torch.from_numpy(self.F * self.epsilon)

    @cached_property
    def g(self) -> Tensor:
        return torch.from_numpy(self.G * self.epsilon)

    @cached_property
    def taken(self) -> Tensor:
        return torch.from_numpy(self.out[:, 0])

    @cached_property
    def plan(self) -> Tensor:
        return torch.from_numpy(self.raw_plan)

    @cached_property
    def certificate(self) -> Certificate:
        linear, objective, gap, scale = (torch.from_numpy(self.out[:, k]) for k in range(1, 5))
        rows, columns = torch.from_numpy(self.rows), torch.from_numpy(self.columns)
        return Certificate(self.plan, rows, columns, linear, objective, gap, scale)

    def largest(self) -> float:
        if len(self.out) == 1:
            _, linear, objective, gap, _ = self.out[0].tolist()
            return max(abs(linear), abs(objective), gap, float(self.rows.sum()))
        return float(max(np.abs(self.out[:, 1:4]).max(), self.rows.sum(1).max()))

    def all_within(self, tol: float) -> bool:
        if len(self.out) == 1:  # a few microseconds of numpy matter here
            _, _, _, gap, scale = self.out[0].tolist()
            return bool(solved(gap, scale, tol))
        return bool(solved(self.out[:, 3], self.out[:, 4], tol).all())


def kinds_known(problem: Problem) -> bool:
    """Whether the kernels know both marginals."""
    if isinstance(problem.source, PartialMarginal):
        return False
    if problem.reference == "ones":
        r_a, r_b = problem.reference_weights
        if bool(((problem.a <= 0) & (r_a > 0)).any()) or bool(((problem.b <= 0) & (r_b > 0)).any()):
            return False
    return type(problem.source.divergence) in _KINDS and type(problem.target.divergence) in _KINDS


def fits(problem: Problem) -> bool:
    """Whether the fused kernels are the right engine."""
    cost = problem.cost
    _, n, m = cost.shape
    return cost.device.type == "cpu" and n * m <= LARGEST and kinds_known(problem)


@lru_cache(maxsize=64)
def arguments(side: Marginal, epsilon: float) -> tuple[int, float, float, float]:
    """(kind, tau/epsilon, lower or the exponent, upper), as the kernels take them."""
    phi, tau = side.divergence, side.tau / epsilon
    if isinstance(phi, divergences.ChiSquare):
        return _KINDS[type(phi)], 2 * tau, 2.0, 1e300
    lower = phi.p if isinstance(phi, divergences.Power) else phi.lower
    return _KINDS[type(phi)], tau, lower, min(phi.upper, 1e300)


def sweep(
    problem: Problem, start: tuple[Tensor, Tensor] | None, tol: float, limit: int, price: Tensor
) -> RawOutcome:  # fmt: skip
    """Sweep from `start`; the certificate is exact only where no marginal is constrained.

    `price` `(B,)` is what a unit of violated constraint is taken to cost when the gap is estimated.
    """
    from jumbot.transport import kernels

    cost, epsilon = problem.cost.double().contiguous().numpy(), problem.epsilon
    batch, n, m = cost.shape
    if start is None:
        F, G = np.empty((batch, n)), np.empty((batch, m))
    else:
        F = np.array(start[0].expand(batch, n).numpy() / epsilon)
        G = np.array(start[1].expand(batch, m).numpy() / epsilon)
    plan, rows, columns, out = np.empty((batch, n, m)), np.empty((batch, n)), np.empty((batch, m)), np.empty((batch, 5))
    a, b = problem.a.contiguous().numpy(), problem.b.contiguous().numpy()
    _in_threads(
        kernels.solve_range, batch, cost.size,
        cost, a, b, *reference(problem), epsilon,
        *arguments(problem.source, epsilon), *arguments(problem.target, epsilon),
        start is None, tol, limit, price.numpy(), F, G, plan, rows, columns, out,
    )  # fmt: skip
    return RawOutcome(epsilon, F, G, plan, rows, columns, out)


def is_symmetric(problem: Problem) -> bool:
    """Whether the symmetric fixed point applies: C = C' >= 0 with zero diagonal."""
    cost = problem.cost
    if cost.shape[-1] != cost.shape[-2] or not fits(problem) or problem.blocked is not None:
        return False
    diagonal = cost.diagonal(dim1=-2, dim2=-1)
    return bool((diagonal == 0).all()) and bool((cost >= 0).all()) and bool(torch.equal(cost, cost.mT))


def sweep_symmetric(
    problem: Problem, tol: float, limit: int, price: Tensor
) -> RawOutcome:  # fmt: skip
    """As `sweep` for symmetric problems with equal sides, by the averaged fixed point."""
    from jumbot.transport import kernels

    cost, epsilon = problem.cost.double().contiguous().numpy(), problem.epsilon
    batch, n, _ = cost.shape
    F, plan, rows, out = np.empty((batch, n)), np.empty((batch, n, n)), np.empty((batch, n)), np.empty((batch, 5))
    a = problem.a.contiguous().numpy()
    r, _, o, _ = reference(problem)
    _in_threads(
        kernels.solve_symmetric_range, batch, cost.size,
        cost, a, r, o, epsilon, *arguments(problem.source, epsilon), tol, limit, price.numpy(), F, plan, rows, out,
    )  # fmt: skip
    return RawOutcome(epsilon, F, F, plan, rows, rows.copy(), out)


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
    """Only to be read."""
    return np.zeros(shape)


def _in_threads(kernel: Any, batch: int, work: int, *arguments: Any) -> None:
    if work < _THREADED_FROM:
        kernel(*arguments, NEVER.flag, 0, batch)
        return
    kernel(*arguments, NEVER.flag, 0, 0)  # compile before the threads start
    stop = Stop()
    # several runs for each thread, because some problems take more sweeps than others
    parts = split(batch, 8 * min(torch.get_num_threads(), batch))
    run(lambda part: kernel(*arguments, stop.flag, *part), parts, stop)
