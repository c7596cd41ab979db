"""Small drawings: plans, flows and curves of bias."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jumbot.errors import ArgumentError, UnsupportedError, need
from jumbot.report._style import BLUE, GREEN, GREY, VERMILION, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jumbot.flow import Trajectory
    from jumbot.minibatch._estimator import BiasCurve


GROUP_COLOURS = (BLUE, GREEN)
FAINTEST = 0.01  # entries of a plan below this share of its largest are not drawn, and not counted as its support


def support(plan: np.ndarray) -> np.ndarray:
    """Where the plan is above `FAINTEST` times its largest entry."""
    return plan > FAINTEST * plan.max()


def draw_plan(
    axes: Axes, x: Any, y: Any, plan: Any, x_groups: Any = None, y_groups: Any = None, unit: float | None = None
) -> None:
    """Draw two clouds in the plane, and a line between two points as strong as their entry in the plan.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    x, y : arrays of shape (n, 2) and (m, 2)
        The points: circles and squares.
    plan : array of shape (n, m)
        The plan.
    x_groups, y_groups : arrays of 0 and 1, optional
        Groups that colour the points, and the lines between unlike groups.
    unit : float, optional
        The mass of a full line; by default the plan's largest entry.

    Returns
    -------
    None
        The axes are changed.
    """
    x, y, plan = np.asarray(x), np.asarray(y), np.asarray(plan)
    x_groups, y_groups = (
        np.zeros(len(points), int) if groups is None else np.asarray(groups)
        for points, groups in ((x, x_groups), (y, y_groups))
    )
    strength = np.minimum(plan / (unit or plan.max()), 1.0)
    for i, j in zip(*np.nonzero(strength > FAINTEST), strict=True):
        axes.plot(
            *np.stack([x[i], y[j]]).T,
            color=GREY if x_groups[i] == y_groups[j] else VERMILION,
            linewidth=0.3 + 2.2 * strength[i, j],
            alpha=0.25 + 0.75 * strength[i, j],
            zorder=1,
        )
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


def animate(trajectory: Trajectory, path: str | Path, *, colors: Any = None, fps: int = 10, dpi: float = 100) -> Path:
    """The snapshots, one per frame, the target behind them; see `jumbot.flow.Trajectory.animate`."""
    path = Path(path)
    writer = _writer(path, fps)
    frames, target = np.asarray(trajectory.snapshots, dtype=float), np.asarray(trajectory.target, dtype=float)
    if frames.shape[-1] < 2 or len(frames) == 0:
        raise ArgumentError(f"snapshots: shape {frames.shape}; a picture needs one of them, in two coordinates.")
    figure = new_figure(4.8, 4.8)
    ax = figure.add_subplot(aspect="equal")
    size = min(20.0, 4e3 / frames.shape[1])
    ax.scatter(target[:, 0], target[:, 1], s=size, color=GREY, alpha=0.5, linewidths=0, label="target")
    points = ax.scatter(frames[0, :, 0], frames[0, :, 1], s=size, c=colors, linewidths=0, label="points")
    every = np.concatenate([frames[..., :2].reshape(-1, 2), target[:, :2]])
    low, high = every.min(0), every.max(0)
    margin = 0.03 * float((high - low).max()) or 1.0
    ax.set(xlim=(low[0] - margin, high[0] + margin), ylim=(low[1] - margin, high[1] + margin))
    if colors is None:
        ax.legend(loc="upper right")
    with writer.saving(figure, str(path), dpi):
        for step, frame in zip(trajectory.steps, frames, strict=True):
            points.set_offsets(frame[:, :2])
            ax.set_title(f"step {step}")
            writer.grab_frame()
    return path


def _writer(path: Path, fps: int) -> Any:
    """What writes frames to this path, or an error that says what is missing."""
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise ArgumentError(f"path: {path.name!r} ends in neither .gif nor .mp4.")
    animation = need("matplotlib.animation", "an animation", "adapt")
    if path.suffix.lower() == ".gif":
        return animation.PillowWriter(fps=fps)
    if not animation.FFMpegWriter.isAvailable():
        raise UnsupportedError(f"path: {path.name!r} needs ffmpeg, which is not installed; write a .gif instead.")
    return animation.FFMpegWriter(fps=fps)


def draw_bias_curve(curve: BiasCurve, ax: Any = None) -> Any:
    """Value and 95 % interval over m, on this axis or one of a new pyplot figure; returns the axis."""
    if ax is None:
        _, ax = need("matplotlib.pyplot", "drawing", "adapt").subplots(figsize=(5, 3.4), layout="constrained")
    low, high = curve.intervals().T
    ax.errorbar(curve.m, curve.values, yerr=[curve.values - low, high - curve.values], marker="o", capsize=3)
    ax.set_xscale("log", base=2)
    ax.set_xticks(curve.m, [str(m) for m in curve.m])
    ax.set(xlabel="minibatch size m", ylabel="minibatch loss (95 % interval)")
    return ax
