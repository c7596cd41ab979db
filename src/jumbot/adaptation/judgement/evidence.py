"""Evidence for one of several classifiers of the same unlabelled target."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from jumbot.adaptation.judgement.evaluation import as_array
from jumbot.adaptation.judgement.modularity import modularity_parts
from jumbot.adaptation.judgement.selection import entropy, infomax, snd
from jumbot.errors import ArgumentError

Array = np.ndarray[Any, Any]
_SURE = 2.0  # standard errors


@dataclass(frozen=True)
class Evidence:
    """What speaks for a candidate: its predictions respect neighbourhoods of the target, and the others share them.

    The other scores are known rules of selection, to compare with.
    """

    modularity: float
    agreement: float
    entropy: float
    infomax: float
    snd: float
    parts: Array = field(repr=False, compare=False)
    """`(n,)` what each sample adds to the modularity."""

    @property
    def value(self) -> float:
        """modularity + agreement."""
        return self.modularity + self.agreement

    def to_row(self) -> dict[str, float]:
        """Columns of the table of candidates."""
        return {"evidence": self.value} | {name: value for name, value in asdict(self).items() if name != "parts"}

    def surely_beyond(self, other: Evidence) -> bool:
        """Whether its modularity is larger by more than two standard errors of the difference, sample by sample."""
        gain = self.parts - other.parts
        return bool(gain.mean() > _SURE * gain.std() / math.sqrt(len(gain)))

    def words(self) -> str:
        """The sum that was compared."""
        return f"{self.value:.3f} (modularity {self.modularity:.3f} + agreement {self.agreement:.3f})"


def weigh(probabilities: Mapping[str, Any], neighbours: Any) -> dict[str, Evidence]:
    r"""The evidence for each of several candidates.

    .. math::
        \mathrm{evidence}_k = \mathrm{modularity}(y_k)
        + \frac1n \sum_i \Bigl\langle p_{ki},\; \frac1K \sum_l p_{li} \Bigr\rangle

    with probabilities `p_k` `(n, C)` of the same n target samples by candidate, their largest entries `y_k`, and
    `neighbours` `(n, k)` of each sample among them.  Collapse to one class has modularity 0; what only one candidate
    believes has little agreement.

    >>> sure, unsure = [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]
    >>> found = weigh({"a": sure, "b": sure, "c": unsure}, [[1], [0]])
    >>> round(found["a"].agreement, 3), round(found["c"].agreement, 3)
    (0.833, 0.5)
    """
    arrays = {name: as_array(p).astype(np.float64) for name, p in probabilities.items()}
    if not arrays or len({p.shape for p in arrays.values()}) > 1:
        shapes = ", ".join(f"{name} {p.shape}" for name, p in arrays.items()) or "none"
        raise ArgumentError(f"probabilities: {shapes}; pass (n, C) of the same samples for at least one candidate.")
    mean = np.mean(list(arrays.values()), axis=0)
    parts = {name: modularity_parts(p.argmax(1), neighbours) for name, p in arrays.items()}
    return {
        name: Evidence(
            float(parts[name].mean()), float((p * mean).sum(1).mean()), entropy(p), infomax(p), snd(p), parts[name]
        )
        for name, p in arrays.items()
    }
