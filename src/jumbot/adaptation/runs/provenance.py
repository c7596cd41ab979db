"""Where a record comes from: the command, the date, the version, the settings of each method, the data."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jumbot
from jumbot.adaptation.runs.folder import read_config
from jumbot.data.content import domain_hash
from jumbot.data.domain import Domain


def stamp(command: str | None, folders: Iterable[Path] = ()) -> dict[str, Any]:
    """What every record begins with; `command` is None for one that was made from Python.

    A record of runs that were made before is as old as the last of them.
    """
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), jumbot.__version__
    made = [read_config(folder) for folder in folders]
    created, version = max(((config["created"], config["jumbot"]) for config in made), default=now)
    return {"command": command, "created": created, "jumbot": version}


def describe_data(**domains: Domain | None) -> dict[str, dict[str, Any]]:
    """Name, size and hash of each part of the data, as it came in."""
    return {
        part: {"name": domain.name, "n": len(domain), "hash": domain_hash(domain)}
        for part, domain in domains.items()
        if domain is not None
    }


def settings_of(runs: Iterable[tuple[str, Path]]) -> dict[str, Any]:
    """`{label: settings}` of labelled run folders that differ in task and seed alone."""
    found: dict[str, Any] = {}
    for label, folder in runs:
        config = read_config(folder)
        training = {name: value for name, value in config["training"].items() if name != "seed"}
        found.setdefault(label, {"method": config["method"], "recipe": config.get("recipe"), "training": training})
    return found


def data_of(folders: Iterable[Path]) -> dict[str, Any]:
    """The data behind these runs, by name; runs of version 0.1.0 tell no hash."""
    found: dict[str, Any] = {}
    for folder in folders:
        config = read_config(folder)
        parts: Mapping[str, Any] = config.get("data") or {part: config[part] for part in ("source", "target")}
        for part in parts.values():
            entry = {key: value for key, value in part.items() if key != "name" and value is not None}
            name = part["name"] if found.get(part["name"], entry) == entry else f"{part['name']}, {part['n']} samples"
            found[name] = entry
    return found
