"""What JUMBOT and DeepJDOT share: a source term plus the cost of a plan between two minibatches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jumbot.loss import JointLoss
from jumbot.methods.base import Batch, Method, Terms, source_term
from jumbot.methods.network import Network
from jumbot.minibatch.distributed import gather_rows


class TransportMethod(Method):
    r"""L = CE on the source + eta3 <P, C>, with P solved on the detached cost: the envelope theorem gives the gradient.

    With `global_plan` the minibatches of all processes are joined into one problem.
    """

    global_plan: bool = False

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.eta3 = options.eta3

    @property
    def scale(self) -> float | None:
        """What `JointTransportLoss` takes for it."""
        return None if self.options.scale is None else float(self.options.scale_at)

    def transport(self, features_s: Tensor, labels_s: Tensor, features_t: Tensor, logits_t: Tensor) -> JointLoss:
        raise NotImplementedError

    def terms(self, network: Network, batch: Batch) -> Terms:
        features_s, logits_s = network(batch.source)
        features_t, logits_t = network(batch.target)
        labels = batch.labels
        source = source_term(logits_s, labels)
        if self.global_plan:
            features_s, features_t, logits_t = gather_rows(features_s), gather_rows(features_t), gather_rows(logits_t)
            with torch.no_grad():
                labels = gather_rows(labels)
        out = self.transport(features_s, labels, features_t, logits_t)
        losses = {"source": source, "transport": self.eta3 * out.loss}
        return Terms(losses, plan=out.plan, value=out.value.detach())
