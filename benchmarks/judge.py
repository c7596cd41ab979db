"""One number for the quality of any solver's answer: its relative gap, or the error of its gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import logsumexp

from benchmarks import certify
from benchmarks.certify import Potentials
from benchmarks.ours import TOLERANCE, Ours
from benchmarks.regimes import Regime, squared_distances

GRADIENT_ERROR = 1e-2


@dataclass(frozen=True)
class Judge:
    """Judges answers to one problem; `bound`: potentials of a tight solve, for peers that return none."""

    regime: Regime
    cost: np.ndarray
    bound: Potentials | None = None
    gradient: np.ndarray | None = None

    @property
    def tolerance(self) -> float:
        """What an answer must reach to count."""
        return GRADIENT_ERROR if self.regime.kind == "divergence" else TOLERANCE * (1 + 1e-3)

    def __call__(self, plan: np.ndarray, potentials: Potentials | None) -> float:
        regime = self.regime
        if regime.kind == "divergence":
            return float(np.linalg.norm(plan - self.gradient) / np.linalg.norm(self.gradient))
        if regime.kind == "batch":
            single = [self._entropic(*one) for one in zip(self.cost, plan, *potentials, strict=True)]
            return max(single)
        if regime.kind == "entropic":
            return self._entropic(self.cost, plan, *potentials)
        n, m = self.cost.shape
        candidates = [p for p in (potentials, self.bound) if p is not None]
        if regime.kind == "exact-kl":
            candidates.append(certify.kl_potentials(plan, regime.tau, np.full(n, 1 / n), np.full(m, 1 / m)))
            return certify.exact_kl(self.cost, plan, candidates, tau=regime.tau).relative_gap
        return certify.exact_tv(self.cost, plan, candidates, tau=regime.tau).relative_gap

    def _entropic(self, cost: np.ndarray, plan: np.ndarray, f: np.ndarray, g: np.ndarray) -> float:
        regime = self.regime
        return certify.entropic_kl(cost, plan, (f, g), epsilon=regime.epsilon, tau=regime.tau).relative_gap


def judge_for(regime: Regime, cost: np.ndarray) -> Judge:
    """The judge of one problem, with the tight reference that its kind needs."""
    if regime.kind == "divergence":
        return Judge(regime, cost, gradient=divergence_gradient(*cost, regime.epsilon, regime.tau))
    if regime.kind in ("exact-kl", "exact-tv"):
        ours = Ours(regime, "reference")
        f, g = ours.solve(torch.tensor(cost), 1e-12).potentials
        return Judge(regime, cost, bound=(f.numpy(), g.numpy()))
    return Judge(regime, cost)


def divergence_gradient(x: np.ndarray, y: np.ndarray, epsilon: float, tau: float) -> np.ndarray:
    """Gradient in x of the Sinkhorn divergence for |x - y|^2 / 2: plain log-domain sweeps to rounding."""
    cross, self_ = (_log_domain_plan(squared_distances(x, z) / 2, epsilon, tau) for z in (y, x))
    pull = cross.sum(1)[:, None] * x - cross @ y
    return pull - ((self_.sum(1) + self_.sum(0))[:, None] * x - (self_ + self_.T) @ x) / 2


def _log_domain_plan(cost: np.ndarray, epsilon: float, tau: float) -> np.ndarray:
    n, m = cost.shape
    f, g, kappa = np.zeros(n), np.zeros(m), 1.0 if np.isinf(tau) else tau / (tau + epsilon)
    for _ in range(20_000):
        before = f
        f = -kappa * epsilon * (logsumexp((g[None, :] - cost) / epsilon, axis=1) - np.log(m))
        g = -kappa * epsilon * (logsumexp((f[:, None] - cost) / epsilon, axis=0) - np.log(n))
        if not np.isinf(tau):
            shift = (logsumexp(-f / tau) - np.log(n) - logsumexp(-g / tau) + np.log(m)) * tau / 2
            f, g = f + shift, g - shift
        if np.abs(f - before).max() < 1e-13:
            break
    return np.exp((f[:, None] + g[None, :] - cost) / epsilon) / (n * m)
