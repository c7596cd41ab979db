"""BA3US: partial adaptation; source samples are added to the target, probabilities of wrong classes spread evenly."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from jumbot.methods.adversarial import domain_losses, entropy, reverse
from jumbot.methods.base import Batch, Terms
from jumbot.methods.network import Network
from jumbot.methods.options import BA3USOptions
from jumbot.methods.pada import ClassWeighted, weighted


class BA3US(ClassWeighted):
    r"""E_s v CE + weight ((1 + rho) E_{s,extra} v u B + E_t u B) / (2 + rho) + entropy E_t H + complement E_s v R.

    v is proportional to gamma_y, the mean target probability of the class of a source sample; u = 1 + exp(-H), H the
    entropy of its prediction; every weighted mean is divided by the sum of its weights. B is the cross-entropy of the
    discriminator, reversed, to which the extra source samples, rho = extra (1 - p) times the minibatch at progress p,
    are target samples: so the classes that the target lacks do not pull. R = -H(p without y)/log(C - 1), counted by
    1 - p_y, keeps the wrong classes undecided.

    Liang, Wang, Hu, He, Feng: A balanced and uncertainty-aware approach for partial domain adaptation (2020).
    """

    name = "ba3us"
    Options = BA3USOptions

    def extra_samples(self, batch_size: int, progress: float) -> int:
        return int(self.options.extra * batch_size) * (10 - int(10 * progress)) // 10

    def terms(self, network: Network, batch: Batch) -> Terms:
        n, options, strength, labels = len(batch.labels), self.options, self.strength(batch), batch.labels
        features_s, logits_s = network(batch.source)
        features_t, logits_t = network(batch.target)
        if batch.extra is not None:  # a separate pass: the batch norms of the source do not see them
            features, logits = network(batch.extra[0])
            features_s, logits_s = torch.cat([features_s, features]), torch.cat([logits_s, logits])
            labels = torch.cat([labels, batch.extra[1]])
        shares, rho = self.shares[labels], (len(labels) - n) / n

        scores_s, scores_t = (self.discriminator(reverse(z, strength)) for z in (features_s, features_t))
        signs = torch.ones_like(scores_s)
        signs[n:] = -1  # the extra samples are shown as target
        loss_s, loss_t = domain_losses(signs * scores_s, scores_t)
        adversarial = (1 + rho) * weighted(loss_s, shares * self.sure(logits_s, strength))
        adversarial = (adversarial + weighted(loss_t, self.sure(logits_t, strength))) / (2 + rho)
        logits_s, shares = logits_s[:n], shares[:n]
        return Terms(
            {
                "source": weighted(F.cross_entropy(logits_s, batch.labels, reduction="none"), shares),
                "adversarial": options.weight * adversarial,
                "entropy": options.entropy * entropy(logits_t).mean(),
                "complement": options.complement * complement(logits_s, batch.labels, shares),
            }
        )

    def sure(self, logits: Tensor, strength: float) -> Tensor:
        """u = 1 + exp(-H)."""
        h = reverse(entropy(logits), strength) if self.options.entropy_gradient else entropy(logits.detach())
        return 1 + torch.exp(-h)


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
    # far below any logit, far above the least number: its gradient, a multiple of it times 0, must not overflow
    wrong = logits.masked_fill(F.one_hot(labels, classes).bool(), -1e30)
    return -weighted(entropy(wrong), weights) / math.log(classes - 1)
