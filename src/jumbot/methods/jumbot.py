"""JUMBOT: unbalanced transport between minibatches of features and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from jumbot.loss import JointLoss, JointTransportLoss
from jumbot.methods.joint_transport import TransportMethod


@dataclass(frozen=True)
class JumbotOptions:
    """Hyper-parameters of JUMBOT; the defaults are the paper's for Office-Home."""

    eta1: float = 0.01
    """Weight of the squared distance between embeddings in the cost."""
    eta2: float = 0.5
    """Weight of the cross-entropy between source label and target prediction in the cost."""
    eta3: float = 1.0
    """Weight of the transport term in the loss."""
    tau: float = 0.5
    """Price of leaving mass behind; pairs much dearer than 2 tau are hardly matched."""
    epsilon: float = 0.01
    """Strength of the entropy of the plan."""
    reference: Literal["product", "ones"] = "product"
    """"product" is the paper's text, "ones" its published code."""


class Jumbot(TransportMethod):
    r"""L = CE on the source + eta3 <P, C>, P the unbalanced plan for C_ij = eta1 |z_i - z_j|^2 + eta2 CE(y_i, f(z_j)).

    Fatras, Séjourné, Courty, Flamary: Unbalanced minibatch optimal transport (2021).
    """

    name = "jumbot"
    Options = JumbotOptions

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.joint = JointTransportLoss(options.eta1, options.eta2, options.tau, options.epsilon, options.reference)

    def transport(self, features_s: Tensor, labels_s: Tensor, features_t: Tensor, logits_t: Tensor) -> JointLoss:
        out: JointLoss = self.joint(features_s, labels_s, features_t, logits_t)
        return out
