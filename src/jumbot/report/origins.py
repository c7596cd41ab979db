"""Where the target comes from: the shares of several sources, of all samples and of each predicted class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jumbot.report.classes import WIDTH
from jumbot.report.groups import Group
from jumbot.report.page import Name, Picture, Pictures, Section, Table, named, titled
from jumbot.report.records import RunRecord
from jumbot.report.style import class_colours, new_figure, percent_axis, plain
from jumbot.report.words import HOW, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL = "all samples"


def origin_section(groups: Sequence[Group], pictures: Pictures) -> Section:
    """How much of the target comes from which source; nothing where there is one source only."""
    found = [(group, rows) for group in groups if (rows := shares_of(group.first))]
    title = "Where the target comes from"
    if not found:
        return Section(title)
    names = list(found[0][0].first.diagnosis["sources"]["names"])
    shown = [
        Picture(
            titled("Shares of the sources", group, groups),
            pictures.draw(draw_shares(rows), "shares of the sources, by predicted class"),
        )
        for group, rows in found
    ]
    body: list[list[Name | str]] = [[named(group), *map(percent, rows[ALL])] for group, rows in found]
    colours = [Name(name, colour) for name, colour in zip(names, class_colours(len(names)), strict=True)]
    table = Table(["method", *names], body)
    return Section(title, legend=colours, pictures=shown, table=table, how=HOW["origins"], level=3)


def shares_of(run: RunRecord) -> dict[str, list[float]]:
    """`{class: share of each source}`, all samples first; classes that nothing was predicted to be are left out."""
    told = run.diagnosis.get("sources")
    if told is None:
        return {}
    rows = {name: list(row) for name, row in zip(run.classes, told["by_class"], strict=False) if row is not None}
    return {ALL: list(told["shares"]), **rows}


def draw_shares(rows: Mapping[str, Sequence[float]]) -> Figure:
    """A bar per class, the shares of the sources end to end."""
    figure = new_figure(WIDTH, 0.7 + (0.3 if len(rows) <= 20 else 0.2) * max(len(rows), 3))
    axes = figure.subplots()
    for place, shares in enumerate(rows.values()):
        left = 0.0
        for share, colour in zip(shares, class_colours(len(shares)), strict=True):
            axes.barh(place, share, left=left, color=colour, height=0.75)
            left += share
    axes.set_yticks(range(len(rows)), [plain(name) for name in rows], fontsize=9.5 if len(rows) <= 20 else 8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of what the target receives")
    axes.grid(axis="y", visible=False)
    percent_axis(axes, "x")
    axes.spines["left"].set_visible(False)
    return figure
