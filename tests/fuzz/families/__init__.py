"""One file for each kind of call that the campaign makes; `FAMILIES` says how often each is drawn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..report import Report
from ..watch import Watch
from . import borders, divergence, estimates, flows, gradients, refusals, solving

Family = Callable[[np.random.Generator, Watch, Report], None]

#: name -> (family, how many of a thousand cases)
FAMILIES: dict[str, tuple[Family, float]] = {
    "solve": (solving.any_problem, 600),
    "gradients": (gradients.of_value, 120),
    "borders": (borders.shared, 25),
    "large": (borders.large, 5),
    "divergence": (divergence.sinkhorn_divergence, 60),
    "large divergence": (divergence.above_the_border, 1),
    "estimate": (estimates.estimate, 60),
    "estimate borders": (estimates.at_borders, 2),
    "flow": (flows.gradient_flow, 60),
    "flow borders": (flows.at_borders, 2),
    "refusals": (refusals.out_of_contract, 69),
}
