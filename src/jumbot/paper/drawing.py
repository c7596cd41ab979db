"""What the figures have in common: colours that colour-blind people tell apart, plans as matrices and as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jumbot.report.two_clusters import Points

# Okabe and Ito's palette
BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
BLUE, VERMILION, PURPLE, GREY = "#0072b2", "#d55e00", "#cc79a7", "#999999"
CLASS_COLOURS = (BLUE, GREEN)
FAINTEST = 0.01  # entries of a plan below this share of its largest are not drawn, and not counted as its support


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, without touching the caller's matplotlib state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("drawing needs matplotlib; install it with: pip install matplotlib") from error
    return Figure(figsize=(width, height), layout="constrained")


def support(plan: np.ndarray) -> np.ndarray:
    """Where the plan is above `FAINTEST` times its largest entry."""
    return plan > FAINTEST * plan.max()


def draw_matrix(axes: Axes, plan: np.ndarray, source: np.ndarray, target: np.ndarray) -> Any:
    """The plan divided by its largest entry; lines mark where the group of the source or target changes."""
    image = axes.imshow(plan / plan.max(), cmap="Blues", vmin=0, vmax=1)
    for cut in np.flatnonzero(np.diff(target)):
        axes.axvline(cut + 0.5, color=VERMILION, linewidth=1)
    for cut in np.flatnonzero(np.diff(source)):
        axes.axhline(cut + 0.5, color=VERMILION, linewidth=1)
    axes.set_xticks([])
    axes.set_yticks([])
    return image


def draw_lines(axes: Axes, points: Points, plan: np.ndarray) -> None:
    """The points, and a line as strong as the plan's entry wherever the plan has support."""
    relative = plan / plan.max()
    for i, j in zip(*np.nonzero(support(plan)), strict=True):
        ends = np.stack([points.source[i], points.target[j]])
        colour = VERMILION if points.between[i, j] else GREY
        axes.plot(*ends.T, color=colour, linewidth=0.3 + 2.2 * relative[i, j], alpha=0.25 + 0.75 * relative[i, j])
    for label, colour in enumerate(CLASS_COLOURS):
        for place, classes, marker in (
            (points.source, points.source_cluster, "o"),
            (points.target, points.target_cluster, "s"),
        ):
            x, y = place[classes == label].T
            axes.scatter(x, y, color=colour, marker=marker, s=34, edgecolor="white", linewidth=0.8, zorder=3)
    axes.margins(0.08)
    axes.set_xticks([])
    axes.set_yticks([])


def plan_legend(figure: Figure, group: str) -> None:
    """Below the panels: what the marks and the lines of `draw_lines` are."""
    from matplotlib.lines import Line2D

    def mark(marker: str, colour: str) -> Line2D:
        return Line2D([], [], linestyle="none", marker=marker, color=colour, markersize=7)

    entries = {
        f"source, {group} 1": mark("o", CLASS_COLOURS[0]),
        f"source, {group} 2": mark("o", CLASS_COLOURS[1]),
        f"target, {group} 1": mark("s", CLASS_COLOURS[0]),
        f"target, {group} 2": mark("s", CLASS_COLOURS[1]),
        f"mass within a {group}": Line2D([], [], color=GREY, linewidth=2),
        f"mass between {group}{'es' if group.endswith('s') else 's'}": Line2D([], [], color=VERMILION, linewidth=2),
    }
    figure.legend(
        list(entries.values()), list(entries), loc="outside lower center", ncols=6, frameon=False, fontsize=10
    )
