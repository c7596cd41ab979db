"""Source-only or adapted?  The one rule by which a classifier is handed over, and by which harm is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jumbot._base.options import Measured, Portion
from jumbot._base.schema import Record
from jumbot.adaptation._evaluation.votes import Witness
from jumbot.methods import SOURCE_ONLY

Array = np.ndarray[Any, Any]
#: From `benchmarks/trust.py`: what an adapted classifier may lose in agreement with references that learned from the
#: source alone, and share its mistakes with source-only.
SLACK = 0.03
FEW = 0.02
"""Share of changed predictions below which both are the same."""
LEAST_STEPS = 50
"""Of training, below which both are still mostly chance."""


@dataclass(frozen=True)
class Harm(Record):
    """An adapted classifier beside the one of the source alone, judged without target labels.

    `adapted` and `source_only` are what plain classifiers of the source make of both: accuracies for classes, minus the
    mean distance in deviations for numbers.
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
        if self.changed < FEW or self.gain > -SLACK:
            return ()
        if self.numbers:
            return (
                f"its numbers lie {-self.adapted:.2f} deviations from those of plain models of the source, and "
                f"source-only's {-self.source_only:.2f}",
            )
        return (
            f"plain classifiers of the source agree with it less than with source-only ({self.adapted:.2f} instead of "
            f"{self.source_only:.2f}), and it changed {100 * self.changed:.0f} % of the predictions",
        )

    @property
    def likely(self) -> bool:
        """Whether adaptation has probably made the predictions worse."""
        return bool(self.reasons)

    @property
    def helps(self) -> bool:
        """Whether the adapted classifier is the one to hand over."""
        return self.changed >= FEW and self.gain > (SLACK if self.numbers else -SLACK)

    def __str__(self) -> str:
        if not self.likely:
            return "nothing speaks for harm done by adaptation"
        return (
            f"adaptation probably did harm: {'; '.join(self.reasons)}. Compare with method='source-only', or let "
            "jumbot.tune choose."
        )


def weigh_harm(adapted: Mapping[str, float], alone: Mapping[str, float], changed: float) -> Harm:
    r"""From what each reference makes of both, `Witness.agreements`.

    .. math:: \mathrm{median}_r\, A \frac{g_r^t}{g_r^s}

    of the adapted and of the source-only classifier, with the held-out accuracy A and the agreement g with reference r
    on the target (t) and on the held-out source (s).  Harm is likely where it falls by 3 points, and 2 % of the
    predictions changed.

    >>> weigh_harm({"trees": 0.7}, {"trees": 0.8}, 0.3).likely, weigh_harm({"trees": 0.8}, {"trees": 0.8}, 0.3).helps
    (True, True)
    """
    return Harm(float(np.median(list(adapted.values()))), float(np.median(list(alone.values()))), changed)


def weigh_witnesses(adapted: Witness, alone: Witness) -> Harm:
    """Of two methods on the same folds: classes by their agreements, numbers by their distances to the references."""
    if adapted.labels.ndim == 1:
        both = zip(adapted.predicted, alone.predicted, strict=True)
        changed = float(np.mean([(a != b).mean() for a, b in both]))
        return weigh_harm(adapted.agreements(), alone.agreements(), changed)
    apart = [np.abs(a - b).mean() for a, b in zip(adapted.target, alone.target, strict=True)]
    changed = min(1.0, float(np.mean(apart)))
    near = [
        float(
            np.median(
                [
                    np.mean([np.abs(z - r).mean() for z, r in zip(each.target, said, strict=True)])
                    for said in each.panel.target.values()
                ]
            )
        )
        for each in (adapted, alone)
    ]
    return Harm(-near[0], -near[1], changed, numbers=True)


@dataclass(frozen=True)
class Decision(Record):
    """Which classifier was handed over, and why."""

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
    source-only was chosen over jumbot: plain classifiers of the source agree with it more (0.80 against 0.70).
    """
    alone, other = (abs(harm.source_only), abs(harm.adapted))
    if harm.helps:
        why = (
            f"its numbers are nearer to those of plain models of the source ({other:.2f} deviations, not {alone:.2f})"
            if harm.numbers
            else f"it changed {100 * harm.changed:.0f} % of the predictions, and plain classifiers of the source agree "
            f"with it {_as_much(harm)} ({other:.2f}, and {alone:.2f} with {SOURCE_ONLY})"
        )
        return Decision(adapted, f"{adapted} was chosen over {SOURCE_ONLY}: {why}.", harm=harm)
    if harm.numbers:
        why = (
            f"the numbers of {adapted} are not surely nearer to those of plain models of the source ({other:.2f} "
            f"deviations against {alone:.2f})"
        )
    elif harm.changed < FEW:
        why = f"{adapted} would change {100 * harm.changed:.1f} % of the predictions, so the evidence is even"
    else:
        why = f"plain classifiers of the source agree with it more ({alone:.2f} against {other:.2f})"
    return Decision(SOURCE_ONLY, f"{SOURCE_ONLY} was chosen over {adapted}: {why}.", harm=harm)


def _as_much(harm: Harm) -> str:
    if harm.gain > 0:
        return "more than with the other"
    return f"nearly as much: up to {100 * SLACK:.0f} points less is not held against it"


def kept(method: str, harm: Harm | None) -> Decision:
    """A method that was named, with what the evidence says of it."""
    warned = f"; {harm}" if harm is not None and harm.likely else "."
    return Decision(method, f"{method} was named, and is kept{warned}", asked=True, harm=harm)
