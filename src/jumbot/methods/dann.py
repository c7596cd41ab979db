"""DANN: features that a discriminator cannot tell apart."""

from __future__ import annotations

from jumbot.methods.adversarial import Adversarial
from jumbot.methods.base import Batch, Terms, source_term
from jumbot.methods.network import Network
from jumbot.methods.options import DANNOptions


class DANN(Adversarial):
    r"""min over the network, max over D:  CE on the source + weight/2 (E_s log D(z_s) + E_t log(1 - D(z_t))).

    The discriminator D minimises its binary cross-entropy; the features receive that gradient reversed, times
    2 / (1 + exp(-10 p)) - 1 at p = step / reversal_steps.

    Ganin, Ustinova, Ajakan, Germain, Larochelle, Laviolette, Marchand, Lempitsky: Domain-adversarial training of
    neural networks (2016).
    """

    name = "dann"
    Options = DANNOptions

    def terms(self, network: Network, batch: Batch) -> Terms:
        features_s, logits_s = network(batch.source)
        features_t, _ = network(batch.target)
        loss_s, loss_t = self.opposed(features_s, features_t, batch)
        adversarial = (loss_s.mean() + loss_t.mean()) / 2
        source = source_term(logits_s, batch.labels, label_loss=self.label_loss)
        return Terms({"source": source, "adversarial": self.options.weight * adversarial})
