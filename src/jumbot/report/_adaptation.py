"""The report on adaptation runs: a single HTML file, for one run or for methods over tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jumbot._base.files import write_text
from jumbot.errors import ArgumentError
from jumbot.report._classes import origin_section
from jumbot.report._comparison import NONE, Accuracies, compare, draw_ranks, draw_wins, rank
from jumbot.report._page import (
    Group,
    Html,
    Name,
    Picture,
    Pictures,
    Section,
    Table,
    accuracies,
    document,
    group_runs,
    named,
    render,
)
from jumbot.report._records import RunRecord, read_run
from jumbot.report._sections import (
    class_section,
    curve_section,
    diagnosis_section,
    embedding_section,
    number_section,
    predictions,
    presence_section,
    samples_section,
)
from jumbot.report._shift_page import shift_summary
from jumbot.report._style import styled
from jumbot.report._top import Evidence, evidence_section, links, summary
from jumbot.report._words import EVALUATION, GLOSSARY, HOW

DETAILED = 8  # groups of runs that get their own pictures, over all tasks
RANKED_TASKS = 3  # fewer tasks make no ranking


def write_report(
    runs: Sequence[RunRecord] | Sequence[Path] | Sequence[str],
    out: str | Path,
    title: str = "Adaptation report",
    evidence: Evidence | None = None,
) -> Path:
    """Write the report on one run or several.

    Parameters
    ----------
    runs : sequence of paths or RunRecord
        Run folders, or their records from `read_run`. Runs of one method on one task that differ in their seed are
        shown as mean and spread.
    out : path
        A name ending in `.html`, or a folder, in which the file is `report.html`. A report of that name is replaced.
    title : str
        The title of the page.
    evidence : dict, optional
        Scores that rank several methods without labels, `{method: {task: [one value per seed]}}`.

    Returns
    -------
    pathlib.Path
        The page.

    Raises
    ------
    jumbot.ArgumentError
        If there is no run, or one of its files is damaged.
    """
    records = [run if isinstance(run, RunRecord) else read_run(run) for run in runs]
    if not records:
        raise ArgumentError("runs: none given; pass at least one run folder.")
    out = Path(out)
    path = out if out.suffix == ".html" else out / "report.html"
    with styled():
        text = _page(records, title, path.parent, evidence or {})
    return write_text(path, text)


def _page(records: Sequence[RunRecord], title: str, where: Path, evidence: Evidence) -> str:
    tasks = group_runs(records)
    pictures = Pictures()
    parts = [summary(title, records, tasks, evidence)]
    if len(records) == 1 and (compared := shift_summary(records[0].folder)) is not None:
        parts.append(compared.write())
    parts += _tables(tasks, pictures)
    parts += [evidence_section(evidence).write()] if evidence else []
    count = sum(map(len, tasks.values()))
    if count <= DETAILED:
        for number, (task, groups) in enumerate(tasks.items(), 1):
            several = max(len(group.runs) for group in groups) > 1
            parts.append(render("task.html", task=task if len(tasks) > 1 else "", number=number, several=several))
            parts += _task(groups, pictures)
    else:
        parts.append(render("undetailed.html", count=count, most=DETAILED))
    parts.append(predictions(records[0], where) if len(records) == 1 else links(tasks, where))
    parts.append(render("settings.html", runs=_settings(tasks), most=DETAILED))
    parts.append(render("glossary.html", terms=GLOSSARY))
    return document(title, *parts)


def _tables(tasks: Mapping[str, list[Group]], pictures: Pictures) -> list[Html]:
    found = accuracies(tasks)
    if not found or sum(len(values) for values in found.values()) < 2:
        return []
    groups = {group.label: group for each in tasks.values() for group in each}
    parts = [Section("Accuracy of the methods", intro=EVALUATION, table=_table(found, groups), how=HOW["table"])]
    by_class = accuracies(tasks, "mean_class_accuracy")
    if by_class:
        table = _table(by_class, groups)
        parts.append(Section("Mean over classes", table=table, how=HOW["class_table"], level=3))
    fair = {label: values for label, values in found.items() if not groups[label].oracle}
    common = [task for task in tasks if all(task in values for values in fair.values())]
    if len(fair) >= 2 and len(common) >= RANKED_TASKS:
        ranking = rank(fair)
        colours = {label: group.colour for label, group in groups.items()}
        ranks = pictures.draw(draw_ranks(ranking, colours), "mean rank of each method")
        wins = pictures.draw(draw_wins(ranking), "wins of each method over each other")
        p_value = ranking.p_value
        alike = "" if p_value is None else f" Friedman's test that all methods are alike: p = {p_value:.2g}."
        shown = [
            Picture(Name("Mean rank"), ranks, how=HOW["ranks"].format(tasks=len(ranking.tasks)) + alike),
            Picture(Name("Wins and losses"), wins, how=HOW["wins"]),
        ]
        parts.append(Section("Methods over all tasks", pictures=shown, level=3))
    return [part.write() for part in parts]


def _table(found: Accuracies, groups: Mapping[str, Group]) -> Table:
    table = compare(found, aside=[label for label, group in groups.items() if group.oracle])
    several = len(table.tasks) > 1
    rows: list[list[Name | str]] = []
    best = set()
    for place, (method, row, mean) in enumerate(zip(table.methods, table.cells, table.means, strict=True)):
        cells = [*row, *([mean] if several else [])]
        best |= {(place, column) for column, cell in enumerate(cells, 1) if cell and cell.best}
        rows.append([named(groups[method]), *(NONE if cell is None else str(cell) for cell in cells)])
    return Table(["method", *table.tasks, *(["mean"] if several else [])], rows, best=frozenset(best))


def _task(groups: list[Group], pictures: Pictures) -> list[Html]:
    """What to look at first comes first; how training went comes last."""
    return [
        samples_section(groups, pictures.name()),
        presence_section(groups, pictures).write(),
        origin_section(groups, pictures).write(),
        diagnosis_section(groups).write(),
        class_section(groups, pictures).write(),
        number_section(groups, pictures).write(),
        embedding_section(groups, pictures).write(),
        curve_section(groups, pictures).write(),
    ]


def _settings(tasks: Mapping[str, list[Group]]) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{group.label}, {task}" + (f", seed {run.seed}" if run.seed is not None else ""),
            "command": run.config["command"],
            "lines": _setting(run),
        }
        for task, groups in tasks.items()
        for group in groups
        for run in group.runs
    ]


def _setting(run: RunRecord) -> list[tuple[str, str]]:
    lines = [
        ("folder", run.folder.name),
        ("made with", run.made_with),
        ("selection rule", f"{run.rule}" + (" — the model was chosen with target labels" if run.oracle else "")),
        ("seed", str(run.seed)),
        *((f"method.{key}", _value(value)) for key, value in run.options.items()),
    ]
    for part in ("training", "network", "input"):
        lines += [(f"{part}.{key}", _value(value)) for key, value in run.config[part].items()]
    return lines


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = json.dumps(value, default=str)
    return text if len(text) <= 300 else text[:297] + "…"
