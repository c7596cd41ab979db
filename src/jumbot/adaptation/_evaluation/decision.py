"""Source-only or adapted?  The one rule by which a classifier is chosen, and by which harm is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jumbot._base.options import Measured, Portion
from jumbot._base.schema import Record
from jumbot.adaptation._evaluation.votes import Witness, counted_votes
from jumbot.methods import SOURCE_ONLY

Array = np.ndarray[Any, Any]
#: From `benchmarks/trust.py`, judged on families of data that were left out.
SLACK = 0.02
"""What the votes may secure less for an adapted classifier: they share some mistakes with source-only."""
CAUTION = 1.5
"""Deviations of the votes that count against a classifier."""
NEARER = 0.03
"""Deviations by which adapted numbers must be nearer to those of plain models of the source."""
FEW = 0.02
"""Share of changed predictions below which both are the same."""
LEAST_STEPS = 50
"""Of training, below which both are still mostly chance."""


@dataclass(frozen=True)
class Harm(Record):
    """An adapted classifier beside the one of the source alone, judged without target labels.

    `adapted` and `source_only` are what the votes on the accuracy of both secure (`secured`); of numbers, minus the
    mean distance in deviations to those of plain models of the source.
    """

    adapted: Measured
    source_only: Measured
    changed: Portion
    """Share of the target's predictions that differ; of numbers, their mean difference in deviations, up to 1."""
    numbers: bool = False
    """Whether numbers are predicted: then adaptation must win."""

    @property
    def gain(self) -> float:
        return self.adapted - self.source_only

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why harm is likely; empty where nothing speaks for it."""
        if self.changed < FEW or self.gain > -(NEARER if self.numbers else SLACK):
            return ()
        if self.numbers:
            return (
                f"its numbers lie {-self.adapted:.2f} deviations from those of plain models of the source, and "
                f"source-only's {-self.source_only:.2f}",
            )
        return (
            f"the votes on its accuracy secure {_percent(self.adapted)}, those on source-only's "
            f"{_percent(self.source_only)}, and it changed {100 * self.changed:.0f} % of the predictions",
        )

    @property
    def likely(self) -> bool:
        """Whether adaptation has probably made the predictions worse."""
        return bool(self.reasons)

    @property
    def helps(self) -> bool:
        """Whether the adapted classifier is the one to return."""
        return self.changed >= FEW and self.gain > (NEARER if self.numbers else -SLACK)

    def __str__(self) -> str:
        if not self.likely:
            return "no sign of harm done by adaptation"
        return (
            f"adaptation probably did harm: {'; '.join(self.reasons)}. Compare with method='source-only', or let "
            "jumbot.tune choose."
        )


def secured(votes: Mapping[str, float]) -> float:
    r"""What votes on an accuracy (`Witness.votes`) secure: their mean, less `CAUTION` of their deviations.

    .. math:: \bar v - 1.5\, \mathrm{sd}(v)

    An estimate on which the votes disagree is worth less.

    >>> round(secured({"COT": 0.8, "ATC": 0.8, "agreement with trees": 0.5}), 3)
    0.488
    """
    counted = counted_votes(votes)
    return float(np.mean(counted) - CAUTION * np.std(counted))


def weigh_harm(adapted: Mapping[str, float], alone: Mapping[str, float], changed: float) -> Harm:
    """From the votes on the accuracy of both.

    Harm is likely where the adapted classifier's secure 2 points less or worse, and 2 % of the predictions changed.

    >>> weigh_harm({"COT": 0.7}, {"COT": 0.8}, 0.3).likely, weigh_harm({"COT": 0.8}, {"COT": 0.8}, 0.3).helps
    (True, True)
    """
    return Harm(secured(adapted), secured(alone), changed)


def weigh_witnesses(adapted: Witness, alone: Witness) -> Harm:
    """Of two methods that predict classes on the same folds, by their votes."""
    both = zip(adapted.predicted, alone.predicted, strict=True)
    return weigh_harm(adapted.votes(), alone.votes(), float(np.mean([(a != b).mean() for a, b in both])))


def weigh_distances(
    adapted: Sequence[Array], alone: Sequence[Array], references: Mapping[str, Sequence[Array]]
) -> Harm:
    """Numbers `(n, outputs)` of both, fold by fold, by their distances to those of each reference."""
    apart = float(np.mean([np.abs(a - b).mean() for a, b in zip(adapted, alone, strict=True)]))
    far = []
    for own in (adapted, alone):
        each = [[np.abs(z - r).mean() for z, r in zip(own, known, strict=True)] for known in references.values()]
        far.append(float(np.median(np.mean(each, axis=1))))
    return Harm(-far[0], -far[1], min(1.0, apart), numbers=True)


@dataclass(frozen=True)
class Decision(Record):
    """Which classifier was chosen, and why."""

    method: str
    why: str
    asked: bool = False
    """Whether the method was named by the user, and so kept whatever the evidence."""
    harm: Harm | None = None
    """The evidence; None where there was nothing to compare."""
    estimates: dict[str, float | None] = field(default_factory=dict)
    """Estimated accuracies of both, by method."""

    def __str__(self) -> str:
        return self.why


def decide(harm: Harm, adapted: str) -> Decision:
    """The adapted classifier, or source-only where it is better or the evidence is even.

    >>> print(decide(Harm(0.7, 0.8, 0.3), "jumbot"))
    source-only was chosen over jumbot: the votes on its accuracy secure 80 %, and 70 % for jumbot.
    """
    if harm.helps:
        why = (
            f"its numbers are nearer to those of plain models of the source ({-harm.adapted:.2f} deviations, not "
            f"{-harm.source_only:.2f})"
            if harm.numbers
            else f"it changed {100 * harm.changed:.0f} % of the predictions, and the votes on its accuracy secure "
            f"{_percent(harm.adapted)}, {_compared(harm)}"
        )
        return Decision(adapted, f"{adapted} was chosen over {SOURCE_ONLY}: {why}.", harm=harm)
    if harm.numbers:
        why = (
            f"the numbers of {adapted} are not surely nearer to those of plain models of the source "
            f"({-harm.adapted:.2f} deviations against {-harm.source_only:.2f})"
        )
    elif harm.changed < FEW:
        why = f"{adapted} would change {100 * harm.changed:.1f} % of the predictions, so the evidence is even"
    else:
        why = (
            f"the votes on its accuracy secure {_percent(harm.source_only)}, and {_percent(harm.adapted)} for {adapted}"
        )
    return Decision(SOURCE_ONLY, f"{SOURCE_ONLY} was chosen over {adapted}: {why}.", harm=harm)


def _percent(share: float) -> str:
    return f"{100 * max(share, 0.0):.0f} %"


def _compared(harm: Harm) -> str:
    alone = f"{_percent(harm.source_only)} for {SOURCE_ONLY}"
    if harm.gain > 0:
        return f"and {alone}"
    return f"nearly as much as {alone}: up to {100 * SLACK:.0f} points less is not held against it"


def kept(method: str, harm: Harm | None) -> Decision:
    """A method that was named, with what the evidence says of it."""
    warned = f"; {harm}" if harm is not None and harm.likely else "."
    return Decision(method, f"{method} was named, and is kept{warned}", asked=True, harm=harm)
