"""What only an overview of several runs has: links to their own reports, and a ranking without labels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jumbot._base.text_tables import aligned
from jumbot.report._comparison import NONE
from jumbot.report._page import Html, Section, Table, render
from jumbot.report._words import HOW

if TYPE_CHECKING:
    from jumbot.report._page import Group

Evidence = Mapping[str, Mapping[str, Sequence[float]]]
"""{method: {task: [one value per seed]}}, larger is better within a task."""


def ranked(evidence: Evidence) -> list[str]:
    """The methods, best first by their mean rank over the tasks that all have."""
    tasks = [
        t for t in dict.fromkeys(t for v in evidence.values() for t in v) if all(t in v for v in evidence.values())
    ]

    def mean_rank(method: str) -> float:
        own = [(task, _mean(evidence[method][task])) for task in tasks]
        return sum(sum(_mean(v[task]) > value for v in evidence.values()) for task, value in own)

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
    most = {t: max(_mean(v[t]) for v in evidence.values() if t in v) for t in tasks}
    found = {m: {t: _mean(values) for t, values in evidence[m].items()} for m in ranked(evidence)}
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


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
