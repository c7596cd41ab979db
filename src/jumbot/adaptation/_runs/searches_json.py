"""The files of several runs: `tune.json` and `compare.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jumbot._base.options import Count, Measured, Portion, Positive, Seed, Text, Weight, Whole
from jumbot._base.schema import Record, Versioned
from jumbot._settings.training import Rule
from jumbot.adaptation._runs.config_json import DataFile
from jumbot.errors import ArgumentError


@dataclass(frozen=True)
class CandidateRow(Record):
    """A candidate with its scores, and the folder of its run."""

    candidate: str
    method: str
    settings: dict[str, Any]
    whole: bool
    """False if it was stopped early."""
    evidence: Measured
    agreement: Measured
    mass: Measured | None
    seconds: Weight
    folder: str
    secured: Measured | None = None
    """The mean of the votes on its accuracy, which the rule of harm compares; of numbers, minus a distance."""
    modularity: Measured | None = None
    """This and the following fields are for classes."""
    estimated_accuracy: Portion | None = None
    entropy: Measured | None = None
    infomax: Measured | None = None
    snd: Measured | None = None
    proportions_distance: Weight | None = None
    accuracy_not_used: Portion | None = None
    gap: Weight | None = None
    """This and the following fields are for numbers."""
    smoothness: Measured | None = None
    rmse_not_used: Weight | None = None
    r2_not_used: Measured | None = None


@dataclass(frozen=True)
class Tuning(Versioned):
    """`tune.json`; the fields after `options` exist once all candidates have been scored."""

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
    """The candidates, the chosen one first."""
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
            raise ArgumentError(f"picked must be {first!r}, the first of the candidates, got {self.picked!r}.")


@dataclass(frozen=True)
class Decision(Record):
    """`decision.json`: the reasons, in the folder of the run that `tune` picked."""

    why: tuple[Text, ...]


@dataclass(frozen=True)
class ComparedRun(Record):
    """A run in `compare.json`."""

    task: Text
    method: str
    seed: Seed
    rule: Rule
    accuracy: Portion | None
    mean_class_accuracy: Portion | None
    seconds: Weight
    by_rule: dict[str, Measured] = field(default_factory=dict)
    """The accuracy, or R2, of each selection rule."""
    rmse: Weight | None = None
    mae: Weight | None = None
    r2: Measured | None = None


@dataclass(frozen=True)
class Comparison(Versioned):
    """`compare.json`: the runs of `jumbot compare`."""

    command: Text | None
    created: str | None
    seeds: tuple[Seed, ...]
    settings: dict[str, Any]
    data: dict[str, Any]
    runs: tuple[ComparedRun, ...]
    failed: dict[str, Text]
    """Folders of runs that failed, with the reason."""
    minutes: Positive | None = None
    not_run: tuple[Text, ...] = ()
    """Folders of runs for which no time was left."""
