"""The top of a report: the answer, how certain it is, what to look at next, and warnings.

For several runs: links to their own reports, and a ranking without labels.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import jumbot
from jumbot._base.text_tables import aligned
from jumbot.methods import SOURCE_ONLY
from jumbot.report._answer import Answer, answer, marks_of
from jumbot.report._comparison import NONE, compare
from jumbot.report._page import Group, Html, Section, Table, accuracies, render
from jumbot.report._presence import data_remarks, warnings_of
from jumbot.report._records import RunRecord, number
from jumbot.report._words import HOW, ORACLE_WARNING, describe_run, listed, percent

SHOWN_WARNINGS = 8


def summary(title: str, records: Sequence[RunRecord], tasks: Mapping[str, list[Group]], evidence: Evidence) -> Html:
    """Everything above the first picture."""
    single = len(records) == 1
    oracles = [run for run in records if run.oracle]
    which = "" if len(oracles) == len(records) else f" ({len(oracles)} of {len(records)} runs)"
    return render(
        "summary.html",
        title=title,
        subtitle=_subtitle(records),
        oracle=ORACLE_WARNING if oracles else "",
        which=which,
        unfinished=[_unfinished(run) for run in records if not run.finished],
        answer=answer(records[0]) if single else compared(tasks, evidence),
        facts=_facts(records[0]) if single else [],
        about=describe_run(records[0]) if single else "",
        overview="" if single else _overview(records, tasks),
        warnings=_warnings(tasks, not single),
        data=_data(tasks),
        most=SHOWN_WARNINGS,
    )


def _subtitle(records: Sequence[RunRecord]) -> str:
    seconds = [run.final["seconds"] for run in records if run.final]
    dates = sorted(run.config["created"][:10] for run in records if run.config["created"])
    text = f"{len(records)} run{'s' * (len(records) > 1)}"
    if dates:
        text += f", {dates[0]}" + (f" to {dates[-1]}" if dates[-1] != dates[0] else "")
    if seconds:
        text += f", {_duration(sum(seconds))} of training"
    return f"{text}. Written by jumbot {jumbot.__version__}."


def _unfinished(run: RunRecord) -> tuple[str, str]:
    step = run.steps[-1]["step"] if run.steps else None
    where = f"its records reach step {step:,.0f}" if step is not None else "nothing is recorded yet"
    return f"{run.method} on {run.task} is unfinished:", f"{where}. Figures below are of its last evaluation."


def _facts(run: RunRecord) -> list[tuple[str, str]]:
    """Figures next to the summary, each with its label."""
    facts: list[tuple[str, str]] = []
    several = run.final.get("per_output") or ()
    for each in several if len(several) > 1 else (run.final,):  # means over numbers of several units say nothing
        of = f" of {each['name']}" if each.get("name") else ""
        titles = {"rmse": f"RMSE{of} on the target", "mae": f"mean absolute error{of}", "r2": f"R2{of}"}
        facts += [
            (f"{value:.4g}", title) for name, title in titles.items() if (value := number(each.get(name))) is not None
        ]
    if run.mean_class_accuracy is not None:
        facts.append((percent(run.mean_class_accuracy), "accuracy, mean over classes"))
    if run.baseline and run.method != SOURCE_ONLY:
        facts.append((percent(run.baseline["changed"]), "of the predictions changed by adaptation"))
    if run.diagnosis:
        facts.append((percent(run.diagnosis["unexplained_share"]), "of the target is unexplained"))
    return facts


def _overview(records: Sequence[RunRecord], tasks: Mapping[str, list[Group]]) -> str:
    labels = list(dict.fromkeys(group.label for groups in tasks.values() for group in groups))
    seeds = {run.seed for run in records}
    found = accuracies(tasks)
    lines: list[str] = []
    for task, groups in tasks.items():
        pairs = [(values, group) for group in groups if (values := found.get(group.label, {}).get(task))]
        order = sorted(((fmean(values), group) for values, group in pairs), key=lambda pair: -pair[0])
        if len(order) > 1 and 1 < len(tasks) <= 4:
            others = listed([f"{group.label} {percent(value)}" for value, group in order[1:]], most=4)
            lines.append(f"On {task}, {order[0][1].label} is best with {percent(order[0][0])}, then {others}.")
    if not found:
        lines.append(
            "No target labels were given, so no accuracy is known; rely on the scores without labels and on the "
            "warnings."
        )
    lines.append(
        f"{len(labels)} method{'s' * (len(labels) > 1)} ({listed(labels)}) on {len(tasks)} "
        f"task{'s' * (len(tasks) > 1)} ({listed(list(tasks))}), {len(seeds)} seed{'s' * (len(seeds) > 1)}."
    )
    rules = {run.rule for run in records}
    if len(rules) == 1 and not records[0].oracle:
        lines.append(f"The rule “{rules.pop()}” chose every model, without target labels.")
    elif len(rules) > 1:
        lines.append(f"Models were chosen by different rules: {listed(sorted(rules))}.")
    return " ".join(lines)


def compared(tasks: Mapping[str, list[Group]], evidence: Evidence) -> Answer | None:
    """Which method is best over the tasks that all have, by labels or else by evidence, and by how much."""
    groups = {group.label: group for each in tasks.values() for group in each}
    runs = [run for group in groups.values() for run in group.runs]
    place = "reports" if any((run.folder / "report.html").is_file() for run in runs) else ""
    found = {label: own for label, own in accuracies(tasks).items() if not groups[label].oracle}
    if evidence and not found:
        first = ranked(evidence)[0]
        return Answer(
            f"{first} has the highest score without labels.",
            "",
            "The score ranks methods; it does not say how many predictions are right.",
            "The reports of the runs, beginning with that of the first method.",
            place,
        )
    common = [task for task in tasks if all(task in own for own in found.values())]
    if len(found) < 2 or not common:
        return None
    rows = []
    for label, own in found.items():
        cell = compare({label: {task: own[task] for task in common}}).means[0]
        assert cell is not None
        spread = cell.spread or 0.0
        rows.append((label, cell.mean, max(cell.mean - spread, 0.0), min(cell.mean + spread, 1.0)))
    rows.sort(key=lambda row: -row[1])
    (best, value, low, _), (second, other, _, high) = rows[:2]
    over = f"{len(common)} tasks" if len(common) > 1 else common[0]
    seeds = min(len(own[task]) for own in found.values() for task in common)
    sure = "One seed each: use --seeds 3 to find out how much of the difference is chance."
    if seeds > 1:
        apart = "overlap" if low <= high else "do not overlap"
        sure = f"{seeds} seeds each: mean and deviation of {best} and {second} {apart}."
    marks, ends = marks_of(rows, percent)
    return Answer(
        f"{best} is best on {over}: {percent(value)}, {100 * (value - other):.1f} points above {second}.",
        "good",
        sure,
        f"The report of {best}, and the warnings.",
        place,
        marks,
        ends,
    )


def _data(tasks: Mapping[str, list[Group]]) -> list[tuple[str, str]]:
    """Problems in the data, and of which task; runs on one task share them, so they are listed once."""
    found = [
        (f"{task}: " * (len(tasks) > 1), text)
        for task, groups in tasks.items()
        for group in groups
        for run in group.runs
        for text in data_remarks(run)
    ]
    return list(dict.fromkeys(found))


def _warnings(tasks: Mapping[str, list[Group]], several: bool) -> list[tuple[str, str]]:
    """Each warning with the run that it is about."""
    return [
        (f"{group.label} on {task}{f', seed {run.seed}' * (len(group.runs) > 1)}: " if several else "", text)
        for task, groups in tasks.items()
        for group in groups
        for run in group.runs
        for text in warnings_of(run)
    ]


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


Evidence = Mapping[str, Mapping[str, Sequence[float]]]
"""{method: {task: [one value per seed]}}, larger is better within a task."""


def ranked(evidence: Evidence) -> list[str]:
    """The methods, best first by their mean rank over the tasks that all have."""
    tasks = [
        t for t in dict.fromkeys(t for v in evidence.values() for t in v) if all(t in v for v in evidence.values())
    ]

    def mean_rank(method: str) -> float:
        own = [(task, fmean(evidence[method][task])) for task in tasks]
        return sum(sum(fmean(v[task]) > value for v in evidence.values()) for task, value in own)

    return sorted(evidence, key=mean_rank)


def evidence_section(evidence: Evidence) -> Section:
    """The table of evidence, best method first."""
    tasks, rows = _cells(evidence)
    shown = [[method, *(NONE if v is None else f"{v:.3f}" for v, _ in cells)] for method, cells in rows]
    best = {(place, i) for place, (_, cells) in enumerate(rows) for i, (_, is_best) in enumerate(cells, 1) if is_best}
    table = Table(["method", *tasks], shown, best=frozenset(best))
    return Section("Scores without labels", table=table, how=HOW["evidence"])


def format_evidence(evidence: Evidence) -> str:
    """The same as text.

    >>> print(format_evidence({"a": {"t": [0.5]}, "b": {"t": [0.7, 0.9]}}))
    method  t
    b       0.800*
    a       0.500
    """
    tasks, rows = _cells(evidence)
    shown = [[method, *("-" if v is None else f"{v:.3f}{'*' * best}" for v, best in cells)] for method, cells in rows]
    return aligned([["method", *tasks], *shown])


def _cells(evidence: Evidence) -> tuple[list[str], list[tuple[str, list[tuple[float | None, bool]]]]]:
    """The tasks, and of each method, best first, its evidence on each of them and whether none has more there."""
    tasks = list(dict.fromkeys(task for values in evidence.values() for task in values))
    most = {t: max(fmean(v[t]) for v in evidence.values() if t in v) for t in tasks}
    found = {m: {t: fmean(values) for t, values in evidence[m].items()} for m in ranked(evidence)}
    return tasks, [(m, [(own.get(t), own.get(t) == most[t]) for t in tasks]) for m, own in found.items()]


def links(tasks: Mapping[str, Sequence[Group]], where: Path) -> Html:
    """To the report of every run that has one, from a page in the folder `where`."""
    found = []
    for task, groups in tasks.items():
        for group in groups:
            for run in group.runs:
                page = run.folder / "report.html"
                if page.is_file() and page.parent.resolve() != where.resolve():
                    address = Path(os.path.relpath(page, where)).as_posix()
                    name = f"{group.label}, {task}" + (f", seed {run.seed}" if len(group.runs) > 1 else "")
                    found.append((address, name))
    return render("links.html", links=found) if found else Html("")
