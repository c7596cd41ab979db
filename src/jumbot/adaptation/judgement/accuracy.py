"""How good is it?  The accuracy on an unlabelled target, estimated with an interval."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from jumbot.adaptation.judgement.modularity import modularity, nearest, some_rows
from jumbot.data.domain import Domain
from jumbot.options import Checked, Portion

Array = np.ndarray[Any, Any]

_LEAST = 30  # samples of each domain below which nothing is said
_KNOWN = 0.5  # share of source neighbours of the same class below which the inputs do not tell the classes
_AS_PURE = 0.97  # of a source's purity: parts of a single cloud of up to 2,000 rows have .93 at most
_ERROR, _SLOPE = 0.06, 0.4  # half of the interval: what 95 % of the errors on the study's tables stay within
_COLDEST, _HOTTEST = 0.05, 20.0


@dataclass(frozen=True)
class EstimatedAccuracy(Checked):
    """An estimate of the accuracy on the target, with a 95 % interval; all three are None where it cannot be known."""

    value: Portion | None
    low: Portion | None
    high: Portion | None
    why: str
    """What it rests on, or why it cannot be known."""

    def __str__(self) -> str:
        if self.value is None or self.low is None or self.high is None:
            return f"the accuracy on the target cannot be estimated: {self.why}"
        return f"estimated accuracy {100 * self.value:.0f} % ({100 * self.low:.0f} to {100 * self.high:.0f} %)"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> EstimatedAccuracy:
        return cls(found["value"], found["low"], found["high"], found["why"])


def estimate_accuracy(
    source: Domain, target: Domain, predictions: Array, classes: int, seed: int = 0
) -> EstimatedAccuracy:
    r"""From neighbourhoods in the input space, which the trained network had no part in.

    .. math:: \min(1, Q(\hat y) / Q_C) \; \min(1, \pi_t(\hat y) / \pi_s(y))

    Q is the modularity of the predictions among the target's neighbours, Q_C that of a clustering of the target into C
    parts (k-means), which comes near that of the true classes; pi is the share of neighbours with the same class.  So
    predictions that cut through the clusters of the target, or that lump them together, lower the estimate.  What it
    cannot see is a cluster that is wrong as a whole, and mistakes scattered at random count as more than they are.
    Where all predictions are one class, and the target falls into no parts as pure as the source's classes, nothing is
    said: it may hold that class alone.

    The interval is +- (.06 + .4 (1 - estimate)), widened for small targets: what 95 % of the errors stayed within, on
    Office-Caltech10 features (full, partial, imbalanced) and on digits as rows of pixels, five methods.
    """
    if min(len(source), len(target)) < _LEAST:
        few = min(len(source), len(target))
        return _unknown(f"there are only {few} samples in a domain; at least {_LEAST} are needed")
    assert source.labels is not None
    index_s, rows_s = some_rows(source, seed)
    index_t, rows_t = some_rows(target, seed)
    known = purity(source.labels[index_s], nearest(rows_s))
    if known < _KNOWN:
        return _unknown(f"neighbours in the source are of the same class in {100 * known:.0f} % of cases only")
    neighbours, labels = nearest(rows_t), np.asarray(predictions)[index_t]
    clustered, pure = _clustered(rows_t, neighbours, classes, seed)
    if not clustered > 0:
        return _unknown("the target has no clusters")
    if (labels == labels[0]).all() and pure < _AS_PURE * known:  # its modularity is 0, be it right or wrong
        return _unknown("all samples are predicted as one class, and may be of one")
    found = modularity(labels, neighbours)
    value = min(1.0, max(0.0, found / clustered)) * min(1.0, purity(labels, neighbours) / known)
    half = math.hypot(_ERROR + _SLOPE * (1 - value), 1.96 * math.sqrt(value * (1 - value) / len(index_t)))
    why = "how far the predictions follow the clusters of the target; it cannot see a cluster that is wrong as a whole"
    return EstimatedAccuracy(value, max(0.0, value - half), min(1.0, value + half), why)


def purity(labels: Array, neighbours: Array) -> float:
    """The share of the neighbours that have the label of the sample itself.

    >>> purity(np.array([0, 0, 1]), np.array([[1], [0], [0]]))
    0.6666666666666666
    """
    return float((labels[neighbours] == labels[:, None]).mean())


def calibrating_temperature(logits: Tensor, accuracy: float) -> float:
    """The temperature at which the mean confidence is this accuracy: probabilities then say how sure they may be.

    >>> import torch
    >>> round(calibrating_temperature(torch.tensor([[2.0, 0.0], [0.0, 2.0]]), 0.7310585), 3)
    2.0
    """
    low, high = _COLDEST, _HOTTEST
    for _ in range(60):
        middle = math.sqrt(low * high)
        confidence = float((logits.double() / middle).softmax(-1).amax(-1).mean())
        low, high = (middle, high) if confidence > accuracy else (low, middle)
    return math.sqrt(low * high)


def _unknown(why: str) -> EstimatedAccuracy:
    return EstimatedAccuracy(None, None, None, why)


def _clustered(rows: Array, neighbours: Array, classes: int, seed: int) -> tuple[float, float]:
    """The best modularity of two clusterings into that many parts, and the purity of that one."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    parts = min(classes, len(np.unique(rows, axis=0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = [KMeans(parts, n_init=2, random_state=seed + i).fit_predict(rows - rows.mean(0)) for i in range(2)]
    return max((modularity(labels, neighbours), purity(labels, neighbours)) for labels in found)
