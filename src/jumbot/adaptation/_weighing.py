"""Predictions of several models for the same samples, and the score of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from jumbot.adaptation._evaluation.accuracy import EstimatedAccuracy
from jumbot.adaptation._evaluation.measures import NumberEvidence, weigh_numbers
from jumbot.adaptation._evaluation.modularity import Evidence, weigh
from jumbot.adaptation._evaluation.monitor import logits_of
from jumbot.adaptation._model import Model
from jumbot.data._domain import Domain

Array = np.ndarray[Any, Any]
Weights = Mapping[str, Evidence] | Mapping[str, NumberEvidence]


@dataclass(frozen=True)
class Opinion:
    """The predictions of a model for some samples; the model itself is not kept."""

    probabilities: Array
    """Uncalibrated: calibration would bring the models' own estimates of accuracy into the vote."""
    scores: Tensor
    """Calibrated class probabilities, or the numbers of the network."""
    values: Array
    """Classes, or numbers in the units of the source."""
    accuracy: EstimatedAccuracy | None

    @classmethod
    def of(cls, model: Model, sample: Domain) -> Opinion:
        logits = logits_of(model.network, sample)
        values = model.task.decode(logits).reshape(len(sample), -1)
        return cls(logits.softmax(-1).numpy(), model.scores(logits), values, model.estimated_accuracy)


def weigh_opinions(opinions: Mapping[str, Opinion], neighbours: Array, values: Array | None) -> Weights:
    """The score of each, with the `neighbours` of the samples; `values` are the source's if it has numbers."""
    if values is None:
        return weigh({name: one.probabilities for name, one in opinions.items()}, neighbours)
    return weigh_numbers({name: one.values for name, one in opinions.items()}, values, neighbours)
