"""Two clusters per side, the example of section 3: source 5 + 5 points, target in these or other proportions.

Exact marginals force as many points out of their cluster as the proportions differ by; a finite tau leaves them alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Points:
    """Source and target points `(10, 2)` and the cluster, 0 or 1, that each belongs to."""

    source: np.ndarray
    target: np.ndarray
    source_cluster: np.ndarray
    target_cluster: np.ndarray

    @property
    def cost(self) -> np.ndarray:
        """|x_i - y_j|^2."""
        return ((self.source[:, None] - self.target[None]) ** 2).sum(-1)

    @property
    def clusters(self) -> tuple[np.ndarray, np.ndarray]:
        return self.source_cluster, self.target_cluster

    @property
    def between(self) -> np.ndarray:
        """True where source i and target j lie in different clusters."""
        return self.source_cluster[:, None] != self.target_cluster[None]


def make_points(seed: int = 0, target: tuple[int, int] = (3, 7)) -> Points:
    """5 + 5 sources around (0, 1) and (0, -1), as many targets as said around (1, 1) and (1, -1); deviation 0.22.

    >>> make_points().cost.shape
    (10, 10)
    """
    random = np.random.default_rng(seed)
    source_cluster, target_cluster = np.repeat([0, 1], [5, 5]), np.repeat([0, 1], target)

    def scatter(x: float, cluster: np.ndarray) -> np.ndarray:
        centres = np.stack([np.full(len(cluster), x), 1.0 - 2.0 * cluster], axis=-1)
        return centres + 0.22 * random.standard_normal(centres.shape)

    return Points(scatter(0.0, source_cluster), scatter(1.0, target_cluster), source_cluster, target_cluster)
