"""Where the target comes from: the shares of several sources, of all samples and of each predicted class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jumbot.report.classes import WIDTH
from jumbot.report.groups import Group
from jumbot.report.html import Html, join, tag
from jumbot.report.records import RunRecord
from jumbot.report.sections import Pictures, how, legend_of, named, scroll
from jumbot.report.style import class_colours, new_figure, percent_axis, plain
from jumbot.report.words import HOW, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL = "all samples"


def origin_section(groups: Sequence[Group], pictures: Pictures) -> Html:
    """How much of the target comes from which source; nothing where there is one source only."""
    found = [(group, rows) for group in groups if (rows := shares_of(group.first))]
    if not found:
        return Html("")
    names = list(found[0][0].first.diagnosis["sources"]["names"])
    shown = []
    for group, rows in found:
        title = "Shares of the sources" if len(groups) == 1 else join("Shares of the sources: ", named(group))
        shown.append(pictures.add(draw_shares(rows), title, "shares of the sources, by predicted class"))
    head = tag("tr", tag("th", "method"), *(tag("th", name) for name in names))
    body = [
        tag("tr", tag("td", named(group)), *(tag("td", percent(share)) for share in rows[ALL])) for group, rows in found
    ]
    return join(
        tag("h3", "Where the target comes from"),
        legend_of(dict(zip(names, class_colours(len(names)), strict=True))),
        tag("div", *shown, class_="grid"),
        scroll(tag("table", head, *body)),
        how(HOW["origins"]),
    )


def shares_of(run: RunRecord) -> dict[str, list[float]]:
    """`{class: share of each source}`, all samples first; classes that nothing was predicted to be are left out."""
    told = run.diagnosis.get("sources")
    if not isinstance(told, Mapping):
        return {}
    by_class: Sequence[Any] = told.get("by_class") or ()
    rows = {name: list(row) for name, row in zip(run.classes, by_class, strict=False) if row is not None}
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
