"""The folder of a run: configuration, metrics, checkpoints. Nothing in it is ever overwritten by another run.

Of finished runs, the figures for tables.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jumbot._base.files import read_bytes, replacing, write_text
from jumbot._base.schema import convert, parse, read, to_builtins, write
from jumbot._settings.places import CHECKPOINT, CONFIG, MODEL, check_is_run, check_run_place
from jumbot.adaptation._runs.config_json import LINES, Config
from jumbot.adaptation._runs.results_json import Results
from jumbot.errors import ArgumentError, JumbotError

_COMPARED = (
    "method",
    "training",
    "network_options",
    "inputs",
    "network",
    "classes",
    "input",
    "source",
    "target",
    "data",
)
FREE = ("workers",)  # settings without influence on the results
DECISION = "decision.json"
"""The file with the reasons of `tune`, in the folder of the run that it picked."""
_LAST = 50  # steps at the end of training


class RunFolder:
    """Writes `config.json`, `metrics.jsonl` and the results of training to `path`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def checkpoint(self) -> Path:
        return self.path / CHECKPOINT

    @property
    def previous(self) -> Path:
        """The checkpoint before the last."""
        return self.path / "checkpoints" / "previous.safetensors"

    def keep_previous(self) -> None:
        """Rename the last checkpoint to the previous one, so that the next can be written."""
        if not self.checkpoint.is_file():
            return
        with replacing(self.previous) as part:
            part.unlink()
            try:
                os.link(self.checkpoint, part)
            except OSError:  # some file systems have no links
                shutil.copyfile(self.checkpoint, part)

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
        return (self.path / MODEL).exists()

    def check(self, resume: bool) -> None:
        """Refuse a place where no run can start or continue."""
        check_run_place(self.path, resume)
        if (self.path / CONFIG).exists():
            read_config(self.path)

    def open(self, config: Config, resume: bool) -> bool:
        """Begin a run here, or continue the existing one; return whether that is finished."""
        self.check(resume)
        file = self.path / CONFIG
        if not file.exists():
            write(file, config)
            return False
        self.check_same(read_config(self.path), config)
        return self.finished

    def check_same(self, old: Config, new: Config) -> None:
        """Refuse a configuration that differs from that of the existing run, in the settings that both contain."""
        for part in _COMPARED:
            then, now = (_weighed(to_builtins(getattr(config, part))) for config in (old, new))
            if then is not None and now is not None and now != then:
                raise ArgumentError(
                    f"{self.path}: was started with other settings ({_difference(part, then, now)}); "
                    "resume with the same, or choose another name."
                )

    def append(self, record: Mapping[str, Any]) -> None:
        """Append a line to `metrics.jsonl`."""
        convert(dict(record), LINES[record["event"]], self.metrics)
        try:
            with self.metrics.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise JumbotError(f"{self.metrics}: cannot be written ({error}); pass --resume to continue it.") from error

    def rewind(self, step: int) -> list[dict[str, Any]]:
        """Drop the lines after `step` steps, which a resumed run writes again, and return the others.

        A step is recorded under its number from 0, an evaluation under the number of steps before it.
        """
        kept = [r for r in read_metrics(self.path) if r["step"] < step + (r["event"] == "evaluation")]
        write_text(self.metrics, "".join(json.dumps(record) + "\n" for record in kept))
        return kept


def read_config(path: Path) -> Config:
    """The configuration of a run, if it is one and of a format that is known."""
    return read(check_is_run(path), Config)


def read_results(path: Path) -> Results | None:
    """The results of a run; None if it is not finished."""
    file = path / "results.json"
    return read(file, Results) if file.exists() else None


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a run.

    An incomplete last line of a killed process is ignored with a warning; any other damaged line is an error that names
    it.
    """
    file = path / "metrics.jsonl"
    if not file.exists():
        return []
    lines = read_bytes(file).split(b"\n")
    if not lines[-1]:
        lines.pop()
    records = []
    for number, line in enumerate(lines, 1):
        where = f"{file}: line {number}"
        try:
            record = parse(line, where)
        except ArgumentError:
            if number < len(lines) or not (line.startswith(b'{"') or not line.strip(b"\0")):
                raise
            warnings.warn(f"{where}: is incomplete, probably because the run was killed, and is ignored.", stacklevel=2)
            break
        event = record.get("event") if isinstance(record, dict) else None
        schema = LINES.get(event) if isinstance(event, str) else None
        if schema is None:
            raise ArgumentError(f"{where}: event must be {' or '.join(LINES)}, got {str(event)[:40]}.")
        convert(record, schema, where)
        records.append(record)
    return records


def _weighed(part: Any) -> Any:
    return {name: value for name, value in part.items() if name not in FREE} if isinstance(part, dict) else part


def _difference(part: str, then: Any, now: Any) -> str:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in now:
            if now[key] != then.get(key):
                return f"{part}.{key} was {then.get(key)!r}, now {now[key]!r}"
    return f"{part} differs"


LITTLE = 0.1
"""Share of the mass below which too little is learned from the plans."""
CUT = "the time budget ended after"
"""The beginning of the remark on a run that was cut short by a time budget."""


def final_mass(records: Sequence[Mapping[str, Any]]) -> float | None:
    """The share of the mass that plans moved at the end of training; None for methods without a plan."""
    masses = [record["mass"] for record in records if record["event"] == "step" and "mass" in record][-_LAST:]
    return statistics.fmean(masses) if masses else None


def outcome(folder: Path, task: str) -> dict[str, Any]:
    """The outcome of a finished run for a table, from its folder."""
    config, results = read_config(folder), read_results(folder)
    if results is None:
        raise ArgumentError(f"{folder}: the run is not finished; it contains no results.json.")
    return {
        "task": task,
        "method": config.method["name"],
        "seed": config.training.seed,
        "rule": results.rule,
        "accuracy": results.accuracy,
        "mean_class_accuracy": results.mean_class_accuracy,
        "rmse": results.rmse,
        "mae": results.mae,
        "r2": results.r2,
        "seconds": results.seconds,
    }
