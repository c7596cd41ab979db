"""`config.json`: what a run was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from jumbot.adaptation.runs.files.described import NetworkSpec, TaskFile, check_classes, check_method
from jumbot.adaptation.settings import Inputs, NetworkOptions, Rule, Training
from jumbot.data.inputs import InputFormat
from jumbot.errors import ArgumentError
from jumbot.methods import method_options
from jumbot.options import Seed, Text, Whole
from jumbot.schema import Record, Upgrade, Versioned


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
    labelled_target: Any = None
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
    task: TaskFile = field(default_factory=TaskFile)
    start_from: Text | None = None
    """The run whose steps on the source alone it took over, as seen from this one's folder; before that was so, as it
    was given."""
    automatic: bool = False
    """Whether no method was named, so that the better one of source-only and JUMBOT was handed over."""
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
