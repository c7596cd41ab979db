"""JUMBOT: unbalanced transport between minibatches of features and labels."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from jumbot.loss import JointLoss
from jumbot.methods.joint_transport import TransportMethod
from jumbot.methods.options import JumbotOptions


class Jumbot(TransportMethod):
    r"""L = CE on the source + eta3 <P, C>, P the unbalanced plan for C_ij = eta1 |z_i - z_j|^2 + eta2 CE(y_i, f(z_j)).

    Fatras, Séjourné, Courty, Flamary: Unbalanced minibatch optimal transport (2021).
    """

    name = "jumbot"
    Options = JumbotOptions

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.joint = self.make_joint(options.tau, options.reference)

    def transport(self, features_s: Tensor, labels_s: Tensor, features_t: Tensor, logits_t: Tensor) -> JointLoss:
        out: JointLoss = self.joint(features_s, labels_s, features_t, logits_t)
        return out
