"""m-POT: partial transport of a given mass between minibatches of features and labels."""

from __future__ import annotations

import math
from typing import Any

from jumbot.methods._joint_transport import TransportMethod
from jumbot.methods.base import Batch, Terms
from jumbot.methods.network import Network
from jumbot.methods.options import MPOTOptions

_START = 0.01  # of the ramp: with less mass there is no plan


class MPOT(TransportMethod):
    r"""L = CE on the source + eta3 <P, C>, P the cheapest plan with P 1 <= a, P' 1 <= b that moves `mass` of it.

    C is that of JUMBOT.  With `mass_ramp` the mass rises linearly.

    Nguyen, Nguyen, Vu-Le, Pham, Ho: Improving mini-batch optimal transport via partial transportation (2022).
    """

    name = "m-pot"
    Options = MPOTOptions

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.joint = self.make_joint(math.inf, mass=options.mass)

    def terms(self, network: Network, batch: Batch) -> Terms:
        mass, ramp = self.options.mass, self.options.mass_ramp
        if ramp:
            mass = min(mass, max(_START, mass * batch.progress / ramp))
        self.joint.mass = mass
        return super().terms(network, batch)
