"""jumbot in the same clothes as its peers: the public call, a torch cost in, `.plan` out."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import jumbot
from benchmarks.certify import Potentials
from benchmarks.peers.base import Peer
from benchmarks.regimes import Regime
from jumbot.transport._entropic import compiled_sweeps

TOLERANCE = 1e-10  # the default of `jumbot.solve`


def variants(regime: Regime) -> list[Ours]:
    """The call that the floors are about (float64, the default gap), then float32 inputs and a gap of 1e-6."""
    return [
        Ours(regime, "jumbot"),
        Ours(regime, "jumbot, float32 input", dtype=torch.float32),
        Ours(regime, "jumbot, gap 1e-6", tolerance=1e-6),
    ]


def kernel_seconds(calls: Sequence[Callable[[], object]], repeats: int = 20) -> float | None:
    """The median over `repeats` of each call of what it spends in compiled sweeps; None where it makes none."""
    seconds, run = [0.0], compiled_sweeps._in_threads

    def timed(*arguments: Any) -> None:
        begin = time.perf_counter()
        run(*arguments)
        seconds[-1] += time.perf_counter() - begin

    with patch.object(compiled_sweeps, "_in_threads", timed):
        for call in calls:
            for _ in range(repeats):
                seconds.append(0.0)
                call()
    return statistics.median(seconds[1:]) or None


@dataclass
class Ours(Peer):
    """`jumbot.solve` or `jumbot.sinkhorn_divergence`; its one setting is its tolerance."""

    dtype: torch.dtype = torch.float64
    tolerance: float = TOLERANCE

    @property
    def settings(self) -> Sequence[float]:
        return [self.tolerance]

    def prepare(self, cost: np.ndarray) -> Any:
        tensor = torch.tensor(cost, dtype=self.dtype)
        if self.regime.kind != "divergence":
            return tensor
        return tensor[0].clone().requires_grad_(), tensor[1].clone()

    def call(self, data: Any, setting: float) -> torch.Tensor:
        if self.regime.kind == "divergence":
            return self._gradient(*data, setting)
        return self.solve(data, setting).plan

    def answer(self, data: Any, setting: float) -> tuple[np.ndarray, Potentials | None]:
        if self.regime.kind == "divergence":
            return self._gradient(*data, setting).numpy(), None
        solution = self.solve(data, setting)
        f, g = solution.potentials
        return solution.plan.numpy(), (f.numpy(), g.numpy())

    def solve(self, cost: torch.Tensor, tolerance: float) -> jumbot.Solution:
        """The problem of the regime, through the public call."""
        regime = self.regime
        divergence = "tv" if regime.kind == "exact-tv" else "kl"
        return jumbot.solve(cost, epsilon=regime.epsilon, tau=regime.tau, divergence=divergence, tol=tolerance)

    def _gradient(self, x: torch.Tensor, y: torch.Tensor, tolerance: float) -> torch.Tensor:
        """Half of the gradient for |x - y|^2, 2 epsilon, 2 tau: that of |x - y|^2 / 2, epsilon, tau."""
        regime = self.regime
        value = jumbot.sinkhorn_divergence(x, y, epsilon=2 * regime.epsilon, tau=2 * regime.tau, tol=tolerance)
        return torch.autograd.grad(value / 2, x)[0]
