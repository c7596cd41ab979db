"""A problem as compiled code takes it, which knows no objects: a divergence is a number, its kind."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from jumbot.transport import divergences
from jumbot.transport.marginal import Marginal, PartialMarginal
from jumbot.transport.problem import Problem

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
    """Only to be read."""
    return np.zeros(shape)
