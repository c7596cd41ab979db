"""Figure 6: accuracy over tau, epsilon and the batch size m, on U->M and S->M.

JUMBOT over all three, DeepJDOT over m, and its entropic variant over epsilon; every other setting is the paper's.  The
paper prints the picture alone: the figures next to ours are from tables that are commented out in its LaTeX, means over
three runs.  Each point is a run of the item digits, in its folders; points that are the same run are trained once.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jumbot._base.files import write_text
from jumbot._base.text_tables import markdown
from jumbot._paper.digits_table import percent, row_of
from jumbot._paper.record import Record
from jumbot._paper.targets import SENSITIVITY
from jumbot._paper.trained import Suite
from jumbot.adaptation._queue import Run
from jumbot.errors import ArgumentError, suggest
from jumbot.report._style import GREY, METHOD_COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OVER = {"tau": r"$\tau$", "epsilon": r"$\varepsilon$", "batch_size": "batch size $m$"}
#: {(option, method): values}
VALUES = {key: sorted(row["U-M"]) for key, row in SENSITIVITY.items()}
TASKS = ("U-M", "S-M")
QUICK = {"tau": (1.0,), "epsilon": (0.1,), "batch_size": (20, 50)}


def run(
    suite: Suite,
    *,
    over: Sequence[str] = tuple(OVER),
    tasks: Sequence[str] = TASKS,
    methods: Sequence[str] = ("jumbot", "deepjdot"),
) -> dict[str, Any]:
    """Train the points that are not finished, then collect, draw and save `fig6.json` and `fig6.md`."""
    chosen = ["batch_size" if name == "m" else name for name in over]
    for name in chosen:
        if name not in OVER:
            raise ArgumentError(f"over: {name!r} is not known; {suggest(name, ['tau', 'epsilon', 'm'])}")
        if name in suite.changes:
            setting = suite.changes[name]
            raise ArgumentError(f"{name}: got {setting}, and the figure is over {name}; pass only one of them.")
    points = {
        (option, method, task, value): suite.runs([task], [method], **{option: value})
        for (option, method), values in VALUES.items()
        if method in methods and option in chosen
        for task in tasks
        for value in (QUICK[option] if suite.quick else values)
    }
    runs = [each for found in points.values() for each in found]
    record = suite.record("fig6", "figure 6", runs, over=over, tasks=tasks, methods=methods)
    rows = [_row(*key, runs) for key, runs in points.items()]
    record.data = {"points": rows, "source of the paper's figures": "tables commented out in its LaTeX"}
    _claims(record, rows)
    write_text(suite.folder / "fig6.md", table(rows))
    record.picture(suite.folder, draw(rows, [name for name in OVER if name in chosen], tasks))
    return record.save(suite.folder)


def _row(option: str, method: str, task: str, value: float, runs: Sequence[Run]) -> dict[str, Any]:
    rows = [row_of(each.folder) for each in runs]
    found = [100 * row["accuracy"] for row in rows]
    return {
        "over": option,
        "method": method,
        "task": task,
        "value": value,
        "seeds": [each.seed for each in runs],
        "accuracies": found,
        "accuracy": statistics.fmean(found),
        "wrong_mass": statistics.fmean(row["wrong_mass"] for row in rows),
        "paper": SENSITIVITY[option, method][task].get(value) if task in TASKS else None,
    }


def _claims(record: Record, rows: Sequence[Mapping[str, Any]]) -> None:
    def curve(option: str, method: str, task: str) -> dict[float, float]:
        asked = (option, method, task)
        return {r["value"]: r["accuracy"] for r in rows if (r["over"], r["method"], r["task"]) == asked}

    for task in dict.fromkeys(row["task"] for row in rows):
        if len(over := curve("tau", "jumbot", task)) > 2:
            record.claim(
                f"{task}: JUMBOT is best around tau = 1, falls for small tau and slightly for large (supplement)",
                max(over, key=lambda tau: over[tau]) == 1 and over[min(over)] < over[max(over)],
                accuracy=over,
            )
        for method, name in (("jumbot", "JUMBOT"), ("deepjdot", "entropic DeepJDOT")):
            if len(over := curve("epsilon", method, task)) > 2:
                record.claim(
                    f"{task}: the accuracy of {name} falls when the entropic regularisation is too high (supplement)",
                    over[max(over)] < max(over.values()) - 5,
                    accuracy=over,
                )
        sizes = {method: curve("batch_size", method, task) for method in ("jumbot", "deepjdot")}
        if all(len(each) > 2 for each in sizes.values()):
            lost = {method: each[max(each)] - each[min(each)] for method, each in sizes.items()}
            record.claim(
                f"{task}: JUMBOT is more robust to small batches than DeepJDOT (supplement)",
                lost["jumbot"] < lost["deepjdot"],
                points_lost_at_the_smallest=lost,
                accuracy=sizes,
            )


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: a line per point."""
    lines = []
    for row in rows:
        method = "deepjdot, entropic" if (row["method"], row["over"]) == ("deepjdot", "epsilon") else row["method"]
        over = "m" if row["over"] == "batch_size" else row["over"]
        cells = [over, row["task"], method, f"{row['value']:g}", len(row["seeds"]), f"{row['accuracy']:.1f}"]
        lines.append([*cells, row["paper"] or "-", percent(row.get("wrong_mass"))])
    head = ["over", "task", "method", "value", "seeds", "accuracy", "paper", "mass between labels"]
    return markdown(head, lines, words=3)


def draw(rows: Sequence[Mapping[str, Any]], over: Sequence[str], tasks: Sequence[str]) -> Figure:
    """A panel for each task and parameter, the paper's figures dashed."""
    figure = new_figure(5.2 * len(over), 3.4 * len(tasks) + 0.6)
    panels = figure.subplots(len(tasks), len(over), squeeze=False, sharey=True)
    for line, task in zip(panels, tasks, strict=True):
        for panel, option in zip(line, over, strict=True):
            mine = [row for row in rows if (row["over"], row["task"]) == (option, task)]
            _draw_panel(panel, mine)
            panel.set_xscale("log")
            values = sorted({row["value"] for row in mine})
            panel.set_xticks(values, [f"{value:g}" for value in values], fontsize=7.5)
            panel.minorticks_off()
            panel.set(ylim=(0, 102), xlabel=OVER[option], title=task)
            panel.grid(color=GREY, alpha=0.25)
        line[0].set_ylabel("accuracy, %")
    return figure


def _draw_panel(panel: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        name = f"{method}, entropic" if method == "deepjdot" and mine[0]["over"] == "epsilon" else method
        values = [row["value"] for row in mine]
        panel.plot(values, [row["accuracy"] for row in mine], "o-", color=METHOD_COLOURS[method], label=name)
        theirs = [(row["value"], row["paper"]) for row in mine if row["paper"] is not None]
        if theirs:
            x, y = zip(*theirs, strict=True)
            panel.plot(x, y, "x--", color=METHOD_COLOURS[method], alpha=0.5, label=f"{name}, paper")
    if rows:
        panel.legend(frameon=False, fontsize=8.5, loc="best")
