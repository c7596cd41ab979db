"""The t that makes the dual at (f + t, g - t) largest where it has a closed form: sides at KL prices or exact.

    t = (log sum a e^{-f/tau_a} - log sum b e^{-g/tau_b}) / (1/tau_a + 1/tau_b),   1/tau = 0 where a marginal is exact

Compiled for one problem, and in torch for a batch; `translation.py` is for any divergence.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from jumbot.transport.compiled.decorator import compiled
from jumbot.transport.compiled.sides import total
from jumbot.transport.compiled.vectormath import exp, lesser


@compiled()
def log_tilted_mass(inverse: float, a: Any, F: Any, work: Any) -> float:
    """log sum_i a_i e^{-F_i inverse}; `work` holds its terms, all in the scale of those that have weight."""
    least = 1e300
    for i in range(a.shape[0]):
        least = lesser(least, F[i] if a[i] > 0.0 else 1e300)
    for i in range(a.shape[0]):
        work[i] = a[i] * exp(min((least - F[i]) * inverse, 0.0))
    mass = total(work)
    return math.log(mass) - least * inverse if mass > 0.0 else 0.0


@compiled()
def best_shift(
    inverse_a: float, inverse_b: float, a: Any, b: Any, F: Any, G: Any, work_a: Any, work_b: Any
) -> float:  # fmt: skip
    """The t that makes the dual at (F + t, G - t) largest, for KL of price 1/inverse and exact marginals (0)."""
    mass_a, mass_b = log_tilted_mass(inverse_a, a, F, work_a), log_tilted_mass(inverse_b, b, G, work_b)
    return (mass_a - mass_b) / (inverse_a + inverse_b)


def best_shifts(
    inverse_a: float, inverse_b: float, log_a: Tensor, log_b: Tensor, f: Tensor, g: Tensor
) -> Tensor:  # fmt: skip
    """The same for a batch of columns `(B, n, 1)`, `(B, m, 1)` with the logarithms of the weights: `(B, 1, 1)`."""
    up = torch.add(log_a, f, alpha=-inverse_a).logsumexp(1, keepdim=True)
    down = torch.add(log_b, g, alpha=-inverse_b).logsumexp(1, keepdim=True)
    return (up - down) * (1 / (inverse_a + inverse_b))
