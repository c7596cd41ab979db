"""Results of finished runs, for tables: accuracies and errors, also for every selection rule."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jumbot._base.text_tables import markdown, mean_and_deviation
from jumbot.adaptation._evaluation.selection import RULES, SCORES, best
from jumbot.adaptation._runs.folder import read_config, read_metrics, read_results
from jumbot.errors import ArgumentError


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


def accuracies(record: Mapping[str, Any], key: str = "accuracy") -> dict[str, dict[str, list[float]]]:
    """{method: {task: [accuracy of each seed]}}, for tables and pictures."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in record["runs"]:
        value = row["by_rule"].get(key.removeprefix("rule:")) if key.startswith("rule:") else row[key]
        if value is not None:
            found.setdefault(row["method"], {}).setdefault(row["task"], []).append(value)
    return found


def numbers_table(record: Mapping[str, Any]) -> str:
    """Markdown: RMSE, MAE and R2 of numbers on each task, means over seeds; empty if classes were predicted."""
    rows = [row for row in record["runs"] if row.get("rmse") is not None]
    if not rows:
        return ""
    lines: list[list[object]] = []
    for task, method in dict.fromkeys((row["task"], row["method"]) for row in rows):
        runs = [row for row in rows if (row["task"], row["method"]) == (task, method)]
        cells = [
            mean_and_deviation([run[name] for run in runs if run[name] is not None], ".4g", ".2g", 1)
            for name in ("rmse", "mae", "r2")
        ]
        lines.append([task, method, len(runs), *cells])
    return markdown(["task", "method", "seeds", "RMSE", "MAE", "R2"], lines, words=2)


def rules_table(record: Mapping[str, Any]) -> str:
    """Markdown: the mean target accuracy that each selection rule would have had, a row per method.

    A rule chooses among the evaluations during training; no rule without labels can exceed "oracle".  A column only
    contains means over the same tasks: a method that lacks one of them has none.
    """
    tasks = {row["task"] for row in record["runs"]}
    rules = [rule for rule in RULES if any(rule in row["by_rule"] for row in record["runs"])]
    lines = []
    for method in dict.fromkeys(row["method"] for row in record["runs"]):
        cells = []
        for rule in rules:
            chosen = [row for row in record["runs"] if row["method"] == method and rule in row["by_rule"]]
            whole = {row["task"] for row in chosen} == tasks
            cells.append(f"{100 * statistics.fmean(row['by_rule'][rule] for row in chosen):.1f}" if whole else "-")
        lines.append([method, *cells])
    return markdown(["method", *rules], lines)


def by_rule(folder: Path) -> dict[str, float]:
    """The target accuracy, or R2, of the evaluation that each rule chooses."""
    history = [r for r in read_metrics(folder) if r["event"] == "evaluation" and _truth(r) is not None]
    found: dict[str, float] = {}
    for rule in RULES:
        if not history or (rule in SCORES and all(SCORES[rule].read(r) != SCORES[rule].read(r) for r in history)):
            continue
        step = best(history, rule)
        found[rule] = next(_truth(r) for r in reversed(history) if r["step"] == step)
    return found


def _truth(record: Mapping[str, Any]) -> Any:
    """The accuracy, or R2, of an evaluation by target labels."""
    return record.get("r2") if record.get("accuracy") is None else record["accuracy"]
