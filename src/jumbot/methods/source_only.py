"""No adaptation: the classifier of the source, as the baseline."""

from __future__ import annotations

from jumbot.methods.base import Batch, Method, Terms, source_term
from jumbot.methods.network import Network
from jumbot.methods.options import SourceOnlyOptions


class SourceOnly(Method):
    """L = CE on the source (or the loss of its numbers); the target is never used."""

    name = "source-only"
    Options = SourceOnlyOptions

    def terms(self, network: Network, batch: Batch) -> Terms:
        _, logits = network(batch.source)
        return Terms({"source": source_term(logits, batch.labels, label_loss=self.label_loss)})
