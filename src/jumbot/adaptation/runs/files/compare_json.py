"""`compare.json`: the runs of a comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jumbot.adaptation.settings import Rule
from jumbot.options import Measured, Portion, Positive, Seed, Text, Weight
from jumbot.schema import Record, Versioned


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
    """The accuracy, or R2, that each rule of selection would have had."""
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
    """Folders of runs that the minutes left no time for."""
