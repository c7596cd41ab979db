"""Plans between a labelled source and a target, averaged over minibatches, for the diagnosis."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot._base.options import check_non_negative, check_positive
from jumbot.adaptation._evaluation.measures import UNLABELLED
from jumbot.cost import joint_cost, squared_euclidean
from jumbot.errors import ArgumentError
from jumbot.methods._joint_transport import LEAST_WEIGHT, OUTSIDE
from jumbot.transport._solve import solve

Array = np.ndarray[Any, Any]

MINIBATCH = 100
ROUNDS = 5  # passes over the target; the class proportions settle within three
_PART = 4096  # rows that are converted at once
_ROUNDING = 1e-10  # of the squared size of embeddings: in float32 those of equal rows are 1e-7 of it apart


@dataclass(frozen=True)
class PlanSettings:
    """The problem whose plan is used: cost eta1 |z - z'|^2 + eta2 CE, marginal penalty tau, entropy epsilon."""

    eta1: float
    eta2: float
    tau: float
    epsilon: float

    def __post_init__(self) -> None:
        check_non_negative("eta1", self.eta1)
        check_non_negative("eta2", self.eta2)
        check_positive("tau", self.tau, infinite=True)
        check_non_negative("epsilon", self.epsilon)


@torch.no_grad()
def scaled_settings(
    features_s: Tensor, labels_s: Any, classes: int, *, origins: Array | None = None, seed: int = 0
) -> PlanSettings:
    """Settings that do not depend on the scale of the embedding, from distances within the source.

    Let w be the squared distance of a source sample to the nearest of its own class in a stratified minibatch, b to the
    nearest of another class.  Then eta1 = 1 / median(b), so that a cost of one leads to the next class; eta2 = .5 / log
    C, so that a prediction without any confidence costs one half; epsilon = eta2, so that a sample is shared among the
    classes by its softmax output times the kernel of the distances.  A sample that lies beyond median(w) by the
    distance to the next class, or by twice the spread of w if that is more, receives a tenth of the mass: tau =
    max(median(b) - median(w), 2 (q95(w) - median(w))) / (2 log 10 median(b)).

    >>> scaled_settings(torch.tensor([[0.0], [0.0], [10.0], [10.0]]), [0, 0, 1, 1], 2)
    PlanSettings(eta1=0.01, eta2=0.721..., tau=0.217..., epsilon=0.721...)
    """
    source = SourceMinibatches(features_s, labels_s, classes, origins)
    own, other = [], []
    for first, second, cost in _source_pairs(source, seed):
        same = source.labels[first][:, None] == source.labels[second][None]
        own.append(np.where(same, cost, math.inf).min(0))
        other.append(np.where(same, math.inf, cost).min(0))
    within, between = (x[np.isfinite(x)] for x in (np.concatenate(own), np.concatenate(other)))
    w, spread = (np.median(within), np.quantile(within, 0.95) - np.median(within)) if len(within) else (0.0, 0.0)
    # a single class: as if the next one were at twice the distance
    b = float(np.median(between) if len(between) else 4 * w)
    eta2 = 0.5 / math.log(max(classes, 2))
    if not b > _ROUNDING * _mean_square(source.features):
        # classes coincide, as among a few repeated rows: only the predictions can distinguish them
        return PlanSettings(0.0, eta2, 1 / (2 * math.log(10)), eta2)
    return PlanSettings(1 / b, eta2, float(max(b - w, 2 * spread) / (2 * math.log(10) * b)), eta2)


class SourceMinibatches:
    """Labelled samples and their stratified minibatches: equally many of each stratum, repeated if there are few.

    A stratum is a class of one source; `origins` says which of several sources each sample is from.  `values` `(n,
    outputs)` are numbers instead of labels, if the plan compares numbers.
    """

    def __init__(
        self, features: Tensor, labels: Any, classes: int, origins: Array | None = None, values: Tensor | None = None
    ) -> None:
        labels = (labels.detach().cpu() if isinstance(labels, Tensor) else torch.as_tensor(labels)).numpy()
        if features.ndim != 2 or labels.shape != (len(features),):
            raise ArgumentError(
                f"features_s, labels_s: shapes {tuple(features.shape)} and {labels.shape}; pass (n, d) and (n,)."
            )
        known = labels != UNLABELLED
        if not known.any():
            raise ArgumentError("labels_s: no source sample has a label; the diagnosis needs labelled source samples.")
        if labels.min() < UNLABELLED or labels.max() >= classes:
            raise ArgumentError(
                f"labels_s: values from {labels.min()} to {labels.max()}, but the logits have {classes} classes."
            )
        # unchanged: a float64 copy of a million embeddings takes gigabytes, so only minibatches are converted
        features = features.detach().cpu()
        self.features = features if known.all() else features[torch.from_numpy(known)]
        if not all_finite(self.features):
            raise ArgumentError("features_s: they contain NaN or infinite values; the network has diverged.")
        self.labels = labels[known].astype(np.int64)
        self.known_labels = (
            torch.from_numpy(self.labels) if values is None else values.double()[torch.from_numpy(known)]
        )
        self.label_loss = "cross-entropy" if values is None else "squared"
        self.classes, self.sources = classes, 1 if origins is None else int(origins.max()) + 1
        self.strata = self.labels * self.sources + (0 if origins is None else origins[known])
        self.groups = [np.flatnonzero(self.strata == s) for s in range(classes * self.sources)]
        self.each = max(3, MINIBATCH // sum(len(group) > 0 for group in self.groups))

    def draw(self, rng: np.random.Generator) -> Array:
        groups = (group for group in self.groups if len(group))
        return np.concatenate([rng.choice(group, self.each, replace=len(group) < self.each) for group in groups])


def all_finite(values: Tensor) -> bool:
    """Whether no number is NaN or infinite, without a second tensor of the size of the first.

    >>> all_finite(torch.tensor([1.0, 2.0])), all_finite(torch.tensor([1.0, math.nan])), all_finite(torch.zeros(0))
    (True, False, True)
    """
    return not values.numel() or all(math.isfinite(float(end)) for end in torch.aminmax(values))


def _mean_square(rows: Tensor) -> float:
    """The mean squared length of rows, in float64."""
    return sum(float(part.double().square().sum()) for part in rows.split(_PART)) / len(rows)


def _source_pairs(source: SourceMinibatches, seed: int) -> Iterator[tuple[Array, Array, Array]]:
    """Pairs of source minibatches with their squared distances; no sample is compared with itself."""
    rng = np.random.default_rng((seed, 1))
    for _ in range(ROUNDS):
        first, second = source.draw(rng), source.draw(rng)
        cost = squared_euclidean(source.features[first].double(), source.features[second].double()).numpy()
        yield first, second, np.where(first[:, None] == second[None], math.inf, cost)


def source_mass(source: SourceMinibatches, settings: PlanSettings, seed: int) -> float:
    """The median of m (P' 1)_j between minibatches of the source, for the part of the cost that distances make."""
    received = []
    for _, second, cost in _source_pairs(source, seed):
        if np.isinf(cost).all(0).any():
            continue
        # 0 * inf is NaN
        cost = np.where(np.isinf(cost), cost, settings.eta1 * np.where(np.isinf(cost), 0.0, cost))
        plan = solve(cost, epsilon=settings.epsilon, tau=settings.tau, tol=1e-4).plan
        received.append(plan.sum(0) * len(second))
    return float(np.median(np.concatenate(received))) if received else 1.0


def received_by_stratum(
    source: SourceMinibatches,
    z: Tensor,
    logits: Tensor,
    settings: PlanSettings,
    weights: Array,
    rng: np.random.Generator,
) -> Array:
    """(n, strata): m times the mass that each target sample receives from each, averaged over its minibatches."""
    n, m = len(z), min(MINIBATCH, len(z))
    order = rng.permutation(n)
    # the last minibatch is filled up with samples of earlier ones, so that all have the same size
    order = np.concatenate([order, rng.choice(order[: n - n % m], -n % m, replace=False)])
    total, times = np.zeros((n, len(source.groups))), np.zeros(n)
    for batch in order.reshape(-1, m):
        drawn = source.draw(rng)
        strata = source.strata[drawn]
        cost = joint_cost(
            source.features[drawn].double(),
            source.known_labels[drawn],
            z[batch].double(),
            logits[batch].double(),
            settings.eta1,
            settings.eta2,
            source.label_loss,
        )
        a = torch.from_numpy(weights[strata] / source.each)
        plan = solve(cost, a, epsilon=settings.epsilon, tau=settings.tau, tol=1e-4).plan.numpy()
        received = np.zeros((len(source.groups), m))
        np.add.at(received, strata, plan * m)
        total[batch] += received.T
        times[batch] += 1
    return total / times[:, None]


@dataclass(frozen=True, eq=False)
class Settled:
    """Results of plans whose source weights are the votes of the target."""

    columns: Array
    """(n, strata) mass that each target sample receives."""
    received: Array
    """(n,) in all; 1 is what a typical source sample receives from the source."""
    strata: Array
    """(strata,) their shares of the votes."""
    weights: Array
    """(strata,) of the source marginal in the last pass."""


def settle(
    source: SourceMinibatches, z: Tensor, logits: Tensor, settings: PlanSettings, mass: float, rng: np.random.Generator
) -> Settled:
    """Passes over the target, each with the votes of the last as weights of the source: EM, see `diagnose`."""
    present = np.array([len(group) > 0 for group in source.groups])
    strata = present / present.sum()
    for _ in range(ROUNDS):
        weights = np.where(present, np.maximum(strata, LEAST_WEIGHT / present.sum()), 0.0)
        weights /= weights.sum()
        columns = received_by_stratum(source, z, logits, settings, weights, rng)
        received = columns.sum(1) / mass
        strata = votes(columns, received >= OUTSIDE).mean(0)
    return Settled(columns, received, strata, weights)


@dataclass(frozen=True, eq=False)
class PlanReader:
    """What target samples receive from a source with settled weights, for samples that had no vote."""

    source: SourceMinibatches
    settings: PlanSettings
    mass: float
    weights: Array
    rng: np.random.Generator

    def __call__(self, z: Tensor, logits: Tensor) -> tuple[Array, Array]:
        """(received mass `(n,)`, shares of the sources `(n, sources)`)."""
        columns = received_by_stratum(self.source, z, logits, self.settings, self.weights, self.rng)
        return columns.sum(1) / self.mass, by_source(columns, self.source)


def by_class(columns: Array, source: SourceMinibatches) -> Array:
    """Sums over the sources of each class."""
    summed: Array = columns.reshape(-1, source.classes, source.sources).sum(2)
    return summed


def by_source(columns: Array, source: SourceMinibatches) -> Array:
    """(n, sources): the vote of each sample for each source."""
    shares = votes(columns, np.ones(len(columns), bool))
    summed: Array = shares.reshape(-1, source.classes, source.sources).sum(1)
    return summed


def votes(columns: Array, voting: Array) -> Array:
    """One vote per sample; from those that may vote, or from all if none may."""
    kept = columns[voting] if voting.any() else columns
    total = kept.sum(1, keepdims=True)
    # a column that has underflowed to zero contains no information about its class
    return np.where(total > 0, kept / np.where(total > 0, total, 1.0), 1 / columns.shape[1])
