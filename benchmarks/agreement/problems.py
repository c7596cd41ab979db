"""Nine small problems, so that a convex solver can take part: 12 points against 10, in the plane, seeded."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.regimes import flow_points, squared_distances

SEED = 0


@dataclass(frozen=True)
class Problem:
    """<C, P> + epsilon KL(P | R) + tau_a KL(P 1 | a) + tau_b KL(P' 1 | b); an infinite tau constrains."""

    title: str
    cost: np.ndarray
    a: np.ndarray
    b: np.ndarray
    epsilon: float
    tau: tuple[float, float]
    reference: str = "product"
    dtype: str = "float64"

    @property
    def matrix(self) -> np.ndarray:
        """R, the reference of the entropy."""
        return np.outer(self.a, self.b) if self.reference == "product" else np.ones_like(self.cost)

    @property
    def balanced(self) -> bool:
        """Both marginals exact."""
        return math.isinf(self.tau[0]) and math.isinf(self.tau[1])


def problems(seed: int = SEED) -> list[Problem]:
    """The problems of the page, one property at a time."""
    rng = np.random.default_rng(seed)
    x, y = flow_points(rng, m=12)
    cost = squared_distances(x, y[:10])
    a, b = rng.dirichlet(np.full(12, 3.0)), rng.dirichlet(np.full(10, 3.0))

    def make(title: str, epsilon: float, tau: float | tuple[float, float], **changes: object) -> Problem:
        pair = tau if isinstance(tau, tuple) else (tau, tau)
        fields = {"cost": cost, "a": a, "b": b, **changes}
        if fields.get("dtype") == "float32":
            for key in ("cost", "a", "b"):
                fields[key] = fields[key].astype(np.float32).astype(np.float64)
        return Problem(title, epsilon=epsilon, tau=pair, **fields)

    return [
        make("balanced", 0.05, math.inf),
        make("unbalanced", 0.05, 0.5),
        make("small tau", 0.05, 0.05),
        make("large tau", 0.05, 100.0),
        make("unequal masses (1 and 1.7)", 0.05, 0.5, b=1.7 * b),
        make("one marginal exact", 0.05, (0.5, math.inf)),
        make("reference of ones", 0.05, 0.5, reference="ones"),
        make("float32 inputs", 0.005, 0.5, dtype="float32"),
        make("small epsilon", 0.001, 0.5),
    ]
