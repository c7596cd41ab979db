"""The report on adaptation runs: one HTML file that needs nothing else, for one run or for methods over tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jumbot
from jumbot.errors import ArgumentError
from jumbot.files import write_text
from jumbot.report import comparison, numbers, origins, outcome, overview, samples, sections, words
from jumbot.report.groups import Group, accuracies, group_runs
from jumbot.report.html import Html, document, join, render, tag
from jumbot.report.presence import warnings_of
from jumbot.report.records import RunRecord, number, read_run
from jumbot.report.style import styled

DETAILED = 8  # groups of runs that get pictures of their own, over all tasks
RANKED_TASKS = 3  # fewer tasks make no ranking


def write_report(
    runs: Sequence[RunRecord] | Sequence[Path] | Sequence[str], out: str | Path, title: str = "Adaptation report",
    evidence: overview.Evidence | None = None,
) -> Path:  # fmt: skip
    """Write the report on one run or several, and return its path.

    Parameters
    ----------
    runs
        Run folders, or what `read_run` made of them. Runs of one method on one task that differ in their seed are
        shown as mean and spread.
    out
        A name ending in `.html`, or a folder, in which the file is `report.html`. A report of that name is replaced.
    evidence
        What ranks several methods without labels, `{method: {task: [one value per seed]}}`.
    """
    records = [run if isinstance(run, RunRecord) else read_run(run) for run in runs]
    if not records:
        raise ArgumentError("runs: none came in; give at least one run folder.")
    out = Path(out)
    path = out if out.suffix == ".html" else out / "report.html"
    with styled():
        text = _page(records, title, path.parent, evidence or {})
    return write_text(path, text)


def _page(records: Sequence[RunRecord], title: str, where: Path, evidence: overview.Evidence) -> str:
    tasks = group_runs(records)
    pictures = sections.Pictures()
    detailed = sum(map(len, tasks.values())) <= DETAILED
    parts = [tag("h1", title), _subtitle(records), _summary(records, tasks), _tables(tasks, pictures)]
    parts += [overview.evidence_section(evidence)] if evidence else []
    if detailed:
        for number, (task, groups) in enumerate(tasks.items(), 1):
            heading = [tag("h2", task, id=f"task-{number}")] if len(tasks) > 1 else []
            parts += [*heading, _task(groups, pictures)]
    else:
        count = sum(map(len, tasks.values()))
        parts.append(
            tag("p", f"With {count} methods and tasks there are no pictures of single runs here; a report of at most "
                f"{DETAILED} of them shows curves, classes and embeddings.", class_="soft")
        )  # fmt: skip
    parts.append(samples.predictions(records[0], where) if len(records) == 1 else overview.links(tasks, where))
    parts += [_settings(records, tasks), _glossary()]
    return document(title, *parts)


def _subtitle(records: Sequence[RunRecord]) -> Html:
    seconds = [value for run in records if isinstance(value := run.final.get("seconds"), int | float)]
    dates = sorted(str(run.config["created"])[:10] for run in records if run.config.get("created"))
    text = f"{len(records)} run{'s' * (len(records) > 1)}"
    if dates:
        text += f", {dates[0]}" + (f" to {dates[-1]}" if dates[-1] != dates[0] else "")
    if seconds:
        text += f", {_duration(sum(seconds))} of training"
    return tag("p", f"{text}. Written by jumbot {jumbot.__version__}.", class_="soft")


def _summary(records: Sequence[RunRecord], tasks: Mapping[str, list[Group]]) -> Html:
    parts: list[Html] = []
    oracles = [run for run in records if run.oracle]
    if oracles:
        which = "" if len(oracles) == len(records) else f" ({len(oracles)} of {len(records)} runs)"
        heading = tag("b", f" Target labels chose the model{which}. ")
        parts.append(tag("div", tag("p", words.badge(), heading, words.ORACLE_WARNING), class_="note alarm"))
    unfinished = [run for run in records if not run.finished]
    if unfinished:
        parts.append(tag("div", *(tag("p", _unfinished(run)) for run in unfinished), class_="note"))
    if len(records) == 1:
        run = records[0]
        parts += [tag("p", outcome.verdict(run), class_=f"verdict {outcome.mood(run)}"), _facts(run)]
        parts += [tag("p", text, class_="soft") for text in [outcome.describe_baseline(run)] if text]
        parts.append(tag("p", words.describe_run(run)))
    else:
        parts.append(_overview(records, tasks))
    parts.append(_warnings(records, tasks))
    return join(*parts)


def _unfinished(run: RunRecord) -> Html:
    step = run.steps[-1]["step"] if run.steps else None
    where = f"its records reach step {step:,.0f}" if step is not None else "it has recorded nothing yet"
    return join(
        tag("b", f"{run.method} on {run.task} is unfinished: "), f"{where}. Figures below are of its last evaluation."
    )


def _facts(run: RunRecord) -> Html:
    adapted = run.method != "source-only"
    facts: list[tuple[str, str]] = []
    several = run.final.get("per_output") or ()
    for each in several if len(several) > 1 else (run.final,):  # means over numbers of several units say nothing
        of = f" of {each['name']}" if each.get("name") else ""
        titles = {"rmse": f"RMSE{of} on the target", "mae": f"mean absolute error{of}", "r2": f"R2{of}"}
        facts += [(f"{value:.4g}", title) for name, title in titles.items() if (value := number(each.get(name)))]
    if run.accuracy is not None:
        facts.append((words.percent(run.accuracy), f"target accuracy, rule “{run.rule}”"))
        if (before := outcome.baseline_accuracy(run)) is not None and adapted:
            facts.append((words.percent(before), "source-only baseline of this run"))
        if run.mean_class_accuracy is not None:
            facts.append((words.percent(run.mean_class_accuracy), "mean over classes"))
    else:
        own, other = run.final.get("estimated_accuracy"), run.baseline.get("estimated_accuracy")
        for estimate, what in ((own, "are probably right"), (other, "source-only baseline, estimated alike")):
            if about := words.estimated(estimate).removeprefix("about "):
                facts.append((about.partition(" (")[0], f"{what} ({about.partition(' (')[2]}"))
    if (changed := number(run.baseline.get("changed"))) is not None and adapted:
        facts.append((words.percent(changed), "of the predictions changed"))
    if (share := number(run.diagnosis.get("unexplained_share"))) is not None:
        facts.append((words.percent(share), "of the target is unexplained"))
    return tag(
        "div", *(tag("div", tag("b", value), label, class_="fact") for value, label in facts), class_="figure-row"
    )


def _overview(records: Sequence[RunRecord], tasks: Mapping[str, list[Group]]) -> Html:
    labels = list(dict.fromkeys(group.label for groups in tasks.values() for group in groups))
    seeds = {run.seed for run in records}
    lines = [
        f"{len(labels)} method{'s' * (len(labels) > 1)} ({words.listed(labels)}) on {len(tasks)} "
        f"task{'s' * (len(tasks) > 1)} ({words.listed(list(tasks))}), {len(seeds)} seed{'s' * (len(seeds) > 1)}."
    ]
    rules = {run.rule for run in records}
    if len(rules) == 1 and not records[0].oracle:
        lines.append(f"The rule “{rules.pop()}” chose every model, without any target label.")
    else:
        lines.append(f"Models were chosen by different rules: {words.listed(sorted(rules))}." if len(rules) > 1 else "")
    found = accuracies(tasks)
    if not found:
        lines.append(
            "No target labels were given, so no accuracy is known; the label-free scores and warnings are what there "
            "is to go by."
        )
    for task, groups in tasks.items():
        ranked = sorted(
            (
                (sum(values) / len(values), group)
                for group in groups
                if (values := found.get(group.label, {}).get(task))
            ),
            key=lambda pair: -pair[0],
        )
        if len(ranked) > 1 and len(tasks) <= 4:
            others = words.listed([f"{group.label} {words.percent(value)}" for value, group in ranked[1:]], most=4)
            lines.append(f"On {task}, {ranked[0][1].label} is best with {words.percent(ranked[0][0])}, then {others}.")
    return tag("p", " ".join(line for line in lines if line), class_="lead")


def _warnings(records: Sequence[RunRecord], tasks: Mapping[str, list[Group]]) -> Html:
    several = len(records) > 1
    items = []
    for task, groups in tasks.items():
        for group in groups:
            for run in group.runs:
                seed = f", seed {run.seed}" if len(group.runs) > 1 else ""
                where = f"{group.label} on {task}{seed}: " if several else ""
                items += [tag("li", tag("b", where), text) for text in warnings_of(run)]
    if not items:
        return Html("")
    shown, rest = items[:8], items[8:]
    more = [tag("details", tag("summary", f"{len(rest)} more"), tag("ul", *rest))] if rest else []
    return tag("div", tag("p", tag("b", "Warnings")), tag("ul", *shown), *more, class_="note")


def _tables(tasks: Mapping[str, list[Group]], pictures: sections.Pictures) -> Html:
    found = accuracies(tasks)
    if not found or sum(len(values) for values in found.values()) < 2:
        return Html("")
    groups = {group.label: group for each in tasks.values() for group in each}
    parts = [
        tag("h2", "Accuracy of the methods"),
        tag("p", f"({words.EVALUATION})", class_="soft"),
        _table(found, groups),
        sections.how(words.HOW["table"]),
    ]
    by_class = accuracies(tasks, "mean_class_accuracy")
    if by_class:
        parts += [tag("h3", "Mean over classes"), _table(by_class, groups), sections.how(words.HOW["class_table"])]
    fair = {label: values for label, values in found.items() if not groups[label].oracle}
    common = [task for task in tasks if all(task in values for values in fair.values())]
    if len(fair) >= 2 and len(common) >= RANKED_TASKS:
        ranking = comparison.rank(fair)
        colours = {label: group.colour for label, group in groups.items()}
        ranks = pictures.add(comparison.draw_ranks(ranking, colours), "Mean rank", "mean rank of each method")
        wins = pictures.add(comparison.draw_wins(ranking), "Wins and losses", "wins of each method over each other")
        p_value = ranking.p_value
        alike = "" if p_value is None else f" Friedman's test that all methods are alike: p = {p_value:.2g}."
        parts += [
            tag("h3", "Methods over all tasks"),
            tag("div",
                tag("div", ranks, sections.how(words.HOW["ranks"].format(tasks=len(ranking.tasks)) + alike)),
                tag("div", wins, sections.how(words.HOW["wins"])), class_="grid"),
        ]  # fmt: skip
    return join(*parts)


def _table(found: comparison.Accuracies, groups: Mapping[str, Group]) -> Html:
    table = comparison.compare(found, aside=[label for label, group in groups.items() if group.oracle])
    several = len(table.tasks) > 1
    head = tag("tr", *(tag("th", name) for name in ["method", *table.tasks, *(["mean"] if several else [])]))
    rows = []
    for method, row, mean in zip(table.methods, table.cells, table.means, strict=True):
        cells = [*row, *([mean] if several else [])]
        shown = [
            tag("td", comparison.NONE if cell is None else str(cell), class_="best" if cell and cell.best else "")
            for cell in cells
        ]
        rows.append(tag("tr", tag("td", sections.named(groups[method])), *shown))
    return sections.scroll(tag("table", head, *rows))


def _task(groups: list[Group], pictures: sections.Pictures) -> Html:
    seeds = max(len(group.runs) for group in groups)
    note = [
        tag("p", "Curves and accuracies of classes are over all seeds; other pictures are of the first.", class_="soft")
    ]
    return join(
        *(note if seeds > 1 else []),
        samples.samples_section(groups, pictures.name()),
        sections.curve_section(groups, pictures),
        sections.class_section(groups, pictures),
        numbers.number_section(groups, pictures),
        sections.embedding_section(groups, pictures),
        sections.diagnosis_section(groups),
        origins.origin_section(groups, pictures),
        sections.presence_section(groups, pictures),
    )


def _settings(records: Sequence[RunRecord], tasks: Mapping[str, list[Group]]) -> Html:
    boxes = []
    for task, groups in tasks.items():
        for group in groups:
            for run in group.runs:
                name = f"{group.label}, {task}" + (f", seed {run.seed}" if run.seed is not None else "")
                boxes.append(render("settings.html", name=name, command=run.config.get("command"), lines=_setting(run)))
    if len(boxes) > DETAILED:
        boxes = [tag("details", tag("summary", f"{len(boxes)} runs"), *boxes)]
    return join(tag("h2", "Settings and commands"), *boxes)


def _setting(run: RunRecord) -> list[tuple[str, str]]:
    made = f"jumbot {run.config.get('jumbot', '(unknown version)')}, {run.config.get('created', 'date unknown')}"
    lines = [
        ("folder", run.folder.name), ("made with", made),
        ("rule of selection", f"{run.rule}" + (" — target labels chose the model" if run.oracle else "")),
        ("seed", str(run.seed)), *((f"method.{key}", _value(value)) for key, value in run.options.items()),
    ]  # fmt: skip
    for part in ("training", "network", "input"):
        values = run.config.get(part)
        if isinstance(values, Mapping):
            lines += [(f"{part}.{key}", _value(value)) for key, value in values.items()]
    return lines


def _glossary() -> Html:
    return join(
        tag("h2", "Glossary"),
        tag("dl", *(join(tag("dt", name), tag("dd", text)) for name, text in words.GLOSSARY.items())),
    )


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = json.dumps(value, default=str)
    return text if len(text) <= 300 else text[:297] + "…"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
