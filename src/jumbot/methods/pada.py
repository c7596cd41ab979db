"""PADA: adversarial alignment for a target that lacks some classes of the source."""

from __future__ import annotations

from typing import Any

from torch.nn import functional as F

from jumbot.methods._class_weights import ClassWeighted, weighted
from jumbot.methods.base import Batch, Terms
from jumbot.methods.network import Network
from jumbot.methods.options import PADAOptions


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
