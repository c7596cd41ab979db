"""CDAN-E: a discriminator that sees features together with predictions, and gives confident samples more weight."""

from __future__ import annotations

import torch
from torch import Tensor

from jumbot.methods.adversarial import Adversarial, Discriminator, domain_losses, entropy, entropy_weights, reverse
from jumbot.methods.base import Batch, Terms, source_term
from jumbot.methods.network import Network
from jumbot.methods.options import CDANOptions


class CDAN(Adversarial):
    r"""DANN on T(z, p) with weights: CE on the source + weight/2 (E_s w log D(T) + E_t w log(1 - D(T))), max over D.

    T is the outer product of the features z and the detached probabilities p, or (R_1 z * R_2 p) / sqrt(d) with fixed
    Gaussian R_1, R_2. The weights are w = 1 + exp(-H(p)), scaled to mean 1 in each domain.

    Long, Cao, Wang, Jordan: Conditional adversarial domain adaptation (2018).
    """

    name = "cdan-e"
    Options = CDANOptions
    random_z: Tensor
    random_p: Tensor

    def make_discriminator(self) -> Discriminator:
        width = self.features * self.classes
        if self.options.map == "random":
            width = self.options.random_features
            self.register_buffer("random_z", torch.randn(self.features, width))
            self.register_buffer("random_p", torch.randn(self.classes, width))
        return Discriminator(width, hidden=self.options.discriminator_width)

    def joined(self, features: Tensor, probabilities: Tensor) -> Tensor:
        """T(z, p), one row per sample."""
        if self.options.map == "random":
            return (features @ self.random_z) * (probabilities @ self.random_p) / self.random_z.shape[1] ** 0.5
        return (probabilities[:, :, None] * features[:, None, :]).flatten(1)

    def judged(self, features: Tensor, logits: Tensor, strength: float) -> tuple[Tensor, Tensor]:
        """The discriminator's scores, and the weights of the samples."""
        probabilities = logits.detach().float().softmax(-1)
        scores = self.discriminator(self.joined(reverse(features, strength), probabilities))
        entropies = reverse(entropy(logits), strength) if self.options.entropy_gradient else entropy(logits.detach())
        return scores, entropy_weights(entropies)

    def terms(self, network: Network, batch: Batch) -> Terms:
        features_s, logits_s = network(batch.source)
        features_t, logits_t = network(batch.target)
        strength = self.strength(batch)
        scores_s, weights_s = self.judged(features_s, logits_s, strength)
        scores_t, weights_t = self.judged(features_t, logits_t, strength)
        loss_s, loss_t = domain_losses(scores_s, scores_t)
        adversarial = ((weights_s * loss_s).mean() + (weights_t * loss_t).mean()) / 2
        return Terms({"source": source_term(logits_s, batch.labels), "adversarial": self.options.weight * adversarial})
