"""Plans between points in the plane, as lines between the points and as matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jumbot.report.style import BLUE, GREEN, GREY, VERMILION, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUP_COLOURS = (BLUE, GREEN)
FAINTEST = 0.01  # entries of a plan below this share of its largest are not drawn, and not counted as its support


def support(plan: np.ndarray) -> np.ndarray:
    """Where the plan is above `FAINTEST` times its largest entry."""
    return plan > FAINTEST * plan.max()


def draw_plan(
    axes: Axes, x: Any, y: Any, plan: Any, x_groups: Any = None, y_groups: Any = None, unit: float | None = None
) -> None:
    """Circles `x` `(n, 2)` and squares `y` `(m, 2)`, and a line as strong as the entry of `plan` `(n, m)` between them.

    `unit` is the mass of a full line, by default the plan's largest entry.  `x_groups` and `y_groups`, 0 or 1 for each
    point, colour the points and the lines between unlike groups.
    """
    x, y, plan = np.asarray(x), np.asarray(y), np.asarray(plan)
    x_groups, y_groups = (
        np.zeros(len(points), int) if groups is None else np.asarray(groups)
        for points, groups in ((x, x_groups), (y, y_groups))
    )
    strength = np.minimum(plan / (unit or plan.max()), 1.0)
    for i, j in zip(*np.nonzero(strength > FAINTEST), strict=True):
        axes.plot(
            *np.stack([x[i], y[j]]).T, color=GREY if x_groups[i] == y_groups[j] else VERMILION,
            linewidth=0.3 + 2.2 * strength[i, j], alpha=0.25 + 0.75 * strength[i, j], zorder=1,
        )  # fmt: skip
    for points, groups, marker in ((x, x_groups, "o"), (y, y_groups, "s")):
        for group, colour in enumerate(GROUP_COLOURS):
            across, up = points[groups == group].T
            axes.scatter(across, up, color=colour, marker=marker, s=34, edgecolor="white", linewidth=0.8, zorder=3)
    axes.margins(0.08)
    axes.set(xticks=[], yticks=[])


def draw_matrix(
    axes: Axes, plan: np.ndarray, x_groups: np.ndarray, y_groups: np.ndarray, unit: float | None = None
) -> Any:
    """The plan divided by `unit`, by default its largest entry; lines mark where a group ends."""
    image = axes.imshow(plan / (unit or plan.max()), cmap="Blues", vmin=0, vmax=1)
    for cut in np.flatnonzero(np.diff(y_groups)):
        axes.axvline(cut + 0.5, color=VERMILION, linewidth=1)
    for cut in np.flatnonzero(np.diff(x_groups)):
        axes.axhline(cut + 0.5, color=VERMILION, linewidth=1)
    axes.set(xticks=[], yticks=[])
    return image


def plan_legend(figure: Figure, group: str) -> None:
    """Below the panels: what the marks and the lines of `draw_plan` are."""
    marks = {
        f"{domain}, {group} {number}": (marker, colour)
        for domain, marker in (("source", "o"), ("target", "s"))
        for number, colour in enumerate(GROUP_COLOURS, 1)
    }
    between = f"mass between {group}{'es' if group.endswith('s') else 's'}"
    legend_below(figure, {**marks, f"mass within a {group}": ("", GREY), between: ("", VERMILION)})
