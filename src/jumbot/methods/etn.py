"""ETN: source samples weighted by how much an auxiliary classifier takes them for target samples."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from jumbot.methods.adversarial import Discriminator, domain_losses, entropy, reversal, reverse
from jumbot.methods.base import Batch, Method, Terms, source_term
from jumbot.methods.network import Network, xavier
from jumbot.methods.options import ETNOptions


class ETN(Method):
    r"""E_s w CE + weight (E_s w log D(z_s) + E_t log(1 - D(z_t))) + entropy E_t H, max over D; w = 1 - P(source).

    An auxiliary linear classifier on detached features, with logits a, has the leaky softmax
    q_k = exp(a_k) / (sum_l exp(a_l) + C), and P(source) = sum_k q_k. It learns the domains, by the binary
    cross-entropy of P(source), and the labels, by that of each q_k on the source. The weights w are detached and
    scaled to mean 1 in the minibatch. Gradients are reversed as in DANN.

    Cao, You, Long, Wang, Yang: Learning to transfer examples for partial domain adaptation (2019).
    """

    name = "etn"
    Options = ETNOptions

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.discriminator = Discriminator(features, hidden=options.discriminator_width)
        self.auxiliary = nn.Linear(features, classes)
        xavier(self.auxiliary)

    def terms(self, network: Network, batch: Batch) -> Terms:
        features_s, logits_s = network(batch.source)
        features_t, logits_t = network(batch.target)
        strength = reversal(batch.progress)
        loss_s, loss_t = domain_losses(
            self.discriminator(reverse(features_s, strength)), self.discriminator(reverse(features_t, strength))
        )
        log_q, domain_s = leaky_softmax(self.auxiliary(features_s.detach()).float())
        _, domain_t = leaky_softmax(self.auxiliary(features_t.detach()).float())
        weights = domain_s.detach().neg().sigmoid().clamp_min(1e-6)
        weights = weights / weights.mean()

        seen_s, seen_t = domain_losses(domain_s[:, None], domain_t[:, None])
        one_hot = F.one_hot(batch.labels, self.classes).float()
        labels = -(one_hot * log_q + (1 - one_hot) * (1 - log_q.exp()).clamp_min(1e-6).log()).mean()
        options = self.options
        return Terms(
            {
                "source": source_term(logits_s, batch.labels, weights),
                "adversarial": options.weight * ((weights * loss_s).mean() + loss_t.mean()),
                "entropy": options.entropy * entropy(logits_t).mean(),
                "auxiliary domain": options.auxiliary_domain * (seen_s.mean() + seen_t.mean()) / 2,
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
