"""What the plan shows after adaptation: class proportions, absent classes, unexplained samples, unusual properties."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.adaptation._evaluation.averaged_plans import (
    PlanReader,
    PlanSettings,
    SourceMinibatches,
    all_finite,
    by_class,
    by_source,
    received_by_stratum,
    scaled_settings,
    settle,
    source_mass,
)
from jumbot.adaptation._evaluation.decision import Harm
from jumbot.adaptation._evaluation.measures import total_variation
from jumbot.errors import ArgumentError

Array = np.ndarray[Any, Any]

UNEXPLAINED = 0.25  # a sample that receives less than this share of what a source sample receives is unexplained
ABSENT = 0.1  # a class below this share of an equal proportion seems absent
MOST_UNEXPLAINED = 0.3  # shares above which something is reported
MOST_DISAGREEMENT = 0.3
MOST_DEVIATION = 0.2
MOST_MOVED = 0.4  # adaptation rightly moves a poor classifier by up to a third: digits, 59 to 94 % accuracy
MOST_ENTROPY = 0.1  # nats by which the mean entropy of the predictions may rise through adaptation
NEARLY_ONE = 0.95  # share of the predicted class in the target


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What the averaged plan between source and target shows about the target.

    Attributes
    ----------
    class_proportions : array of shape (classes,)
        Estimated shares of the classes in the target, outliers left out.
    predicted_proportions : array of shape (classes,)
        Shares of the predicted classes.
    entropy : float
        Mean entropy of the predictions.
    absent_classes : tuple of int
        Source classes that seem absent from the target.
    received_mass : array of shape (n,)
        Mass that each target sample receives; 1 is what a typical source sample receives from the source.
    unexplained : array of int
        Indices of target samples that no source sample explains: `received_mass` < 0.25.
    transported_mass : float
        Mass of the plan, as a share of the mass between minibatches of the source.
    disagreement : float
        Share of the explained samples whose embedding lies among source samples of another class than the predicted
        one.
    signs : tuple of str
        Unusual properties of the target or its predictions that are worth checking; they do not prove a problem.
    settings : PlanSettings
        The problem that was solved.
    scaled : bool
        Whether `settings` were taken from the scale of the source embeddings, as they always are by this version.
    source_shares : array of shape (n, sources) or None
        Shares of what each target sample receives, if there are several sources.
    harm : Harm or None
        The comparison with source-only, if there is one.
    """

    class_proportions: Array
    predicted_proportions: Array
    entropy: float
    absent_classes: tuple[int, ...]
    received_mass: Array
    unexplained: Array
    transported_mass: float
    disagreement: float
    signs: tuple[str, ...]
    settings: PlanSettings
    scaled: bool
    source_shares: Array | None = None
    harm: Harm | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the predictions are likely worse than without adaptation; empty if nothing indicates it."""
        return () if self.harm is None else self.harm.reasons

    @property
    def negative_transfer(self) -> bool:
        """Whether the predictions are likely to be worse than without adaptation."""
        return bool(self.reasons)

    def to_json(self) -> dict[str, Any]:
        """Everything except the mass of each sample, as a dictionary for `json.dumps`; without classes for numbers."""
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
            "signs": list(self.signs),
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
        lines += [f"check: {sign}" for sign in self.signs]
        return "\n".join(lines)


@torch.no_grad()
def diagnose(
    features_s: Tensor,
    labels_s: Any,
    features_t: Tensor,
    logits_t: Tensor,
    *,
    origins: Array | None = None,
    before: Diagnosis | None = None,
    seed: int = 0,
) -> tuple[Diagnosis, PlanReader]:
    r"""Reads the plans of unbalanced problems between source and target minibatches, averaged.

    Returns what they show, and a reader of the same plans for further samples of the target.  The settings are
    `scaled_settings`, which make the diagnosis comparable between methods and independent of the scale of the
    embedding.

    .. math::
        \min_P \langle C, P\rangle + \varepsilon\, \mathrm{KL}(P \mid a b') + \tau\, \mathrm{KL}(P1 \mid a)
        + \tau\, \mathrm{KL}(P^\top 1 \mid b), \quad
        C_{ij} = \eta_1 \|z_i - z_j\|^2 + \eta_2\, \mathrm{CE}(y_i, f(z_j))

    Every target sample is in one minibatch per pass; source minibatches are stratified.

    **Class proportions.** The plain mass per class is biased towards the stratified source, because tau penalises
    deviations from the source marginal, and it ignores samples at large cost.  So each target sample except outliers
    has one vote, divided among the classes as in its column of the plan; the votes become the class weights in `a` of
    the next pass, until both agree.  With eta1 = 0, epsilon = eta2 and a free source marginal this is the EM algorithm
    for label shift (Saerens et al. 2002) on the softmax outputs; the distances correct it if these are not calibrated.

    **Received mass** of sample j is m (P' 1)_j relative to the median that source samples receive from the rest of
    the source by their distances.  So the reference of the entropy, which multiplies the plan by a constant, cancels.

    **Shares of the sources**, if there are several: strata are then the classes of each source, votes and weights `a`
    refer to strata, and the vote of a sample says how much it receives from which source.

    **Signs** are unexplained samples, an embedding and a classifier that disagree, predicted and estimated proportions
    that differ, and a target predicted as nearly one class.  Training against the plan hides some of them, so pass
    `before`, the diagnosis of the same samples before adaptation: signs then include disagreement of the two on the
    proportions, and predictions that have become less certain.  They prove nothing: a good adaptation may show any of
    them.  **Negative transfer** is decided by `harm`, the same rule that chooses between classifiers.

    Parameters
    ----------
    features_s, labels_s
        Source embeddings `(n, d)` and classes `(n,)`; rows labelled -1 are ignored.
    features_t, logits_t
        Target embeddings `(m, d)` and logits `(m, C)`.
    origins
        The source of each sample, if there are several, `(n,)`.
    before
        The diagnosis of the same target with the network before adaptation, to compare with.
    seed
        The seed of the minibatches; the same seed gives the same diagnosis.

    >>> z = torch.tensor([[0.0, 0.0], [0.1, 0.0], [4.0, 0.0], [4.1, 0.0]])
    >>> target = torch.tensor([[0.0, 0.1], [4.0, 0.1], [4.1, 0.1], [99.0, 0.0]])
    >>> found, _ = diagnose(z, [0, 0, 1, 1], target, torch.tensor([[9.0, 0], [0, 9], [0, 9], [0, 9]]))
    >>> found.class_proportions.round(2), found.unexplained
    (array([0.33, 0.67]), array([3]))
    """
    source = SourceMinibatches(features_s, labels_s, logits_t.shape[-1] if logits_t.ndim == 2 else 0, origins)
    z, logits = features_t.detach().cpu(), logits_t.detach().cpu()
    _check_target(source, z, logits)
    settings = scaled_settings(features_s, labels_s, source.classes, origins=origins, seed=seed)
    mass = source_mass(source, settings, seed)

    rng = np.random.default_rng(seed)
    found = settle(source, z, logits, settings, mass, rng)
    explained = found.received >= UNEXPLAINED
    proportions = by_class(found.strata, source)[0]
    present = np.array([bool((source.labels == c).any()) for c in range(source.classes)])

    predictions = logits.argmax(1).numpy()
    near = received_by_stratum(source, z, logits, replace(settings, eta2=0.0), found.weights, rng)
    other = by_class(near, source).argmax(1) != predictions
    disagreement = float(other[explained].mean()) if explained.any() else 1.0
    predicted = np.bincount(predictions, minlength=source.classes) / len(predictions)
    absent = np.flatnonzero(present & (proportions < ABSENT / present.sum()) & explained.any())
    signs = _signs(float(1 - explained.mean()), disagreement, predicted, proportions)
    signs += _collapse(predicted, source.labels)
    entropy = float(torch.distributions.Categorical(logits=logits.double()).entropy().mean())
    if before is not None:
        signs += _signs_of_change(before, proportions, entropy)
    diagnosis = Diagnosis(
        class_proportions=proportions,
        predicted_proportions=predicted,
        entropy=entropy,
        absent_classes=tuple(absent.tolist()),
        received_mass=found.received,
        unexplained=np.flatnonzero(~explained),
        transported_mass=float(found.received.mean()),
        disagreement=disagreement,
        signs=signs,
        settings=settings,
        scaled=True,
        source_shares=None if origins is None else by_source(found.columns, source),
    )
    return diagnosis, PlanReader(source, settings, mass, found.weights, rng)


@torch.no_grad()
def diagnose_numbers(
    features_s: Tensor,
    values_s: Tensor,
    features_t: Tensor,
    outputs_t: Tensor,
    *,
    origins: Array | None = None,
    seed: int = 0,
) -> tuple[Diagnosis, PlanReader, PlanReader]:
    """The diagnosis from distances if numbers are predicted, a reader of distances, and one of the shares of the
    sources.

    The shares of several sources come from distances and numbers, `(n, outputs)` both, in deviations of the source's.
    """
    one = np.zeros(len(features_s), int)
    found, by_distance = diagnose(features_s, one, features_t, torch.zeros(len(features_t), 1), seed=seed)
    by_numbers = by_distance
    if origins is not None:
        source = SourceMinibatches(features_s, one, 1, origins, values_s)
        z, outputs = features_t.detach().cpu(), outputs_t.detach().cpu()
        rng, mass = np.random.default_rng(seed), source_mass(source, found.settings, seed)
        settled = settle(source, z, outputs, found.settings, mass, rng)
        found = replace(found, source_shares=by_source(settled.columns, source))
        by_numbers = PlanReader(source, found.settings, mass, settled.weights, rng)
    none = np.empty(0)
    found = replace(found, class_proportions=none, predicted_proportions=none, entropy=math.nan, disagreement=math.nan)
    return found, by_distance, by_numbers


def widened(
    found: Diagnosis, before: Diagnosis | None, received: Array, shares: Array | None, classes: Array
) -> Diagnosis:
    """The diagnosis of a part of the target, extended by the received mass and prediction of every sample."""
    explained = received >= UNEXPLAINED
    found = replace(
        found,
        received_mass=received,
        unexplained=np.flatnonzero(~explained),
        source_shares=shares,
        transported_mass=float(received.mean()),
    )
    if not len(found.class_proportions):  # numbers: no classes, and no signs from classes
        return replace(found, signs=_signs(1 - explained.mean(), 0.0, np.zeros(1), np.zeros(1)))
    predicted = np.bincount(classes, minlength=len(found.class_proportions)) / len(classes)
    signs = _signs(float(1 - explained.mean()), found.disagreement, predicted, found.class_proportions)
    if before is not None:
        signs += _signs_of_change(before, found.class_proportions, found.entropy)
    return replace(found, predicted_proportions=predicted, signs=signs)


def less_explained(found: Diagnosis, received: Array | None) -> Diagnosis:
    """The diagnosis if samples receive at most this much, if known."""
    if received is None:
        return found
    received = np.minimum(found.received_mass, received)
    missing, before = (float((mass < UNEXPLAINED).mean()) for mass in (received, found.received_mass))
    facts = found.disagreement, found.predicted_proportions, found.class_proportions
    old = _signs(before, *facts)
    return replace(
        found,
        received_mass=received,
        unexplained=np.flatnonzero(received < UNEXPLAINED),
        transported_mass=float(received.mean()),
        absent_classes=found.absent_classes if missing < 1 else (),
        signs=(*_signs(missing, *facts), *(sign for sign in found.signs if sign not in old)),
    )


def as_predicted(diagnosis: Diagnosis, predictions: Array, labels: Array, harm: Harm | None) -> Diagnosis:
    """The diagnosis with these predicted classes instead of those of the logits, and with the harm."""
    predicted = np.bincount(predictions, minlength=len(diagnosis.class_proportions)) / len(predictions)
    old = _collapse(diagnosis.predicted_proportions, labels)
    signs = tuple(sign for sign in diagnosis.signs if sign not in old) + _collapse(predicted, labels)
    return replace(diagnosis, predicted_proportions=predicted, signs=signs, harm=harm)


def one_class(predicted: Array, shares: Array) -> str:
    """A sign if nearly one class is predicted for the whole target, although the source has several in these shares.

    The other classes have less than half of their share in the source.

    >>> one_class(np.array([0.99, 0.01]), np.array([0.95, 0.05]))
    '99 % of the target is predicted as one class, which makes up 95 % of the source'
    >>> one_class(np.array([0.96, 0.04]), np.array([0.95, 0.05]))
    ''
    """
    most = int(predicted.argmax())
    if predicted[most] < NEARLY_ONE or 1 - predicted[most] >= (1 - shares[most]) / 2:
        return ""
    return (
        f"{100 * predicted[most]:.0f} % of the target is predicted as one class, which makes up "
        f"{100 * shares[most]:.0f} % of the source"
    )


def _collapse(predicted: Array, labels: Array) -> tuple[str, ...]:
    known = labels[labels >= 0]
    found = one_class(predicted, np.bincount(known, minlength=len(predicted)) / max(len(known), 1))
    return (found,) if found else ()


def _signs(unexplained: float, disagreement: float, predicted: Array, proportions: Array) -> tuple[str, ...]:
    reasons = []
    if unexplained > MOST_UNEXPLAINED:
        reasons.append(f"{100 * unexplained:.0f} % of the target samples are explained by no source sample")
    if unexplained == 1:  # without explained samples there are no further signs
        return tuple(reasons)
    if disagreement > MOST_DISAGREEMENT:
        reasons.append(
            f"{100 * disagreement:.0f} % of the explained samples lie among source samples of another class than the "
            "predicted one"
        )
    deviation = total_variation(predicted, proportions)
    if deviation > MOST_DEVIATION:
        reasons.append(f"predicted and estimated class proportions differ by {100 * deviation:.0f} %")
    return tuple(reasons)


def _signs_of_change(before: Diagnosis, proportions: Array, entropy: float) -> tuple[str, ...]:
    reasons = []
    if before.class_proportions.shape != proportions.shape:
        raise ArgumentError(
            f"before: it has {len(before.class_proportions)} classes, not {len(proportions)}; pass the diagnosis of "
            "the same target."
        )
    moved = total_variation(before.class_proportions, proportions)
    if moved > MOST_MOVED:
        reasons.append(f"adaptation has moved the class proportions by {100 * moved:.0f} %")
    if entropy - before.entropy > MOST_ENTROPY:
        reasons.append(
            f"the predictions have become less certain: mean entropy {before.entropy:.2f} before, {entropy:.2f} after"
        )
    return tuple(reasons)


def _check_target(source: SourceMinibatches, z: Tensor, logits: Tensor) -> None:
    d = source.features.shape[1]
    if z.ndim != 2 or z.shape[1] != d:
        raise ArgumentError(f"features_t: shape {tuple(z.shape)}; pass (m, {d}) like the source embeddings.")
    if logits.shape != (len(z), source.classes) or not len(z):
        raise ArgumentError(
            f"logits_t: shape {tuple(logits.shape)}, but there are {len(z)} target embeddings; pass at least one row, "
            "(m, C) each."
        )
    for name, values in (("features_t", z), ("logits_t", logits)):
        if not all_finite(values):
            raise ArgumentError(f"{name}: it contains NaN or infinite values; the network has diverged.")
