"""What the files of a run and of a model hold, each as one dataclass: see `jumbot.schema`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from jumbot.adaptation.judgement.accuracy import EstimatedAccuracy
from jumbot.adaptation.judgement.averaged_plans import PlanSettings
from jumbot.adaptation.networks.names import check_backbone
from jumbot.adaptation.settings import Inputs, NetworkOptions, Rule, Training
from jumbot.data.inputs import InputFormat
from jumbot.data.reading import TaskName
from jumbot.errors import ArgumentError
from jumbot.methods import method_options
from jumbot.options import Bounds, Count, Measured, Portion, Positive, Seed, Text, Weight, Whole, Width
from jumbot.schema import Record, Upgrade, Versioned

Phase = Literal["source", "adapt"]
Crops = tuple[Literal["none", "crop", "resized-crop"], Literal["whole", "centre-crop", "ten-crop"]]


@dataclass(frozen=True)
class NetworkSpec(Record):
    """What a network is built from."""

    kind: str
    shape: tuple[Count, ...]
    classes: Annotated[int, Bounds(at_least=1, at_most=2**20)]
    features: Width
    hidden: tuple[Width, ...] = ()
    width: Width | None = None
    """Of the output of a pretrained or user-made backbone."""
    bottleneck: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("kind", self.kind)
        if not self.shape:
            raise ArgumentError("shape: an empty list came in; it must be the shape of a sample.")
        ranks = {"table": 1, "signal": 2, "digits": 3}
        if len(self.shape) != ranks.get(self.kind, len(self.shape)):
            raise ArgumentError(f"shape: {list(self.shape)} came in; a {self.kind} network takes {ranks[self.kind]}.")
        if self.bottleneck and self.width is None:
            raise ArgumentError("width: is missing; a bottleneck needs that of its backbone.")


@dataclass(frozen=True)
class ExtractorFile(Record):
    """The frozen backbone of a model; its weights stay where they are."""

    name: str
    weights: Text | None
    fingerprint: str
    format: InputFormat | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("name", self.name)


@dataclass(frozen=True)
class TaskFile(Record):
    """What is predicted: classes, or numbers, with the mean and the deviation of the source's."""

    name: TaskName = "classification"
    mean: tuple[Measured, ...] = ()
    std: tuple[Positive, ...] = ()
    label_loss: Literal["squared", "huber"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = self.name == "regression"
        if len(self.mean) != len(self.std) or bool(self.mean) != numbers or (self.label_loss is not None) != numbers:
            raise ArgumentError("mean, std, label_loss: must be there for a regression, one of each, and for no other.")


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


@dataclass(frozen=True)
class OutputFigures(Record):
    """Figures of one of several numbers that are predicted."""

    rmse: Weight
    mae: Weight
    r2: Measured | None


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
    decisions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
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
            **{f"confusion[{i}]": row for i, row in enumerate(self.confusion or ())},
        }  # fmt: skip
        for name, values in lengths.items():
            if values is not None and len(values) != count:
                raise ArgumentError(f"{name}: has length {len(values)}; it must be {count}, as class_proportions.")
        if any(c >= count for c in self.diagnosis.absent_classes):
            raise ArgumentError(f"diagnosis.absent_classes: must be below {count}, the number of classes.")


@dataclass(frozen=True)
class DataFile(Record):
    """A part of the data, by its name, its size and the hash of what it holds."""

    name: Text
    n: Whole
    hash: str | None = None


@dataclass(frozen=True)
class Request(Record):
    """Where the data came from and how they were read, where that can be said in a file."""

    source: Any = None
    target: Any = None
    evaluate_on: Any = None
    reading: dict[str, Any] = field(default_factory=dict)


def _config_of_0_1(content: dict[str, Any]) -> dict[str, Any]:
    """Version 0.1 told neither the recipe nor the settings of network and inputs."""
    return {"recipe": None, "network_options": None, "inputs": None, "command": None, "created": None} | content


@dataclass(frozen=True)
class Config(Versioned):
    """`config.json`: what a run was made with."""

    created: str | None
    command: Text | None
    source: DataFile
    target: DataFile
    classes: tuple[Text, ...]
    method: dict[str, Any]
    """Its name and its options."""
    recipe: str | None
    training: Training
    network_options: NetworkOptions | None
    inputs: Inputs | None
    network: NetworkSpec
    input: InputFormat
    select: Rule
    seed: Seed
    data: dict[str, DataFile] | None = None
    request: Request | None = None
    task: TaskFile = TaskFile()
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _config_of_0_1}

    def __post_init__(self) -> None:
        super().__post_init__()
        name = check_method(self.method)
        try:
            options = method_options(name, {key: value for key, value in self.method.items() if key != "name"})
        except ArgumentError as error:
            raise ArgumentError(f"method.{error}") from error
        object.__setattr__(self, "method", {"name": name, **asdict(options)})
        check_classes(self.classes, self.network, self.task)
        self.input.check_complete()


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


def _model_of_0_1(content: dict[str, Any]) -> dict[str, Any]:
    """Version 0.1 took images whole, and did not calibrate."""
    return {"extractor": None, "crops": ["none", "whole"], "temperature": 1.0} | content


@dataclass(frozen=True)
class ModelFile(Versioned):
    """`model.json`: everything of a model but its weights."""

    classes: tuple[Text, ...]
    input: InputFormat
    network: NetworkSpec
    method: dict[str, Any]
    results: Results | None
    extractor: ExtractorFile | None
    crops: Crops
    temperature: Positive
    task: TaskFile = TaskFile()
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _model_of_0_1}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_method(self.method)
        check_classes(self.classes, self.network, self.task)
        self.input.check_complete()
        if self.results is not None and len(self.results.diagnosis.class_proportions) != len(self.classes):
            count = len(self.results.diagnosis.class_proportions)
            raise ArgumentError(f"results: are of {count} classes; there must be {len(self.classes)}.")
        seen = self.input.shape
        if self.extractor is not None:
            format = self.extractor.format
            seen = self.network.shape[-1:] if format is None else format.shape
        elif self.crops != ("none", "whole"):
            seen = (*seen[:1], *self.network.shape[1:])
        if seen != self.network.shape:
            raise ArgumentError(
                f"network.shape: {list(self.network.shape)} came in; it must be {list(seen)}, as the input gives."
            )


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


def check_name(field: str, name: str) -> None:
    """Refuse the name of a backbone that this version does not have; "user" is a module of the user's own."""
    if name != "user":
        try:
            check_backbone(name)
        except ArgumentError as error:
            raise ArgumentError(str(error).replace("backbone:", f"{field}:", 1)) from error


def check_method(method: Mapping[str, Any]) -> str:
    """The name of the method in a file."""
    if not isinstance(method.get("name"), str):
        raise ArgumentError("method.name: is missing; it must be the name of a method.")
    return str(method["name"])


def check_classes(classes: tuple[str, ...], network: NetworkSpec, task: TaskFile) -> None:
    """Refuse names of classes, or units of numbers, that are not those of the outputs."""
    if task.name == "regression" and (classes or len(task.mean) != network.classes):
        raise ArgumentError(
            f"task: {len(task.mean)} numbers and {len(classes)} classes came in; there must be {network.classes} "
            "numbers, as the network has outputs, and no classes."
        )
    if task.name == "classification" and len(classes) != network.classes:
        raise ArgumentError(
            f"classes: {len(classes)} came in; there must be {network.classes}, as the network has outputs."
        )
    if len(set(classes)) != len(classes):
        raise ArgumentError("classes: a name stands there twice.")
