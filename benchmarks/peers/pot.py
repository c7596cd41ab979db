"""POT: scaling iterations in float64 numpy; for epsilon = 0, MM (KL) and the network simplex (TV).

Conventions: ``reg_type="kl"`` is the product reference (the default since 0.9.5, said here so that it stays
true); ``reg_m`` is tau; scalings are ``u = exp(f / epsilon)``. ``partial_wasserstein_lagrange`` charges
``reg_m`` once for mass that two marginals miss, hence ``reg_m = 2 tau``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ot

from benchmarks.certify import Potentials
from benchmarks.peers.base import Peer, iteration_ladder
from benchmarks.regimes import Regime


def adapters(regime: Regime) -> list[Peer]:
    """Every POT solver for the regime's kind of problem."""
    if regime.kind == "exact-kl":
        return [MajorizeMinimize(regime, "POT MM")]
    if regime.kind == "exact-tv":
        return [PartialLagrange(regime, "POT lagrange")]
    if regime.m > 1000:
        return [Scaling(regime, "POT", solver=ot.unbalanced.sinkhorn_knopp_unbalanced)]
    return [
        Scaling(regime, "POT", solver=ot.unbalanced.sinkhorn_knopp_unbalanced),
        Scaling(regime, "POT stabilized", solver=ot.unbalanced.sinkhorn_stabilized_unbalanced),
        Scaling(
            regime,
            "POT translation invariant",
            tuned=True,
            solver=ot.unbalanced.sinkhorn_unbalanced_translation_invariant,
        ),
    ]


@dataclass
class Problem:
    """Cost and weights in float64."""

    cost: np.ndarray
    a: np.ndarray
    b: np.ndarray


@dataclass
class PotPeer(Peer):
    """What POT's solvers share: float64 numpy in, a number of iterations as the stopping rule."""

    @property
    def settings(self) -> Sequence[int]:
        return iteration_ladder()

    def prepare(self, cost: np.ndarray) -> Problem:
        n, m = cost.shape
        return Problem(np.ascontiguousarray(cost, dtype=np.float64), np.full(n, 1 / n), np.full(m, 1 / m))


@dataclass
class Scaling(PotPeer):
    """Sinkhorn-Knopp and its relatives, with the threshold at zero and the iterations given."""

    solver: Callable[..., Any] = ot.unbalanced.sinkhorn_knopp_unbalanced

    def call(self, data: Problem, setting: int) -> np.ndarray:
        return self._solve(data, setting, log=False)

    def answer(self, data: Problem, setting: int) -> tuple[np.ndarray, Potentials]:
        plan, log = self._solve(data, setting, log=True)
        return plan, (self.regime.epsilon * log["logu"], self.regime.epsilon * log["logv"])

    def _solve(self, data: Problem, iterations: int, log: bool) -> Any:
        return self.solver(
            data.a,
            data.b,
            data.cost,
            self.regime.epsilon,
            self.regime.tau,
            reg_type="kl",
            numItermax=iterations,
            stopThr=0,
            log=log,
        )


@dataclass
class MajorizeMinimize(PotPeer):
    """``mm_unbalanced``, KL; it returns no potentials."""

    def call(self, data: Problem, setting: int) -> np.ndarray:
        return ot.unbalanced.mm_unbalanced(
            data.a, data.b, data.cost, self.regime.tau, div="kl", numItermax=setting, stopThr=0
        )

    def answer(self, data: Problem, setting: int) -> tuple[np.ndarray, None]:
        return self.call(data, setting), None


@dataclass
class PartialLagrange(PotPeer):
    """``partial_wasserstein_lagrange``: exact, so there is one setting."""

    @property
    def settings(self) -> Sequence[int]:
        return [0]

    def call(self, data: Problem, setting: int) -> np.ndarray:
        return ot.partial.partial_wasserstein_lagrange(data.a, data.b, data.cost, reg_m=2 * self.regime.tau)

    def answer(self, data: Problem, setting: int) -> tuple[np.ndarray, None]:
        return self.call(data, setting), None
