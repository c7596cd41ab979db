"""Fewer sweeps for large problems, where some arithmetic on potentials costs nothing beside a pass over the kernel."""

from __future__ import annotations

import math

import numpy as np

_DEPTH = 4
_WORSE = 2.0  # growth of the gap after which the memory is dropped


class Mixing:
    """Anderson mixing of a contraction, as in `mixing.py`, which says why.

    Here the gap is known at every sweep: a step that makes it worse is followed by a plain one, which never does.
    """

    def __init__(self) -> None:
        self.images: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []
        self.gap = math.inf

    def next(self, x: np.ndarray, image: np.ndarray, weights: np.ndarray, gap: float) -> np.ndarray:
        """The next point after `x`, whose image and gap are given."""
        if not gap <= _WORSE * self.gap:
            self.images.clear()
            self.residuals.clear()
        self.gap = gap
        self.images.append(image)
        self.residuals.append(image - x)
        del self.images[: -_DEPTH - 1], self.residuals[: -_DEPTH - 1]
        if len(self.images) == 1:
            return image
        slopes, moves = np.diff(self.residuals, axis=0), np.diff(self.images, axis=0)
        normal = (slopes * weights) @ slopes.T
        normal += 1e-10 * np.trace(normal) * np.eye(len(normal))
        try:
            share = np.linalg.solve(normal, slopes @ (weights * self.residuals[-1]))
        except np.linalg.LinAlgError:
            return image
        return image - share @ moves


class Relaxation:
    """The over-relaxation factor, as in `kernels.py`."""

    def __init__(self, kind_a: int, tau_a: float, kind_b: int, tau_b: float) -> None:
        kappa_a, kappa_b = (tau / (tau + 1) if kind == 0 else 1.0 for kind, tau in ((kind_a, tau_a), (kind_b, tau_b)))
        self.known = max(kind_a, kind_b) <= 1 and min(kind_a, kind_b) == 0
        self.best = 2 / (1 + math.sqrt(1 - kappa_a * kappa_b)) if self.known else 1.0
        self.ramp, self.omega, self.residual, self.at = 0, 1.0, 0.0, 0

    def next(self) -> float:
        self.ramp += self.best > 1
        self.omega = min(self.best, 2 - 6 / (self.ramp + 6))
        return self.omega

    def observe(self, residual: float, count: int) -> None:
        if self.known or count - self.at < 12 or residual <= 0:
            return
        if self.residual > 0 and self.omega >= self.best:
            rate = (residual / self.residual) ** (1 / (count - self.at))
            if self.best - 1 < rate < 1:
                plain = (rate + self.best - 1) ** 2 / (self.best**2 * rate)
                self.best = max(self.best, 2 / (1 + math.sqrt(1 - min(plain, 1 - 1e-7))))
            elif rate >= 1:
                self.best = 1 + 0.7 * (self.best - 1)
        self.residual, self.at = residual, count
