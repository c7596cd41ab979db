"""The tables of README.md and docs/adaptation/results.md, and pictures of comparisons, from the records in results/.

    python tools/tables.py           # write them
    python tools/tables.py --check   # say which pages hold others than the records give

A table stands between `<!-- table: NAME -->` and `<!-- end of NAME -->`; the functions below make them.  A folder of
results may hold several records of `jumbot compare`, of commands that differ in methods or seeds: their runs are put
into one table.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jumbot._base.text_tables import markdown, mean_and_deviation
from jumbot._paper import fig6 as figure6
from jumbot._paper import fig7 as figure7
from jumbot._paper.digits_table import NORMS, is_papers_point, percent, row_of
from jumbot._paper.digits_table import table as digits_table
from jumbot._paper.targets import TABLES as PRINTED
from jumbot._paper.targets import TASKS, WRONG_MASS
from jumbot._settings.recipes import DEEPJDOT_WEIGHTS
from jumbot.adaptation._grid import accuracies, rules_table
from jumbot.report import format_table
from jumbot.report._comparison import NONE, draw_comparison

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
PAGES = (
    ROOT / "README.md",
    *(
        ROOT / "docs" / page
        for page in (
            "adaptation/results.md",
            "adaptation/digits.md",
            "adaptation/choosing.md",
            "guide/speed.md",
            "methods/jumbot.md",
            "paper.md",
        )
    ),
)
BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)
PICTURES = ("office-caltech10", "office-caltech10-partial")  # those that the pages show
NOT_RUN = "Not run yet.\n"
#: Rows of the summary that are variants, and how it calls them; the paper's settings for JUMBOT differ by the target.
_PLAIN = "jumbot, the paper's settings"
VARIANTS = {
    "jumbot": "jumbot, the defaults here",
    "jumbot:eta1=0.01,eta2=0.5,eta3=1,tau=0.5,scale=none,proportions=equal": _PLAIN,
    "jumbot:eta1=0.003,eta2=0.75,eta3=10,tau=0.06,scale=none,proportions=equal": _PLAIN,
    "jumbot:source_loss=plan": "jumbot, source loss by the plan",
    "deepjdot": "deepjdot, JUMBOT's cost weights",
    "deepjdot:cost_weights=original": "deepjdot, its authors' cost weights",
    "ba3us:weight_decay=0.0005": "ba3us, weight decay .0005",
}


def read(folder: str) -> list[dict[str, Any]]:
    """The records of comparisons in a folder of results, in the order of their names."""
    found = [json.loads(file.read_text()) for file in sorted((RESULTS / folder).glob("*.json"))]
    return [record for record in found if "runs" in record]


def merged(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One record of all runs; the same run in two records is an error."""
    runs = [row for record in records for row in record["runs"]]
    keys = [(row["task"], row["method"], row["seed"]) for row in runs]
    if twice := {key for key in keys if keys.count(key) > 1}:
        raise SystemExit(f"results: {sorted(twice)[0]} stands in two records")
    failed = {name: why for record in records for name, why in record["failed"].items()}
    return {"runs": runs, "failed": failed}


def origin(records: Sequence[dict[str, Any]]) -> str:
    """The commands behind a table, with date and version."""
    lines = []
    for record in records:
        commands = record["command"] if isinstance(record["command"], list) else [record["command"]]
        lines += [f"{command}  # {record['created'][:10]}, jumbot {record['jumbot']}" for command in commands]
    return "\n".join(["```bash", *lines, "```", "", ""])


def comparison(folder: str) -> str:
    """Commands, accuracies of every task, and what each selection rule chooses."""
    if not (records := read(folder)):
        return NOT_RUN
    record = merged(records)
    rules = f"Mean accuracy by the rule that chooses the model:\n\n{rules_table(record)}"
    failed = "".join(f"\n{name}: {why}.\n" for name, why in record["failed"].items())
    return f"{origin(records)}{format_table(accuracies(record))}\n{failed}\n{rules}"


def draw(folder: str) -> None:
    """The picture of the comparison, of the methods in their own settings."""
    found = {method: row for method, row in accuracies(merged(read(folder))).items() if "standardise" not in method}
    draw_comparison(found).savefig(RESULTS / folder / "comparison.png", dpi=150)


def means(folder: str) -> dict[str, tuple[int, str]]:
    """`{method: (seeds, mean over all tasks)}`; a dash where a task is missing."""
    if not (records := read(folder)):
        return {}
    found = accuracies(merged(records))
    tasks = {task for row in found.values() for task in row}
    return {
        method: (
            max(map(len, row.values())),
            f"{100 * statistics.fmean(map(statistics.fmean, row.values())):.1f}" if set(row) == tasks else NONE,
        )
        for method, row in found.items()
    }


def office_summary() -> str:
    tables = [means(f"office-caltech10{kind}") for kind in ("", "-partial", "-imbalanced")]
    tables = [{VARIANTS.get(method, method): cells for method, cells in table.items()} for table in tables]
    methods = dict.fromkeys(method for table in tables for method in table if ":" not in method)
    order = sorted(methods, key=lambda method: tables[0].get(method, (0, ""))[1].replace(NONE, ""), reverse=True)
    return markdown(
        ("method", "seeds", "all classes", "seeds", "partial target", "seeds", "imbalanced target"),
        [(method, *(cell for table in tables for cell in table.get(method, ("", NONE)))) for method in order],
    )


def settings() -> str:
    """JUMBOT's general and partial settings on rows of numbers."""
    if not (file := RESULTS / "settings" / "settings.json").exists():
        return NOT_RUN
    record = json.loads(file.read_text(encoding="utf-8"))
    head = ("rows", "target", "tasks", "source-only", "general", "partial")
    rows = [[f"{100 * v:.1f}" if isinstance(v, float) else v for v in map(row.get, head)] for row in record["means"]]
    return origin([record]) + markdown(head, rows, words=2)


def units() -> str:
    """The same data in other units."""
    if not (file := RESULTS / "units" / "units.json").exists():
        return NOT_RUN
    record = json.loads(file.read_text(encoding="utf-8"))
    head = ("data", "units", "source-only", "jumbot")
    rows = [
        [f"{100 * v:.1f}" if isinstance(v, float) else v or NONE for v in map(row.get, head)] for row in record["lines"]
    ]
    return origin([record]) + markdown(head, rows, words=2)


def sources() -> str:
    """A good source alone, with a second one, and with one whose labels are shuffled."""
    record = json.loads((RESULTS / "office-caltech10-sources" / "sources.json").read_text())
    share = "of which from the second"
    head = ("first + second source - target", "first alone", "both", share, "second shuffled", share, "source-only")
    keys = ("alone", "both", "share_of_second", "shuffled", "share_of_shuffled", "source_only_shuffled")
    rows = [(row["task"], *(f"{100 * row[key]:.1f}" for key in keys)) for row in record["rows"]]
    mean = ("mean", *(f"{100 * statistics.fmean(row[key] for row in record['rows']):.1f}" for key in keys))
    return origin([record]) + markdown(head, [*rows, mean])


def few_labels() -> str:
    """Accuracy by the number of target labels per class."""
    record = json.loads((RESULTS / "office-caltech10-labels" / "labels.json").read_text())
    counts = sorted({row["labels"] for row in record["rows"]})
    found = {(row["task"], row["method"], row["labels"]): row["accuracy"] for row in record["rows"]}
    tasks, methods = (list(dict.fromkeys(row[key] for row in record["rows"])) for key in ("task", "method"))
    rows = [(t, m, *(f"{100 * found[t, m, c]:.1f}" for c in counts)) for t in tasks for m in methods]
    for m in methods:
        rows.append(("mean", m, *(f"{100 * statistics.fmean(found[t, m, c] for t in tasks):.1f}" for c in counts)))
    head = ("task", "method", *(f"{c} labels" if c != 1 else "1 label" for c in counts))
    return origin([record]) + markdown(head, rows, words=2)


def number_evidence() -> str:
    """What `tune` picks for numbers, beside the true errors."""
    record = json.loads((RESULTS / "regression" / "evidence.json").read_text())
    rows = [
        (
            row["problem"],
            row["picked"] if row["told"] else "source-only, cannot tell",
            f"{row['gap_of_source_only']:.2f}",
            *(f"{row['error'][key]:.2f}" for key in ("picked", "source-only", "default", "best")),
        )
        for row in record["rows"]
    ]
    errors = ("error of the pick", "source-only", "jumbot tau=2", "best candidate")
    return origin([record]) + markdown(("shift", "picked", "gap of source-only", *errors), rows, words=2)


def regret() -> str:
    """What rules that need no labels cost."""
    if not (file := RESULTS / "regret" / "regret.json").exists():
        return NOT_RUN
    record = json.loads(file.read_text(encoding="utf-8"))
    text = origin([record])
    for table, rows in record["rules"].items():
        tasks = f"{table}: {', '.join(task.replace('-', ' -> ') for task in record['tasks'][table])}"
        text += f"{tasks}\n\n{markdown(list(rows[0]), [list(row.values()) for row in rows])}\n"
    return text


def digits_runs() -> list[dict[str, Any]]:
    """Every run, by the paper's order of tasks and methods, each with the path of its folder."""
    files = (RESULTS / "digits").glob("*/*/results.json")
    rows = [row_of(file.parent) | {"folder": file.parent} for file in files]
    order = (*PRINTED["digits"], "source-only", "m-pot", "elot")
    return sorted(rows, key=lambda r: (TASKS["digits"].index(r["task"]), order.index(r["method"]), r["folder"].name))


def longest(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each task and method the runs at the paper's point with the most updates, one or more seeds of them.

    Of equally many updates those that also have an accuracy with batch norms of the target, and the larger batches.
    """
    rows = [row for row in rows if is_papers_point(row)]
    most: dict[tuple[str, str], tuple[int, int, bool, int]] = {}
    for row in rows:
        key = row["task"], row["method"]
        most[key] = max(most.get(key, (0, 0, False, 0)), _length(row))
    return [row for row in rows if _length(row) == most[row["task"], row["method"]]]


def _length(row: dict[str, Any]) -> tuple[int, int, bool, int]:
    """Updates of adaptation and on the source, whether batch norms are of the target, and the size of the batches."""
    source, adapted = row["updates"]
    return adapted, source, row["by_norms"]["target"] is not None, row["training"]["batch_size"]


def digits(main: bool) -> str:
    """The longest runs at the paper's point, or all the others: each with its command."""
    rows = digits_runs()
    chosen = [row["folder"] for row in longest(rows)]
    folders = sorted(row["folder"] for row in rows if (row["folder"] in chosen) == main)
    commands = []
    for folder in folders:
        config = json.loads((folder / "config.json").read_text())
        commands.append(f"{config['command']}  # {config['created'][:10]}, jumbot {config['jumbot']}")
    return "\n".join([digits_table(folders), "```bash", *commands, "```", ""])


def digits_summary() -> str:
    """A row per task and method, the mean over the seeds of its longest runs."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in longest(digits_runs()):
        groups.setdefault((row["task"], row["method"]), []).append(row)
    rows = []
    for (task, method), group in groups.items():
        wrong = [row["wrong_mass"] for row in group if row["wrong_mass"] is not None]
        theirs = WRONG_MASS.get(method) if task == "U-M" else None
        source, adapted = group[0]["updates"]
        rows.append(
            (
                task,
                method,
                len(group),
                group[0]["training"]["batch_size"],
                f"{source:,} + {adapted:,}",
                *(_mean_of([row["by_norms"][kind] for row in group]) for kind in ("running", "target")),
                group[0]["paper"] or NONE,
                percent(statistics.fmean(wrong)) if wrong else NONE,
                percent(theirs),
            )
        )
    head = ("task", "method", "seeds", "batch", "updates", *NORMS, "paper", "mass between labels", "paper")
    return markdown(head, rows, words=2)


def _mean_of(accuracies: Sequence[float | None]) -> str:
    """Mean and deviation of the runs; a dash if one of them has none."""
    found = [value for value in accuracies if value is not None]
    return mean_and_deviation(found) if len(found) == len(accuracies) else NONE


def batch_norms() -> str:
    """Trained networks with the running statistics of their batch norms, and with those of the target."""
    record = json.loads((RESULTS / "paper" / "batch_norms.json").read_text(encoding="utf-8"))
    head = ("task", "method", "seed", "batch", "updates", "running", "of the target")
    rows = []
    for row in record["runs"]:
        accuracies = (f"{100 * row[key]:.1f}" for key in ("running", "target"))
        run = (row[key] for key in ("task", "method", "seed", "batch_size"))
        rows.append((*run, f"{row['updates']:,}", *accuracies))
    return origin([record]) + markdown(head, rows, words=2)


def demo() -> str:
    """The table that `jumbot demo` prints."""
    if not (records := read("demo")):
        return NOT_RUN
    found = accuracies(merged(records))
    tasks = list(dict.fromkeys(task for row in found.values() for task in row))
    seeds = sorted({row["seed"] for record in records for row in record["runs"]})
    head = ("accuracy on 1,000 target digits that training never saw", *(f"{task} target" for task in tasks))
    rows = [(method, *(mean_and_deviation(row[task]) for task in tasks)) for method, row in found.items()]
    made = f"`{records[0]['command']}`, {records[0]['created'][:10]}, seed {', '.join(map(str, seeds))}:"
    return f"{made}\n\n{markdown(head, rows)}"


def photographs() -> str:
    record = json.loads((RESULTS / "photographs" / "photographs.json").read_text())
    rows = [
        (
            row["method"],
            f"{100 * row['accuracy']:.1f}",
            f"{100 * row['mean_class_accuracy']:.1f}",
            row["unexplained"],
        )
        for row in record["runs"]
    ]
    head = ("method", "target accuracy", "mean over classes", "unexplained samples")
    return f"`{record['command']}`, seed {record['seed']}, {record['date']}:\n\n{markdown(head, rows)}"


def speed() -> str:
    record = json.loads((RESULTS / "bench.json").read_text())
    rows = []
    for row in record["regimes"]:
        name = row["regime"] if row["problems in a call"] == 1 else f"{row['regime']} of {row['problems in a call']}"
        reached = [p for p in row["peers"] if p["median"] is not None and not p["tuned"]]
        best = min(reached, key=lambda peer: peer["median"], default=None)
        ratio, least, tuned = (row[key] for key in ("ratio", "ratio is at least", "ratio to tuned peers"))
        rows.append(
            (
                f"{name} ({row['m']}, {row['epsilon']:g}, {row['tau']:g})",
                _ms(row["ours"][0]["median"]),
                f"{best['name']} {_ms(best['median'])}" if best else "none reached the gap",
                f"{ratio:.1f}x" if ratio else f"> {least:.0f}x" if least else "-",
                f"{tuned:.1f}x" if tuned else "-",
            )
        )
    head = ("problem (points, epsilon, tau)", "jumbot, ms", "best peer, ms", "ratio", "with the peer's options tuned")
    made = (
        f"`{record['command']}`, {record['date']}, at a relative gap of 1e{round(math.log10(record.get('gap', 1e-6)))}"
    )
    return f"{made}:\n\n{markdown(head, rows)}"


def everyday() -> str:
    """Everybody's defaults side by side."""
    record = json.loads((RESULTS / "bench.json").read_text())
    if "everyday" not in record:
        return NOT_RUN
    head, *lines = record["everyday"]["table"]
    made = {**record, **record["everyday"]}
    return f"`{made['command']}`, {made['date']}:\n\n{markdown(head, lines, words=2)}"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"


def paper_table(item: str) -> str:
    """The Markdown that `jumbot reproduce ITEM` wrote beside its record."""
    file = RESULTS / "paper" / f"{item}.md"
    if not file.exists():
        return NOT_RUN
    record = json.loads(file.with_suffix(".json").read_text())
    return f"{origin([record])}{file.read_text()}"


def fig6_points() -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """The records of figure 6, their points at the paper's settings, and those with other cost weights."""
    records = [json.loads(file.read_text()) for file in sorted((RESULTS / "paper").glob("fig6*.json"))]
    points: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for record in records:
        methods = [each["method"] for each in record["settings"].values()]
        weights = {m["name"]: {name: m[name] for name in DEEPJDOT_WEIGHTS} for m in methods}
        for row in record["data"]["points"]:
            if row["method"] != "deepjdot" or (own := weights["deepjdot"]) == DEEPJDOT_WEIGHTS:
                points.append(row)
            else:
                named = ", ".join(f"{name} {value:g}" for name, value in own.items())
                others.append(row | {"method": f"deepjdot, entropic ({named})"})
    order = list(figure6.OVER)
    points.sort(key=lambda row: (order.index(row["over"]), row["method"] != "jumbot"))
    return records, points, others


def fig6() -> str:
    records, points, _ = fig6_points()
    return origin(records) + figure6.table(points)


def draw_fig6() -> None:
    _, points, _ = fig6_points()
    over = [option for option in figure6.OVER if option in {row["over"] for row in points}]
    tasks = [task for task in TASKS["digits"] if task in {row["task"] for row in points}]
    picture = figure6.draw(points, over, tasks)
    picture.savefig(RESULTS / "paper" / "fig6.png", dpi=110)
    picture.savefig(RESULTS / "paper" / "fig6.pdf", dpi=110, metadata={"CreationDate": None})


def class_curves() -> dict[str, dict[str, Any]]:
    """What figure 7 shows, of the longest runs on M->MM at the paper's settings, which need not have the same seed."""
    rows = [row for row in longest(digits_runs()) if row["task"] == "M-MM"]
    runs = {row["method"]: row for row in reversed(rows) if row["method"] in ("deepjdot", "jumbot")}
    return {name: row | figure7.curve_of(row["folder"]) for name, row in runs.items()}


def classes_along_training() -> str:
    """The measures of figure 7 of these runs."""
    rows = []
    for name, curve in sorted(class_curves().items()):
        falls, last = figure7.fall(curve["accuracies"]), curve["accuracies"][-1]
        source, adapted = curve["updates"]
        length = (name, curve["seed"], curve["training"]["batch_size"], f"{source:,} + {adapted:,}")
        measures = (statistics.fmean(last), min(last), statistics.fmean(falls), max(falls))
        rows.append((*length, *(f"{value:.1f}" for value in measures)))
    measured = ("mean of the classes", "worst class", "points below the best, mean", "largest")
    return markdown(("method", "seed", "batch", "updates", *measured), rows)


def draw_class_curves() -> None:
    curves = {f"{name}, seed {curve['seed']}": curve for name, curve in sorted(class_curves().items())}
    figure7.draw(curves, [str(digit) for digit in range(10)]).savefig(RESULTS / "digits" / "classes.png", dpi=110)


TABLES: dict[str, Callable[[], str]] = {
    "batch-norms": batch_norms,
    "demo": demo,
    "digits": lambda: digits(True),
    "digits-other": lambda: digits(False),
    "everyday": everyday,
    "digits-summary": digits_summary,
    "classes-along-training": classes_along_training,
    "few-labels": few_labels,
    "fig6": fig6,
    "fig6-other": lambda: figure6.table(fig6_points()[2]),
    "max": lambda: paper_table("max"),
    "office-summary": office_summary,
    "office-caltech10": lambda: comparison("office-caltech10"),
    "office-caltech10-imbalanced": lambda: comparison("office-caltech10-imbalanced"),
    "office-caltech10-partial": lambda: comparison("office-caltech10-partial"),
    "number-evidence": number_evidence,
    "photographs": photographs,
    "regret": regret,
    "settings": settings,
    "sources": sources,
    "units": units,
    "speed": speed,
}


def filled(text: str) -> str:
    """The page with the tables that the records give."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{TABLES[block[2]]()}\n{block[3]}", text)


def main(arguments: Sequence[str]) -> int:
    stale = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            stale.append(page.name)
            if "--check" not in arguments:
                page.write_text(new, encoding="utf-8")
    if "--check" not in arguments:
        for folder in PICTURES:
            draw(folder)
        draw_fig6()
        draw_class_curves()
    state = "is not what the records give" if "--check" in arguments else "written"
    print("\n".join(f"{name}: {state}" for name in stale) or "every table is what the records give")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
