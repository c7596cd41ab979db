"""The problems that are timed: seeded cost matrices of a training step in mid-run, and 2-D flows.

**Joint costs** are those of a JUMBOT step, ``C_ij = eta1 |g_i - g'_j|^2 + eta2 CE(y_i, p'_j)``. Source
batches hold equally many examples of each class, target labels are drawn at random. Embeddings are class
means plus noise: two examples of one class are at a mean squared distance of ``within``, other classes add
``between``. The classifier is right on a share ``accuracy`` of the target (the others lie half-way to the
wrong class); its logits have noise 1 and lead by ``margin``. With those numbers the plans carry a mass of
.5 (Office-Home), .65 (VisDA), .2 (partial, tau = .06), .73 (digits): most of the target is matched,
duplicated classes and mistakes are not. A cost at which all mass is destroyed would be faster to solve and
say nothing.

**Flows** are the squared distances between two clouds in the plane, each of two clusters, split .5 : .5
against .36 : .64; mass .58.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

Generator = np.random.Generator


def joint_cost(
    rng: Generator,
    *,
    m: int,
    classes: int,
    eta1: float,
    eta2: float,
    within: float,
    between: float,
    margin: float,
    accuracy: float,
    target_classes: int | None = None,
    dimension: int = 256,
) -> np.ndarray:
    """``(m, m)`` costs between a class-balanced source batch and a target batch, as told above."""
    labels = np.resize(np.arange(classes), m)
    truth = rng.integers(target_classes or classes, size=m)
    guess = np.where(rng.random(m) < accuracy, truth, rng.integers(classes, size=m))
    means = rng.normal(size=(classes, dimension)) * np.sqrt(between / (2 * dimension))
    noise = rng.normal(size=(2, m, dimension)) * np.sqrt(within / (2 * dimension))
    source = means[labels] + noise[0]
    target = (means[truth] + means[guess]) / 2 + noise[1]
    logits = rng.normal(size=(m, classes))
    logits[np.arange(m), guess] += margin
    cross_entropy = np.log(np.exp(logits).sum(1))[None, :] - logits[:, labels].T
    return eta1 * squared_distances(source, target) + eta2 * cross_entropy


def squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``|x_i - y_j|^2``, never below zero."""
    return np.maximum((x**2).sum(1)[:, None] + (y**2).sum(1)[None, :] - 2 * x @ y.T, 0)


def flow_points(rng: Generator, *, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Two clouds of ``m`` points in the plane, each in two clusters."""
    x = 0.1 * rng.normal(size=(m, 2)) + np.where(rng.random((m, 1)) < 0.5, 0.0, 0.6)
    y = 0.1 * rng.normal(size=(m, 2)) + np.where(rng.random((m, 1)) < 0.36, [1.0, 0.0], [0.0, 1.0])
    return x, y


def flow_cost(rng: Generator, *, m: int) -> np.ndarray:
    """Squared distances of `flow_points`."""
    return squared_distances(*flow_points(rng, m=m))


OFFICE = dict(classes=65, eta1=0.01, eta2=0.5, within=30.0, between=60.0, margin=6.5, accuracy=0.65)
VISDA = dict(classes=12, eta1=0.005, eta2=1.0, within=30.0, between=60.0, margin=6.0, accuracy=0.7)
PARTIAL = dict(
    classes=65, target_classes=25, eta1=0.003, eta2=0.75, within=20.0, between=60.0, margin=7.5, accuracy=0.7
)
DIGITS = dict(classes=10, eta1=0.1, eta2=0.1, within=4.0, between=8.0, margin=5.0, accuracy=0.8, dimension=128)


@dataclass(frozen=True)
class Regime:
    """One row of the benchmark: a family of problems, the peers compared with, and the ratio aimed at."""

    name: str
    kind: str  # "entropic", "batch", "exact-kl", "exact-tv" or "divergence"
    m: int
    epsilon: float
    tau: float
    floor: float
    make: Callable[[Generator], np.ndarray]
    peers: tuple[str, ...] = ("pot", "ott", "geomloss")
    size: int = 1  # problems in one call
    note: str = ""

    @property
    def label(self) -> str:
        """Its name and settings, as tables show them."""
        settings = f"({self.m}, {self.epsilon:g}, {self.tau:g})"
        return f"{self.name} {settings}" if self.size == 1 else f"{self.name} of {self.size} {settings}"

    def problem(self, seed: int) -> np.ndarray:
        """Cost matrix number ``seed`` of the regime; for ``kind="divergence"`` the two clouds, stacked."""
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), seed])
        if self.size == 1:
            return self.make(rng)
        return np.stack([self.make(rng) for _ in range(self.size)])


def _clouds(rng: Generator, *, m: int) -> np.ndarray:
    return np.stack(flow_points(rng, m=m))


REGIMES: tuple[Regime, ...] = (
    Regime("office-home", "entropic", 65, 0.01, 0.5, 10, partial(joint_cost, m=65, **OFFICE)),
    Regime("visda", "entropic", 72, 0.01, 0.3, 10, partial(joint_cost, m=72, **VISDA)),
    Regime("partial", "entropic", 65, 0.01, 0.06, 2.5, partial(joint_cost, m=65, **PARTIAL)),
    Regime("digits", "entropic", 500, 0.1, 1.0, 2, partial(joint_cost, m=500, **DIGITS)),
    Regime("tau=10", "entropic", 65, 0.01, 10.0, 50, partial(joint_cost, m=65, **OFFICE)),
    Regime("tau=100", "entropic", 65, 0.01, 100.0, 50, partial(joint_cost, m=65, **OFFICE)),
    Regime("flow-64", "entropic", 64, 0.001, 0.5, 30, partial(flow_cost, m=64)),
    Regime("flow-128", "entropic", 128, 0.001, 0.5, 30, partial(flow_cost, m=128)),
    Regime(
        "batch",
        "batch",
        64,
        0.01,
        0.5,
        15,
        partial(joint_cost, m=64, **OFFICE),
        ("ott",),
        size=1000,
        note="OTT-JAX under vmap",
    ),
    Regime(
        "divergence-64",
        "divergence",
        64,
        0.01,
        0.5,
        10,
        partial(_clouds, m=64),
        ("geomloss",),
        note="value and gradient; GeomLoss at scaling .99",
    ),
    Regime(
        "divergence-128",
        "divergence",
        128,
        0.01,
        0.5,
        10,
        partial(_clouds, m=128),
        ("geomloss",),
        note="value and gradient; GeomLoss at scaling .99",
    ),
    Regime(
        "exact-tv",
        "exact-tv",
        65,
        0.0,
        0.5,
        2,
        partial(joint_cost, m=65, **OFFICE),
        ("pot",),
        note="partial_wasserstein_lagrange",
    ),
    *(
        Regime(f"exact-kl-{name}", "exact-kl", m, 0.0, tau, floor, make, ("pot",), note="mm_unbalanced")
        for name, m, tau, floor, make in (
            ("office-home", 65, 0.5, 1, partial(joint_cost, m=65, **OFFICE)),
            ("visda", 72, 0.3, 5, partial(joint_cost, m=72, **VISDA)),
            ("partial", 65, 0.06, 1, partial(joint_cost, m=65, **PARTIAL)),
            ("tau=10", 65, 10.0, 5, partial(joint_cost, m=65, **OFFICE)),
            ("flow-64", 64, 0.5, 5, partial(flow_cost, m=64)),
        )
    ),
    Regime(
        "n=5000",
        "entropic",
        5000,
        0.1,
        1.0,
        8,
        partial(joint_cost, m=5000, **DIGITS),
        ("pot",),
        note="one large problem",
    ),
)
