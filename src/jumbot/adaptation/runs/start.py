"""Steps that see the source alone, taken over from a run that has done the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumbot.adaptation.runs.files.config_json import Config
from jumbot.adaptation.runs.folder import FREE, RunFolder, read_config, read_metrics
from jumbot.errors import ArgumentError
from jumbot.methods import SOURCE_ONLY
from jumbot.schema import convert, plain

_LOOKS = {*FREE, "evaluate_every", "evaluate_samples", "checkpoint_every", "global_plan", "trackers", "tensorboard"}
"""Of the training, what plays no part in the weights of a run without a plan."""
_LATER = {*_LOOKS, "epochs", "steps", "schedule", "schedule_steps", "select"}
"""And what plays none before adaptation starts."""
_PARTS = ("network_options", "inputs", "network", "input", "classes", "task")


class OtherStartError(ArgumentError):
    """The run to start from has not done the steps that this one begins with."""


@dataclass(frozen=True)
class Start:
    """Where a run may begin: where another one was after the steps that saw the source alone."""

    run: RunFolder
    whole: bool
    """Whether these are all of its steps, as of source-only."""
    looks: bool
    """Whether its evaluations hold for this run too: both look at the same target."""

    def records(self, step: int) -> list[dict[str, Any]]:
        """Those of the first `step` steps, and of the looks between them, but for scores of the other's own plan."""
        kept = []
        for record in read_metrics(self.run.path):
            if record["event"] == "step" and record["step"] < step:
                kept.append(record)
            elif record["event"] == "evaluation" and record["step"] <= step and self.looks:
                scores = {name: score for name, score in record["scores"].items() if name != "transport"}
                kept.append({**record, "scores": scores})
        return kept


def find_start(folder: Path, config: Mapping[str, Any]) -> Start:
    """Where a run of this configuration may begin, if the one in `folder` has done the same steps on the source.

    A run of source-only sees the source in every step, so that another one can be taken over whole.
    """
    old, new = read_config(folder), plain(convert(dict(config), Config, folder))
    if (why := difference(old, new)) is not None:
        raise OtherStartError(f"start_from: {folder} did not learn from the source what this run would: {why}.")
    run, whole = RunFolder(folder), new["method"]["name"] == SOURCE_ONLY
    if not has_come_as_far(run, old, whole):
        raise OtherStartError(f"start_from: {folder} has not come as far, or its records or checkpoints are gone.")
    data = old["data"] or {}, new["data"] or {}
    return Start(run, whole, all(data[0].get(part) == data[1].get(part) for part in ("target", "evaluate_on")))


def has_come_as_far(run: RunFolder, config: Mapping[str, Any], whole: bool) -> bool:
    """Whether records and weights are there: at the end of a `whole` run, else those with which adaptation started."""
    start = run.metrics.exists() and (run.before.exists() or not _on_source(config["training"]))
    return start and ((run.finished and run.checkpoint.exists()) or not whole)


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """Why two configurations do not begin with the same steps on the source alone; None where they do.

    What one of them does not say is not compared: the data of a run that is yet to be made are not known.
    """
    then, now = old["training"], new["training"]
    whole = new["method"]["name"] == SOURCE_ONLY
    if whole and (old["method"]["name"] != SOURCE_ONLY or now["select"] != "last"):
        return "all steps of source-only to the last are taken over, from another run of source-only"
    if not whole and not _on_source(then):
        return "it has no steps on the source alone"
    for name in now:
        if name not in (_LOOKS if whole else _LATER) and then[name] != now[name]:
            return f"{name} was {then[name]!r}, now {now[name]!r}"
    for part in _PARTS:
        if None not in (old.get(part), new.get(part)) and old[part] != new[part]:
            return f"{part} differs"
    data = old.get("data"), new.get("data")
    for part in ("source", "labelled_target"):
        if data[0] and data[1] and data[0].get(part) != data[1].get(part):
            return f"it had another {part}"
    return None


def _on_source(training: Mapping[str, Any]) -> bool:
    """Whether a run begins with steps on the source alone."""
    return bool(training["source_epochs"] if training["source_steps"] is None else training["source_steps"])
