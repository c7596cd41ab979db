"""Quantities over the training: loss terms, target accuracy, transported mass, label-free scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jumbot.report.groups import Group
from jumbot.report.records import RunRecord
from jumbot.report.style import CLASS_COLOURS, GREY, INK, new_figure, percent_axis, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 160  # of a curve; longer ones are averaged in pieces
WIDTH = 4.9


def thin(steps: np.ndarray, values: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Means over consecutive pieces of equal length, at most `points` of them.

    >>> [each.tolist() for each in thin(np.arange(4.0), np.array([1.0, 3.0, 5.0, 7.0]), points=2)]
    [[0.5, 2.5], [2.0, 6.0]]
    """
    if len(steps) <= points:
        return steps, values
    pieces = np.array_split(np.arange(len(steps)), points)
    return np.array([steps[piece].mean() for piece in pieces]), np.array([values[piece].mean() for piece in pieces])


def has_curve(groups: Sequence[Group], *path: str, event: str = "step") -> bool:
    """True if any run recorded the quantity."""
    return any(run.curve(*path, event=event)[0].size for group in groups for run in group.runs)


def draw_curve(groups: Sequence[Group], *path: str, event: str = "step", label: str, share: bool = False) -> Figure:
    """One line per group, the mean over its seeds, with each seed faint behind it."""
    figure = new_figure(WIDTH, 3.1)
    axes = figure.subplots()
    _draw_groups(axes, groups, path, event)
    axes.set(xlabel="training step", ylabel=label)
    if share:
        percent_axis(axes)
    if path == ("wrong_mass",):
        axes.set_ylim(bottom=0)
    if event == "evaluation":  # other curves begin there
        _mark_adaptation(axes, groups[0].first)
    return figure


def draw_losses(run: RunRecord) -> Figure:
    """Every term of the loss, and their sum, over the steps of one run."""
    names = run.names_in("terms")
    figure = new_figure(WIDTH, 3.3)
    axes = figure.subplots()
    if len(names) != 1:
        axes.plot(*thin(*run.curve("loss")), color=GREY, linewidth=2.6, alpha=0.6, label="total")
    for place, name in enumerate(names):
        steps, values = thin(*run.curve("terms", name))
        colour = CLASS_COLOURS[place % len(CLASS_COLOURS)]
        axes.plot(steps, values, color=colour, label=plain(name.replace("_", " ").strip() or "term", 24))
    figure.legend(loc="outside upper left", ncols=3, columnspacing=1.2, handlelength=1.4)
    axes.set(xlabel="training step", ylabel="loss (mean of the batch)")
    _mark_adaptation(axes, run)
    return figure


def draw_scores(groups: Sequence[Group], names: Sequence[str], titles: Sequence[str]) -> Figure:
    """The label-free scores, one row each."""
    figure = new_figure(WIDTH, 0.4 + 1.05 * len(names))
    rows = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for axes, name, title in zip(rows, names, titles, strict=True):
        _draw_groups(axes, groups, ("scores", name), "evaluation")
        axes.set_title(title, loc="left", fontsize=9.5)
        axes.locator_params(axis="y", nbins=3)
        _mark_adaptation(axes, groups[0].first, named=False)
    rows[-1].set_xlabel("training step")
    return figure


def _draw_groups(axes: Axes, groups: Sequence[Group], path: tuple[str, ...], event: str) -> None:
    for group in groups:
        curves = [thin(*run.curve(*path, event=event)) for run in group.runs]
        curves = [curve for curve in curves if curve[0].size]
        if not curves:
            continue
        steps = curves[0][0]
        together = len(curves) > 1 and all(np.array_equal(steps, other) for other, _ in curves)
        marker = "o" if event == "evaluation" and max(len(other) for other, _ in curves) <= 40 else None
        for other, values in curves:
            faint = 0.35 if together else 1.0
            axes.plot(
                other, values, color=group.colour, alpha=faint, linewidth=0.9 if together else 1.8,
                marker=None if together else marker, markersize=3.5,
            )  # fmt: skip
        if together:
            mean = np.mean([values for _, values in curves], axis=0)
            axes.plot(steps, mean, color=group.colour, marker=marker, markersize=3.5)


def _mark_adaptation(axes: Axes, run: RunRecord, named: bool = True) -> None:
    start = run.adaptation_start
    if start is None or axes.get_xlim()[0] >= start:
        return
    axes.axvline(start, color=INK, linewidth=0.9, linestyle=(0, (3, 3)))
    if named:
        axes.annotate(
            "adaptation starts", (start, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 2),
            textcoords="offset points", va="bottom", ha="left", fontsize=8.5,
        )  # fmt: skip
