"""Where the interior point starts: potentials with slack everywhere, a plan of the mass that they ask for.

In NumPy: it is done once a problem, and to compile it took longer than a thousand problems do.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def _typical(s: NDArray, noise: float) -> float:
    """The mean of the slacks above the noise; where some are huge (forbidden pairs), that of the others."""
    inside = s[s > noise]
    if not inside.size:
        return noise
    typical = float(inside.mean())
    # none is below where all are equal and their mean is rounded down
    while (below := inside[inside <= typical]).size and below.mean() < 1e-3 * typical:
        typical = float(below.mean())
    return typical


def open_slack(C: NDArray, tau_a: float, tau_b: float, f: NDArray, g: NDArray) -> tuple[NDArray, float]:
    """Lower the feasible f + g by a tenth of the typical slack; returns s = C - f - g > 0 and the typical slack.

    By one tau at most, and in proportion to tau: a e^{-f/tau} explodes where f falls by many tau.
    """
    s = C - f[:, None] - g
    size = max(min(tau_a, tau_b), float(np.abs(C).max()), float(np.abs(f).max()))
    typical = _typical(s, 1e-13 * size)
    shift, share = min(0.1 * typical, tau_a + tau_b), 1.0 / (1.0 + tau_b / tau_a)
    f -= share * shift
    g -= (1.0 - share) * shift
    s += shift
    return s, typical


def first_plan(
    a: NDArray, b: NDArray, tau_a: float, tau_b: float, relaxed_a: NDArray, relaxed_b: NDArray, s: NDArray
) -> NDArray:  # fmt: skip
    """P_ij proportional to 1 / ((1/a_i + 1/b_j) s_ij): near P s = mu, yet no light point far too heavy."""
    P = a[:, None] * b / ((a[:, None] + b) * s)
    P *= math.sqrt(relaxed_a.sum()) * math.sqrt(relaxed_b.sum()) / P.sum()
    if tau_a == math.inf:
        P *= (a / P.sum(1))[:, None]
    elif tau_b == math.inf:
        P *= b / P.sum(0)
    return P
