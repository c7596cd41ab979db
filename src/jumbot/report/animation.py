"""A gradient flow as a moving picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jumbot.errors import ArgumentError, UnsupportedError, need
from jumbot.report.style import GREY, new_figure

if TYPE_CHECKING:
    from jumbot.flow import Trajectory


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
