"""What the plan tells after adaptation: class proportions, absent classes, unexplained samples, negative transfer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.adaptation.judgement.evaluation import UNLABELLED
from jumbot.cost import joint_cost, squared_euclidean
from jumbot.errors import ArgumentError
from jumbot.transport.checks import check_number
from jumbot.transport.solve import solve

Array = np.ndarray[Any, Any]

MINIBATCH = 100
ROUNDS = 5  # passes over the target; the class proportions settle within three
UNEXPLAINED = 0.25  # a sample that receives less than this share of what a source sample receives is unexplained
ABSENT = 0.1  # a class below this share of an equal proportion seems absent
MOST_UNEXPLAINED = 0.3  # shares above which negative transfer is likely
MOST_DISAGREEMENT = 0.3
MOST_DEVIATION = 0.2
MOST_MOVED = 0.4  # a poor classifier is rightly moved by up to a third: digits, 59 to 94 % accuracy
MOST_ENTROPY = 0.1  # nats by which the mean entropy of the predictions may rise through adaptation
_OUTSIDE = 0.02  # below it a sample belongs to no class and has no vote on the proportions
_LEAST_WEIGHT = 0.01  # of an equal proportion: a class weighted zero once could never come back
_LEAST_MASS = 1e-3  # between source samples: below it the settings explain nothing


@dataclass(frozen=True)
class PlanSettings:
    """The problem whose plan is read: cost eta1 |z - z'|^2 + eta2 CE, price tau of a marginal, entropy epsilon."""

    eta1: float
    eta2: float
    tau: float
    epsilon: float

    def __post_init__(self) -> None:
        check_number("eta1", self.eta1, least=0)
        check_number("eta2", self.eta2, least=0)
        check_number("tau", self.tau, least=0, strict=True, infinite=True)
        check_number("epsilon", self.epsilon, least=0)


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What the averaged plan between source and target says about the target; see `diagnose`."""

    class_proportions: Array
    """(C,) estimated shares of the classes in the target, outliers left out."""
    predicted_proportions: Array
    """(C,) shares of the predicted classes."""
    entropy: float
    """Mean entropy of the predictions."""
    absent_classes: tuple[int, ...]
    """Source classes that seem absent from the target."""
    received_mass: Array
    """(n,) mass that each target sample receives; 1 is what a typical source sample receives from the source."""
    unexplained: Array
    """Indices of target samples that no source sample explains: `received_mass` < 0.25."""
    transported_mass: float
    """Mass of the plan, as a share of the mass between minibatches of the source."""
    disagreement: float
    """Share of the explained samples whose embedding lies with another source class than the predicted one."""
    reasons: tuple[str, ...]
    """Why negative transfer is likely; empty where nothing speaks for it."""
    settings: PlanSettings
    """The problem that was solved."""
    scaled: bool
    """Whether `settings` were taken from the scale of the source embeddings."""

    @property
    def negative_transfer(self) -> bool:
        """Whether the predictions are likely to be worse than without adaptation, or void."""
        return bool(self.reasons)

    def to_json(self) -> dict[str, Any]:
        """Everything but the mass of each sample, as a dictionary that `json.dumps` takes; of numbers, no classes."""
        of_classes = {
            "class_proportions": self.class_proportions.tolist(),
            "predicted_proportions": self.predicted_proportions.tolist(),
            "entropy": self.entropy,
            "absent_classes": list(self.absent_classes),
            "disagreement": self.disagreement,
        }
        return (of_classes if len(self.class_proportions) else {}) | {
            "unexplained": self.unexplained.tolist(),
            "unexplained_share": len(self.unexplained) / len(self.received_mass),
            "transported_mass": self.transported_mass,
            "negative_transfer": self.negative_transfer,
            "reasons": list(self.reasons),
            "settings": asdict(self.settings),
            "scaled": self.scaled,
        }

    def __str__(self) -> str:
        n = len(self.received_mass)
        shares = ", ".join(f"{100 * share:.1f}" for share in self.class_proportions)
        lines = [
            f"estimated class proportions (%): {shares}",
            f"classes that seem absent: {', '.join(map(str, self.absent_classes)) or 'none'}",
        ]
        lines = (lines if shares else []) + [
            f"unexplained target samples: {len(self.unexplained)} of {n}",
            f"transported mass: {self.transported_mass:.2f} of what the source transports to itself",
        ]
        lines += [f"negative transfer is likely: {reason}" for reason in self.reasons]
        return "\n".join(lines)


@torch.no_grad()
def diagnose(
    features_s: Tensor, labels_s: Any, features_t: Tensor, logits_t: Tensor, *, settings: PlanSettings | None = None,
    before: Diagnosis | None = None, seed: int = 0,
) -> Diagnosis:  # fmt: skip
    r"""Reads the plans of unbalanced problems between source and target minibatches, averaged.

    .. math::
        \min_P \langle C, P\rangle + \varepsilon\, \mathrm{KL}(P \mid a b') + \tau\, \mathrm{KL}(P1 \mid a)
        + \tau\, \mathrm{KL}(P^\top 1 \mid b), \quad
        C_{ij} = \eta_1 \|z_i - z_j\|^2 + \eta_2\, \mathrm{CE}(y_i, f(z_j))

    Every target sample is in one minibatch a pass; source minibatches are stratified.

    **Class proportions.** The plain mass per class is pulled towards the stratified source, because tau prices the
    source marginal, and it forgets samples at large cost.  So each target sample but outliers has one vote, shared
    among the classes as its column of the plan; the votes become the class weights in `a`, and the next pass starts
    from these, until they agree.  With eta1 = 0, epsilon = eta2 and a free source marginal this is the EM algorithm for
    label shift (Saerens et al. 2002) on the softmax outputs; the distances keep it right where these are not
    calibrated.

    **Received mass** of sample j is m (P' 1)_j relative to the median that source samples receive from the rest of
    the source by their distances.  So the reference of the entropy, which multiplies the plan by a constant, drops out.

    **Negative transfer** is likely where many samples are unexplained, where embedding and classifier disagree, or
    where predicted and estimated proportions differ.  Training against the plan hides these signs, so give `before`,
    the diagnosis of the same samples before adaptation: then also where the two disagree on the proportions, and
    where the predictions have become less certain.

    Parameters
    ----------
    features_s, labels_s
        Source embeddings `(n, d)` and classes `(n,)`; rows labelled -1 are passed over.
    features_t, logits_t
        Target embeddings `(m, d)` and logits `(m, C)`.
    settings
        The problem; by default `scaled_settings`, which makes the diagnosis comparable between methods and
        independent of the scale of the embedding.  These also stand in for settings that cannot tell anything:
        tau = inf, where every sample receives all of its mass, and a tau so small that not even source samples
        explain each other.
    before
        The diagnosis of the same target with the network before adaptation, to compare with.
    seed
        Of the minibatches: the same seed gives the same diagnosis.

    >>> z = torch.tensor([[0.0, 0.0], [0.1, 0.0], [4.0, 0.0], [4.1, 0.0]])
    >>> target = torch.tensor([[0.0, 0.1], [4.0, 0.1], [4.1, 0.1], [99.0, 0.0]])
    >>> found = diagnose(z, [0, 0, 1, 1], target, torch.tensor([[9.0, 0], [0, 9], [0, 9], [0, 9]]))
    >>> found.class_proportions.round(2), found.unexplained
    (array([0.33, 0.67]), array([3]))
    """
    source = _Source(features_s, labels_s, logits_t.shape[-1] if logits_t.ndim == 2 else 0)
    z, logits = features_t.detach().double().cpu(), logits_t.detach().double().cpu()
    _check_target(source, z, logits)
    mass = 0.0
    scaled = settings is None or not math.isfinite(settings.tau)
    if settings is not None and not scaled:
        mass = _source_mass(source, settings, seed)
        scaled = mass < _LEAST_MASS
    if scaled or settings is None:
        settings = scaled_settings(features_s, labels_s, source.classes, seed=seed)
        mass = _source_mass(source, settings, seed)

    rng = np.random.default_rng(seed)
    present = np.array([len(group) > 0 for group in source.groups])
    proportions = present / present.sum()
    for _ in range(ROUNDS):
        weights = np.where(present, np.maximum(proportions, _LEAST_WEIGHT / present.sum()), 0.0)
        columns = _columns(source, z, logits, settings, weights / weights.sum(), rng)
        received = columns.sum(1) / mass
        proportions = _votes(columns, received >= _OUTSIDE).mean(0)
    explained = received >= UNEXPLAINED

    predictions = logits.argmax(1).numpy()
    nearest = _columns(source, z, logits, replace(settings, eta2=0.0), weights / weights.sum(), rng).argmax(1)
    disagreement = float((nearest != predictions)[explained].mean()) if explained.any() else 1.0
    predicted = np.bincount(predictions, minlength=source.classes) / len(predictions)
    absent = np.flatnonzero(present & (proportions < ABSENT / present.sum()))
    reasons = _reasons(float(1 - explained.mean()), disagreement, predicted, proportions)
    entropy = float(torch.distributions.Categorical(logits=logits).entropy().mean())
    if before is not None:
        reasons += _reasons_of_change(before, proportions, entropy)
    return Diagnosis(
        class_proportions=proportions,
        predicted_proportions=predicted,
        entropy=entropy,
        absent_classes=tuple(absent.tolist()),
        received_mass=received,
        unexplained=np.flatnonzero(~explained),
        transported_mass=float(received.mean()),
        disagreement=disagreement,
        reasons=reasons,
        settings=settings,
        scaled=scaled,
    )


def diagnose_numbers(features_s: Tensor, features_t: Tensor, seed: int = 0) -> Diagnosis:
    """What distances alone tell, where numbers are predicted: received mass, unexplained samples, transported mass."""
    found = diagnose(features_s, np.zeros(len(features_s), int), features_t, torch.zeros(len(features_t), 1), seed=seed)
    none = np.empty(0)
    return replace(found, class_proportions=none, predicted_proportions=none, entropy=math.nan, disagreement=math.nan)


@torch.no_grad()
def scaled_settings(features_s: Tensor, labels_s: Any, classes: int, *, seed: int = 0) -> PlanSettings:
    """Settings that do not depend on the scale of the embedding, from distances within the source.

    Let w be the squared distance of a source sample to the nearest of its own class in a stratified minibatch, b to
    the nearest of another class.  Then eta1 = 1 / median(b), so that a cost of one leads to the next class;
    eta2 = .5 / log C, so that a prediction without any confidence costs one half; epsilon = eta2, so that a sample is
    shared among the classes by its softmax output times the kernel of the distances.  A sample that lies beyond
    median(w) by the distance to the next class, or by twice the spread of w if that is more, shall receive a tenth of
    the mass: tau = max(median(b) - median(w), 2 (q95(w) - median(w))) / (2 log 10 median(b)).

    >>> scaled_settings(torch.tensor([[0.0], [0.0], [10.0], [10.0]]), [0, 0, 1, 1], 2)
    PlanSettings(eta1=0.01, eta2=0.721..., tau=0.217..., epsilon=0.721...)
    """
    source = _Source(features_s, labels_s, classes)
    own, other = [], []
    for first, second, cost in _source_pairs(source, seed):
        same = source.labels[first][:, None] == source.labels[second][None]
        own.append(np.where(same, cost, math.inf).min(0))
        other.append(np.where(same, math.inf, cost).min(0))
    within, between = (x[np.isfinite(x)] for x in (np.concatenate(own), np.concatenate(other)))
    w, spread = (np.median(within), np.quantile(within, 0.95) - np.median(within)) if len(within) else (0.0, 0.0)
    # one class alone: as if the next one were at twice the distance
    b = float(np.median(between) if len(between) else 4 * w)
    eta2 = 0.5 / math.log(max(classes, 2))
    if not b > 0:
        # no two classes are apart, so that the predictions alone can tell them
        return PlanSettings(0.0, eta2, 1 / (2 * math.log(10)), eta2)
    return PlanSettings(1 / b, eta2, float(max(b - w, 2 * spread) / (2 * math.log(10) * b)), eta2)


class _Source:
    """Labelled samples and their stratified minibatches: equally many of each class, repeated where there are few."""

    def __init__(self, features: Tensor, labels: Any, classes: int) -> None:
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
        self.features = features.detach().double().cpu()[torch.from_numpy(known)]
        if not bool(torch.isfinite(self.features).all()):
            raise ArgumentError("features_s: they hold NaN or infinite values; the network has diverged.")
        self.labels = labels[known].astype(np.int64)
        self.classes = classes
        self.groups = [np.flatnonzero(self.labels == c) for c in range(classes)]
        self.each = max(3, MINIBATCH // sum(len(group) > 0 for group in self.groups))

    def draw(self, rng: np.random.Generator) -> Array:
        groups = (group for group in self.groups if len(group))
        return np.concatenate([rng.choice(group, self.each, replace=len(group) < self.each) for group in groups])


def _source_pairs(source: _Source, seed: int) -> Iterator[tuple[Array, Array, Array]]:
    """Pairs of source minibatches with their squared distances; no sample is compared with itself."""
    rng = np.random.default_rng((seed, 1))
    for _ in range(ROUNDS):
        first, second = source.draw(rng), source.draw(rng)
        cost = squared_euclidean(source.features[first], source.features[second]).numpy()
        yield first, second, np.where(first[:, None] == second[None], math.inf, cost)


def _source_mass(source: _Source, settings: PlanSettings, seed: int) -> float:
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


def _columns(
    source: _Source, z: Tensor, logits: Tensor, settings: PlanSettings, weights: Array, rng: np.random.Generator
) -> Array:
    """(n, C): m times the mass that each target sample receives from each class, averaged over its minibatches."""
    n, m = len(z), min(MINIBATCH, len(z))
    order = rng.permutation(n)
    # the last minibatch is filled up with samples of earlier ones, so that all have one size
    order = np.concatenate([order, rng.choice(order[: n - n % m], -n % m, replace=False)])
    total, times = np.zeros((n, source.classes)), np.zeros(n)
    for batch in order.reshape(-1, m):
        drawn = source.draw(rng)
        labels = source.labels[drawn]
        cost = joint_cost(
            source.features[drawn], torch.from_numpy(labels), z[batch], logits[batch], settings.eta1, settings.eta2
        )
        a = torch.from_numpy(weights[labels] / source.each)
        plan = solve(cost, a, epsilon=settings.epsilon, tau=settings.tau, tol=1e-4).plan.numpy()
        received = np.zeros((source.classes, m))
        np.add.at(received, labels, plan * m)
        total[batch] += received.T
        times[batch] += 1
    return total / times[:, None]


def _votes(columns: Array, voting: Array) -> Array:
    """One vote per sample; of those that may vote, or of all where none may."""
    kept = columns[voting] if voting.any() else columns
    total = kept.sum(1, keepdims=True)
    # a column that has underflowed to zero says nothing about its class
    return np.where(total > 0, kept / np.where(total > 0, total, 1.0), 1 / columns.shape[1])


def _distance(p: Array, q: Array) -> float:
    """The total variation, (1/2) sum |p - q|."""
    return float(np.abs(p - q).sum() / 2)


def _reasons(unexplained: float, disagreement: float, predicted: Array, proportions: Array) -> tuple[str, ...]:
    reasons = []
    if unexplained > MOST_UNEXPLAINED:
        reasons.append(f"{100 * unexplained:.0f} % of the target samples are explained by no source sample")
    if disagreement > MOST_DISAGREEMENT:
        reasons.append(
            f"{100 * disagreement:.0f} % of the explained samples lie with another source class than the predicted one"
        )
    deviation = _distance(predicted, proportions)
    if deviation > MOST_DEVIATION:
        reasons.append(f"predicted and estimated class proportions differ by {100 * deviation:.0f} %")
    return tuple(reasons)


def _reasons_of_change(before: Diagnosis, proportions: Array, entropy: float) -> tuple[str, ...]:
    reasons = []
    if before.class_proportions.shape != proportions.shape:
        raise ArgumentError(
            f"before: it has {len(before.class_proportions)} classes, not {len(proportions)}; pass the diagnosis of "
            "the same target."
        )
    moved = _distance(before.class_proportions, proportions)
    if moved > MOST_MOVED:
        reasons.append(f"adaptation has moved the class proportions by {100 * moved:.0f} %")
    if entropy - before.entropy > MOST_ENTROPY:
        reasons.append(
            f"the predictions have become less certain: mean entropy {before.entropy:.2f} before, {entropy:.2f} after"
        )
    return tuple(reasons)


def _check_target(source: _Source, z: Tensor, logits: Tensor) -> None:
    d = source.features.shape[1]
    if z.ndim != 2 or z.shape[1] != d:
        raise ArgumentError(f"features_t: shape {tuple(z.shape)}; pass (m, {d}) like the source embeddings.")
    if logits.shape != (len(z), source.classes) or not len(z):
        raise ArgumentError(
            f"logits_t: shape {tuple(logits.shape)}, but there are {len(z)} target embeddings; pass at least one row, "
            "(m, C) each."
        )
    for name, values in (("features_t", z), ("logits_t", logits)):
        if not bool(torch.isfinite(values).all()):
            raise ArgumentError(f"{name}: it holds NaN or infinite values; the network has diverged.")
