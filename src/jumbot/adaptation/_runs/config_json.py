"""The settings and metrics of a run on disk: `config.json` and `metrics.jsonl`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

from jumbot._base.options import Measured, Portion, Positive, Seed, Text, Weight, Whole
from jumbot._base.schema import Record, Upgrade, Versioned
from jumbot._settings.reading import TaskName
from jumbot._settings.training import Inputs, NetworkOptions, Rule, Training
from jumbot.adaptation._evaluation.task import Classification, Regression, Task
from jumbot.adaptation._networks.build import NetworkSpec
from jumbot.data._domain import Label
from jumbot.data._inputs import InputFormat
from jumbot.errors import ArgumentError
from jumbot.methods import method_options


@dataclass(frozen=True)
class TaskFile(Record):
    """What is predicted: classes, or numbers with the mean and the standard deviation of the source."""

    name: TaskName = "classification"
    mean: tuple[Measured, ...] = ()
    std: tuple[Positive, ...] = ()
    label_loss: Literal["squared", "huber"] | None = None
    names: tuple[Text, ...] = ()
    """Names of several numbers."""
    dtype: str | None = None
    """The numpy dtype of class labels; None for text from a file."""
    given: tuple[Any, ...] = ()
    """Each class as it was given, where its name does not say that."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dtype is not None and re.fullmatch(r"[<>|=][biufUS]\d+|[<>][mM]8(\[\w+\])?|\|O", self.dtype) is None:
            raise ArgumentError(f"dtype: must be a type of labels such as <i8, got {self.dtype!r}.")
        if not all(isinstance(label, Label) for label in self.given):
            raise ArgumentError("given: must be texts, numbers or truth values.")
        numbers = self.name == "regression"
        if len(self.mean) != len(self.std) or bool(self.mean) != numbers or (self.label_loss is not None) != numbers:
            raise ArgumentError(
                "mean, std, label_loss: are required for regression, one of each, and not allowed otherwise."
            )
        if self.names and len(self.names) != len(self.mean):
            raise ArgumentError(f"names: has length {len(self.names)}; it must be {len(self.mean)}, as mean.")

    @classmethod
    def of(cls, task: Task) -> TaskFile:
        """Everything about a task except the names of its classes."""
        if isinstance(task, Regression):
            return cls(task.name, task.mean, task.std, task.label_loss, task.names)  # type: ignore[arg-type]
        return cls(task.name, dtype=task.dtype, given=task.given)

    def to_task(self, classes: tuple[str, ...]) -> Task:
        """The inverse of `of`."""
        if self.label_loss is not None:
            return Regression(self.mean, self.std, self.label_loss, self.names)
        return Classification(classes, self.dtype, self.given)


def check_method(method: Mapping[str, Any]) -> str:
    """The name of the method in a file."""
    if not isinstance(method.get("name"), str):
        raise ArgumentError("method.name: is missing; it must be the name of a method.")
    return str(method["name"])


def check_classes(classes: tuple[str, ...], network: NetworkSpec, task: TaskFile) -> None:
    """Refuse names of classes, or units of numbers, that do not fit the outputs."""
    if task.name == "regression" and (classes or len(task.mean) != network.classes):
        raise ArgumentError(
            f"task: got {len(task.mean)} numbers and {len(classes)} classes; there must be {network.classes} "
            "numbers, as the network has outputs, and no classes."
        )
    if task.name == "classification" and len(classes) != network.classes:
        raise ArgumentError(
            f"classes: got {len(classes)}; there must be {network.classes}, as the network has outputs."
        )
    if task.given and len(task.given) != len(classes):
        raise ArgumentError(f"given: got {len(task.given)} labels; there must be {len(classes)}, one per class.")
    if len(set(classes)) != len(classes):
        raise ArgumentError("classes: a name occurs twice.")


@dataclass(frozen=True)
class DataFile(Record):
    """A part of the data: its name, its size and the hash of its content."""

    name: Text
    n: Whole
    hash: str | None = None


@dataclass(frozen=True)
class Request(Record):
    """Where the data came from and how they were read, as far as a file can say so."""

    source: Any = None
    target: Any = None
    evaluate_on: Any = None
    labelled_target: Any = None
    reading: dict[str, Any] = field(default_factory=dict)


def _config_of_0_1(content: dict[str, Any]) -> dict[str, Any]:
    """Version 0.1 recorded neither the recipe nor the settings of network and inputs."""
    return {"recipe": None, "network_options": None, "inputs": None, "command": None, "created": None} | content


@dataclass(frozen=True)
class Config(Versioned):
    """`config.json`: the data and settings of a run."""

    created: str | None
    command: Text | None
    source: DataFile
    target: DataFile
    classes: tuple[Text, ...]
    method: dict[str, Any]
    """The name and the options of the method."""
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
    task: TaskFile = field(default_factory=TaskFile)
    start_from: Text | None = None
    """The run whose steps on the source alone were reused, relative to the folder of this one; in earlier versions, as
    it was given.
    """
    automatic: bool = False
    """Whether no method was named, so the better of source-only and JUMBOT was returned."""
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
