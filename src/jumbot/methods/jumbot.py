"""JUMBOT: unbalanced transport between minibatches of features and labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from jumbot.loss import JointLoss
from jumbot.methods._joint_transport import SourceWeights, TargetProportions, TransportMethod
from jumbot.methods.options import JumbotOptions


class Jumbot(TransportMethod):
    r"""L = CE on the source + eta3 <P, C>, P the unbalanced plan for C_ij = eta1 |z_i - z_j|^2 + eta2 CE(y_i, f(z_j)).

    With `proportions="estimated"` source samples are weighted, in P and in CE, by the share that their class seems to
    have in the target, see `TargetProportions`.

    Fatras, Séjourné, Courty, Flamary: Unbalanced minibatch optimal transport (2021).
    """

    name = "jumbot"
    Options = JumbotOptions

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.joint = self.make_joint(options.tau, options.reference)
        self.proportions = TargetProportions(classes) if options.proportions == "estimated" else None

    def use_sources(self, count: int, trust: Callable[[], Sequence[float]]) -> None:
        self.sources = SourceWeights(count, trust())

    def transport(self, features_s: Tensor, labels_s: Tensor, features_t: Tensor, logits_t: Tensor) -> JointLoss:
        out = self.joint(features_s, labels_s, features_t, logits_t, weights_s=self.source_weights(labels_s))
        if self.proportions is not None:
            self.proportions.observe(out.plan, labels_s, logits_t)
        return out
