"""The pictures of the page on a million points: time over their number, and who is matched."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

import jumbot
from jumbot.report._style import new_figure, styled

STATIC = Path(__file__).parent.parent / "docs" / "_static"
COLOURS = {2: "C0", 3: "C1", 10: "C2", 50: "C3"}


def curves(record: Path) -> dict[int, dict[int, float]]:
    """Seconds by the number of points, for each dimension; of several records of a case the last."""
    found: dict[int, dict[int, float]] = {}
    for line in record.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        if "small" not in run["case"] and math.isfinite(run["tau"]):
            found.setdefault(run["dimensions"], {})[run["points"]] = float(run["seconds"])
    return found


def two_clouds(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A crescent, and the same one turned and moved; each with a group of points that the other has not."""
    draw = np.random.default_rng(0)
    clouds = []
    for turn, shift, alone in ((0.0, (0.0, 0.0), (-0.2, -1.0)), (0.25, (0.25, 0.1), (1.6, -0.6))):
        angle = draw.uniform(0, np.pi, n)
        points = np.stack([np.cos(angle), np.sin(angle)], 1) * (1 + 0.12 * draw.normal(size=(n, 1)))
        rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
        points = points @ rotation + shift
        points[: n // 8] = np.array(alone) + 0.15 * draw.normal(size=(n // 8, 2))
        clouds.append(draw.permutation(points))
    return clouds[0], clouds[1]


def draw_clouds(n: int) -> None:
    """Both clouds by the share of its mass that a point sends or gets, and where a few points go."""
    x, y = two_clouds(n)
    epsilon = 0.03**2
    solution = jumbot.solve_sample(x, y, epsilon=epsilon, tau=0.05)
    print(solution)
    mapped, shares = solution.barycentric_map(), [n * p for p in solution.marginals]
    with styled():
        figure = new_figure(9.0, 3.6)
        axes = figure.subplots(1, 2, sharex=True, sharey=True)
        some = np.random.default_rng(1).permutation(n)[:150]
        for axis, points, share, name in zip(axes, (x, y), shares, ("source", "target"), strict=True):
            image = axis.hexbin(*points.T, C=share, gridsize=140, cmap="viridis", vmin=0, vmax=1, linewidths=0)
            axis.set_title(f"{name}: {n:,} points, by the share that is matched")
            axis.set_aspect("equal")
            axis.set_axis_off()
        sent = some[shares[0][some] > 0.5]
        axes[0].quiver(
            *x[sent].T, *(mapped[sent] - x[sent]).T, angles="xy", scale_units="xy", scale=1, width=0.002, color="0.3"
        )
        figure.colorbar(image, ax=axes, shrink=0.8)
        figure.savefig(STATIC / "million.png", dpi=160)


def draw(record: Path) -> None:
    with styled():
        figure = new_figure(6.4, 4.0)
        axes = figure.add_subplot()
        for d, times in sorted(curves(record).items()):
            if d not in COLOURS:
                continue
            n = sorted(times)
            axes.loglog(n, [times[k] for k in n], marker="o", color=COLOURS.get(d), label=f"{d} dimensions")
        axes.set_xlabel("points on either side")
        axes.set_ylabel("seconds, two cores")
        axes.axhline(60, color="0.7", linewidth=0.8)
        axes.text(1100, 64, "a minute", color="0.5", fontsize=8)
        axes.legend(frameon=False)
        figure.savefig(STATIC / "points.png", dpi=160)
