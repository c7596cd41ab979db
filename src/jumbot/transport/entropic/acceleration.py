"""The policy for one problem at a time, the loop in Python: some arithmetic on potentials costs nothing there."""

from __future__ import annotations

import math

import numpy as np

from jumbot.transport.entropic.policy import DEPTH, LONGEST, best_factor, kappa, plain_rate, ramp
from jumbot.transport.kinds import BALANCED, KL

_WORSE = 2.0  # growth of the gap after which the memory is dropped


class Mixing:
    """Mixing by the compiled functions.

    Here the gap is known at every sweep: a step that makes it worse is followed by a plain one, which never does.
    """

    def __init__(self, size: int) -> None:
        self.images, self.residuals, self.slopes, self.moves = np.empty((4, DEPTH + 1, size))
        self.norms = np.empty(DEPTH)
        self.gap, self.count, self.held = math.inf, 0, 0

    def next(self, x: np.ndarray, image: np.ndarray, weights: np.ndarray, gap: float) -> np.ndarray:
        """The next point after `x`, whose image and gap are given."""
        from jumbot.transport.compiled.mixing import mix

        self.held = self.held + 1 if gap <= _WORSE * self.gap else 1
        self.gap, row = gap, self.count % (DEPTH + 1)
        self.images[row], self.residuals[row] = image, image - x
        out = np.empty_like(image)
        mix(self.images, self.residuals, weights, self.count, self.held, self.slopes, self.moves, self.norms, out)
        self.count += 1
        return out


class Relaxation:
    """The factor of over-relaxation."""

    def __init__(self, kind_a: int, tau_a: float, kind_b: int, tau_b: float) -> None:
        rate = (kappa(tau_a) if kind_a == KL else 1.0) * (kappa(tau_b) if kind_b == KL else 1.0)
        self.known = max(kind_a, kind_b) <= BALANCED and min(kind_a, kind_b) == KL
        self.best = best_factor(rate) if self.known else 1.0
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
