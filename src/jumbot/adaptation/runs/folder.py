"""The folder of a run: configuration, metrics, checkpoints. Nothing in it is ever overwritten by another run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jumbot.adaptation.settings import Inputs, NetworkOptions, Training
from jumbot.errors import ArgumentError, JumbotError
from jumbot.files import write_text
from jumbot.methods import options_class
from jumbot.options import Options

FORMAT = 1
_COMPARED = (
    "method", "training", "network_options", "inputs", "network", "classes", "input", "source", "target", "data",
)  # fmt: skip
DECISION = "decision.json"
"""Why `tune` picked the run: sentences, in the folder of the run that it picked."""
_LAST = 50  # steps at the end of training


class RunFolder:
    """Writes `config.json`, `metrics.jsonl` and what training leaves in `path`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoints" / "last.safetensors"

    @property
    def best(self) -> Path:
        return self.path / "checkpoints" / "best.safetensors"

    @property
    def before(self) -> Path:
        return self.path / "checkpoints" / "before.safetensors"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def finished(self) -> bool:
        return (self.path / "model.json").exists()

    def check(self, resume: bool) -> None:
        """Refuse a place where no run can begin, or none go on."""
        if self.path.exists() and not self.path.is_dir():
            raise ArgumentError(f"{self.path}: is a file; give the name of a folder.")
        if (self.path / "config.json").exists():
            if not resume:
                raise ArgumentError(
                    f"{self.path}: holds a run already; go on with it by --resume, or give another name."
                )
            read_config(self.path)
        elif self.path.is_dir() and any(self.path.iterdir()):
            raise ArgumentError(f"{self.path}: holds other files, and no run; give another name.")

    def open(self, config: Mapping[str, Any], resume: bool) -> bool:
        """Begin a run here, or go on with the one that is here; whether that is finished."""
        self.check(resume)
        if not (self.path / "config.json").exists():
            self.write_json("config.json", config)
            return False
        self.check_same(read_config(self.path), config)
        return self.finished

    def check_same(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Refuse a configuration that differs from the one that the run here was begun with, in what both say."""
        for part in _COMPARED:
            if part not in old or part not in new:
                continue
            now, then = json.loads(json.dumps(new[part])), old[part]
            if isinstance(now, dict) and isinstance(then, dict):
                then = _defaults(part, now) | then
            if now != then:
                raise ArgumentError(
                    f"{self.path}: was begun with other settings ({_difference(part, then, now)}); "
                    "resume with the same, or give another name."
                )

    def write_json(self, name: str, content: Any) -> None:
        """Written whole or not at all."""
        write_text(self.path / name, json.dumps(content, indent=1) + "\n")

    def append(self, record: Mapping[str, Any]) -> None:
        """One more line of `metrics.jsonl`."""
        try:
            with self.metrics.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise JumbotError(f"{self.metrics}: cannot be written ({error}); go on with --resume.") from error

    def rewind(self, step: int) -> list[dict[str, Any]]:
        """Drop the lines after `step` steps, which a resumed run writes anew, and return the others.

        A step is recorded under its number from 0, an evaluation under the number of steps before it.
        """
        kept = [r for r in read_metrics(self.path) if r["step"] < step + (r["event"] == "evaluation")]
        write_text(self.metrics, "".join(json.dumps(record) + "\n" for record in kept))
        return kept


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of a run, if it is one and of this format."""
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ArgumentError(f"{path}: is not the folder of a run; it holds no config.json.") from None
    except (OSError, ValueError) as error:
        raise ArgumentError(f"{path / 'config.json'}: cannot be read ({error}).") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        made = config.get("jumbot", "unknown") if isinstance(config, dict) else "unknown"
        raise ArgumentError(
            f"{path}: was written by jumbot {made} in another format; this version reads format {FORMAT}. "
            f"Use that version, or start a new run."
        )
    return config


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a run; a last line that a kill cut short is left out."""
    try:
        lines = (path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    records = []
    for line in lines:
        try:
            records.append(json.loads(line))
        except ValueError:
            break
    return records


def _defaults(part: str, now: Mapping[str, Any]) -> dict[str, Any]:
    """What an option that the run's version did not know stands for."""
    settings: dict[str, type[Options]] = {"training": Training, "network_options": NetworkOptions, "inputs": Inputs}
    if part in settings:
        return asdict(settings[part]())
    if part == "method":
        return asdict(options_class(now["name"])())
    if part == "input":
        from jumbot.data.inputs import InputFormat

        return asdict(InputFormat(now["kind"]))
    return {}


def _difference(part: str, then: Any, now: Any) -> str:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in now:
            if now[key] != then.get(key):
                return f"{part}.{key} was {then.get(key)!r}, now {now[key]!r}"
    return f"{part} differs"


def final_mass(records: Sequence[Mapping[str, Any]]) -> float | None:
    """The share of the mass that plans moved at the end of training; None for methods without a plan."""
    masses = [record["mass"] for record in records if record["event"] == "step" and "mass" in record][-_LAST:]
    return statistics.fmean(masses) if masses else None
