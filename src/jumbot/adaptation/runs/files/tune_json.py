"""`tune.json`: what `jumbot.tune` was asked for and what it found; `decision.json`: why it picked a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jumbot.adaptation.runs.files.config_json import DataFile
from jumbot.errors import ArgumentError
from jumbot.options import Count, Measured, Portion, Positive, Seed, Text, Weight, Whole
from jumbot.schema import Record, Versioned


@dataclass(frozen=True)
class CandidateRow(Record):
    """A candidate with its evidence, and the folder of its run."""

    candidate: str
    method: str
    settings: dict[str, Any]
    whole: bool
    """False where it was stopped early."""
    evidence: Measured
    agreement: Measured
    mass: Measured | None
    seconds: Weight
    folder: str
    secured: Measured | None = None
    """What the rule of harm compares: what votes on its accuracy secure; of numbers, minus a distance in deviations."""
    modularity: Measured | None = None
    """This and what follows is of classes."""
    estimated_accuracy: Portion | None = None
    entropy: Measured | None = None
    infomax: Measured | None = None
    snd: Measured | None = None
    proportions_distance: Weight | None = None
    accuracy_not_used: Portion | None = None
    gap: Weight | None = None
    """This and what follows is of numbers."""
    smoothness: Measured | None = None
    rmse_not_used: Weight | None = None
    r2_not_used: Measured | None = None


@dataclass(frozen=True)
class Tuning(Versioned):
    """`tune.json`; what follows `options` is there once all candidates were weighed."""

    created: str
    command: Text | None
    source: DataFile
    target: DataFile
    recipe: str
    seed: Seed
    options: dict[str, Any]
    labelled_target: DataFile | None = None
    rule: str | None = None
    picked: str | None = None
    default: str | None = None
    steps: Count | None = None
    why: tuple[Text, ...] = ()
    candidates: tuple[CandidateRow, ...] = ()
    """The picked one first."""
    failed: dict[str, Text] = field(default_factory=dict)
    not_tried: tuple[str, ...] = ()
    minutes: Positive | None = None
    runs: Whole | None = None
    jobs: Count | None = None
    stop_early: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        first = self.candidates[0].candidate if self.candidates else None
        if self.picked != first:
            raise ArgumentError(f"picked: {self.picked!r} came in; it must be {first!r}, the first of the candidates.")


@dataclass(frozen=True)
class Decision(Record):
    """`decision.json`: sentences, in the folder of the run that `tune` picked."""

    why: tuple[Text, ...]
