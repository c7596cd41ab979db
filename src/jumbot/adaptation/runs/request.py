"""What a folder remembers of how its run was asked for, so that it can go on, or be made again, without being told."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jumbot.adaptation.config import make_config
from jumbot.adaptation.runs.files.config_json import Config, Request
from jumbot.data.reading import Reading
from jumbot.errors import ArgumentError
from jumbot.schema import plain, read

_PARTS = ("method", "training", "network_options", "inputs")


@dataclass(frozen=True)
class Asked:
    """Data and settings of a run, as `jumbot.adapt` takes them."""

    method: str
    recipe: str
    options: dict[str, Any]
    source: Any
    target: Any
    evaluate_on: Any
    labelled_target: Any
    reading: dict[str, Any]
    lost: tuple[str, ...] = ()
    """Data that the run had and that came from memory."""


def request(source: Any, target: Any, evaluate_on: Any, labelled_target: Any, reading: Reading) -> dict[str, Any]:
    """What `config.json` holds of it: data in files by their whole paths, other data not at all."""
    places = {"source": source, "target": target, "evaluate_on": evaluate_on, "labelled_target": labelled_target}
    return {name: _place(data) for name, data in places.items()} | {"reading": asdict(reading)}


def remember(file: Path, method: str | None, recipe: str | None, options: Mapping[str, Any]) -> Asked:
    """The settings in a `config.json`, with those that are given in their place, and the data.

    Settings that are those of the recipe are left to it; those of another method are left out.
    """
    found = read(file, Config)
    config, name = plain(found), found.method["name"]
    method, recipe = method or name, recipe or found.recipe
    if recipe is None:
        raise ArgumentError(f"{file}: recipe: a run of jumbot 0.1 does not tell it; give data and options again.")
    usual = plain(make_config(None, name, recipe, {}, found.task.name).to_json())
    changes = {
        option: value
        for part in _PARTS
        if part != "method" or method == name
        for option, value in (config[part] or {}).items()
        if value != usual[part][option]
    }
    asked = found.request or Request()
    data = {name: getattr(asked, name) for name in ("source", "target", "evaluate_on", "labelled_target")}
    lost = tuple(name for name, place in data.items() if place is None and name in (found.data or {}))
    return Asked(method, recipe, {**changes, **options}, **data, reading=dict(asked.reading), lost=lost)


def _place(data: Any) -> Any:
    """Where data are, as a text that holds from any folder; None for data that came from memory."""
    if isinstance(data, list | tuple):
        places = [_place(one) for one in data]
        return places if places and None not in places else None
    if not isinstance(data, str | Path):
        return None
    text = str(data)
    there = Path(text).exists() or (":" in text and Path(text.rpartition(":")[0]).exists())
    return os.path.abspath(text) if there else text
