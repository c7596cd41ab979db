"""`model.json`: a model but for its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from jumbot.adaptation.runs.files.described import ExtractorFile, NetworkSpec, TaskFile, check_classes, check_method
from jumbot.adaptation.runs.files.results_json import Results
from jumbot.data.inputs import InputFormat
from jumbot.errors import ArgumentError
from jumbot.options import Number, Positive, Text
from jumbot.schema import Upgrade, Versioned

Crops = tuple[Literal["none", "crop", "resized-crop"], Literal["whole", "centre-crop", "ten-crop"]]


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
    task: TaskFile = field(default_factory=TaskFile)
    offset: tuple[Number, ...] | None = None
    """Of each class, for natural class sizes."""
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
                f"network.shape: {list(self.network.shape)} came in; it must be {list(seen)}, as the input gives."
            )
