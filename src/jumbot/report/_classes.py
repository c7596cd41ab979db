"""Classes: which are confused, how often each is right, and in which proportions they occur."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from jumbot.report._page import Group, Name, Picture, Pictures, Section, Table, named, titled
from jumbot.report._records import RunRecord
from jumbot.report._style import BLUE, FAINT, GREY, INK, VERMILION, class_colours, label_text, new_figure, percent_axis
from jumbot.report._words import HOW, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


WIDTH = 4.9
WRITTEN = 12  # a confusion matrix up to this many classes has its numbers written in


def draw_confusion(run: RunRecord, colour: str) -> Figure:
    """Row = true class, column = predicted class, each row in per cent of that class's samples."""
    from matplotlib.colors import LinearSegmentedColormap

    matrix = run.confusion
    assert matrix is not None
    count = len(matrix)
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    # From transparent to the method's colour, so that it works on light and dark pages.
    shades = LinearSegmentedColormap.from_list("share", [(0, colour + "00"), (0.1, colour + "40"), (1, colour)])
    figure = new_figure(WIDTH, 4.7)
    axes = figure.subplots()
    axes.imshow(shares, cmap=shades, vmin=0, vmax=1, interpolation="none", aspect="equal")
    axes.grid(False)
    axes.spines[:].set_visible(False)
    if count <= WRITTEN:
        size = 9.5 if count <= 10 else 8
        for i, j in zip(*np.nonzero(shares >= 0.005), strict=True):
            ink = "white" if shares[i, j] > 0.55 else INK
            axes.text(j, i, f"{100 * shares[i, j]:.0f}", ha="center", va="center", color=ink, fontsize=size)
    names = [label_text(name, 14) for name in run.classes]
    every = range(0, count, max(1, count // 33))
    size = 9.5 if count <= WRITTEN else 6.5
    turned = 90 if count > WRITTEN or max(map(len, names)) > 3 else 0
    axes.set_xticks(list(every), [names[place] for place in every], rotation=turned, fontsize=size)
    axes.set_yticks(list(every), [names[place] for place in every], fontsize=size)
    if count <= WRITTEN:
        axes.set_xticks(np.arange(-0.5, count), minor=True)
        axes.set_yticks(np.arange(-0.5, count), minor=True)
        axes.grid(which="minor", color=FAINT, linewidth=0.6)
        axes.tick_params(which="minor", length=0)
    axes.set(xlabel="predicted class", ylabel="true class")
    return figure


def draw_per_class(groups: Sequence[Group], classes: Sequence[str]) -> Figure:
    """One row per class, one dot per group: the mean over its seeds."""
    marks = {}
    for group in groups:
        values = [run.per_class for run in group.runs if run.per_class]
        if values:
            marks[group.label, group.colour] = [_mean(column) for column in zip(*values, strict=True)]
    figure = _draw_rows(classes, {name: (colour, "o", values) for (name, colour), values in marks.items()}, "accuracy")
    least = min((value for values in marks.values() for value in values if value is not None), default=0.0)
    figure.axes[0].set_xlim(max(0.0, math.floor(10 * least - 0.5) / 10), 1)
    return figure


def draw_proportions(classes: Sequence[str], proportions: Mapping[str, Sequence[float | None]]) -> Figure:
    """One row per class, one mark per estimate of its share of the target: `{"true" | "estimated" | ...: shares}`."""
    looks = {"source": (FAINT, "|"), "true": (GREY, "D"), "estimated": (VERMILION, "o"), "predicted": (BLUE, "s")}
    marks = {name: (*looks.get(name, (INK, "x")), values) for name, values in proportions.items()}
    return _draw_rows(classes, marks, "share of the target samples", legend=True)


def _draw_rows(
    classes: Sequence[str],
    marks: Mapping[str, tuple[str, str, Sequence[float | None]]],
    label: str,
    legend: bool = False,
) -> Figure:
    count = len(classes)
    figure = new_figure(WIDTH, 0.9 + (0.3 if count <= 20 else 0.2) * max(count, 3))
    axes = figure.subplots()
    for name, (colour, marker, values) in marks.items():
        shown = [(value, row) for row, value in enumerate(values) if value is not None]
        if shown:
            x, y = zip(*shown, strict=True)
            # The true value is a ring around the others, so that a correct estimate does not hide it.
            face, size = ("none", 11) if name == "true" else (colour, 7)
            axes.plot(
                x,
                y,
                linestyle="none",
                marker=marker,
                color=colour,
                markerfacecolor=face,
                markersize=size,
                markeredgewidth=1.6 if face == "none" else 0.5,
                alpha=0.9,
                label=label_text(name),
                clip_on=False,
                zorder=3,
            )
    axes.set_yticks(range(count), [label_text(name) for name in classes], fontsize=9.5 if count <= 20 else 8)
    axes.set_ylim(count - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel(label)
    axes.grid(axis="x", visible=False)
    percent_axis(axes, "x")
    axes.spines["left"].set_visible(False)
    if legend:
        figure.legend(loc="outside upper left", ncols=3, columnspacing=1.2, handletextpad=0.3)
    return figure


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


ALL = "all samples"


def origin_section(groups: Sequence[Group], pictures: Pictures) -> Section:
    """How much of the target comes from which source; nothing if there is only one."""
    found = [(group, rows) for group in groups if (rows := shares_of(group.first))]
    title = "Which source the target comes from"
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
    """`{class: share of each source}`, all samples first; classes that were never predicted are left out."""
    sources = run.diagnosis.get("sources")
    if sources is None:
        return {}
    rows = {name: list(row) for name, row in zip(run.classes, sources["by_class"], strict=False) if row is not None}
    return {ALL: list(sources["shares"]), **rows}


def draw_shares(rows: Mapping[str, Sequence[float]]) -> Figure:
    """A bar per class, the shares of the sources end to end."""
    figure = new_figure(WIDTH, 0.7 + (0.3 if len(rows) <= 20 else 0.2) * max(len(rows), 3))
    axes = figure.subplots()
    for place, shares in enumerate(rows.values()):
        left = 0.0
        for share, colour in zip(shares, class_colours(len(shares)), strict=True):
            axes.barh(place, share, left=left, color=colour, height=0.75)
            left += share
    axes.set_yticks(range(len(rows)), [label_text(name) for name in rows], fontsize=9.5 if len(rows) <= 20 else 8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of what the target receives")
    axes.grid(axis="y", visible=False)
    percent_axis(axes, "x")
    axes.spines["left"].set_visible(False)
    return figure
