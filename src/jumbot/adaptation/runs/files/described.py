"""What `config.json` and `model.json` both describe: the network, its frozen backbone, and what it predicts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from jumbot.adaptation.networks.names import check_backbone
from jumbot.data.inputs import InputFormat
from jumbot.data.reading import TaskName
from jumbot.errors import ArgumentError
from jumbot.options import Bounds, Count, Measured, Positive, Share, Text, Whole, Width
from jumbot.schema import Record


@dataclass(frozen=True)
class NetworkSpec(Record):
    """What a network is built from."""

    kind: str
    shape: tuple[Count, ...]
    classes: Annotated[int, Bounds(at_least=1, at_most=2**20)]
    features: Width
    hidden: tuple[Width, ...] = ()
    dropout: Share = 0.0
    bins: Annotated[int, Bounds(at_least=0, at_most=256)] = 0
    numbers: tuple[Whole, ...] = ()
    """Columns that are seen in `bins` pieces too."""
    rank: Annotated[int, Bounds(at_least=0, at_most=2**14)] = 0
    statistics: bool = False
    """Whether a network for signals sees their statistics; those of version 0.2 and before do not."""
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
        if self.numbers and (not self.bins or max(self.numbers) >= self.shape[0]):
            raise ArgumentError(f"numbers: must be columns below {self.shape[0]}, with bins > 0, got {self.numbers}.")
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
    names: tuple[Text, ...] = ()
    """Of several numbers."""
    dtype: str | None = None
    """Of the labels of classes; None where they came as text from a file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dtype is not None and re.fullmatch(r"[<>|=][biufU]\d+", self.dtype) is None:
            raise ArgumentError(f"dtype: must be a type of labels such as <i8, got {self.dtype!r}.")
        numbers = self.name == "regression"
        if len(self.mean) != len(self.std) or bool(self.mean) != numbers or (self.label_loss is not None) != numbers:
            raise ArgumentError("mean, std, label_loss: must be there for a regression, one of each, and for no other.")
        if self.names and len(self.names) != len(self.mean):
            raise ArgumentError(f"names: has length {len(self.names)}; it must be {len(self.mean)}, as mean.")


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
