"""What classifiers say that never saw a part of the source: of that part, whose labels are known, and of the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from jumbot.adaptation.judgement import votes

Array = np.ndarray[Any, Any]

HELD_OUT, CONFIDENCE, DIFFERENCE = "held-out accuracy", "mean confidence", "difference of confidences"
THRESHOLD, TRANSPORT, TRANSPORT_ESTIMATED = "ATC", "COT", "COT with estimated proportions"
AGREEMENT = "agreement with "
"""Begins the name of a vote by one of the references."""


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


@dataclass(frozen=True)
class Witness:
    """Outputs of one method, trained without the held-out rows, fold by fold; of numbers, in deviations."""

    held: Array
    """(n, C) logits of the held-out rows of all folds, each by the network that did not see it."""
    labels: Array
    """(n,) their classes."""
    target: tuple[Array, ...]
    """(m, C) logits of the target by the network of each fold."""
    shares: Array
    """(C,) of the classes in the source."""
    offset: Array
    """(C,) what makes of z / T the logits for classes in these shares: their logarithms where training drew all classes
    equally often, 0 where it drew them as they come."""
    panel: Panel = field(default_factory=lambda: Panel({}, {}))

    @cached_property
    def temperature(self) -> float:
        """Which makes the held-out labels likeliest."""
        return votes.fit_temperature(self.held, self.labels, self.offset)

    @property
    def accuracy(self) -> float:
        """On the held-out source."""
        return float((self.probabilities(self.held).argmax(1) == self.labels).mean())

    def probabilities(self, logits: Array) -> Array:
        """Calibrated, for classes in the source's shares."""
        return votes.softmax(logits, self.temperature, self.offset)

    @cached_property
    def predicted(self) -> tuple[Array, ...]:
        """Classes of the target, fold by fold."""
        return tuple(self.probabilities(z).argmax(1) for z in self.target)

    def agreements(self, predicted: tuple[Array, ...] | None = None) -> dict[str, float]:
        """What each reference makes of it: held-out accuracy x agreement on the target / agreement on the held-out.

        `predicted` are other predictions of the target, such as those of a network trained on the whole source.
        """
        own = self.predicted if predicted is None else predicted
        found, held = {}, self.probabilities(self.held).argmax(1)
        for name, said in self.panel.held.items():
            there = float((held == said).mean())
            folds = self.panel.target[name]
            pairs = zip(own, folds, strict=True) if len(own) == len(folds) else ((own[0], fold) for fold in folds)
            here = float(np.mean([(a == b).mean() for a, b in pairs]))
            found[name] = float(np.clip(self.accuracy * here / there, 0, 1)) if there > 0 else 0.0
        return found

    def votes(self, final: Array | None = None, predicted: Array | None = None) -> dict[str, float]:
        """Every estimate of the accuracy on the target, by name.

        `final` are logits `(m, C)` of the network whose accuracy is asked for, where that is another than those of the
        folds, such as one trained on the whole source; `predicted` what it predicts, where that is for classes in other
        shares than the source's.
        """
        right, held = self.accuracy, self.probabilities(self.held)
        found: dict[str, list[float]] = {}
        for logits in self.target if final is None else (final,):
            q = self.probabilities(logits)
            estimated = votes.estimated_shares(q, self.shares)
            own = {
                CONFIDENCE: float(q.max(1).mean()),
                DIFFERENCE: votes.difference_of_confidences(held, right, q),
                THRESHOLD: votes.threshold_vote(held, right, q),
                TRANSPORT: votes.transport_vote(q, self.shares),
                TRANSPORT_ESTIMATED: votes.transport_vote(q, estimated),
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
