"""ETN: source samples weighted by how likely an auxiliary classifier thinks they are target samples."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from jumbot.methods.adversarial import Adversarial, Discriminator, domain_losses, entropy
from jumbot.methods.base import Batch, Terms, source_term
from jumbot.methods.network import Network
from jumbot.methods.options import ETNOptions


class ETN(Adversarial):
    r"""E_s w CE + weight (E_s w log D(z_s) + E_t log(1 - D(z_t))) + entropy E_t H, max over D; w = 1 - P(source).

    An auxiliary classifier on detached features (two hidden layers, dropout 1/2), with logits a, has the leaky softmax
    q_k = exp(a_k) / (sum_l exp(a_l) + C), and P(source) = sum_k q_k. It learns the domains, by the binary
    cross-entropy of P(source) on both, and the labels, by that of each q_k on the source, summed over the classes.
    The weights w are detached and scaled to mean 1 in the minibatch. Gradients are reversed as in DANN.

    Cao, You, Long, Wang, Yang: Learning to transfer examples for partial domain adaptation (2019).
    """

    name = "etn"
    Options = ETNOptions

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.auxiliary = Discriminator(features, hidden=options.auxiliary_width, outputs=classes)

    def terms(self, network: Network, batch: Batch) -> Terms:
        features_s, logits_s = network(batch.source)
        features_t, logits_t = network(batch.target)
        loss_s, loss_t = self.opposed(features_s, features_t, batch)
        log_q, domain_s = leaky_softmax(self.auxiliary(features_s.detach()).float())
        _, domain_t = leaky_softmax(self.auxiliary(features_t.detach()).float())
        weights = domain_s.detach().neg().sigmoid()
        weights = weights / weights.mean().clamp_min(1e-10)

        seen_s, seen_t = domain_losses(domain_s[:, None], domain_t[:, None])
        log_not_q = torch.expm1(log_q).neg().clamp_min(1e-30).log()
        labelled = F.one_hot(batch.labels, self.classes).bool()
        labels = -torch.where(labelled, log_q, log_not_q).sum(-1).mean()
        options = self.options
        return Terms(
            {
                "source": source_term(logits_s, batch.labels, weights),
                "adversarial": options.weight * ((weights * loss_s).mean() + loss_t.mean()),
                "entropy": options.entropy * entropy(logits_t).mean(),
                "auxiliary domain": options.auxiliary_domain * (seen_s.mean() + seen_t.mean()),
                "auxiliary label": options.auxiliary_label * labels,
            }
        )


def leaky_softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """log q, q_k = exp(a_k) / (sum_l exp(a_l) + C), and the logit of their sum, which is logsumexp(a) - log C.

    >>> log_q, logit = leaky_softmax(Tensor([[0.0, 0.0]]))
    >>> log_q.exp(), logit.sigmoid()
    (tensor([[0.2500, 0.2500]]), tensor([0.5000]))
    """
    total = logits.logsumexp(-1) - math.log(logits.shape[-1])
    return F.logsigmoid(total)[:, None] + logits.log_softmax(-1), total
