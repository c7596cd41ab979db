"""DeepJDOT: balanced transport between minibatches of features and labels."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from jumbot.cost import joint_cost, squared_euclidean
from jumbot.loss import JointLoss
from jumbot.methods._joint_transport import TransportMethod
from jumbot.methods.options import DeepJDOTOptions
from jumbot.transport._solve import solve


class DeepJDOT(TransportMethod):
    r"""L = CE on the source + eta3 <P, C>, P the balanced plan for C_ij = eta1 |z_i - z_j|^2 + eta2 CE(y_i, f(z_j)).

    Damodaran, Kellenberger, Flamary, Tuia, Courty: DeepJDOT (2018).
    """

    name = "deepjdot"
    Options = DeepJDOTOptions

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.joint = self.make_joint(math.inf)

    def transport(self, features_s: Tensor, labels_s: Tensor, features_t: Tensor, logits_t: Tensor) -> JointLoss:
        if self.options.variant == "paper":
            return super().transport(features_s, labels_s, features_t, logits_t)
        eta2 = self.options.eta2
        eta1 = self.options.eta1 * (1.0 if self.joint.scale is None else self.joint.scale(features_s))
        with torch.no_grad():
            one_hot = F.one_hot(labels_s, logits_t.shape[1]).float()
            labels = squared_euclidean(one_hot, logits_t.float().softmax(-1))
            planned = eta1 * squared_euclidean(features_s.float(), features_t.float()) + eta2 * labels
            solution = solve(planned, epsilon=self.options.epsilon, tol=1e-6, engine=self.options.engine)
        cost = joint_cost(features_s.float(), labels_s, features_t.float(), logits_t.float(), eta1, eta2)
        return JointLoss((solution.plan * cost).sum(), solution.value, solution.plan, solution.mass)
