"""Random point clouds, and the loss between them from single solves on costs that numpy computed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import jumbot

from .. import draw
from ..draw import Generator, chance
from ..entropies import Array, Extended, entropy
from ..problem import Problem
from ..watch import Fault, Watch

TOL = 1e-11
#: points of a minibatch around 2^16 and 2^20 pairs, where tiles end and the engine for large problems takes over
BORDERS = (255, 256, 257, 1023, 1024, 1025)


@dataclass(frozen=True)
class Loss:
    """h between weighted points: the transport value or the Sinkhorn divergence."""

    name: str
    cost: str
    epsilon: float
    tau: Any = math.inf
    divergence: str = "kl"
    reference: str = "product"

    @property
    def settings(self) -> dict[str, Any]:
        return {k: getattr(self, k) for k in ("epsilon", "tau", "divergence", "reference")}

    @property
    def constrained(self) -> bool:
        return draw.constrained(self.settings)

    def distances(self, x: Array, y: Array) -> Array:
        squared = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
        return squared if self.cost == "sqeuclidean" else np.sqrt(squared)

    def single(self, watch: Watch, x: Array, y: Array, a: Array, b: Array) -> tuple[Problem, Any]:
        problem = Problem(self.distances(x, y), a, b, **self.settings)
        solution, _ = watch(jumbot.solve, problem.cost, a, b, **self.settings, tol=TOL)
        return problem, solution

    def of(self, watch: Watch, x: Array, y: Array, a: Array, b: Array) -> tuple[float, float, float, Array]:
        """(h, how far it can be off, its scale, the plan between the clouds)."""
        parts = [(x, y, a, b, 1.0)]
        if self.name == "sinkhorn_divergence":
            parts += [(x, x, a, a, -0.5), (y, y, b, b, -0.5)]
        total, error, scale, plans = Extended(0), 0.0, 0.0, []
        for u, v, p, q, sign in parts:
            problem, solution = self.single(watch, u, v, p, q)
            plan, potentials = (np.asarray(solution.plan, Extended), [h.astype(Extended) for h in solution.potentials])
            primal = problem.primal(plan)  # by the judge's formulas, so that nothing rests on the value as told
            gap = abs(float(primal - problem.dual(*potentials)))
            total, error, scale = total + sign * primal, error + gap, scale + float(problem.scale(plan))
            plans.append(solution.plan)
        if self.name == "sinkhorn_divergence":
            total += self.epsilon / 2 * (a.sum() - b.sum()) ** 2
        if error > 1e-3 * scale:
            raise Fault(f"single solves leave {error:.3g} open (scale {scale:.3g})")
        return float(total), error + 1e-14 * scale, scale, plans[0]


def random_loss(rng: Generator, unit: float, *, symmetric: bool) -> Loss:
    """For distances of size `unit`; the Sinkhorn divergence where `symmetric`, half of the time elsewhere."""
    cost = str(rng.choice(["sqeuclidean", "sqeuclidean", "euclidean"]))
    spread = unit**2 if cost == "sqeuclidean" else unit
    name = "sinkhorn_divergence" if symmetric or chance(rng, 0.5) else "transport"
    epsilon = spread * draw.power_of_ten(rng, -1.5, 0.5)
    divergence = str(rng.choice(["kl", "kl", "kl", "tv", "chi2", "power(0.5)", "range(0.5,2)"]))
    tau: Any = spread * draw.power_of_ten(rng, -1, 1.5)
    if entropy(divergence).hard or chance(rng, 0.2):
        tau, divergence = math.inf, divergence if entropy(divergence).hard else "kl"
    elif name == "transport" and chance(rng, 0.3):
        tau = (tau, math.inf) if chance(rng, 0.5) else (tau, 3 * tau)
    reference = "ones" if name == "transport" and chance(rng, 0.2) else "product"
    return Loss(name, cost, epsilon, tau, divergence, reference)


def border_loss(rng: Generator, unit: float, *, symmetric: bool = False) -> Loss:
    """As `random_loss`, of a kind that single solves of a million pairs answer in a second or two."""
    loss = random_loss(rng, unit, symmetric=symmetric)
    return replace(loss, epsilon=10 * loss.epsilon, divergence="kl")


def random_clouds(rng: Generator, n: int, m: int, batch: tuple[int, ...] = ()) -> tuple[Array, Array, float]:
    """Points of either side, with duplicates now and then, and the size of their distances."""
    d, unit = int(rng.choice([1, 2, 3, 10])), draw.power_of_ten(rng, -3, 3) if chance(rng, 0.3) else 1.0
    x, y = rng.normal(size=(*batch, n, d)), rng.normal(size=(*batch, m, d)) + 0.5
    if chance(rng, 0.2):
        x = x[..., rng.integers(max(1, n // 2), size=n), :]
        y[..., 0, :] = x[..., 0, :]
    return unit * x, unit * y, unit


def some_weights(rng: Generator, loss: Loss, sizes: tuple[int, int], zeros: bool) -> tuple[Array | None, Array | None]:
    """Of either side; masses differ wherever they may."""
    first, second = (1.0, 1.0) if loss.constrained else rng.uniform(0.5, 2, size=2)
    a, b = (
        None if chance(rng, 0.4) else mass * draw.weights(rng, (size,), zeros)
        for size, mass in zip(sizes, (first, second), strict=True)
    )
    return a, b


def uniform(w: Array | None, size: int) -> Array:
    return np.full(size, 1 / size) if w is None else np.asarray(w, dtype=np.float64)
