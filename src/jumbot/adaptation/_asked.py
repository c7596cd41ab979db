"""The arguments of a call of `jumbot.adapt`, checked before any data are read."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from jumbot._base.options import Positive, Text, check
from jumbot._settings.places import CONFIG, needed_start, settings_file
from jumbot._settings.reading import Reading, make_reading
from jumbot.adaptation._config import check_changes
from jumbot.adaptation._judging import names_a_method
from jumbot.adaptation._runs.folder import read_config
from jumbot.adaptation._runs.provenance import OtherStartError, remember
from jumbot.adaptation._training.accelerator import check_able
from jumbot.data._pair import Encoding
from jumbot.data._sources import Given
from jumbot.errors import ArgumentError


@dataclass(frozen=True)
class Place:
    """Where a run is written, and how much time it has."""

    out: Path | None
    resume: bool
    start_from: Path | None
    judge: bool
    unknown: bool
    show: bool
    report: bool
    command: str | None
    begun: float
    seconds: float

    def until(self, share: float) -> float:
        """When this share of the time is over."""
        return self.begun + share * self.seconds


@dataclass(frozen=True)
class Wanted:
    """What is trained, and how the data are read."""

    method: str | None
    recipe: str | None
    options: dict[str, Any]
    reading: dict[str, Any]
    module: nn.Module | None = None


@dataclass(frozen=True)
class Asked:
    """The request of a call, including settings from files."""

    given: Given
    settings: Wanted
    run: Place
    method: str
    reading: Reading
    encoding: Encoding
    automatic: bool
    """Whether the better of source-only and JUMBOT is returned."""


def former_name(labelled: Any, evaluate_on: Any) -> Any:
    """`evaluate_on`, also where it is given by its former name."""
    if labelled is None:
        return evaluate_on
    if evaluate_on is not None:
        raise ArgumentError("labelled is the former name of evaluate_on; pass evaluate_on only.")
    warnings.warn("labelled= is now called evaluate_on=.", DeprecationWarning, stacklevel=3)
    return labelled


def check_run(
    out: Any,
    resume: bool,
    start_from: Any,
    judge: bool,
    minutes: Any,
    unknown: bool,
    show: bool,
    options: dict[str, Any],
) -> Place:
    """The checked `Place`; `report` and `command` leave the options."""
    report, command = options.pop("report", True), options.pop("command", None)
    place = check("out", out, Path | None)
    begun = check("start_from", start_from, Path | None)
    flags = {"resume": resume, "show": show, "report": report, "judge": judge, "unknown": unknown}
    for name, flag in flags.items():
        check(name, flag, bool)
    check("command", command, Text | None)
    minutes = check("minutes", minutes, Positive | None)
    if resume and place is None:
        raise ArgumentError("resume=True needs out, the folder of the run to continue.", argument="resume")
    begun = needed_start(begun, place, resume)
    if begun is not None:
        read_config(begun)
    seconds = math.inf if minutes is None else 60 * minutes
    return Place(place, resume, begun, judge, unknown, show, report, command, time.monotonic(), seconds)


def take_backbone(backbone: Any, options: dict[str, Any], run: Place) -> tuple[dict[str, Any], nn.Module | None]:
    """The options with the name of the backbone, or the caller's own module, which replaces that of a recipe."""
    if isinstance(backbone, nn.Module):
        if run.start_from is not None:
            raise OtherStartError(
                "start_from cannot be used with your own backbone, because runs do not record its initial weights. "
                "Leave out one of them."
            )
        return {"backbone": None, "weights": None, "freeze": False, **options}, backbone
    if backbone is None:
        return options, None
    if not isinstance(backbone, str):
        kind = backbone.__name__ if isinstance(backbone, type) else type(backbone).__name__
        raise ArgumentError(f"backbone must be a name or an instance of torch.nn.Module, got {kind}.")
    return {**options, "backbone": backbone}, None


def complete(given: Given, settings: Wanted, run: Place, config: str | Path | None) -> Asked:
    """The complete request, from the arguments, the run to continue and the file of settings; it needs no data."""
    file = check("config", config, Path | None)
    if run.unknown and (run.out is None or settings.reading.get("task") == "regression"):
        raise ArgumentError("unknown needs out and class labels: it adds columns to predictions.csv in the run folder.")
    named = names_a_method(settings.method, settings.recipe, file, settings.options)
    automatic = run.judge and not named
    if run.resume and run.out is not None and (run.out / CONFIG).exists():
        begun_with = read_config(run.out)
        automatic = begun_with.automatic
        if automatic and settings.method is None:
            settings = replace(settings, method=begun_with.method["name"])
    file = settings_file(file, run.out, run.resume, data=given.source is not None or given.target is not None)
    if file is not None:
        given, settings = _remembered(file, given, settings)
    if given.target is None:
        raise ArgumentError("target is missing; pass the unlabelled data to predict.")
    method = "jumbot" if settings.method is None else settings.method
    possible = check_changes(method, settings.recipe, settings.options, settings.reading.get("task"))
    check_able(possible.training, reports=run.report and run.out is not None)
    reading, encoding = make_reading(**settings.reading), Encoding.of(possible.inputs)
    return Asked(given, settings, run, method, reading, encoding, automatic)


def _remembered(file: Path, given: Given, settings: Wanted) -> tuple[Given, Wanted]:
    """Data and settings with those of a `config.json` where none are given."""
    found = remember(file, settings.method, settings.recipe, settings.options)
    settings = replace(settings, method=found.method, recipe=found.recipe, options=found.options)
    if given.source is not None or given.target is not None:
        return given, settings
    lost = [name for name in found.lost if getattr(given, name) is None]
    if found.source is None or found.target is None or lost:
        which = lost[0] if lost else "source"
        raise ArgumentError(f"{which} must be given again: it came from memory, and {file} does not contain it.")
    evaluate_on = found.evaluate_on if given.evaluate_on is None else given.evaluate_on
    labelled = found.labelled_target if given.labelled_target is None else given.labelled_target
    given = Given(found.source, found.target, evaluate_on, labelled)
    return given, replace(settings, reading=found.reading | settings.reading)
