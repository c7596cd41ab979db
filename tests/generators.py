"""Random problems and point clouds with a known structure, as float64 numpy arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .oracles import Problem

Array = np.ndarray
Generator = np.random.Generator


def weights(rng: Generator, n: int, mass: float = 1.0, zeros: int = 0) -> Array:
    """Positive weights of a total mass, the first `zeros` of them zero."""
    w = rng.uniform(0.2, 1.0, n)
    w[:zeros] = 0
    return mass * w / w.sum()


def rectangular(
    rng: Generator,
    n: int = 5,
    m: int = 4,
    masses: tuple[float, float] = (1.0, 1.0),
    zeros: int = 0,
    **setting: Any,
) -> Problem:
    """Uniform costs in [0, 1] and positive weights, unless `zeros` of either side are to be zero."""
    return Problem(rng.random((n, m)), weights(rng, n, masses[0], zeros), weights(rng, m, masses[1], zeros), **setting)


def posed(rng: Generator, n: int = 5, m: int = 4, zeros: int = 0, **setting: Any) -> Problem:
    """A random problem of this setting; the masses differ wherever the setting lets them."""
    balanced = setting.get("tau", math.inf) == math.inf and setting.get("divergence", "kl") == "kl"
    masses = (1.0, 1.0) if balanced and setting.get("mass") is None else (1.1, 0.9)
    return rectangular(rng, n, m, masses, zeros, **setting)


def diracs(distance: float, masses: tuple[float, float] = (1.0, 1.0), **setting: Any) -> Problem:
    """One point on either side: a 1 x 1 problem."""
    return Problem(np.array([[distance]]), np.array([masses[0]]), np.array([masses[1]]), **setting)


def permutation(rng: Generator, n: int, d: int = 2) -> tuple[Array, Array]:
    """The squared distances between a grid of far points and the same points shuffled, and the shuffle."""
    x = rng.permutation(np.stack(np.meshgrid(*[np.arange(math.ceil(n ** (1 / d)))] * d), -1).reshape(-1, d))[:n]
    shuffle = rng.permutation(n)
    y = x[shuffle] + rng.uniform(-0.1, 0.1, (n, d))
    return ((x[:, None] - y[None]) ** 2).sum(-1), np.argsort(shuffle)


def gaussian_grid(mean: float, deviation: float, n: int = 60, mass: float = 1.0) -> tuple[Array, Array]:
    """Points and weights whose sums are integrals against a Gaussian to many digits (the trapezium rule)."""
    x = mean + deviation * np.linspace(-6, 6, n)
    w = np.exp(-0.5 * ((x - mean) / deviation) ** 2)
    return x, mass * w / w.sum()


def clouds(rng: Generator, n: int = 6, m: int = 5, d: int = 2, shift: float = 0.5) -> tuple[Array, Array]:
    """Two point clouds a little apart."""
    return rng.normal(size=(n, d)), rng.normal(size=(m, d)) + shift
