"""`metrics.jsonl`: a line per step and per evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jumbot.options import Measured, Portion, Weight, Whole
from jumbot.schema import Record

Phase = Literal["source", "adapt"]


@dataclass(frozen=True)
class Step(Record):
    """A line of `metrics.jsonl`: one step of training."""

    event: Literal["step"]
    step: Whole
    epoch: Whole
    phase: Phase
    terms: dict[str, Measured]
    loss: Measured
    seconds: Weight
    mass: Measured | None = None
    value: Measured | None = None
    wrong_mass: Measured | None = None


@dataclass(frozen=True)
class EvaluationLine(Record):
    """A line of `metrics.jsonl`: an evaluation after `step` steps."""

    event: Literal["evaluation"]
    step: Whole
    epoch: Whole
    phase: Phase
    scores: dict[str, Measured]
    seconds: Weight
    accuracy: Portion | None = None
    mean_class_accuracy: Portion | None = None
    per_class: tuple[Portion | None, ...] | None = None
    rmse: Weight | None = None
    mae: Weight | None = None
    r2: Measured | None = None
    n: Whole | None = None


LINES: dict[str, type[Record]] = {"step": Step, "evaluation": EvaluationLine}
"""The lines of `metrics.jsonl` by their event."""
