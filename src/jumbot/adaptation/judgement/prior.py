"""Natural class sizes: from logits for equal classes to predictions for those of the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from jumbot.adaptation.judgement import votes
from jumbot.adaptation.judgement.witness import Witness

Array = np.ndarray[Any, Any]
Prior = Literal["target", "equal"]
_AGREE = 0.1  # total variation up to which two estimates of the target's class shares are one
_LEAST = 1e-3  # share below which a class is not made rarer still
_COLDEST, _HOTTEST = 0.05, 20.0


@dataclass(frozen=True)
class Calibration:
    """p = softmax(logits / temperature + offset)."""

    temperature: float = 1.0
    offset: tuple[float, ...] | None = None
    """Of each class; None where the network's own class sizes are kept."""

    def scores(self, logits: Tensor, prior: Prior = "target") -> Tensor:
        """Logarithms of the probabilities, but for a constant of each row."""
        scaled = logits / self.temperature
        return scaled if self.offset is None or prior == "equal" else scaled + scaled.new_tensor(self.offset)


def target_shares(estimated: Array, planned: Array, source: Array) -> Array:
    """The class shares of the target that predictions use.

    `estimated` by expectation and maximisation, `planned` by the transport plan: their mean where they agree, and the
    `source`'s where they do not, for then one of them is wrong, and a wrong share costs more than it brings.

    >>> target_shares(np.array([0.7, 0.3]), np.array([0.74, 0.26]), np.array([0.5, 0.5])).round(2)
    array([0.72, 0.28])
    >>> target_shares(np.array([0.9, 0.1]), np.array([0.6, 0.4]), np.array([0.5, 0.5]))
    array([0.5, 0.5])
    """
    agree = np.abs(estimated - planned).sum() / 2 <= _AGREE
    found: Array = (estimated + planned) / 2 if agree else source
    return found


def calibrate(logits: Tensor, witness: Witness, planned: Array, accuracy: float | None) -> Calibration:
    r"""The temperature of the held-out source, the offset for the target's class shares, and then one more factor.

    .. math:: p = \mathrm{softmax}\bigl((z / T + b + \log \pi_t - \log \pi_s) / S \bigr)

    with the offset b of the witness, which makes z / T logits for the source's shares pi_s.  S brings the mean
    confidence to the estimated accuracy, where there is one, and changes no prediction.
    """
    z, shares = logits.double(), np.maximum(witness.shares, _LEAST)
    estimated = votes.estimated_shares(witness.probabilities(z.numpy()), witness.shares)
    wanted = np.maximum(target_shares(estimated, planned, witness.shares), _LEAST)
    offset = witness.offset + np.log(wanted) - np.log(shares)
    offset = offset - offset.mean()
    scored = z / witness.temperature + torch.from_numpy(offset)
    factor = 1.0 if accuracy is None else calibrating_temperature(scored, accuracy)
    whole = None if np.allclose(offset, 0, atol=1e-12) else tuple((offset / factor).tolist())
    return Calibration(witness.temperature * factor, whole)


def calibrating_temperature(logits: Tensor, accuracy: float) -> float:
    """The temperature at which the mean confidence is this accuracy: probabilities then say how sure they may be.

    >>> round(calibrating_temperature(torch.tensor([[2.0, 0.0], [0.0, 2.0]]), 0.7310585), 3)
    2.0
    """
    low, high = _COLDEST, _HOTTEST
    for _ in range(60):
        middle = (low * high) ** 0.5
        confidence = float((logits.double() / middle).softmax(-1).amax(-1).mean())
        low, high = (middle, high) if confidence > accuracy else (low, middle)
    return float((low * high) ** 0.5)
