"""The policy of all sweeps: what is mixed, relaxed and checked, and when.

A sweep of a KL problem contracts by kappa_a kappa_b, kappa = tau/(tau + epsilon), in the directions that move a cluster
of rows against its columns, and by much more in others.

- Where both sides are KL and tau/epsilon is not large, or a side is exact, sweeps are mixed (`mixing.py`).
- Else, and where mixing fails, they are over-relaxed: by the best factor where the rate is known beforehand, else by
  one found from the residuals through Young's relation.

Engines differ in how they do it.  The rules are written for numbers, and compile; those that say so take tensors too.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.sides import total
from jumbot.transport._kernels.vectormath import exp, lesser

#: Mixing: past images kept in addition to the newest, sweeps at most, growths of the squared residual that count
#: and how many of them end it, and the largest tau/epsilon: above, many directions are slow, and over-relaxation wins.
DEPTH = 4
SWEEPS = 30
GROWTH = 4.0
STRIKES = 3
LARGEST_TAU = 100.0
#: The same where a marginal is exact, and no rate is known that over-relaxation could be tuned to.  With 16 images
#: instead of 40, 300 points at a 770th of the largest cost took 20,000 sweeps instead of 360.
LONG = 40
MIXED = 300
#: Over-relaxation: how slowly the factor is raised (faster ones fail where tau/epsilon is large), and how far it is up
#: already where mixing came before, because that start is better.
RAMP = 6.0
WARM = 6
#: Sweeps between two checks at least and at most; residuals are compared over the latter.
EVERY = 2
LONGEST = 12
#: Rounds without much progress before a problem is given up.
STALLS = 4


def kappa(tau: Any) -> Any:
    """How much of a soft minimum a KL side keeps, tau in units of epsilon."""
    return tau / (tau + 1.0)


def best_factor(rate: Any) -> Any:
    """The best factor of over-relaxation where plain sweeps contract by `rate`; numbers or tensors.

    >>> best_factor(0.0), best_factor(0.75)
    (1.0, 1.3333333333333333)
    """
    return 2.0 / (1.0 + (1.0 - rate) ** 0.5)


def plain_rate(rate: Any, factor: Any) -> Any:
    """Young's relation: what plain sweeps contract by where those relaxed by `factor` contract by `rate`."""
    return (rate + factor - 1.0) ** 2 / (factor**2 * rate)


def ramp(count: Any) -> Any:
    """The largest factor after `count` relaxed sweeps; numbers or tensors."""
    return 2.0 - RAMP / (count + RAMP)


def stricter(safety: float, tol: float, scale: float, gap: float) -> float:
    """By how much to tighten tol after an estimate was within it and the gap at the plan was not."""
    return safety * max(0.5 * tol * scale / gap, 1e-3)


class Relaxation:
    """The factor of over-relaxation where the loop is in Python; `rate` is None where it is not known beforehand."""

    def __init__(self, rate: float | None) -> None:
        self.known, self.best = rate is not None, 1.0 if rate is None else best_factor(rate)
        self.ramped, self.omega, self.residual, self.at = 0, 1.0, 0.0, 0

    def next(self) -> float:
        self.ramped += self.best > 1
        self.omega = min(self.best, ramp(self.ramped))
        return self.omega

    def observe(self, residual: float, count: int) -> None:
        if self.known or count - self.at < LONGEST or residual <= 0:
            return
        if self.residual > 0 and self.omega >= self.best:
            rate = (residual / self.residual) ** (1 / (count - self.at))
            if self.best - 1 < rate < 1:
                self.best = max(self.best, best_factor(min(plain_rate(rate, self.best), 1 - 1e-7)))
            elif rate >= 1:
                self.best = 1 + 0.7 * (self.best - 1)
        self.residual, self.at = residual, count


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
def best_shift(inverse_a: float, inverse_b: float, a: Any, b: Any, F: Any, G: Any, work_a: Any, work_b: Any) -> float:
    """The t that makes the dual at (F + t, G - t) largest, for KL of price 1/inverse and exact marginals (0)."""
    mass_a, mass_b = log_tilted_mass(inverse_a, a, F, work_a), log_tilted_mass(inverse_b, b, G, work_b)
    return (mass_a - mass_b) / (inverse_a + inverse_b)


def best_shifts(inverse_a: float, inverse_b: float, log_a: Tensor, log_b: Tensor, f: Tensor, g: Tensor) -> Tensor:
    """The same for a batch of columns `(B, n, 1)`, `(B, m, 1)` with the logarithms of the weights: `(B, 1, 1)`."""
    up = torch.add(log_a, f, alpha=-inverse_a).logsumexp(1, keepdim=True)
    down = torch.add(log_b, g, alpha=-inverse_b).logsumexp(1, keepdim=True)
    return (up - down) * (1 / (inverse_a + inverse_b))
