"""What JUMBOT and DeepJDOT share: a source term plus the cost of a plan between two minibatches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jumbot.loss import JointLoss, JointTransportLoss
from jumbot.methods.base import Batch, Method, Terms, source_term
from jumbot.methods.network import Network
from jumbot.methods.proportions import TargetProportions
from jumbot.minibatch.distributed import gather_rows, mean_over_processes


class TransportMethod(Method):
    r"""L = CE on the source + eta3 <P, C>, with P solved on the detached cost: the envelope theorem gives the gradient.

    With `global_plan` the minibatches of all processes are joined into one problem.
    """

    global_plan: bool = False
    joint: JointTransportLoss
    proportions: TargetProportions | None
    progress = 0.0

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.eta3 = options.eta3
        self.proportions = None

    def make_joint(self, tau: float, reference: str = "product") -> JointTransportLoss:
        """The loss with these options; its scale moves once per step, alike on all processes."""
        options = self.options
        scale = None if options.scale is None else float(options.scale_at)
        joint = JointTransportLoss(
            options.eta1, options.eta2, tau, options.epsilon, reference, scale=scale, engine=options.engine
        )
        if joint.scale is not None:
            joint.scale.deferred = True
        return joint

    def use_label_loss(self, label_loss: str) -> None:
        super().use_label_loss(label_loss)
        self.joint.label_loss = label_loss

    def end_step(self) -> None:
        if self.joint.scale is not None:
            self.joint.scale.settle(mean_over_processes)
        if self.proportions is not None:
            self.proportions.settle(self.progress, mean_over_processes)

    def source_weights(self, labels: Tensor) -> Tensor | None:
        """What source samples of these classes count; None: all alike."""
        return None if self.proportions is None else self.proportions.weights(labels)

    def decisions(self) -> list[str]:
        return [] if self.proportions is None else [self.proportions.to_words()]

    def transport(self, features_s: Tensor, labels_s: Tensor, features_t: Tensor, logits_t: Tensor) -> JointLoss:
        raise NotImplementedError

    def terms(self, network: Network, batch: Batch) -> Terms:
        features_s, logits_s = network(batch.source)
        features_t, logits_t = network(batch.target)
        labels, self.progress = batch.labels, batch.progress
        source = source_term(logits_s, labels, self.source_weights(labels), self.label_loss)
        if self.global_plan:
            features_s, features_t, logits_t = gather_rows(features_s), gather_rows(features_t), gather_rows(logits_t)
            with torch.no_grad():
                labels = gather_rows(labels)
        out = self.transport(features_s, labels, features_t, logits_t)
        ramp = getattr(self.options, "eta3_ramp", 0.0)
        eta3 = self.eta3 * min(1.0, batch.progress / ramp) if ramp else self.eta3
        losses = {"source": source, "transport": eta3 * out.loss}
        return Terms(losses, plan=out.plan, value=out.value.detach())
