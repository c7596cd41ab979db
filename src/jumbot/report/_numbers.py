"""Predicted numbers: against the true ones if known, and their distribution next to the source's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jumbot.report._page import Group, Picture, Pictures, Section, titled
from jumbot.report._records import RunRecord
from jumbot.report._style import GREY, INK, label_text, new_figure
from jumbot.report._words import HOW

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 4  # numbers per sample that get a panel
BINS = 24


def number_section(groups: Sequence[Group], pictures: Pictures) -> Section:
    """Predicted against true numbers, and their distributions; nothing where classes are predicted."""
    shown: list[Picture] = []
    known = False
    for group in groups:
        predicted, true, source = (_columns(group.first, name) for name in ("predicted", "true", "source"))
        if predicted is None:
            continue
        names = _names(group.first, predicted.shape[1])
        if true is not None and true.shape == predicted.shape and (~np.isnan(true)).any():
            known = True
            figure = draw_scatter(predicted, true, names, group.colour)
            drawn = pictures.draw(figure, "predicted against true numbers")
            shown.append(Picture(titled("Predicted and true", group, groups), drawn))
        if source is not None and source.shape[1] == predicted.shape[1]:
            figure = draw_spread(predicted, source, names, group.colour)
            drawn = pictures.draw(figure, "distribution of source and predicted numbers")
            shown.append(Picture(titled("Distributions of the numbers", group, groups), drawn))
    text = (HOW["scatter"] + " " if known else "") + HOW["spread"]
    return Section("Numbers", pictures=shown, how=text, level=3)


def draw_scatter(predicted: np.ndarray, true: np.ndarray, names: Sequence[str], colour: str) -> Figure:
    """A point per target sample, and the line on which predictions are right; a panel per number."""
    figure, panels = _panels(len(names), 3.6)
    for k, axes in enumerate(panels):
        rows = ~np.isnan(true[:, k])
        x, y = true[rows, k], predicted[rows, k]
        ends = [min(x.min(), y.min()), max(x.max(), y.max())]
        axes.plot(ends, ends, color=INK, linewidth=1, linestyle="--")
        axes.plot(x, y, linestyle="none", marker="o", markersize=4, color=colour, alpha=0.6, markeredgewidth=0)
        axes.set(xlabel=f"true {names[k]}".strip(), ylabel=f"predicted {names[k]}".strip())
    return figure


def draw_spread(predicted: np.ndarray, source: np.ndarray, names: Sequence[str], colour: str) -> Figure:
    """Histograms of the source's numbers and of those predicted for the target, each of area 1."""
    figure, panels = _panels(len(names), 3.0)
    for k, axes in enumerate(panels):
        pair = source[:, k], predicted[:, k]
        edges = np.histogram_bin_edges(np.concatenate(pair), BINS)
        for values, shade, label in zip(pair, (GREY, colour), ("source", "predicted target"), strict=True):
            axes.hist(values, edges.tolist(), density=True, color=shade, alpha=0.55, label=label if k == 0 else None)
        axes.set(xlabel=names[k] or "number", yticks=[])
        axes.spines["left"].set_visible(False)
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def _panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    count = min(count, MOST)
    figure = new_figure(4.4 if count == 1 else 3.2 * count, height)
    return figure, list(np.atleast_1d(figure.subplots(1, count)))


def _columns(run: RunRecord, name: str) -> np.ndarray | None:
    found = run.embeddings.get(f"{name}_values")
    return found if found is not None and found.ndim == 2 and len(found) else None


def _names(run: RunRecord, count: int) -> list[str]:
    names = run.config["task"]["names"]
    names = names if len(names) == count else [str(i + 1) for i in range(count)] if count > 1 else [""]
    return [label_text(name) for name in names[:MOST]]
