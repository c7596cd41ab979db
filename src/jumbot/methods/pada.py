"""PADA: adversarial alignment for a target that lacks some classes of the source.

With BA3US it shares `ClassWeighted`: the share of each source class in the target, estimated from predictions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from jumbot.methods.adversarial import Adversarial
from jumbot.methods.base import Batch, TargetOutputs, Terms
from jumbot.methods.network import Network
from jumbot.methods.options import PADAOptions


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


class PADA(ClassWeighted):
    r"""E_s (gamma_y / mean gamma_y) CE + weight/2 (E_s (gamma_y / max gamma_y) log D + E_t log(1 - D)), max over D.

    gamma is the mean of the sharpened probabilities of all target samples: classes that are never predicted fade
    out. Mean and maximum are over the source minibatch. Gradients are reversed as in DANN.

    Cao, Ma, Long, Wang: Partial adversarial domain adaptation (2018).
    """

    name = "pada"
    Options = PADAOptions

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.temperature = options.temperature

    def terms(self, network: Network, batch: Batch) -> Terms:
        features_s, logits_s = network(batch.source)
        features_t, _ = network(batch.target)
        loss_s, loss_t = self.opposed(features_s, features_t, batch)
        shares = self.shares[batch.labels]
        adversarial = ((shares / shares.max().clamp_min(1e-12) * loss_s).mean() + loss_t.mean()) / 2
        return Terms(
            {
                "source": weighted(F.cross_entropy(logits_s, batch.labels, reduction="none"), shares),
                "adversarial": self.options.weight * adversarial,
            }
        )
