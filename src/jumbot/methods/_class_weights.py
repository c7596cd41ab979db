"""What PADA and BA3US share: the share of each source class in the target, estimated from predictions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jumbot.methods.adversarial import Adversarial
from jumbot.methods.base import TargetOutputs


class ClassWeighted(Adversarial):
    """gamma = mean over all target samples of softmax(logits / temperature), updated at intervals; sums to 1.

    It is uniform until the second update: what a classifier says before its first step is noise.
    """

    refresh_every = 500
    temperature = 1.0
    shares: Tensor
    begun: Tensor

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.register_buffer("shares", torch.full((classes,), 1 / classes))
        self.register_buffer("begun", torch.tensor(False))

    def refresh(self, outputs: TargetOutputs) -> None:
        if self.begun:
            self.shares.copy_((outputs.logits.float() / self.temperature).softmax(-1).mean(0))
        self.begun.fill_(True)


def weighted(losses: Tensor, weights: Tensor) -> Tensor:
    """sum w l / sum w, the sum below held fixed; 0 where all weights are 0."""
    return (weights * losses).sum() / weights.sum().detach().clamp_min(1e-12)
