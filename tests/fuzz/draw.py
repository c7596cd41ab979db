"""Random problems over the whole contract, and the knowledge of which must be accepted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .entropies import Array, entropy
from .problem import Problem

Generator = np.random.Generator

SOFT = ("kl", "kl", "kl", "tv", "chi2", "power(0.5)", "power(-1)", "power(1.5)", "power(3)")
HARD = ("balanced", "range(0.5,2)", "range(0,1.5)", "range(0.9,1.1)", "range(0.5,inf)")


def power_of_ten(rng: Generator, low: float, high: float) -> float:
    return float(10 ** rng.uniform(low, high))


def chance(rng: Generator, p: float) -> bool:
    return bool(rng.random() < p)


def sizes(rng: Generator) -> tuple[int, int]:
    """Mostly small, sometimes a single row or column, sometimes near where threads begin."""
    kind = rng.choice(["tiny", "small", "medium", "strip", "square"], p=[0.45, 0.3, 0.1, 0.1, 0.05])
    if kind == "strip":
        strip = int(rng.integers(1, 600)), 1
        return strip if chance(rng, 0.5) else strip[::-1]
    if kind == "square":
        return (int(rng.choice([64, 127, 128, 129, 255, 256])),) * 2
    low, high = {"tiny": (1, 7), "small": (2, 30), "medium": (30, 130)}[str(kind)]
    return int(rng.integers(low, high)), int(rng.integers(low, high))


def cost(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Finite costs of size one or so: distances, ties, duplicates, negative ones, heavy tails."""
    *batch, n, m = shape
    kind = rng.choice(["uniform", "points", "clusters", "twins", "ties", "negative", "shifted", "tails", "constant"])
    if kind in ("points", "clusters", "twins"):
        d = int(rng.choice([1, 2, 3, 20]))
        centres = 5 * rng.normal(size=(3, d)) if kind == "clusters" else np.zeros((1, d))
        x, y = (rng.normal(size=(*batch, k, d)) + centres[rng.integers(len(centres), size=k)] for k in (n, m))
        if kind == "twins":  # the same few points again and again, on both sides
            x = x[..., rng.integers(min(n, 3), size=n), :]
            y = x[..., rng.integers(n, size=m), :]
        c = ((x[..., :, None, :] - y[..., None, :, :]) ** 2).sum(-1) / d
        return np.sqrt(c) if chance(rng, 0.3) else c
    if kind == "ties":
        return rng.integers(0, 3, size=shape).astype(float)
    if kind == "negative":
        return rng.uniform(-1, 1, size=shape)
    if kind == "shifted":  # all alike but for a small part
        return rng.choice([-1.0, 1.0]) * power_of_ten(rng, 0, 3) + rng.random(shape)
    if kind == "tails":
        return rng.lognormal(0, 2.5, size=shape)
    return np.full(shape, float(rng.choice([0.0, 1.0, -0.5]))) if kind == "constant" else rng.random(shape)


def weights(rng: Generator, shape: tuple[int, ...], zeros: bool) -> Array:
    """Of mass one or so."""
    kind = rng.choice(["uniform", "random", "skewed", "one"], p=[0.3, 0.45, 0.2, 0.05])
    if kind == "uniform":
        w = np.ones(shape)
    elif kind == "skewed":
        w = rng.lognormal(0, 2, size=shape)
    elif kind == "one":
        w = np.full(shape, 1e-6)
        w[..., 0] = 1
    else:
        w = rng.uniform(0.2, 1, size=shape)
    if zeros and shape[-1] > 1:
        w = np.where(rng.random(shape) < 0.3, 0.0, w)
        w[..., int(rng.integers(shape[-1]))] = 0.5
    return w / w.sum(-1, keepdims=True)


def settings(rng: Generator, wild: bool, exact: bool) -> dict[str, Any]:
    """epsilon, tau, divergence, reference and mass for costs and weights of size one."""
    reach = 12 if wild else 2
    epsilon = 0.0 if exact else power_of_ten(rng, -reach, min(reach, 1) if not wild else reach)
    out: dict[str, Any] = {"epsilon": epsilon, "reference": str(rng.choice(["product", "ones"], p=[0.7, 0.3]))}
    kind = rng.choice(["soft", "pair", "one side", "hard", "default", "partial"], p=[0.35, 0.2, 0.2, 0.08, 0.1, 0.07])
    if kind == "partial":
        return out | {"mass": float(rng.choice([1.0, rng.uniform(0.01, 1), 1e-6]))}
    if kind == "default":
        return out
    if kind == "hard":
        return out if exact else out | {"divergence": str(rng.choice(HARD))}
    out["divergence"] = str(rng.choice(["kl", "tv"] if exact else SOFT))
    first, second = (power_of_ten(rng, -reach, reach) for _ in range(2))
    out["tau"] = {"soft": first, "pair": (first, second)}.get(str(kind), (first, math.inf))
    if kind == "one side" and chance(rng, 0.5):
        out["tau"] = math.inf, first
    return out


def block(rng: Generator, c: Array, some: Sequence[Problem]) -> Array:
    """`c` with +inf in places, as long as each of the problems stays feasible."""
    kind = rng.choice(["few", "half", "row", "squares"])
    n, m = c.shape[-2:]
    forbidden = rng.random(c.shape) < (0.5 if kind == "half" else 0.1)
    if kind == "row":
        forbidden[..., int(rng.integers(n)), :] = True
    if kind == "squares":
        forbidden = np.broadcast_to(np.add.outer(np.arange(n) % 2, np.arange(m) % 2) == 1, c.shape)
    blocked = np.where(forbidden, np.inf, c)
    flat = blocked.reshape(-1, n, m)
    return blocked if all(p.but(cost=flat[k]).feasible for k, p in enumerate(some)) else c


def constrained(given: dict[str, Any]) -> bool:
    """Whether both marginals are constrained: then masses must agree and +inf is refused."""
    pair = given.get("tau", math.inf)
    pair = pair if isinstance(pair, tuple) else (pair, pair)
    return given.get("mass") is not None or all(map(math.isinf, pair)) or entropy(given.get("divergence", "kl")).hard


def masses(rng: Generator, given: dict[str, Any], wild: bool) -> tuple[float, float]:
    """Of the two sides; equal where they must be."""
    first = power_of_ten(rng, -12, 12) if wild and chance(rng, 0.5) else power_of_ten(rng, -1, 1)
    if constrained(given):
        low_high = entropy(given.get("divergence", "balanced"))
        room = min(low_high.upper, 1 / max(low_high.lower, 1e-3), 1.5) if low_high.hard else 1.0
        return first, first * (room if given.get("mass") is None and chance(rng, 0.5) else 1.0)
    second = first * power_of_ten(rng, -12, 12) if wild and chance(rng, 0.2) else first * power_of_ten(rng, -0.7, 0.7)
    return first, float(second)


def unbounded(problem: Problem) -> bool:
    """epsilon = 0 and total variation: whether ever more mass pays."""
    if problem.epsilon > 0 or problem.divergence != "tv" or constrained(problem.settings):
        return False
    return bool(problem.cost.min() < -sum(problem.taus))


def overflows(problem: Problem) -> bool:
    """Whether negative costs pay for a plan that float64 may not hold: it may be refused, never answered wrongly."""
    if constrained(problem.settings) or math.isinf(max(problem.taus)):
        return False
    price, epsilon = sum(problem.taus), problem.epsilon
    lowest, recession = float(problem.cost.min()), entropy(problem.divergence).recession
    if math.isfinite(recession) and epsilon > 0:  # once every unit costs no more than this, only epsilon holds it
        return -lowest - price * recession > 300 * epsilon
    return -lowest > 300 * (price + epsilon)
