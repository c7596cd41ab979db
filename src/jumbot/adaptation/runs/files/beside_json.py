"""`baseline.json` and `samples.json`: what the report shows beside the model of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jumbot.adaptation.judgement.accuracy import EstimatedAccuracy
from jumbot.errors import ArgumentError
from jumbot.options import Measured, Portion, Text, Whole
from jumbot.schema import Record

Reason = Literal["least explained", "most changed"]


@dataclass(frozen=True)
class Baseline(Record):
    """A classifier that saw the source alone, on the same target; accuracies where target labels were given."""

    what: str
    changed: Portion
    """Share of the predictions that adaptation changed."""
    estimated_accuracy: EstimatedAccuracy
    accuracy: Portion | None = None
    mean_class_accuracy: Portion | None = None
    n: Whole | None = None


@dataclass(frozen=True)
class Sample(Record):
    """A target sample to look at, and why; `before` is its class without adaptation, `picture` a `data:` address."""

    why: Reason
    row: Whole
    id: Text
    label: Text
    confidence: Portion
    received_mass: Measured
    before: Text | None = None
    picture: Text | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.picture is not None and not self.picture.startswith("data:image/"):
            raise ArgumentError(f"picture: {self.picture[:40]!r} came in; it must begin with data:image/.")


Samples = tuple[Sample, ...]
