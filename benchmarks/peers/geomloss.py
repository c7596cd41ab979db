"""GeomLoss: ``geomloss.ot.solve`` on a cost matrix, ``SamplesLoss`` for the Sinkhorn divergence.

Conventions: ``geomloss.ot.solve`` takes epsilon as ``reg`` and tau as ``unbalanced``, product reference; its
stopping rule is the number of steps of its annealing. ``SamplesLoss("sinkhorn", p=2)`` uses the cost
``|x - y|^2 / 2``, ``epsilon = blur^2``, ``tau = reach^2``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import geomloss
import geomloss.ot
import numpy as np
import torch

from benchmarks.certify import Potentials
from benchmarks.peers.base import Peer, iteration_ladder
from benchmarks.regimes import Regime


def adapters(regime: Regime) -> list[Peer]:
    """The matrix solver, or the divergence."""
    if regime.kind == "divergence":
        return [Divergence(regime, "GeomLoss, scaling .99")]
    return [Matrix(regime, "GeomLoss")]


@dataclass
class Matrix(Peer):
    """``geomloss.ot.solve``."""

    dtype: torch.dtype = torch.float64

    @property
    def settings(self) -> Sequence[int]:
        return iteration_ladder(last=20_000)

    def prepare(self, cost: np.ndarray) -> torch.Tensor:
        return torch.tensor(cost, dtype=self.dtype)

    def call(self, data: torch.Tensor, setting: int) -> torch.Tensor:
        return self._solve(data, setting).plan

    def answer(self, data: torch.Tensor, setting: int) -> tuple[np.ndarray, Potentials]:
        result = self._solve(data, setting)
        return result.plan.numpy(), (result.potential_a.numpy(), result.potential_b.numpy())

    def _solve(self, data: torch.Tensor, setting: int) -> Any:
        return geomloss.ot.solve(data, reg=self.regime.epsilon, unbalanced=self.regime.tau, max_iter=setting)


@dataclass
class Divergence(Peer):
    """``SamplesLoss`` and its gradient in x; the answer is the gradient."""

    @property
    def settings(self) -> Sequence[float]:
        return [0.99]

    def prepare(self, cost: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = torch.tensor(cost)
        return x.clone().requires_grad_(), y.clone()

    def call(self, data: tuple[torch.Tensor, torch.Tensor], setting: float) -> torch.Tensor:
        loss = geomloss.SamplesLoss(
            "sinkhorn",
            p=2,
            blur=math.sqrt(self.regime.epsilon),
            reach=math.sqrt(self.regime.tau),
            scaling=setting,
            debias=True,
            backend="tensorized",
        )
        return torch.autograd.grad(loss(*data), data[0])[0]

    def answer(self, data: tuple[torch.Tensor, torch.Tensor], setting: float) -> tuple[np.ndarray, None]:
        return self.call(data, setting).numpy(), None
