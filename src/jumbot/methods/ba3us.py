"""BA3US: partial adaptation with a target topped up by source samples, and wrong classes kept undecided."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from jumbot.methods.adversarial import (
    Discriminator,
    domain_losses,
    entropy,
    reversal,
    reverse,
)
from jumbot.methods.base import Batch, Terms
from jumbot.methods.class_weights import ClassWeighted
from jumbot.methods.network import Network
from jumbot.methods.options import BA3USOptions


class BA3US(ClassWeighted):
    r"""E_s v CE + weight/2 (E_s v u log D + E_{t,extra} u log(1 - D)) + entropy E_t H + complement E_s v R, max over D.

    v is proportional to gamma_y, the mean target probability of the class of a source sample; u = 1 + exp(-H), H the
    entropy of its prediction; every weighted mean is divided by the sum of its weights. Source samples, extra (1 - p) n
    of them at progress p, are added to the target with weight gamma_y / mean gamma, so that its missing classes do not
    pull. R = -H(p without y)/log(C - 1), counted by 1 - p_y, keeps the wrong classes undecided.

    Liang, Wang, Hu, He, Feng: A balanced and uncertainty-aware approach for partial domain adaptation (2020).
    """

    name = "ba3us"
    Options = BA3USOptions

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.discriminator = Discriminator(features, hidden=options.discriminator_width)

    def terms(self, network: Network, batch: Batch) -> Terms:
        features_s, logits_s = network(batch.source)
        features_t, logits_t = network(batch.target)
        strength = reversal(batch.progress)
        shares = self.shares[batch.labels] / self.shares.mean()
        sure_s, sure_t = (1 + torch.exp(-entropy(logits.detach())) for logits in (logits_s, logits_t))

        # drawn, since source minibatches come sorted by class
        count = int(self.options.extra * len(features_s) * (1 - batch.progress))
        extra = torch.randperm(len(features_s), device=features_s.device)[:count]
        loss_s, loss_t = domain_losses(
            self.discriminator(reverse(features_s, strength)),
            self.discriminator(reverse(torch.cat([features_t, features_s[extra]]), strength)),
        )
        weights_s = shares * sure_s
        adversarial = weighted(loss_s, weights_s) + weighted(loss_t, torch.cat([sure_t, weights_s[extra]]))
        undecided = complement(logits_s, batch.labels, shares)
        options = self.options
        return Terms(
            {
                "source": weighted(F.cross_entropy(logits_s, batch.labels, reduction="none"), shares),
                "adversarial": options.weight * adversarial / 2,
                "entropy": options.entropy * entropy(logits_t).mean(),
                "complement": options.complement * undecided,
            }
        )


def weighted(losses: Tensor, weights: Tensor) -> Tensor:
    """sum w l / sum w; 0 where all weights are 0."""
    return (weights * losses).sum() / weights.sum().clamp_min(1e-12)


def complement(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """The mean of sum_{k != y} q_k log q_k / log(C - 1), q = p / (1 - p_y), weighted by w (1 - p_y): -1 to 0.

    >>> complement(torch.tensor([[0.0, 1.0, 1.0]]), torch.tensor([0]), torch.ones(1))
    tensor(-1.)
    """
    classes = logits.shape[1]
    if classes == 2:  # one wrong class: nothing to be undecided about
        return logits.sum() * 0.0
    logits = logits.float()
    with torch.no_grad():
        weights = weights * (1 - logits.softmax(-1).gather(1, labels[:, None]).squeeze(1))
    wrong = logits.masked_fill(F.one_hot(labels, classes).bool(), torch.finfo(torch.float32).min)
    return -weighted(entropy(wrong), weights) / math.log(classes - 1)
