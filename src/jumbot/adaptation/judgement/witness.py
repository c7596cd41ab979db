"""What classifiers say that never saw a part of the source: of that part, whose labels are known, and of the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jumbot.adaptation.judgement import votes

Array = np.ndarray[Any, Any]

HELD_OUT, CONFIDENCE, DIFFERENCE = "held-out accuracy", "mean confidence", "difference of confidences"
THRESHOLD, TRANSPORT, TRANSPORT_ESTIMATED = "ATC", "COT", "COT with estimated proportions"
AGREEMENT = "agreement with "
"""Begins the name of a vote by one of the references."""


@dataclass(frozen=True)
class Panel:
    """Predictions of the references: of the held-out rows, and of the target by those of each fold."""

    held: Mapping[str, Array]
    target: Mapping[str, tuple[Array, ...]]


@dataclass(frozen=True)
class Witness:
    """Outputs of one method, trained without the held-out rows, fold by fold.

    Logits are for classes as frequent as in the source: a network that was trained on minibatches of equal classes gets
    the logarithm of the `shares` added.
    """

    held: Array
    """(n, C) logits of the held-out rows of all folds, each by the network that did not see it."""
    labels: Array
    """(n,) their classes."""
    target: tuple[Array, ...]
    """(m, C) logits of the target by the network of each fold."""
    shares: Array
    """(C,) of the source."""
    panel: Panel = field(default_factory=lambda: Panel({}, {}))

    @property
    def accuracy(self) -> float:
        """On the held-out source."""
        return float((self.held.argmax(1) == self.labels).mean())

    @property
    def temperature(self) -> float:
        """Which makes the held-out labels likeliest."""
        return votes.fit_temperature(self.held, self.labels)

    def agreements(self, predicted: tuple[Array, ...] | None = None) -> dict[str, float]:
        """What each reference makes of it: held-out accuracy x agreement on the target / agreement on the held-out.

        `predicted` are other predictions of the target, such as those of a network trained on the whole source.
        """
        own = tuple(z.argmax(1) for z in self.target) if predicted is None else predicted
        found = {}
        for name, said in self.panel.held.items():
            there = float((self.held.argmax(1) == said).mean())
            folds = self.panel.target[name]
            pairs = zip(own, folds, strict=True) if len(own) == len(folds) else ((own[0], fold) for fold in folds)
            here = float(np.mean([(a == b).mean() for a, b in pairs]))
            found[name] = float(np.clip(self.accuracy * here / there, 0, 1)) if there > 0 else 0.0
        return found

    def votes(self, final: Array | None = None) -> dict[str, float]:
        """Every estimate of the accuracy on the target, by name.

        `final` are logits `(m, C)` of the network whose accuracy is asked for, where that is another than those of the
        folds: one trained on the whole source.
        """
        temperature, right = self.temperature, self.accuracy
        held = votes.softmax(self.held, temperature)
        found: dict[str, list[float]] = {}
        for logits in self.target if final is None else (final,):
            q = votes.softmax(logits, temperature)
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
        by_reference = self.agreements(None if final is None else (final.argmax(1),))
        return {
            HELD_OUT: right,
            **{name: float(np.mean(values)) for name, values in found.items()},
            **{f"{AGREEMENT}{name}": value for name, value in by_reference.items()},
        }
