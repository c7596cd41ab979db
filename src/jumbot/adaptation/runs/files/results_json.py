"""`results.json`: what came out of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jumbot.adaptation.judgement._rivals import References
from jumbot.adaptation.judgement.accuracy import EstimatedAccuracy
from jumbot.adaptation.judgement.averaged_plans import PlanSettings
from jumbot.adaptation.judgement.decision import Decision
from jumbot.adaptation.settings import Rule
from jumbot.data.reading import TaskName
from jumbot.errors import ArgumentError
from jumbot.options import Measured, Portion, Text, Weight, Whole
from jumbot.schema import Record


@dataclass(frozen=True)
class SourceSharesFile(Record):
    """How much of the target comes from which source: of all samples, and of those of each predicted class."""

    names: tuple[Text, ...]
    shares: tuple[Portion, ...]
    by_class: tuple[tuple[Portion, ...] | None, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(row is not None and len(row) != len(self.names) for row in (self.shares, *self.by_class)):
            raise ArgumentError("shares, by_class: must have one share per name.")


@dataclass(frozen=True)
class DiagnosisFile(Record):
    """What `Diagnosis.to_json` writes."""

    unexplained: tuple[Whole, ...]
    unexplained_share: Portion
    transported_mass: Measured
    negative_transfer: bool
    reasons: tuple[str, ...]
    settings: PlanSettings
    scaled: bool
    class_proportions: tuple[Measured, ...] = ()
    """This and what follows is of classes."""
    predicted_proportions: tuple[Measured, ...] = ()
    absent_classes: tuple[Whole, ...] = ()
    disagreement: Measured | None = None
    entropy: Measured | None = None
    sources: SourceSharesFile | None = None
    signs: tuple[str, ...] = ()


@dataclass(frozen=True)
class OutputFigures(Record):
    """Figures of one of several numbers that are predicted."""

    rmse: Weight
    mae: Weight
    r2: Measured | None
    name: Text | None = None


@dataclass(frozen=True)
class Results(Record):
    """`results.json`: the figures of the chosen model; those from `n` on where target labels were given."""

    rule: Rule
    oracle: bool
    selected_step: Whole
    seconds: Weight
    diagnosis: DiagnosisFile
    task: TaskName = "classification"
    estimated_accuracy: EstimatedAccuracy | None = None
    decision: Decision | None = None
    references: References | None = None
    """What plain models of the source alone would do, where the run has a report."""
    decisions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    data_remarks: tuple[str, ...] = ()
    """What is odd about the data: the first thing to look at."""
    n: Whole | None = None
    left_out: Whole | None = None
    accuracy: Portion | None = None
    mean_class_accuracy: Portion | None = None
    per_class: tuple[Portion | None, ...] | None = None
    confusion: tuple[tuple[Whole, ...], ...] | None = None
    rmse: Weight | None = None
    mae: Weight | None = None
    r2: Measured | None = None
    per_output: tuple[OutputFigures, ...] | None = None
    classes: tuple[Text, ...] | None = None
    evaluated_on: Text | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        count = len(self.diagnosis.class_proportions)
        lengths: dict[str, Any] = {
            "diagnosis.predicted_proportions": self.diagnosis.predicted_proportions, "per_class": self.per_class,
            "confusion": self.confusion, "classes": self.classes,
            "diagnosis.sources.by_class": self.diagnosis.sources and self.diagnosis.sources.by_class,
            **{f"confusion[{i}]": row for i, row in enumerate(self.confusion or ())},
        }  # fmt: skip
        for name, values in lengths.items():
            if values is not None and len(values) != count:
                raise ArgumentError(f"{name}: has length {len(values)}; it must be {count}, as class_proportions.")
        if any(c >= count for c in self.diagnosis.absent_classes):
            raise ArgumentError(f"diagnosis.absent_classes: must be below {count}, the number of classes.")
