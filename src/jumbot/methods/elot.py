"""ELOT: transport between minibatches that matches only pairs whose cost is below a reward."""

from __future__ import annotations

import math
from typing import Any

from jumbot.methods._joint_transport import TransportMethod
from jumbot.methods.options import ELOTOptions


class ELOT(TransportMethod):
    r"""L = CE on the source + eta3 <P, C>, P the plan of least <P, C - reward> with P 1 <= a and P' 1 <= b.

    C is that of JUMBOT.  The costs have both signs, so that the problem itself says how much mass it moves.  Without
    entropy it is <P, C> with both marginals in total variation at tau = reward / 2, up to a constant.

    Elastic optimal transport: theory, application, and empirical evaluation (2026).
    """

    name = "elot"
    Options = ELOTOptions

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        if options.epsilon:
            self.joint = self.make_joint(math.inf, divergence="range(0,1)", reward=options.reward)
        else:
            self.joint = self.make_joint(options.reward / 2, divergence="tv")
