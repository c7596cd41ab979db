"""Ground costs that are functions of a distance, as the strips take them: scaled coordinates and a kind."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jumbot.errors import ArgumentError
from jumbot.transport._points.tile_math import PRODUCT, ROOT, SQUARED, WFR

_FEW = 8  # up to this many coordinates differences are summed, which loses no digits
_MOST = 1e75  # of a scaled coordinate: its fourth power is a float


@dataclass(frozen=True)
class Ground:
    """What one named cost needs: C / epsilon is z, its root, or `scale` times -log cos^2 of it, z = |x - y|^2."""

    name: str
    kind: int
    scale: float
    factor: float  # of the coordinates

    @property
    def base(self) -> float:
        """What scaled coordinates are multiplied by where exponents are powers of two."""
        return 1 / math.log(2) if self.kind == ROOT else math.sqrt(1 / math.log(2))

    @property
    def single(self) -> bool:
        """Whether strips in float32 know it."""
        return self.kind != WFR


def ground_of(name: str, epsilon: float, coordinates: int) -> Ground:
    if name in ("sqeuclidean", "cosine"):
        kind = SQUARED if coordinates <= _FEW else PRODUCT
        return Ground(name, kind, 1.0, math.sqrt((0.5 if name == "cosine" else 1.0) / epsilon))
    if name == "euclidean":
        return Ground(name, ROOT, 1.0, 1 / epsilon)
    return Ground(name, WFR, 1 / epsilon, 1.0)


def scaled(ground: Ground, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both clouds in float64 around a common centre, in the unit of the strips; directions for the cosine."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    if ground.name == "cosine":
        x, y = x / norms("x", x), y / norms("y", y)
    else:
        centre = (x.mean(0) + y.mean(0)) / 2
        x, y = x - centre, y - centre
    x, y = x * ground.factor, y * ground.factor
    if not max(np.abs(x).max(), np.abs(y).max()) < _MOST:
        raise ArgumentError("epsilon: too small beside the distances of the points; raise it, or rescale the points.")
    return x, y


def norms(name: str, x: np.ndarray) -> np.ndarray:
    """The lengths of the points `(n, 1)`, none of them zero."""
    length = np.sqrt((x * x).sum(1, keepdims=True))
    if not (length > 0).all():
        raise ArgumentError(f"{name}: point {int(np.argmin(length))} is zero and has no direction for the cosine cost.")
    return length
