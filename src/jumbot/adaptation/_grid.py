"""`jumbot compare`: every (pair of domains, method, seed) as a separate run, and their table.

Also the score of several models by their predictions for the same samples, for `jumbot.tune` too.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from jumbot._base.files import read_arrays
from jumbot._base.options import Count, Positive, Seed, Text, check
from jumbot._base.schema import FORMAT, convert, read, write
from jumbot._base.text_tables import markdown, mean_and_deviation
from jumbot._settings.places import COMPARISON, check_comparison_place, writing
from jumbot._settings.reading import Reading
from jumbot.adaptation._evaluation.accuracy import EstimatedAccuracy
from jumbot.adaptation._evaluation.measures import NumberEvidence, weigh_numbers
from jumbot.adaptation._evaluation.modularity import Evidence, nearest, some_rows, weigh
from jumbot.adaptation._evaluation.monitor import logits_of
from jumbot.adaptation._evaluation.selection import RULES, SCORES, best
from jumbot.adaptation._evaluation.task import Regression
from jumbot.adaptation._model import Model, load
from jumbot.adaptation._queue import Pair, Run, train_all
from jumbot.adaptation._runs.folder import read_metrics
from jumbot.adaptation._runs.provenance import data_of, settings_of, stamp
from jumbot.adaptation._runs.results_json import Comparison
from jumbot.adaptation._variants import read_variant, share_changes
from jumbot.data._domain import Domain
from jumbot.data._tables import domains_of
from jumbot.errors import ArgumentError

_TRAINED = 0.9  # of the minutes of a comparison; figures and pages come after it
_EXPECTED = {
    "pairs": "pass at least one, each a Pair.",
    "methods": "pass a list of names.",
    "options": "pass a dictionary of changes by method, or None.",
    "reading": "pass a Reading, or None.",
    "seeds": "pass a number of them, or a list.",
}


def compare(
    pairs: Sequence[Pair],
    methods: Sequence[str],
    out: str | Path,
    *,
    seeds: int | Sequence[int] = 1,
    jobs: int = 1,
    show: bool = False,
    recipe: str | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    reading: Reading | None = None,
    command: str | None = None,
    minutes: float | None = None,
    **common: Any,
) -> dict[str, Any]:
    """Train every (pair, method, seed), `jobs` at a time, and return what `compare.json` holds.

    A method may have changes in its name, as in "dann:reversal_steps=none", and is then a separate row. Runs are
    folders `out/PAIR/METHOD/seedN`: finished ones are reused, and interrupted ones continue. `common` are options of
    every run, `options` those of single methods, by the names in `methods`.  The table has the accuracy by the
    selection rule; next to it is that of every other rule, which chooses among the evaluations during training.

    `minutes` is a time budget.  Unfinished runs are left out of the table and listed in `not_run`;
    the current one keeps its checkpoint, and the same call continues them.
    """
    begun, limit = time.monotonic(), check("minutes", minutes, Positive | None)
    place: Path = check("out", out, Path)
    check("jobs", jobs, Count)
    check("show", show, bool)
    check("command", command, Text | None)
    numbers = range(check("seeds", seeds, Count)) if isinstance(seeds, int) else check("seeds", seeds, tuple[Seed, ...])
    wrong = {
        "pairs": not isinstance(pairs, Sequence) or not pairs or any(not isinstance(pair, Pair) for pair in pairs),
        "methods": isinstance(methods, str) or not isinstance(methods, Sequence),
        "options": not isinstance(options, Mapping | None),
        "reading": not isinstance(reading, Reading | None),
        "seeds": not numbers,
    }
    for name in (name for name, is_wrong in wrong.items() if is_wrong):
        raise ArgumentError(f"{name}: {_EXPECTED[name]}")
    chosen = share_changes(methods, recipe, common, options)
    how = {} if reading is None else asdict(reading)
    check_comparison_place(place)
    if (place / COMPARISON).exists():
        read(place / COMPARISON, Comparison)  # another file of that name is not overwritten
    runs = [
        Run(pair, variant, seed, place / pair.name / variant.folder / f"seed{seed}", recipe, changes, how, command)
        for pair in pairs
        for variant, changes in chosen
        for seed in numbers
    ]
    with writing(place):
        until = math.inf if limit is None else begun + _TRAINED * 60 * limit
        failed = train_all(runs, jobs, show, until=until)
        return _recorded(place, runs, numbers, failed, command, limit)


def _recorded(
    out: Path,
    runs: Sequence[Run],
    numbers: Sequence[int],
    failed: Mapping[str, str],
    command: str | None,
    minutes: float | None,
) -> dict[str, Any]:
    """The content of `compare.json`, which is written."""
    done = [run for run in runs if run.finished]
    known = {str(run.folder) for run in done} | set(failed)
    left = [str(run.folder) for run in runs if str(run.folder) not in known]
    record = stamp(command, [run.folder for run in done]) | {
        "format": FORMAT,
        "seeds": list(numbers),
        "settings": settings_of((run.variant.label, run.folder) for run in done),
        "data": data_of(run.folder for run in done),
        "runs": [run.outcome() | {"by_rule": by_rule(run.folder)} for run in done],
        "failed": dict(failed),
        "minutes": minutes,
        "not_run": left,
    }
    write(out / COMPARISON, convert(record, Comparison, out / COMPARISON))
    return record


def all_pairs(table: str | Path, column: str | None = None) -> list[Pair]:
    """Every ordered pair of the domains in a table, named in `column` or `domain`, or of the folders in a folder."""
    path = Path(table)
    if path.is_dir():
        names = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        places = {name: str(path / name) for name in names}
    else:
        places = {name: f"{path}:{name}" for name in domains_of(path, column)}
    if len(places) < 2:
        raise ArgumentError(f"{path}: contains {len(places)} domains; all pairs need at least two. Pass SRC and TGT.")
    return [Pair(f"{s}-{t}", places[s], places[t]) for s, t in permutations(places, 2)]


def by_rule(folder: Path) -> dict[str, float]:
    """The target accuracy, or R2, of the evaluation that each rule chooses."""
    truth = SCORES["oracle"].read
    history = [r for r in read_metrics(folder) if r["event"] == "evaluation" and not math.isnan(truth(r))]
    found: dict[str, float] = {}
    for rule in RULES:
        if not history or (rule in SCORES and all(math.isnan(SCORES[rule].read(r)) for r in history)):
            continue
        step = best(history, rule)
        found[rule] = next(truth(r) for r in reversed(history) if r["step"] == step)
    return found


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


READING = ("label", "id", "domain_column", "corrupt", "root")


def evidence_of(
    record: Mapping[str, Any], pairs: Sequence[Pair], out: Path, reading: Mapping[str, Any]
) -> dict[str, dict[str, list[float]]]:
    """{method: {task: [evidence of each seed]}}; larger is better, and only comparable within a task.

    The methods of a task and a seed are the candidates: each is weighed by its modularity among the neighbours of the
    target and by its agreement with the others.
    """
    how = {name: value for name, value in reading.items() if name in READING}
    found: dict[str, dict[str, list[float]]] = {}
    for pair in pairs:
        for seed in record["seeds"]:
            methods = [r["method"] for r in record["runs"] if r["task"] == pair.name and r["seed"] == seed]
            models = {name: load(folder_of(out, pair.name, name, seed)) for name in methods}
            if len(models) < 2:
                continue
            first = next(iter(models.values()))
            domain = first.domain(pair.target, **how)
            indices, rows = some_rows(domain, seed)
            values = None
            if isinstance(first.task, Regression) and first.run is not None:
                values = read_arrays(first.run / "embeddings.npz")["source_values"]
            sample = domain.subset(indices)
            opinions = {name: Opinion.of(model, sample) for name, model in models.items()}
            for name, evidence in weigh_opinions(opinions, nearest(rows), values).items():
                found.setdefault(name, {}).setdefault(pair.name, []).append(evidence.value)
    return found


def folder_of(out: Path, task: str, method: str, seed: int) -> Path:
    """The folder of a run of `compare`."""
    return out / task / read_variant(method).folder / f"seed{seed}"


Array = np.ndarray[Any, Any]
Weights = Mapping[str, Evidence] | Mapping[str, NumberEvidence]


@dataclass(frozen=True)
class Opinion:
    """The predictions of a model for some samples; the model itself is not kept."""

    probabilities: Array
    """Uncalibrated: calibration would bring the models' own estimates of accuracy into the vote."""
    scores: Tensor
    """Calibrated class probabilities, or the numbers of the network."""
    values: Array
    """Classes, or numbers in the units of the source."""
    accuracy: EstimatedAccuracy | None

    @classmethod
    def of(cls, model: Model, sample: Domain) -> Opinion:
        logits = logits_of(model.network, sample)
        values = model.task.decode(logits).reshape(len(sample), -1)
        return cls(logits.softmax(-1).numpy(), model.scores(logits), values, model.estimated_accuracy)


def weigh_opinions(opinions: Mapping[str, Opinion], neighbours: Array, values: Array | None) -> Weights:
    """The score of each, with the `neighbours` of the samples; `values` are the source's if it has numbers."""
    if values is None:
        return weigh({name: one.probabilities for name, one in opinions.items()}, neighbours)
    return weigh_numbers({name: one.values for name, one in opinions.items()}, values, neighbours)
