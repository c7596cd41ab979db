"""Where a run comes from: its data, its request, and the run that it starts from."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jumbot
from jumbot._base.schema import read, to_builtins
from jumbot._settings.reading import Reading
from jumbot._settings.training import Training
from jumbot.adaptation._config import make_config
from jumbot.adaptation._runs.config_json import Config, DataFile, Request
from jumbot.adaptation._runs.folder import FREE, RunFolder, read_config, read_metrics
from jumbot.data._content import domain_hash
from jumbot.data._sources import Given, ReadData
from jumbot.errors import ArgumentError
from jumbot.methods import SOURCE_ONLY


def stamp(command: str | None, folders: Iterable[Path] = ()) -> dict[str, Any]:
    """The first fields of every record; `command` is None for one that was made from Python.

    A record of earlier runs is as old as the last of them.
    """
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), jumbot.__version__
    made = [read_config(folder) for folder in folders]
    created, version = max(((config.created, config.jumbot) for config in made), default=now)
    return {"command": command, "created": created, "jumbot": version}


def describe_data(read: ReadData) -> dict[str, DataFile]:
    """Name, size and hash of each part of the data, as it was read."""
    return {
        part: DataFile(domain.name, len(domain), domain_hash(domain))
        for part, domain in read._asdict().items()
        if domain is not None
    }


def settings_of(runs: Iterable[tuple[str, Path]]) -> dict[str, Any]:
    """`{label: settings}` of labelled run folders that differ only in task and seed."""
    found: dict[str, Any] = {}
    for label, folder in runs:
        config = read_config(folder)
        training = {name: value for name, value in to_builtins(config.training).items() if name != "seed"}
        found.setdefault(label, {"method": to_builtins(config.method), "recipe": config.recipe, "training": training})
    return found


def data_of(folders: Iterable[Path]) -> dict[str, Any]:
    """The data behind these runs, by name; runs of version 0.1.0 record no hash."""
    found: dict[str, Any] = {}
    for folder in folders:
        config = read_config(folder)
        for part in config.data.values() if config.data else (config.source, config.target):
            entry = {"n": part.n} | ({} if part.hash is None else {"hash": part.hash})
            name = part.name if found.get(part.name, entry) == entry else f"{part.name}, {part.n} samples"
            found[name] = entry
    return found


_PARTS = ("method", "training", "network_options", "inputs")


@dataclass(frozen=True)
class Remembered:
    """Data and settings of an earlier run, as `jumbot.adapt` takes them."""

    method: str
    recipe: str
    options: dict[str, Any]
    source: Any
    target: Any
    evaluate_on: Any
    labelled_target: Any
    reading: dict[str, Any]
    lost: tuple[str, ...] = ()
    """Data of the run that came from memory."""


def request(given: Given, reading: Reading) -> Request:
    """The entry in `config.json`: the full paths of data in files; other data are left out."""
    places = {part: _place(data) for part, data in given._asdict().items()}
    return Request(**places, reading=asdict(reading))


def remember(file: Path, method: str | None, recipe: str | None, options: Mapping[str, Any]) -> Remembered:
    """The settings in a `config.json`, replaced by those that are given, and the data.

    Settings equal to the recipe's are left to the recipe; those of another method are left out.
    """
    found = read(file, Config)
    name = found.method["name"]
    method, recipe = method or name, recipe or found.recipe
    if recipe is None:
        raise ArgumentError(f"{file}: recipe: runs of jumbot 0.1 do not record it; pass data and options again.")
    usual = to_builtins(make_config(None, name, recipe, {}, found.task.name).to_json())
    changes = {
        option: value
        for part in _PARTS
        if part != "method" or method == name
        for option, value in (to_builtins(getattr(found, part)) or {}).items()
        if value != usual[part][option]
    }
    asked = found.request or Request()
    data = {name: getattr(asked, name) for name in ("source", "target", "evaluate_on", "labelled_target")}
    lost = tuple(name for name, place in data.items() if place is None and name in (found.data or {}))
    return Remembered(method, recipe, {**changes, **options}, **data, reading=dict(asked.reading), lost=lost)


def _place(data: Any) -> Any:
    """The absolute place of data as text; None for data that came from memory."""
    if isinstance(data, list | tuple):
        places = [_place(one) for one in data]
        return places if places and None not in places else None
    if not isinstance(data, str | Path):
        return None
    text = str(data)
    there = Path(text).exists() or (":" in text and Path(text.rpartition(":")[0]).exists())
    return os.path.abspath(text) if there else text


_LOOKS = {*FREE, "evaluate_every", "evaluate_samples", "checkpoint_every", "global_plan", "trackers", "tensorboard"}
"""Training settings without influence on the weights of a run without a plan."""
_LATER = {*_LOOKS, "epochs", "steps", "schedule", "schedule_steps", "select"}
"""Those without influence before adaptation starts."""
_SAME_PARTS = ("network_options", "inputs", "network", "input", "classes", "task")


class OtherStartError(ArgumentError):
    """The run to start from has not done the first steps of this one."""


@dataclass(frozen=True)
class Start:
    """The start of a run: the state of another one after its steps on the source alone."""

    run: RunFolder
    whole: bool
    """Whether these are all of its steps, as of source-only."""
    looks: bool
    """Whether its evaluations are valid for this run too, because both have the same target."""

    def records(self, step: int) -> list[dict[str, Any]]:
        """The records of the first `step` steps and evaluations, without scores of the other run's plan."""
        kept = []
        for record in read_metrics(self.run.path):
            if record["event"] == "step" and record["step"] < step:
                kept.append(record)
            elif record["event"] == "evaluation" and record["step"] <= step and self.looks:
                scores = {name: score for name, score in record["scores"].items() if name != "transport"}
                kept.append({**record, "scores": scores})
        return kept


def find_start(folder: Path, new: Config) -> Start:
    """The start of a run with this configuration, if the one in `folder` has done the same steps on the source.

    A run of source-only uses only the source in every step, so another one can be reused whole.
    """
    old = read_config(folder)
    if (why := difference(old, new)) is not None:
        raise OtherStartError(f"start_from: the steps of {folder} on the source cannot be reused: {why}.")
    run, whole = RunFolder(folder), new.method["name"] == SOURCE_ONLY
    if not has_come_as_far(run, old, whole):
        raise OtherStartError(
            f"start_from: {folder} has not reached that step, or its records or checkpoints are missing."
        )
    data = old.data or {}, new.data or {}
    return Start(run, whole, all(data[0].get(part) == data[1].get(part) for part in ("target", "evaluate_on")))


def has_come_as_far(run: RunFolder, config: Config, whole: bool) -> bool:
    """Whether records and weights exist: at the end of a `whole` run, otherwise at the start of adaptation."""
    start = run.metrics.exists() and (run.before.exists() or not _on_source(config.training))
    return start and ((run.finished and run.checkpoint.exists()) or not whole)


def difference(old: Config, new: Config) -> str | None:
    """Why two configurations do not begin with the same steps on the source alone; None if they do.

    Settings that one of them lacks are not compared: runs of version 0.1 do not record their inputs.
    """
    then, now = to_builtins(old.training), to_builtins(new.training)
    whole = new.method["name"] == SOURCE_ONLY
    if whole and (old.method["name"] != SOURCE_ONLY or new.training.select != "last"):
        return "a run of source-only can only be reused whole, by another one"
    if not whole and not _on_source(old.training):
        return "it has no steps on the source alone"
    for name in now:
        if name not in (_LOOKS if whole else _LATER) and then[name] != now[name]:
            return f"{name} was {then[name]!r}, now {now[name]!r}"
    for part in _SAME_PARTS:
        parts = getattr(old, part), getattr(new, part)
        if None not in parts and parts[0] != parts[1]:
            return f"{part} differs"
    for part in ("source", "labelled_target"):
        if old.data and new.data and old.data.get(part) != new.data.get(part):
            return f"{part} differs"
    return None


def _on_source(training: Training) -> bool:
    """Whether a run begins with steps on the source alone."""
    return bool(training.source_epochs if training.source_steps is None else training.source_steps)
