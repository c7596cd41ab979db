"""MCC: predictions that do not confuse classes."""

from __future__ import annotations

from torch import Tensor

from jumbot.methods.adversarial import entropy, entropy_weights
from jumbot.methods.base import Batch, Method, Terms, source_term
from jumbot.methods.network import Network
from jumbot.methods.options import MCCOptions


class MCC(Method):
    r"""L = CE on the source + weight/C sum_{k != l} A_kl, the rows of A = P^T diag(w) P divided by their sums.

    P holds the softmax of target logits / temperature, one row per sample, and w = 1 + exp(-H(P_i)), scaled to mean 1
    and detached. A_kl is how much class k is mistaken for class l. No discriminator, no source features.

    Jin, Wang, Long, Wang: Minimum class confusion for versatile domain adaptation (2020).
    """

    name = "mcc"
    Options = MCCOptions

    def terms(self, network: Network, batch: Batch) -> Terms:
        _, logits_s = network(batch.source)
        _, logits_t = network(batch.target)
        confused = confusion(logits_t.float() / self.options.temperature)
        return Terms({"source": source_term(logits_s, batch.labels), "confusion": self.options.weight * confused})


def confusion(logits: Tensor) -> Tensor:
    """The mean over classes of the share that a class has in common with others, between 0 and 1 - 1/C.

    >>> confusion(Tensor([[0.0, 0.0, 0.0, 0.0]]))
    tensor(0.7500)
    """
    p = logits.softmax(-1)
    weights = entropy_weights(entropy(logits.detach()))
    shared = (weights[:, None] * p).mT @ p
    total = shared.sum(1)
    # a class that is never predicted is confused with none
    return ((total - shared.diagonal()) / total.clamp_min(1e-12)).mean()
