"""The accuracy on an unlabelled target, estimated with an interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from jumbot._base.options import Checked, Portion
from jumbot.adaptation._evaluation.measures import total_variation
from jumbot.adaptation._evaluation.votes import (
    AGREEMENT,
    HELD_OUT,
    THRESHOLD,
    TRANSPORT,
    Witness,
    counted_votes,
    estimated_shares,
)
from jumbot.data._domain import drawn_rows

LEVEL = 0.9
"""The confidence of the interval."""
LEAST = 30
"""Samples of the target, and of the held-out source, below which nothing is estimated."""
FACTOR, _BASE = 1.0, 0.1
"""Half the interval is FACTOR (_BASE + the standard deviation of the votes), from `benchmarks/trust.py`: as wide as the
limits on its width allow, so that families of data that were left out are covered.
"""
_WIDEST = 0.5  # a wider interval would be useless
_MOST = 0.85  # a lower end above it cannot be promised without labels: a class may be wrong as a whole
_ONLY = 2.0  # times as wide if no reference votes
UNSKILLED = 0.1
"""Skill (`Witness.skill`) below which nothing is estimated: a classifier that nearly always predicts one class is right
as often as that class occurs, which cannot be seen from its predictions.
"""


@dataclass(frozen=True)
class EstimatedAccuracy(Checked):
    """An estimate of the accuracy on the target, with a 90 % interval; all None where it cannot be estimated."""

    value: Portion | None
    low: Portion | None
    high: Portion | None
    why: str
    """How it was estimated, or why it cannot be."""
    votes: dict[str, float] = field(default_factory=dict)
    """Each estimate by itself, by its name."""

    def __str__(self) -> str:
        if self.value is None or self.low is None or self.high is None:
            return f"the accuracy on the target cannot be determined without labels: {self.why}"
        interval = f"{100 * self.low:.0f} to {100 * self.high:.0f} %"
        return f"estimated accuracy {100 * self.value:.0f} % (90 % interval {interval})"


def estimate_accuracy(
    votes: Mapping[str, float], target: int, held: int, factor: float = FACTOR, skill: float = 1.0
) -> EstimatedAccuracy:
    r"""One estimate and its interval from the votes of `Witness.votes`, for so many target and held-out samples.

    .. math:: \mathrm{median}(v) \pm c\, (b + \mathrm{sd}(v)) \text{ and the error of counting}

    v are the agreements with the references, the transport cost (COT) and the threshold (ATC): each has a blind spot,
    and the median ignores what at most two of the five miss.  b and c were chosen on families of data, each judged by
    constants from the others.  The lower end never exceeds 85 %: without labels, a whole class mistaken for another
    cannot be detected.  A classifier without `skill` on the held-out source has no estimate.

    >>> print(estimate_accuracy({"COT": 0.8, "ATC": 0.82, "agreement with trees": 0.78}, 500, 200))
    estimated accuracy 80 % (90 % interval 67 to 93 %)
    """
    if min(target, held) < LEAST:
        return unknown(f"{min(target, held)} samples are too few; at least {LEAST} of each domain are needed", votes)
    if skill < UNSKILLED:
        return unknown(_UNSKILLED, votes)
    used = counted_votes(votes)
    value = float(np.median(used))
    half = factor * (_BASE + float(np.std(used)))
    half *= 1 if any(name.startswith(AGREEMENT) for name in votes) else _ONLY
    counted = value * (1 - value) * (1 / target + 1 / held)
    half = math.hypot(half, 1.64 * math.sqrt(counted))
    low, high = max(0.0, min(value - half, _MOST)), min(1.0, value + half)
    if high - low > _WIDEST:
        spread = f"{100 * min(used):.0f} to {100 * max(used):.0f} %"
        return unknown(f"the estimates range from {spread}", votes)
    return EstimatedAccuracy(value, low, high, _why(votes, held), dict(votes))


_UNSKILLED = (
    "on held-out source samples it is hardly better than always predicting the most frequent class, whose accuracy "
    "depends on the class proportions of the target"
)


def unknown(why: str, votes: Mapping[str, float] | None = None) -> EstimatedAccuracy:
    """No estimate, and the reason."""
    return EstimatedAccuracy(None, None, None, why, dict(votes or {}))


def _why(votes: Mapping[str, float], held: int) -> str:
    agreeing = [value for name, value in votes.items() if name.startswith(AGREEMENT)]
    parts = [f"{name} {100 * votes[name]:.0f} %" for name in (TRANSPORT, THRESHOLD) if name in votes]
    if agreeing:
        low, high = (f"{100 * value:.0f}" for value in (min(agreeing), max(agreeing)))
        parts.append(f"agreement with the reference models {low if low == high else f'{low} to {high}'} %")
    on_target = f"on the target {', '.join(parts)}"
    if HELD_OUT not in votes:
        return on_target
    return f"{100 * votes[HELD_OUT]:.0f} % of {held:,} held-out source samples are right; {on_target}"


Array = np.ndarray[Any, Any]
Prior = Literal["target", "equal"]
_AGREE = 0.1  # total variation up to which two estimates of the target's class proportions agree
_LEAST = 1e-3  # smallest share of a class
_COLDEST, _HOTTEST = 0.05, 20.0
_LOOKED_AT = 50_000  # target samples used for means: more would not improve them


def some_of(logits: Tensor) -> Tensor:
    """At most `_LOOKED_AT` of the rows, the same ones at each call."""
    return logits[torch.from_numpy(drawn_rows(len(logits), _LOOKED_AT, 14))]


@dataclass(frozen=True)
class Calibration:
    """p = softmax(logits / temperature + offset)."""

    temperature: float = 1.0
    offset: tuple[float, ...] | None = None
    """Of each class; None if the network's own class proportions are kept."""

    def scores(self, logits: Tensor, prior: Prior = "target") -> Tensor:
        """Logarithms of the probabilities, except for a constant of each row."""
        scaled = logits / self.temperature
        return scaled if self.offset is None or prior == "equal" else scaled + scaled.new_tensor(self.offset)


def target_shares(estimated: Array, planned: Array, source: Array) -> Array:
    """The class proportions of the target, as far as two estimates agree on them.

    `estimated` by expectation and maximisation, `planned` by the transport plan: their mean if they agree, and
    otherwise the `source`'s, because one of them is wrong, and a wrong share costs more than a right one gains.

    >>> target_shares(np.array([0.7, 0.3]), np.array([0.74, 0.26]), np.array([0.5, 0.5])).round(2)
    array([0.72, 0.28])
    >>> target_shares(np.array([0.9, 0.1]), np.array([0.6, 0.4]), np.array([0.5, 0.5]))
    array([0.5, 0.5])
    """
    found: Array = (estimated + planned) / 2 if total_variation(estimated, planned) <= _AGREE else source
    return found


def calibrate(logits: Tensor, witness: Witness, planned: Array, accuracy: float | None) -> Calibration:
    r"""The temperature of the held-out source, the offset for the target's class proportions, and then one more factor.

    .. math:: p = \mathrm{softmax}\bigl((z / T + b + \log \pi_t - \log \pi_s) / S \bigr)

    with the offset b of the witness, which makes z / T logits for the source's shares pi_s.  The target's pi_t are
    those of `target_shares`, and the source's where these are further than .1 from them: a large change is more often a
    mistake of the network, which both estimates share, than real.  S makes the mean confidence equal the estimated
    accuracy, if there is one, and changes no prediction.
    """
    z, shares = some_of(logits).double(), np.maximum(witness.shares, _LEAST)
    estimated = estimated_shares(witness.probabilities(z.numpy()), witness.shares)
    found = target_shares(estimated, planned, witness.shares)
    wanted = np.maximum(found if total_variation(found, witness.shares) <= _AGREE else witness.shares, _LEAST)
    offset = witness.offset + np.log(wanted) - np.log(shares)
    offset = offset - offset.mean()
    scored = z / witness.temperature + torch.from_numpy(offset)
    factor = 1.0 if accuracy is None else calibrating_temperature(scored, accuracy)
    whole = None if np.allclose(offset, 0, atol=1e-12) else tuple((offset / factor).tolist())
    return Calibration(witness.temperature * factor, whole)


def calibrating_temperature(logits: Tensor, accuracy: float) -> float:
    """The temperature at which the mean confidence equals this accuracy.

    >>> round(calibrating_temperature(torch.tensor([[2.0, 0.0], [0.0, 2.0]]), 0.7310585), 3)
    2.0
    """
    low, high = _COLDEST, _HOTTEST
    for _ in range(60):
        middle = (low * high) ** 0.5
        confidence = float((logits.double() / middle).softmax(-1).amax(-1).mean())
        low, high = (middle, high) if confidence > accuracy else (low, middle)
    return float((low * high) ** 0.5)
