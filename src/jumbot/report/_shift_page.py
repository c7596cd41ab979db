"""The page of `jumbot shift`: is there a shift, how large is it, where, and what next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jumbot
from jumbot._base.files import write_text
from jumbot._shift.found import LEVEL, SHIFT
from jumbot.report._answer import Answer
from jumbot.report._page import Html, Name, Picture, Pictures, Section, Table, document, render
from jumbot.report._style import BLUE, GREY, VERMILION, label_text, new_figure, percent_axis, styled
from jumbot.report._words import HOW, listed, percent, percent_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jumbot._shift.found import Shift

_COLUMNS, _SAMPLES, _CLASSES = 20, 20, 40
_WHERE = {
    "labels": "The shift is in the labels alone: with the estimated proportions, the reference cannot be distinguished "
    "from it.",
    "features": "The shift is in the features: the classes have the proportions of the reference.",
    "both": "The shift is in labels and features: the class proportions are a rough guess, because the classes do "
    "not look as before.",
}


def write_shift(found: Shift, out: str | Path) -> Path:
    """Write the page, and return its path; `out` is its name, or a folder, in which it is `shift.html`."""
    path = Path(out)
    path = path if path.suffix == ".html" else path / "shift.html"
    with styled():
        parts = [_top(found), *(section.write() for section in shift_sections(found, Pictures()))]
        return write_text(path, document("Shift report", *parts))


def shift_sections(found: Shift, pictures: Pictures) -> list[Section]:
    """What has moved: columns, samples and classes, as far as known."""
    return [
        section
        for section in (
            _columns(found, pictures),
            _classes(found, pictures),
            _samples(found),
            _views(found),
        )
        if section is not None
    ]


def shift_summary(folder: Path) -> Section | None:
    """The first section of a report on an adaptation: whether there was anything to adapt to."""
    file = folder / SHIFT
    if not file.is_file():
        return None
    found = json.loads(file.read_text(encoding="utf-8"))
    moved = [column["name"] for column in found["columns"] if column["p_value"] <= LEVEL]
    answer = "yes" if found["p_value"] <= LEVEL else "no sign of it"
    low, high = found["interval"] or (0.0, 1.0)
    share = f"{percent(found['effect'])} ({percent_whole(low)} to {percent_whole(high)})"
    row = [answer, f"{found['p_value']:.3g}", share, listed(moved, most=8) if moved else "none"]
    head = ["has it shifted?", "p-value", "without a counterpart", "columns that moved"]
    how = f"{HOW['shift']} {_WHERE.get(found['where'] or '', '')}".strip()
    return Section("Has the target shifted?", id="shift", table=Table(head, [row], words=(0, 3)), how=how)


def headline(found: Shift) -> str:
    """The first sentence."""
    if not found.shifted:
        return "No shift was found."
    return "There is a shift." if (found.effect or 0.0) >= 0.05 else "There is a small shift."


def _top(found: Shift) -> Html:
    facts: list[tuple[str, str]] = [(f"{found.p_value:.3g}", "p-value of the permutation test")]
    if found.effect is not None and found.interval is not None:
        low, high = map(percent_whole, found.interval)
        facts.append(
            (percent(found.effect), f"of {found.names[1]} has no counterpart in {found.names[0]} ({low} to {high})")
        )
    if found.distance is not None:
        facts.append((f"{found.distance:.2f}", "times as far apart as two halves of the reference"))
    sure = (
        f"p = {found.p_value:.3g} from {found.exchanges:,} random exchanges of rows between the sets; the smallest "
        f"possible p-value is {1 / (found.exchanges + 1):.2g}."
    )
    sizes = f"{found.names[0]} with {found.sizes[0]:,} rows, {found.names[1]} with {found.sizes[1]:,}"
    seen = f"; {found.looked_at[0]:,} and {found.looked_at[1]:,} of them were used" * (found.looked_at != found.sizes)
    stopped = [("The search was interrupted:", "the results so far are below.")] if found.interrupted else []
    mood = "" if not found.shifted else "good" if (found.effect or 0.0) < 0.05 else "bad"
    place = "samples" if found.samples and "rows" in found.next else "columns" if found.columns else ""
    return render(
        "summary.html",
        title="Shift report",
        subtitle=f"{sizes}{seen}. Written by jumbot {jumbot.__version__}.",
        oracle="",
        which="",
        unfinished=stopped,
        answer=Answer(headline(found), mood, sure, found.next, place),
        facts=facts,
        about=_WHERE.get(found.where or "", ""),
        overview="",
        warnings=[],
        data=[("", text) for text in found.remarks],
        most=8,
    )


def _columns(found: Shift, pictures: Pictures) -> Section | None:
    shown = found.columns[:_COLUMNS]
    if not shown:
        return None
    figure = _bars([c.name for c in shown], [c.moved for c in shown], [c.p_value <= 0.05 for c in shown])
    rows: list[list[Name | str]] = [[c.name, f"{c.p_value:.3g}", f"{c.moved:+.2f}", percent(c.without)] for c in shown]
    table = Table(["column", "p-value", "moved by", "of the distance"], rows)
    drawn = pictures.draw(figure, "displacement of each column")
    more = len(found.columns) - len(shown)
    return Section(
        "Which columns moved",
        id="columns",
        aside=f"{more} more are not shown" if more else "",
        pictures=[Picture(Name("Displacement along the plan"), drawn), Picture(Name("Each column"), table=table)],
        how=HOW["shift_columns"],
    )


def _classes(found: Shift, pictures: Pictures) -> Section | None:
    if not found.proportions:
        return None
    shown = dict(list(found.proportions.items())[:_CLASSES])
    drawn = pictures.draw(_intervals(shown), "class proportions with intervals")
    return Section(
        "Class proportions of the current set",
        id="classes",
        pictures=[Picture(Name("Class proportions"), drawn)],
        how=HOW["shift_classes"],
    )


def _samples(found: Shift) -> Section | None:
    if not found.samples:
        return None
    rows: list[list[Name | str]] = [
        [sample.name, f"{sample.received:.2g}", f"{sample.p_value:.3g}"] for sample in found.samples[:_SAMPLES]
    ]
    return Section(
        "Unexplained rows",
        id="samples",
        table=Table(["row", "received mass", "p-value"], rows),
        how=HOW["shift_samples"],
    )


def _views(found: Shift) -> Section | None:
    rows: list[list[Name | str]] = [[name, f"{p:.3g}"] for name, p in found.views.items()]
    table = Table(["view", "uncorrected p-value"], rows) if rows else None
    return None if table is None else Section("Views of the data in the test", table=table, how=HOW["shift_views"])


def _bars(names: Sequence[str], values: Sequence[float], moved: Sequence[bool]) -> Figure:
    figure = new_figure(5.2, 0.9 + 0.26 * max(len(names), 3))
    axes = figure.subplots()
    axes.barh(range(len(names)), values, color=[VERMILION if one else GREY for one in moved], height=0.7)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(names)), [label_text(name, 22) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("robust deviations")
    axes.grid(axis="y", visible=False)
    return figure


def _intervals(proportions: Any) -> Figure:
    figure = new_figure(5.2, 0.9 + 0.3 * max(len(proportions), 3))
    axes = figure.subplots()
    for row, p in enumerate(proportions.values()):
        axes.plot([p.low, p.high], [row, row], color=BLUE, linewidth=2.4, label="current, 95 %" if row == 0 else None)
        axes.plot([p.value], [row], "o", color=BLUE, markersize=7)
        axes.plot([p.reference], [row], "D", color=GREY, markersize=6, label="reference" if row == 0 else None)
    axes.set_yticks(range(len(proportions)), [label_text(name) for name in proportions])
    axes.set_ylim(len(proportions) - 0.4, -0.6)
    axes.set_xlim(left=0)
    percent_axis(axes, "x")
    axes.grid(axis="y", visible=False)
    figure.legend(loc="outside lower center", ncols=2)
    return figure
