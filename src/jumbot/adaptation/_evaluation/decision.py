"""The rule of harm: it chooses between source-only and the adapted classifier."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from jumbot._base.options import Measured, Portion
from jumbot._base.schema import Record
from jumbot.adaptation._evaluation.votes import Witness, counted_votes
from jumbot.errors import NegativeTransferWarning
from jumbot.methods import SOURCE_ONLY

Array = np.ndarray[Any, Any]
#: From `benchmarks/trust.py`, judged on families of data that were left out.
LEAST_GAIN = 0.02
"""The least difference of the votes on the accuracy of both; it must also exceed one standard error."""
SURE = 2.0
"""Standard errors by which one modularity must be larger, and by which votes must differ to overrule it."""
NEARER = 0.03
"""Standard deviations by which adapted numbers must be closer to those of the reference models."""
FEW = 0.02
"""Share of changed predictions below which both count as equal."""
LEAST_STEPS = 50
"""Steps of training below which both are still mostly chance, so that a named method is not compared."""


@dataclass(frozen=True)
class Harm(Record):
    """Comparison of an adapted classifier with source-only, without target labels.

    `adapted` and `source_only` are the means of the votes on the accuracy of both; for numbers, minus the mean distance
    to those of the reference models, in standard deviations.
    """

    adapted: Measured
    source_only: Measured
    changed: Portion
    """Share of the target's predictions that differ; for numbers, their mean difference in standard deviations, up to
    1.
    """
    numbers: bool = False
    """Whether numbers are predicted: adaptation must then be clearly better."""
    error: Measured = 0.0
    """Standard error of the difference, over the votes."""
    modularity: Measured | None = None
    """How much better the adapted predictions respect the neighbourhoods of the target; None if the classes of the
    source do not form neighbourhoods.
    """
    modularity_error: Measured = 0.0
    """Standard error of it, over the samples."""

    @property
    def gain(self) -> float:
        return self.adapted - self.source_only

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why harm is likely; empty if nothing indicates it."""
        if self.changed < FEW or self.helps:
            return ()
        if self.numbers:
            far = (
                f"its predictions are {-self.adapted:.2f} standard deviations from those of simple models of the source"
            )
            return () if self.gain > -NEARER else (f"{far}, those of source-only {-self.source_only:.2f}",)
        found = []
        if self.gain <= -LEAST_GAIN:
            alone = _percent(self.source_only)
            found.append(f"the votes put its accuracy at {_percent(self.adapted)} and that of source-only at {alone}")
        if self.modularity is not None and self.modularity < -SURE * self.modularity_error:
            found.append("its predictions respect the neighbourhoods of the target less")
        changed = f"it changed {100 * self.changed:.0f} % of the predictions"  # which alone is not a sign of harm
        return (*found[:-1], f"{found[-1]}, and {changed}") if found else ()

    @property
    def likely(self) -> bool:
        """Whether adaptation has probably made the predictions worse."""
        return bool(self.reasons)

    @property
    def overruled(self) -> bool:
        """Whether the votes are sure enough that the adapted classifier is worse to overrule its modularity."""
        return bool(self.gain <= -max(LEAST_GAIN, SURE * self.error))

    @property
    def helps(self) -> bool:
        """Whether to return the adapted classifier."""
        if self.changed < FEW:
            return False
        if self.numbers:
            return bool(self.gain > NEARER)
        if self.modularity is not None:
            return bool(self.modularity > SURE * self.modularity_error and not self.overruled)
        return bool(self.gain > max(LEAST_GAIN, self.error))

    def __str__(self) -> str:
        if not self.likely:
            return "no sign of harm done by adaptation"
        return (
            f"adaptation probably did harm: {'; '.join(self.reasons)}. Compare with method='source-only', or use "
            "jumbot.tune."
        )


def warn_of_harm(harm: Harm | None) -> None:
    """Warn whoever called the caller that adaptation probably did harm, if that is likely."""
    if harm is not None and harm.likely:
        warnings.warn(str(harm), NegativeTransferWarning, stacklevel=3)


def weigh_harm(
    adapted: Mapping[str, float], alone: Mapping[str, float], changed: float, gained: Array | None = None
) -> Harm:
    r"""From the votes on the accuracy of both, in pairs, and what each sample has `gained` in modularity.

    `gained` `(m,)` is given if the classes of the source form neighbourhoods (`Panel.neighbours`).  The adapted
    classifier is then chosen if its modularity on the target is larger by two standard errors, unless the votes v put
    it behind by 2 points and by two standard errors: if the target has only one class, dividing it into neighbourhoods
    is wrong.  Otherwise it is chosen if the votes put it ahead, by 2 points and by a standard error of the difference:

    .. math:: \bar d > \max(0.02,\; \mathrm{sd}(d) / \sqrt{k}), \quad d = v_{\mathrm{adapted}} - v_{\mathrm{alone}}

    >>> weigh_harm({"COT": 0.7}, {"COT": 0.8}, 0.3).likely, weigh_harm({"COT": 0.9}, {"COT": 0.8}, 0.3).helps
    (True, True)
    """
    first, second = (np.array(counted_votes(votes)) for votes in (adapted, alone))
    found = Harm(float(first.mean()), float(second.mean()), changed, error=_standard_error(first - second))
    if gained is None:
        return found
    return replace(found, modularity=float(gained.mean()), modularity_error=_standard_error(gained))


def _standard_error(values: Array) -> float:
    """Of their mean."""
    return float(np.std(values) / np.sqrt(len(values)))


def weigh_witnesses(adapted: Witness, alone: Witness) -> Harm:
    """Of two methods that predict classes, by their votes and the target's neighbourhoods.

    Networks of the same folds are compared in pairs, others each with each.
    """
    paired = len(adapted.predicted) == len(alone.predicted)
    both = (
        zip(adapted.predicted, alone.predicted, strict=True) if paired else product(adapted.predicted, alone.predicted)
    )
    changed = float(np.mean([(a != b).mean() for a, b in both]))
    gained = None
    if adapted.panel.neighbours is not None:
        gained = adapted.modularity_parts - alone.modularity_parts
    return weigh_harm(adapted.votes(), alone.votes(), changed, gained)


def weigh_distances(
    adapted: Sequence[Array], alone: Sequence[Array], references: Mapping[str, Sequence[Array]]
) -> Harm:
    """Compare the numbers `(n, outputs)` of both, fold by fold, by their distances to those of each reference."""
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
    """Whether the user requested the method, which is then always kept."""
    harm: Harm | None = None
    """The comparison; None if there was none."""
    estimates: dict[str, float | None] = field(default_factory=dict)
    """Estimated accuracies of both, by method."""

    def __str__(self) -> str:
        return self.why


def decide(harm: Harm, adapted: str) -> Decision:
    """Choose the adapted classifier, or source-only if it is better or neither clearly is.

    >>> print(decide(Harm(0.7, 0.8, 0.3), "jumbot"))
    source-only was chosen over jumbot: the votes put its accuracy at 80 %, and that of jumbot at 70 %.
    """
    if harm.helps:
        if harm.numbers:
            why = (
                f"its predictions are closer to those of simple models of the source ({-harm.adapted:.2f} instead of "
                f"{-harm.source_only:.2f} standard deviations)"
            )
        elif harm.modularity is not None:
            why = "its predictions respect the neighbourhoods of the target better"
        else:
            alone = _percent(harm.source_only)
            why = f"the votes put its accuracy at {_percent(harm.adapted)}, and that of {SOURCE_ONLY} at {alone}"
        changed = "" if harm.numbers else f"it changed {100 * harm.changed:.0f} % of the predictions, and "
        return Decision(adapted, f"{adapted} was chosen over {SOURCE_ONLY}: {changed}{why}.", harm=harm)
    at = _percent(harm.adapted)
    given = f"the votes put its accuracy at {_percent(harm.source_only)}, and that of {adapted} at {at}"
    if harm.numbers:
        why = (
            f"the predictions of {adapted} are not significantly closer to those of simple models of the source "
            f"({-harm.adapted:.2f} against {-harm.source_only:.2f} standard deviations)"
        )
    elif harm.changed < FEW:
        why = f"{adapted} would change {100 * harm.changed:.1f} % of the predictions, so neither is better"
    elif harm.modularity is not None:
        unsure = f"the predictions of {adapted} do not respect the neighbourhoods of the target significantly better"
        why = given if harm.gain <= -LEAST_GAIN else unsure
    else:
        why = f"{given}, which is not significantly more" if harm.gain > 0 else given
    return Decision(SOURCE_ONLY, f"{SOURCE_ONLY} was chosen over {adapted}: {why}.", harm=harm)


def _percent(share: float) -> str:
    return f"{100 * max(share, 0.0):.0f} %"


def kept(method: str, harm: Harm | None) -> Decision:
    """The decision for a requested method, with a warning if harm is likely."""
    warned = f"; {harm}" if harm is not None and harm.likely else "."
    return Decision(method, f"{method} was requested and is kept{warned}", asked=True, harm=harm)


def as_diagnosed(decision: Decision | None, harm: Harm | None) -> Decision | None:
    """The decision; for a requested method with the sentence of the diagnosis, which counts the final predictions."""
    if decision is None or harm is None or not decision.asked:
        return decision
    return kept(decision.method, harm)
