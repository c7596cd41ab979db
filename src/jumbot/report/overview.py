"""What only an overview of several runs has: links to their own reports, and a ranking without labels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jumbot.report.comparison import NONE
from jumbot.report.html import Html, render
from jumbot.report.page import Section, Table

if TYPE_CHECKING:
    from jumbot.report.groups import Group

Evidence = Mapping[str, Mapping[str, Sequence[float]]]
"""{method: {task: [one value per seed]}}, larger is better within a task."""
HOW = (
    "Evidence is the rule of jumbot tune. Of classes it is modularity + agreement: predictions that respect the "
    "neighbourhoods of the target, and that the other methods share; of numbers agreement - gap: those that the "
    "others share and that are spread as the source's, which assumes that they are. No target label was used. The best "
    "of each task is bold; compare down a column only."
)


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
    tasks = list(dict.fromkeys(task for values in evidence.values() for task in values))
    most = {t: max(_mean(v[t]) for v in evidence.values() if t in v) for t in tasks}
    rows, best = [], set()
    for place, method in enumerate(ranked(evidence)):
        cells = [_mean(evidence[method][t]) if t in evidence[method] else None for t in tasks]
        best |= {
            (place, i) for i, (c, t) in enumerate(zip(cells, tasks, strict=True), 1) if c is not None and c >= most[t]
        }
        rows.append([method, *(NONE if c is None else f"{c:.3f}" for c in cells)])
    return Section("Evidence without labels", table=Table(["method", *tasks], rows, best=frozenset(best)), how=HOW)


def format_evidence(evidence: Evidence) -> str:
    """The same as text.

    >>> print(format_evidence({"a": {"t": [0.5]}, "b": {"t": [0.7, 0.9]}}))
    method  t
    b       0.800*
    a       0.500
    """
    tasks = list(dict.fromkeys(task for values in evidence.values() for task in values))
    best = {t: max(_mean(v[t]) for v in evidence.values() if t in v) for t in tasks}
    lines = [["method", *tasks]]
    for method in ranked(evidence):
        values = [(t, _mean(evidence[method][t])) for t in tasks if t in evidence[method]]
        known = {t: f"{value:.3f}" + "*" * (value >= best[t]) for t, value in values}
        lines.append([method, *(known.get(t, "-") for t in tasks)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)


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
