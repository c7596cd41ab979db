"""Votes: estimates of a classifier's accuracy on an unlabelled target, from a labelled, held-out part of the source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from jumbot.adaptation._evaluation.modularity import modularity_parts
from jumbot.data._domain import drawn_rows
from jumbot.transport._solve import solve

Array = np.ndarray[Any, Any]
MOST = 2000  # target samples in the transport problem
COLDEST, HOTTEST = 0.05, 20.0  # temperatures
_ROUNDS = 200  # of expectation and maximisation at most


def softmax(logits: Array, temperature: float = 1.0, offset: Array | float = 0.0) -> Array:
    """Probabilities softmax(z / T + offset) of logits `(n, C)`, in float64."""
    z = np.asarray(logits, np.float64) / temperature + offset
    z = np.exp(z - z.max(1, keepdims=True))
    found: Array = z / z.sum(1, keepdims=True)
    return found


def fit_temperature(logits: Array, labels: Array, offset: Array | float = 0.0) -> float:
    r"""The temperature at which held-out labels are likeliest.

    .. math:: \min_T -\frac1n \sum_i \log \mathrm{softmax}(z_i / T + b)_{y_i}

    with the `offset` b of each class, such as the logarithm of its share if z is for equal classes.

    The labels are smoothed by 1 / (n + 2), as Platt does; otherwise a classifier without a mistake on a few samples
    would become infinitely confident.

    >>> logits = np.array([[2.0, 0.0]] * 100)
    >>> round(fit_temperature(logits, np.array([0] * 73 + [1] * 27)), 1)
    2.0
    """
    z = np.asarray(logits, np.float64)
    n, classes = z.shape
    smooth = 1 / (n + 2)
    goal = np.full(z.shape, smooth / classes)
    goal[np.arange(n), labels] += 1 - smooth
    low, high = 1 / HOTTEST, 1 / COLDEST
    for _ in range(60):  # the loss is convex in 1 / T: its slope there is mean <p - goal, z>
        middle = math.sqrt(low * high)
        slope = float(((softmax(z, 1 / middle, offset) - goal) * z).sum(1).mean())
        low, high = (low, middle) if slope > 0 else (middle, high)
    return 1 / math.sqrt(low * high)


def difference_of_confidences(held: Array, right: float, target: Array) -> float:
    """Held-out accuracy, minus the loss of mean confidence from the held-out source to the target (Guillory 2021)."""
    return float(np.clip(right - held.max(1).mean() + target.max(1).mean(), 0, 1))


def threshold_vote(held: Array, right: float, target: Array) -> float:
    """ATC (Garg 2022): the share of the target above the confidence that a share `right` of the source is above.

    >>> held = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    >>> threshold_vote(held, 0.5, np.array([[0.85, 0.15], [0.3, 0.7], [0.4, 0.6]]))
    0.333...
    """
    sure = np.sort(_certainty(held))
    place = min(round((1 - right) * len(sure)), len(sure) - 1)
    threshold = sure[place] if place else sure[0] - (sure[-1] - sure[0] if len(sure) > 1 else 0) / len(sure)
    return float((_certainty(target) >= threshold).mean())


def transport_vote(target: Array, shares: Array) -> float:
    r"""COT (Lu 2023): one minus the cost of moving the target's probabilities to labels in given shares.

    .. math:: 1 - \min_P \sum_{i, y} P_{iy} (1 - q_{iy}), \quad P 1 = 1 / n, \quad P^\top 1 = \pi

    the exact optimal transport cost.  If the shares of the classes are right, it detects mistakes that confidence
    hides, because each class must get its share of the samples, however confident their predictions are.

    >>> transport_vote(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([0.5, 0.5]))
    0.5
    """
    q = target[drawn_rows(len(target), MOST, (0, 8))]
    kept = shares > 0
    if kept.sum() < 2:
        return float(q[:, kept].mean())
    rows, columns = np.full(len(q), 1 / len(q)), shares[kept] / shares[kept].sum()
    return 1 - float(solve(1 - q[:, kept], rows, columns, epsilon=0.0).value)


def estimated_shares(target: Array, shares: Array) -> Array:
    r"""The target's class proportions by expectation and maximisation from calibrated probabilities (Saerens 2002).

    .. math:: \pi \leftarrow \frac1n \sum_i \frac{q_{i} \pi / \pi_s}{\langle q_i, \pi / \pi_s\rangle}

    starting from the source's `shares`; classes that the source lacks keep a share of zero.
    """
    kept = shares > 0
    q, source = target[:, kept], shares[kept] / shares[kept].sum()
    found = source.copy()
    for _ in range(_ROUNDS):
        weighted = q * (found / source)
        new = (weighted / np.maximum(weighted.sum(1, keepdims=True), 1e-300)).mean(0)
        moved, found = float(np.abs(new - found).sum()), new
        if moved < 1e-7:
            break
    whole = np.zeros(len(shares))
    whole[kept] = found
    return whole


def _certainty(q: Array) -> Array:
    """The negative entropy, the score with which ATC is best."""
    found: Array = (q * np.log(np.maximum(q, 1e-300))).sum(1)
    return found


HELD_OUT, CONFIDENCE, DIFFERENCE = "held-out accuracy", "mean confidence", "difference of confidences"
THRESHOLD, TRANSPORT, TRANSPORT_ESTIMATED = "ATC", "COT", "COT with estimated proportions"
AGREEMENT = "agreement with "
"""The beginning of the names of the votes by references."""


def counted_votes(votes: Mapping[str, float]) -> list[float]:
    """Those votes of `Witness.votes` from which the estimate is made; the others are for comparison.

    >>> counted_votes({"COT": 0.8, "mean confidence": 0.9, "agreement with trees": 0.7})
    [0.8, 0.7]
    """
    return [value for name, value in votes.items() if name.startswith(AGREEMENT) or name in (TRANSPORT, THRESHOLD)]


@dataclass(frozen=True)
class Panel:
    """Predictions of the references: of the held-out rows, and of the target by those of each fold."""

    held: Mapping[str, Array]
    target: Mapping[str, tuple[Array, ...]]
    neighbours: Array | None = None
    """(m, k) nearest other samples of each of the target; None if neighbours in the source have different classes."""


@dataclass(frozen=True)
class Witness:
    """Outputs of one method, trained without the held-out rows, fold by fold; numbers are in standard deviations."""

    held: Array
    """(n, C) logits of the held-out rows of all folds, each by the network that did not see it."""
    labels: Array
    """(n,) their classes."""
    target: tuple[Array, ...]
    """(m, C) logits of the target by the network of each fold."""
    shares: Array
    """(C,) shares of the classes in the source."""
    offset: Array
    """(C,) offset that turns z / T into logits for these shares: their logarithms if training drew all classes equally
    often, 0 if it drew samples at random.
    """
    panel: Panel = field(default_factory=lambda: Panel({}, {}))
    held_z: tuple[Array, ...] = ()
    """Embeddings of the held-out rows, fold by fold."""
    target_z: tuple[Array, ...] = ()
    """Those of the target by the network of each fold."""

    @cached_property
    def temperature(self) -> float:
        """The temperature that makes the held-out labels likeliest."""
        return fit_temperature(self.held, self.labels, self.offset)

    @property
    def accuracy(self) -> float:
        """On the held-out source."""
        return float((self.probabilities(self.held).argmax(1) == self.labels).mean())

    @property
    def skill(self) -> float:
        """The share of the errors of always predicting the most common class, on the held-out source, that it avoids.

        1 without a mistake, 0 or less if it is no better than that.
        """
        wrong = 1 - float(np.bincount(self.labels).max() / len(self.labels))
        return 1 - (1 - self.accuracy) / wrong if wrong > 0 else 0.0

    def probabilities(self, logits: Array) -> Array:
        """Calibrated, for classes in the source's shares."""
        return softmax(logits, self.temperature, self.offset)

    @cached_property
    def predicted(self) -> tuple[Array, ...]:
        """Classes of the target, fold by fold."""
        return tuple(self.probabilities(z).argmax(1) for z in self.target)

    @cached_property
    def modularity_parts(self) -> Array:
        """(m,) what each target sample adds to the modularity of the predictions, averaged over folds."""
        assert self.panel.neighbours is not None
        found: Array = np.mean([modularity_parts(y, self.panel.neighbours) for y in self.predicted], axis=0)
        return found

    def agreements(self, predicted: tuple[Array, ...] | None = None) -> dict[str, float]:
        """The vote of each reference: held-out accuracy x agreement on the target / agreement on the held-out.

        `predicted` are other predictions of the target, such as those of a network trained on the whole source.
        """
        own = self.predicted if predicted is None else predicted
        found, held = {}, self.probabilities(self.held).argmax(1)
        for name, reference in self.panel.held.items():
            there = float((held == reference).mean())
            folds = self.panel.target[name]
            pairs = zip(own, folds, strict=True) if len(own) == len(folds) else ((own[0], fold) for fold in folds)
            here = float(np.mean([(a == b).mean() for a, b in pairs]))
            found[name] = float(np.clip(self.accuracy * here / there, 0, 1)) if there > 0 else 0.0
        return found

    def votes(self, final: Array | None = None, predicted: Array | None = None) -> dict[str, float]:
        """Every estimate of the accuracy on the target, by name.

        `final` are logits `(m, C)` of the network whose accuracy is estimated, if it is not one of the folds', such as
        one trained on the whole source; `predicted` are its predictions, if they use other class proportions than the
        source's.
        """
        right, held = self.accuracy, self.probabilities(self.held)
        found: dict[str, list[float]] = {}
        for logits in self.target if final is None else (final,):
            q = self.probabilities(logits)
            estimated = estimated_shares(q, self.shares)
            own = {
                CONFIDENCE: float(q.max(1).mean()),
                DIFFERENCE: difference_of_confidences(held, right, q),
                THRESHOLD: threshold_vote(held, right, q),
                TRANSPORT: transport_vote(q, self.shares),
                TRANSPORT_ESTIMATED: transport_vote(q, estimated),
            }
            for name, value in own.items():
                found.setdefault(name, []).append(value)
        if final is not None and predicted is None:
            predicted = self.probabilities(final).argmax(1)
        by_reference = self.agreements(None if predicted is None else (predicted,))
        return {
            HELD_OUT: right,
            **{name: float(np.mean(values)) for name, values in found.items()},
            **{f"{AGREEMENT}{name}": value for name, value in by_reference.items()},
        }
