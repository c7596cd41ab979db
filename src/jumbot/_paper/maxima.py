"""The supplement's table of maxima: the best accuracy during training and the last.

The best is chosen with target labels, which nobody has in practice: it shows how much a better choice of the model
could have helped, and is not a result.  The paper reports it for Office-Home; the tasks of the digits are available,
too.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jumbot._base.files import write_text
from jumbot._base.text_tables import markdown
from jumbot._paper.targets import MAXIMA, OFFICE_HOME, data_of_item, printed
from jumbot._paper.trained import Suite
from jumbot.adaptation._runs.folder import outcome, read_metrics

WARNING = (
    "The column `best` was chosen with the target's labels: it is an upper bound that cannot be reached without them."
)


def run(
    suite: Suite, *, tasks: Sequence[str] = OFFICE_HOME, methods: Sequence[str] = ("deepjdot", "jumbot")
) -> dict[str, Any]:
    """Train what is not finished, evaluated on all target samples along the way, and write `max.json` and `max.md`.

    Office-Home has separate runs, in `max`, because the item office-home evaluates on 1,000 samples; the runs of the
    item digits are reused, unless they were evaluated on fewer than all samples.
    """
    item = data_of_item("max", tasks)
    looks = {"evaluate_every": 1} if suite.quick and item != "digits" else {}
    folder = suite.folder
    suite = replace(
        suite,
        folder=folder if item == "digits" else folder / "max",
        item=item,
        changes={"evaluate_samples": None, **looks, **suite.changes},
    )
    runs = suite.runs(tasks, methods)
    shows = "The best and the last accuracy during training"
    record = suite.record("max", shows, runs, tasks=tasks, methods=methods)
    record.data = {"runs": [row_of(each.folder, each.pair.name) for each in runs], "warning": WARNING}
    for name in methods:
        mine = [row for row in record.data["runs"] if row["method"] == name and row["paper, best"] is not None]
        if mine and not suite.quick:
            best, last, figure = (statistics.fmean(row[key] for row in mine) for key in ("best", "last", "paper, best"))
            record.claim(
                f"{name}: {figure:.1f} at best along training, on average over {len({r['task'] for r in mine})} tasks",
                best >= figure - 0.5,
                best=best,
                last=last,
                paper=figure,
            )
    write_text(folder / "max.md", table(record.data["runs"]))
    return record.save(folder)


def row_of(folder: Path, task: str) -> dict[str, Any]:
    """Best and last accuracy of a run, in per cent, and the step of the best."""
    row = outcome(folder, task)
    seen = [r for r in read_metrics(folder) if r["event"] == "evaluation" and r["phase"] == "adapt"]
    best = max(seen, key=lambda record: (record["accuracy"], record["step"]))
    place = OFFICE_HOME.index(task) if task in OFFICE_HOME else None
    maxima = MAXIMA.get(row["method"]) if place is not None else None
    return {
        "task": task,
        "method": row["method"],
        "variant": folder.name.rpartition("-seed")[0],
        "seed": row["seed"],
        "best": 100 * best["accuracy"],
        "step of the best": best["step"],
        "last": 100 * row["accuracy"],
        "evaluations": len(seen),
        "samples": [seen[0]["n"], seen[-1]["n"]],
        "paper, best": None if maxima is None or place is None else maxima[place],
        "paper, last": printed("office-home" if place is not None else "digits", row["method"], task),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown, the warning first."""
    head = ("task", "method", "seed", "best", "last", "paper, best", "paper, last", "evaluations", "samples in each")
    lines = []
    for row in rows:
        shown = [f"{row[key]:.2f}" for key in ("best", "last")]
        theirs = ["-" if row[key] is None else str(row[key]) for key in ("paper, best", "paper, last")]
        samples = sorted(set(row["samples"]))
        counts = " or ".join(f"{count:,}" for count in samples)
        lines.append([row["task"], row["variant"], row["seed"], *shown, *theirs, row["evaluations"], counts])
    return f"{WARNING}\n\n{markdown(head, lines, words=2)}"
