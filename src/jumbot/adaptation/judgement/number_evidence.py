"""Evidence for one of several predictors of numbers on the same unlabelled target, and where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import wasserstein_distance

from jumbot.adaptation.judgement.evaluation import as_array
from jumbot.adaptation.judgement.regression import smoothness
from jumbot.errors import ArgumentError

Array = np.ndarray[Any, Any]

UNKNOWN = 0.75
"""The gap of source-only, in deviations, above which nobody can tell without labels whether to adapt: the target's
numbers may differ, and then adaptation does harm, or its inputs were moved, and then it helps."""


@dataclass(frozen=True)
class NumberEvidence:
    """What speaks for a candidate: the others predict the same, and its numbers are spread as the source's."""

    agreement: float
    """1 - mean squared distance to the mean of the candidates, in variances of the source's numbers."""
    gap: float
    """Wasserstein distance between predicted numbers and the source's, in deviations of these."""
    smoothness: float
    """Moran's I among the neighbours of the target, to compare with."""

    @property
    def value(self) -> float:
        """agreement - gap: the candidate with the largest is picked."""
        return self.agreement - self.gap

    def to_row(self) -> dict[str, float]:
        """Columns of the table of candidates."""
        return {"evidence": self.value, **asdict(self)}

    def words(self) -> str:
        """The sum that was compared."""
        return f"{self.value:.3f} (agreement {self.agreement:.3f} - gap {self.gap:.3f})"


def weigh_numbers(predictions: Mapping[str, Any], source: Any, neighbours: Any) -> dict[str, NumberEvidence]:
    r"""The evidence for each of several candidates.

    .. math::
        \mathrm{evidence}_k = 1 - \frac1n \sum_i \frac{(f_{ki} - \bar f_i)^2}{\sigma^2}
        - \frac{W_1(f_k, y)}{\sigma}, \qquad \bar f_i = \frac1K \sum_l f_{li}

    with predictions `f_k` `(n, outputs)` of the same target samples by candidate, the source's numbers `y`
    `(m, outputs)` and their deviation sigma; a mean over the outputs.  It assumes what transport assumes, that numbers
    are spread alike in both domains.  A candidate that predicts the mean alone has a gap of about .8.

    >>> y = np.linspace(0, 1, 50)[:, None]
    >>> found = weigh_numbers({"a": y, "b": y, "constant": 0 * y + 0.5}, y, np.arange(50)[:, None])
    >>> {name: round(each.value, 2) for name, each in found.items()}
    {'a': 0.89, 'b': 0.89, 'constant': -0.31}
    """
    told = as_array(source).astype(np.float64)
    found = {name: as_array(f).astype(np.float64) for name, f in predictions.items()}
    if not found or len({f.shape for f in found.values()} | {(len(f), told.shape[1]) for f in found.values()}) > 1:
        shapes = ", ".join(f"{name} {f.shape}" for name, f in found.items()) or "none"
        raise ArgumentError(f"predictions: {shapes}; pass (n, {told.shape[1]}) of the same samples for each candidate.")
    deviation = told.std(0)
    deviation[deviation == 0] = 1.0
    mean = np.mean(list(found.values()), axis=0)
    return {
        name: NumberEvidence(
            1 - float((((f - mean) / deviation) ** 2).mean()),
            float(np.mean([wasserstein_distance(f[:, k], told[:, k]) / deviation[k] for k in range(told.shape[1])])),
            smoothness(f / deviation, neighbours),
        )
        for name, f in found.items()
    }
