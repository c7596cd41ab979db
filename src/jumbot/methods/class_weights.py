"""What PADA and BA3US share: the share of each source class in the target, estimated from predictions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jumbot.methods.base import Method, TargetOutputs


class ClassWeighted(Method):
    """gamma = mean over all target samples of their probabilities, anew every `refresh_every` steps; sums to 1.

    It is uniform until the second look at the target: what a classifier says before its first step is noise.
    """

    shares: Tensor
    begun: Tensor

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.refresh_every = options.refresh_every
        self.register_buffer("shares", torch.full((classes,), 1 / classes))
        self.register_buffer("begun", torch.tensor(False))

    def refresh(self, outputs: TargetOutputs) -> None:
        if self.begun:
            self.shares.copy_(outputs.probabilities.float().mean(0))
        self.begun.fill_(True)
