"""The embedding as a map: t-SNE of source and target together, before and after the adaptation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jumbot.errors import need
from jumbot.report.records import RunRecord
from jumbot.report.style import GREY, class_colours, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def make_map(run: RunRecord, when: str, seed: int = 0) -> Map | None:
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
    places = tsne(points, seed)
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
            places[:, 0], places[:, 1], c=colours[shown].tolist(), marker=marker, s=size, linewidths=width, alpha=0.75,
            rasterized=True,
        )  # fmt: skip
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
