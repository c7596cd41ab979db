"""Quantities over the training: loss terms, target accuracy, transported mass, label-free scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jumbot.errors import need
from jumbot.report._page import Group
from jumbot.report._records import RunRecord
from jumbot.report._style import CLASS_COLOURS, GREY, INK, class_colours, label_text, new_figure, percent_axis

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
        axes.plot(steps, values, color=colour, label=label_text(name.replace("_", " ").strip() or "term", 24))
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
                other,
                values,
                color=group.colour,
                alpha=faint,
                linewidth=0.9 if together else 1.8,
                marker=None if together else marker,
                markersize=3.5,
            )
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
            "adaptation starts",
            (start, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2),
            textcoords="offset points",
            va="bottom",
            ha="left",
            fontsize=8.5,
        )


SHOWN = 300  # points of each domain: they fill the map, and 500 take twice as long
ITERATIONS = 500  # of t-SNE: the groups have settled by then, and a report of ten maps stays below half a minute


@dataclass(frozen=True)
class Map:
    """Places `(n, 2)` and classes (-1 unknown) of the shown points of each domain."""

    source: np.ndarray
    target: np.ndarray
    source_labels: np.ndarray
    target_labels: np.ndarray
    labels_known: bool


def make_map(run: RunRecord, when: str) -> Map | None:
    """t-SNE of `before` or `after`; None where the run kept no embedding, or one that is not finite or a single point.

    The classes of target points are the true ones where they were given, else the predicted ones.
    """
    source, target = (run.embeddings.get(f"{when}_{domain}") for domain in ("source", "target"))
    if source is None or target is None or source.ndim != 2 or target.ndim != 2:
        return None
    source_labels = _labels(run.embeddings.get("source_labels"), len(source))
    given = _labels(run.embeddings.get("target_labels"), len(target))
    known = bool((given >= 0).any())
    target_labels = given if known else _labels(run.embeddings.get("target_predictions"), len(target))
    source_rows, target_rows = _chosen(source), _chosen(target)
    points = np.concatenate([source[source_rows], target[target_rows]]).astype(np.float32)
    if len(points) < 5 or not np.ptp(points, axis=0).any():
        return None
    places = tsne(points, seed=0)
    cut = len(source_rows)
    return Map(places[:cut], places[cut:], source_labels[source_rows], target_labels[target_rows], known)


def draw_map(found: Map, count: int) -> Figure:
    """Circles are source, crosses target samples; a class has one colour in both."""
    figure = new_figure(4.4, 3.9)
    axes = figure.subplots()
    colours = np.array([*class_colours(count), GREY])
    for places, labels, marker, size, width in (
        (found.source, found.source_labels, "o", 15, 0.0),
        (found.target, found.target_labels, "x", 17, 1.1),
    ):
        shown = np.where((labels >= 0) & (labels < count), labels, count)
        # Pixels inside the picture: a thousand vector marks would be ten times as large.
        axes.scatter(
            places[:, 0],
            places[:, 1],
            c=colours[shown].tolist(),
            marker=marker,
            s=size,
            linewidths=width,
            alpha=0.75,
            rasterized=True,
        )
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.margins(0.02)
    return figure


def tsne(points: np.ndarray, seed: int, iterations: int = ITERATIONS) -> np.ndarray:
    """Places `(n, 2)` on a map that keeps neighbours together."""
    mapping = need("sklearn.manifold", "a map of the embedding", "adapt", "scikit-learn").TSNE(
        perplexity=min(30.0, (len(points) - 1) / 3),
        init="pca" if points.shape[1] >= 2 else "random",
        learning_rate="auto",
        max_iter=iterations,
        random_state=seed,
    )
    return np.asarray(mapping.fit_transform(points))


def _chosen(points: np.ndarray) -> np.ndarray:
    finite = np.flatnonzero(np.isfinite(points).all(1))
    return finite[np.unique(np.linspace(0, len(finite) - 1, min(SHOWN, len(finite))).astype(int))]


def _labels(values: np.ndarray | None, count: int) -> np.ndarray:
    if values is None or values.shape != (count,):
        return np.full(count, -1)
    return values.astype(np.int64)
