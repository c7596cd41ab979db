"""The page of `jumbot tune`: every candidate with its score, the chosen one marked, and how to choose another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumbot._base.files import write_text
from jumbot._base.text_tables import aligned, markdown
from jumbot.errors import escaped
from jumbot.report._comparison import NONE
from jumbot.report._page import Table, document, inline_svg, render
from jumbot.report._style import BLUE, GREY, ORANGE, label_text, new_figure, styled
from jumbot.report._words import TUNING, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = (
    "secured",
    "evidence",
    "modularity",
    "agreement",
    "gap",
    "mass",
    "accuracy_not_used",
    "rmse_not_used",
    "r2_not_used",
)
_SHARES = ("mass", "proportions_distance", "accuracy_not_used")


def write_tuning(record: Mapping[str, Any], out: Path) -> Path:
    """Write `tune.md` and `tune.html` of what `tune.json` holds into `out`; returns the page."""
    rows = record["candidates"]
    lines = [*record["why"], "", _markdown(rows), *_legend(rows), ""]
    write_text(out / "tune.md", escaped("\n".join(lines)))
    with styled():
        picture = inline_svg(draw_evidence(rows), "score of each candidate", "f1")
    what = f"From {record['source']['name']} to {record['target']['name']}, {len(rows)} candidates"
    made = f"{what}, {record['created'][:10]}. Written by jumbot {record['jumbot']}."
    folder = rows[0]["folder"]
    page = document(
        "Tuning report",
        render(
            "tune.html",
            made=made,
            why=record["why"],
            picture=picture,
            folder=folder,
            table=_table(rows),
            others=_others(rows),
            columns={_title(name): text for name, text in _columns(rows).items()},
            command=record.get("command"),
        ),
    )
    return write_text(out / "tune.html", page)


def draw_evidence(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Modularity and agreement of each candidate, end to end."""
    figure = new_figure(6.4, 0.9 + 0.3 * len(rows))
    axes = figure.subplots()
    for place, row in enumerate(rows):
        alpha = 1.0 if row["whole"] else 0.35
        if row.get("modularity") is None:  # numbers
            axes.barh(place, row["evidence"], color=BLUE, alpha=alpha, label="score" if place == 0 else None)
            _write(axes, row, place, max(row["evidence"], 0.0))
            continue
        axes.barh(place, row["modularity"], color=ORANGE, alpha=alpha, label="modularity" if place == 0 else None)
        axes.barh(
            place,
            row["agreement"],
            left=max(row["modularity"], 0.0),
            color=BLUE,
            alpha=alpha,
            label="agreement" if place == 0 else None,
        )
        _write(axes, row, place, max(row["modularity"], 0.0) + row["agreement"])
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(rows)), [label_text(row["candidate"], 28) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(right=1.25 * max(axes.get_xlim()[1], 0.1))
    axes.grid(axis="y", visible=False)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _write(axes: Axes, row: Mapping[str, Any], place: int, x: float) -> None:
    """The evidence behind its bar."""
    axes.annotate(
        f"{row['evidence']:.3f}" + (" picked" if place == 0 else ""),
        (x, place),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        fontweight="bold" if place == 0 else "normal",
    )


def text_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The candidates for a terminal: their evidence, and the accuracy where it is known."""
    names = [n for n in SHOWN if n in _columns(rows)]
    lines = [["candidate", *map(_title, names)]]
    lines += [[_name(row, place == 0), *(_value(row, n) for n in names)] for place, row in enumerate(rows)]
    return aligned(lines, right=True)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Those that any candidate has, with their meaning."""
    return {name: text for name, text in TUNING.items() if any(_known(row.get(name)) for row in rows)}


def _known(value: float | None) -> bool:
    return value is not None and not math.isnan(value)  # frames contain NaN for None


def _title(name: str) -> str:
    shown = name.removesuffix("_not_used")
    return (shown if shown not in ("rmse", "r2") else shown.upper()).replace("_", " ") + " (not used)" * (shown != name)


def _value(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return NONE if not _known(value) else percent(value) if name in _SHARES else f"{value:.3f}"


def _name(row: Mapping[str, Any], first: bool) -> str:
    return row["candidate"] + (" (chosen)" if first else "" if row["whole"] else " (stopped early)")


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """What was compared, and where the models are: as wide as a page."""
    names = [name for name in _columns(rows) if name in SHOWN]
    body = [
        [_name(row, place == 0), *(_value(row, name) for name in names), row["folder"]]
        for place, row in enumerate(rows)
    ]
    head = ["candidate", *map(_title, names), "folder"]
    return Table(head, body, words=(len(names) + 1,), best=frozenset({(0, 0)}))


def _others(rows: Sequence[Mapping[str, Any]]) -> Table | None:
    """The scores that were not used."""
    names = [name for name in _columns(rows) if name not in SHOWN]
    body = [[row["candidate"], *(_value(row, name) for name in names)] for row in rows]
    return Table(["candidate", *map(_title, names)], body, best=frozenset({(0, 0)})) if names else None


def _markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(_columns(rows))
    lines = []
    for place, row in enumerate(rows):
        name = f"**{_name(row, True)}**" if place == 0 else _name(row, False)
        lines.append([name, *(_value(row, each) for each in names), f"`{row['folder']}`"])
    return markdown(["candidate", *map(_title, names), "folder"], lines, last=1)


def _legend(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"- {_title(name)}: {text}." for name, text in _columns(rows).items()]
