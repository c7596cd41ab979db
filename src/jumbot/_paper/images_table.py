"""Tables 1 and 3: Office-Home, partial Office-Home, VisDA-2017; each task a run folder, the table from the records."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from jumbot._base.files import write_text
from jumbot._base.text_tables import markdown
from jumbot._paper.targets import CAVEAT, TABLES, TASKS, printed
from jumbot._paper.trained import Suite


def run(suite: Suite, *, tasks: Sequence[str] | None = None, methods: Sequence[str] = ("jumbot",)) -> dict[str, Any]:
    """Train every (task, method, seed) that is not finished, and write `ITEM.json` and `ITEM.md` with the paper's
    figures for comparison.

    `suite.root`, by default the folder in JUMBOT_DATA, holds the data in its published layout.  A quick suite takes two
    steps of a small untrained backbone, to see that everything is in place.
    """
    item = suite.item
    chosen = TASKS[item] if tasks is None else tuple(tasks)
    runs = suite.runs(chosen, methods)
    shows = "Accuracy on the target at the end of training"
    record = suite.record(item, shows, runs, tasks=tasks, methods=methods)
    rows = [each.outcome() | {"paper": printed(item, each.variant.label, each.pair.name)} for each in runs]
    record.data = {"runs": rows, "caveat": CAVEAT}
    for name in methods:
        mine = [row for row in rows if row["method"] == name and row["paper"] is not None]
        if mine and not suite.quick:
            found, figure = (
                statistics.fmean(values) for values in ([100 * r["accuracy"] for r in mine], [r["paper"] for r in mine])
            )
            statement = f"{name}: {figure:.1f} on average over {len(chosen)} tasks"
            record.claim(statement, found >= figure - 0.5, accuracy=found, paper=figure)
    write_text(suite.folder / f"{item}.md", table(item, chosen, rows))
    return record.save(suite.folder)


def table(item: str, tasks: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: a row per method that was run or that the paper prints, our accuracy over the paper's."""
    methods = dict.fromkeys([*(row["method"] for row in rows), *TABLES[item]])
    lines = []
    for method in methods:
        mine = {task: [r["accuracy"] for r in rows if (r["method"], r["task"]) == (method, task)] for task in tasks}
        seeds = {len(values) for values in mine.values()}
        ours = [100 * statistics.fmean(values) if values else None for values in mine.values()]
        theirs = [printed(item, method, task) for task in tasks]
        if any(mine.values()):
            lines.append([method, "-".join(map(str, sorted(seeds))), *_cells(ours)])
        if any(figure is not None for figure in theirs):
            lines.append([f"{method}, paper", "", *_cells(theirs)])
    return markdown(["method", "seeds", *tasks, "mean"], lines)


def _cells(values: Sequence[float | None]) -> list[str]:
    """Accuracies, and their mean where all tasks were run: means over other tasks do not belong in one column."""
    known = [value for value in values if value is not None]
    mean = statistics.fmean(known) if len(known) == len(values) else None
    return ["-" if value is None else f"{value:.1f}" for value in [*values, mean]]
