"""ALDA: a discriminator that corrects pseudo-labels, learned adversarially."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from jumbot.methods.adversarial import Adversarial, Discriminator, reverse
from jumbot.methods.base import Batch, Terms, source_term
from jumbot.methods.network import Network
from jumbot.methods.options import ALDAOptions


class ALDA(Adversarial):
    r"""L = CE + weight (BCE(c, goal) + CE(discriminator, y)) - self_training E_t (p . c) / C.

    The discriminator gives one xi_l = sigmoid(score_l) per class. Column l of the confusion matrix holds xi_l on the
    diagonal and (1 - xi_l)/(C - 1) elsewhere; the corrected label c is its column of the predicted class. The goal is
    the true one-hot label on the source and (1 - one-hot prediction)/(C - 1) on the target, of which only confident
    samples count; features receive the gradient of this term reversed. The discriminator's CE trains it alone, and c
    is detached in the self-training, whose mean over the C classes is that of the published code.

    Chen, Zhao, Liu, Cai: Adversarial-learned loss for domain adaptation (2020).
    """

    name = "alda"
    Options = ALDAOptions

    def make_discriminator(self) -> Discriminator:
        return Discriminator(self.features, hidden=self.options.discriminator_width, outputs=self.classes)

    def terms(self, network: Network, batch: Batch) -> Terms:
        features_s, logits_s = network(batch.source)
        features_t, logits_t = network(batch.target)
        strength = self.strength(batch)
        scores_s = self.discriminator(reverse(features_s, strength)).float()
        scores_t = self.discriminator(reverse(features_t, strength)).float()

        probabilities = logits_t.float().softmax(-1)
        confidence, predicted_t = probabilities.detach().max(-1)
        kept = confidence > self.options.threshold
        corrected_s = corrected(scores_s.sigmoid(), logits_s.argmax(-1))
        corrected_t = corrected(scores_t.sigmoid(), predicted_t)[kept]
        goal_s = F.one_hot(batch.labels, self.classes).float()
        goal_t = (1 - F.one_hot(predicted_t[kept], self.classes).float()) / (self.classes - 1)
        losses = torch.cat([cross_entropies(corrected_s, goal_s), cross_entropies(corrected_t, goal_t)])

        regulariser = F.cross_entropy(self.discriminator(features_s.detach()), batch.labels)
        agreement = (probabilities[kept] * corrected_t.detach()).sum() / kept.sum().clamp_min(1)
        if self.options.over_classes == "mean":
            agreement = agreement / self.classes
        ramp = self.ramp(batch) if self.options.ramp else 1.0
        return Terms(
            {
                "source": source_term(logits_s, batch.labels),
                "adversarial": self.options.weight * losses.mean(),
                "discriminator": self.options.weight * regulariser,
                "self-training": -self.options.self_training * ramp * agreement,
            }
        )


def corrected(xi: Tensor, predicted: Tensor) -> Tensor:
    """The column of the confusion matrix that belongs to the predicted class: xi there, the rest shared by the others.

    >>> corrected(torch.tensor([[0.5, 0.8, 0.1]]), torch.tensor([1]))
    tensor([[0.1000, 0.8000, 0.1000]])
    """
    chosen = xi.gather(1, predicted[:, None])
    return torch.where(F.one_hot(predicted, xi.shape[1]).bool(), chosen, (1 - chosen) / (xi.shape[1] - 1))


def cross_entropies(c: Tensor, goal: Tensor) -> Tensor:
    """The binary cross-entropies summed over classes, one per sample."""
    c = c.clamp(1e-6, 1 - 1e-6)
    return -(goal * c.log() + (1 - goal) * (1 - c).log()).sum(-1)
