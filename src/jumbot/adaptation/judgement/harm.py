"""Did adaptation do harm?  Its predictions beside those of the source alone, judged without target labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jumbot.adaptation.judgement.evaluation import as_array
from jumbot.adaptation.judgement.modularity import modularity, nearest, some_rows
from jumbot.adaptation.judgement.selection import entropy
from jumbot.data.domain import Domain

FALL = 0.005  # of the modularity: more than chance, see docs/adaptation/choosing.md
OVERRULED = 2.0  # predictions changed, as a multiple of the mean entropy of the classifier that made them
_FEW, _SOME = 0.03, 0.04  # shares of changed predictions below which neither sign counts
LEAST_STEPS = 50  # of training, below which both classifiers are still mostly chance
_LEAST_ROWS = 10  # of the target, below which nothing is said


@dataclass(frozen=True)
class Harm:
    """What speaks for adaptation having made the predictions worse than those of the source alone."""

    adapted: float
    """Modularity of the predictions after adaptation: how far they respect the neighbourhoods of the target."""
    source_only: float
    """The same of the classifier that saw the source alone."""
    changed: float
    """Share of the predictions that differ."""
    entropy: float
    """Mean entropy of the classifier that saw the source alone, in nats: how unsure it was of the target."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why harm is likely; empty where nothing speaks for it."""
        found = []
        if self.changed >= _FEW and self.adapted < self.source_only - FALL:
            found.append(
                "its predictions respect the neighbourhoods of the target less than those of the source alone "
                f"(modularity {self.adapted:.3f} instead of {self.source_only:.3f})"
            )
        if self.changed > max(_SOME, OVERRULED * self.entropy):
            found.append(
                f"it changed {100 * self.changed:.0f} % of the predictions of a classifier that was sure of them (mean "
                f"entropy {self.entropy:.2f}), as where the classes of the target have other proportions"
            )
        return tuple(found)

    @property
    def likely(self) -> bool:
        """Whether adaptation has probably made the predictions worse."""
        return bool(self.reasons)

    def __str__(self) -> str:
        if not self.likely:
            return "nothing speaks for harm done by adaptation"
        return (
            f"adaptation probably did harm: {'; '.join(self.reasons)}. Compare with method='source-only', or let "
            "jumbot.tune choose."
        )


def weigh_harm(target: Domain, adapted: Any, source_only: Any) -> Harm | None:
    r"""Probabilities `(n, C)` of the same target rows after adaptation and by the source alone, compared.

    .. math::
        Q(\hat y) < Q(\hat y_s) - 0.005 \quad\text{or}\quad
        \frac1n \#\{\hat y \ne \hat y_s\} > \max\Big(0.04,\; \frac2n \sum_i H(p_{s,i})\Big)

    with Q the modularity of predictions on the target's graph of neighbours, in which no network had a part; the first
    counts where 3 % of the predictions changed.  It is the
    part of `jumbot.tune`'s evidence that tells two candidates apart: the agreement of two is the same for both but for
    their confidence.  Modularity is blind where the target has fewer classes than the source and adaptation splits one
    of them; then a sure classifier is overruled.  None where there are too few rows to have neighbours.

    >>> import numpy as np
    >>> from jumbot.data import as_domain
    >>> rows = np.concatenate([np.zeros((8, 1)), np.ones((8, 1))]) + np.arange(16)[:, None] / 100
    >>> right = np.eye(2)[np.arange(16) // 8]
    >>> weigh_harm(as_domain(rows), np.eye(2)[np.arange(16) % 2], right).likely
    True
    """
    index, rows = some_rows(target)
    if len(index) < _LEAST_ROWS:
        return None
    after, before = (as_array(p)[index] for p in (adapted, source_only))
    graph = nearest(rows)
    return Harm(
        modularity(after.argmax(1), graph), modularity(before.argmax(1), graph),
        float((after.argmax(1) != before.argmax(1)).mean()), entropy(before),
    )  # fmt: skip
