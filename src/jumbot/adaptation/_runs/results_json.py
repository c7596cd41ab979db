"""Results on disk: `results.json`, `model.json`, `source-only.json` of a run; `tune.json` and `compare.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from jumbot._base.options import Count, Measured, Number, Portion, Positive, Seed, Text, Weight, Whole
from jumbot._base.schema import Record, Upgrade, Versioned, to_builtins
from jumbot._settings.reading import TaskName
from jumbot._settings.training import Rule
from jumbot.adaptation._evaluation.accuracy import EstimatedAccuracy
from jumbot.adaptation._evaluation.averaged_plans import PlanSettings
from jumbot.adaptation._evaluation.decision import Decision
from jumbot.adaptation._evaluation.diagnosis import Diagnosis
from jumbot.adaptation._evaluation.measures import Evaluation, RegressionEvaluation
from jumbot.adaptation._evaluation.rivals import References
from jumbot.adaptation._networks.build import NetworkSpec
from jumbot.adaptation._networks.features import ExtractorFile
from jumbot.adaptation._runs.config_json import DataFile, TaskFile, check_classes, check_method
from jumbot.data._inputs import InputFormat
from jumbot.errors import ArgumentError


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
    """A diagnosis without the mass of each sample."""

    unexplained: tuple[Whole, ...]
    unexplained_share: Portion
    transported_mass: Measured
    negative_transfer: bool
    reasons: tuple[str, ...]
    settings: PlanSettings
    scaled: bool
    class_proportions: tuple[Measured, ...] = ()
    """This and the following fields are for classes."""
    predicted_proportions: tuple[Measured, ...] = ()
    absent_classes: tuple[Whole, ...] = ()
    disagreement: Measured | None = None
    entropy: Measured | None = None
    sources: SourceSharesFile | None = None
    signs: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: Diagnosis, sources: SourceSharesFile | None) -> DiagnosisFile:
        """The stored part of a diagnosis; without classes if numbers are predicted."""
        return cls(**found.to_json() | {"settings": found.settings, "sources": sources})


@dataclass(frozen=True)
class OutputFigures(Record):
    """Figures of one of several numbers that are predicted."""

    rmse: Weight
    mae: Weight
    r2: Measured | None
    name: Text | None = None


@dataclass(frozen=True)
class Results(Record):
    """`results.json`: the figures of the chosen model; those from `n` on only if target labels were given."""

    rule: Rule
    oracle: bool
    selected_step: Whole
    seconds: Weight
    diagnosis: DiagnosisFile
    task: TaskName = "classification"
    estimated_accuracy: EstimatedAccuracy | None = None
    decision: Decision | None = None
    references: References | None = None
    """The figures of reference models of the source alone, if the run has a report."""
    decisions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    data_remarks: tuple[str, ...] = ()
    """Problems in the data, to be read first."""
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
            "diagnosis.predicted_proportions": self.diagnosis.predicted_proportions,
            "per_class": self.per_class,
            "confusion": self.confusion,
            "classes": self.classes,
            "diagnosis.sources.by_class": self.diagnosis.sources and self.diagnosis.sources.by_class,
            **{f"confusion[{i}]": row for i, row in enumerate(self.confusion or ())},
        }
        for name, values in lengths.items():
            if values is not None and len(values) != count:
                raise ArgumentError(f"{name}: has length {len(values)}; it must be {count}, as class_proportions.")
        if any(c >= count for c in self.diagnosis.absent_classes):
            raise ArgumentError(f"diagnosis.absent_classes: must be below {count}, the number of classes.")


def label_figures(found: Evaluation | RegressionEvaluation) -> dict[str, Any]:
    """Fields of `Results` that target labels give."""
    figures = found.to_json()
    if isinstance(found, RegressionEvaluation):
        figures["per_output"] = tuple(OutputFigures(**one) for one in figures["per_output"])
    return figures


def known_figures(results: Results) -> dict[str, Any]:
    """The content of `Model.results` and `results.json`: problems in the data first, and no missing values.

    R2 is None if all labels are equal.
    """
    found: dict[str, Any] = to_builtins(results)
    first = {"data_remarks": found.pop("data_remarks")}
    of_numbers = {"r2"} if results.rmse is not None else set[str]()
    return first | {name: value for name, value in found.items() if value is not None or name in of_numbers}


Crops = tuple[Literal["none", "crop", "resized-crop"], Literal["whole", "centre-crop", "ten-crop"]]


def _model_of_0_1(content: dict[str, Any]) -> dict[str, Any]:
    """Version 0.1 took images whole, and did not calibrate."""
    return {"extractor": None, "crops": ["none", "whole"], "temperature": 1.0} | content


@dataclass(frozen=True)
class ModelFile(Versioned):
    """`model.json`: everything of a model except its weights."""

    classes: tuple[Text, ...]
    input: InputFormat
    network: NetworkSpec
    method: dict[str, Any]
    results: Results | None
    extractor: ExtractorFile | None
    crops: Crops
    temperature: Positive
    task: TaskFile = field(default_factory=TaskFile)
    offset: tuple[Number, ...] | None = None
    """The offset of each class, for natural class proportions."""
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _model_of_0_1}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_method(self.method)
        check_classes(self.classes, self.network, self.task)
        self.input.check_complete()
        if self.results is not None and len(self.results.diagnosis.class_proportions) != len(self.classes):
            count = len(self.results.diagnosis.class_proportions)
            raise ArgumentError(f"results: are of {count} classes; there must be {len(self.classes)}.")
        if self.offset is not None and len(self.offset) != len(self.classes):
            raise ArgumentError(f"offset: has length {len(self.offset)}; it must be {len(self.classes)}, as classes.")
        seen = self.input.shape
        if self.extractor is not None:
            format = self.extractor.format
            seen = self.network.shape[-1:] if format is None else format.shape
        elif self.crops != ("none", "whole"):
            seen = (*seen[:1], *self.network.shape[1:])
        if seen != self.network.shape:
            raise ArgumentError(
                f"network.shape must be {list(seen)}, as the input gives, got {list(self.network.shape)}."
            )


Reason = Literal["least explained", "most changed"]


@dataclass(frozen=True)
class Baseline(Record):
    """A classifier trained on the source alone, on the same target; accuracies if target labels were given."""

    what: str
    changed: Portion
    """Share of the predictions that adaptation changed."""
    estimated_accuracy: EstimatedAccuracy
    accuracy: Portion | None = None
    mean_class_accuracy: Portion | None = None
    n: Whole | None = None


@dataclass(frozen=True)
class Sample(Record):
    """A notable target sample, and why; `before` is its class without adaptation, `picture` a `data:` address."""

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
            raise ArgumentError(f"picture must begin with data:image/, got {self.picture[:40]!r}.")


Samples = tuple[Sample, ...]


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
class TuneDecision(Record):
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
