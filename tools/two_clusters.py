"""The picture of README.md: plans between two clusters in unequal proportions, over tau.

python tools/two_clusters.py docs/_static/two_clusters.png
"""

from __future__ import annotations

import math
import sys

import numpy as np

import jumbot
from jumbot._paper.record import make_points
from jumbot.report._drawings import draw_matrix, draw_plan
from jumbot.report._style import new_figure

TAUS = (math.inf, 10.0, 2.0, 0.5)


def main(path: str) -> None:
    """For each tau: left the points, joined by lines as strong as the plan, right the plan as a matrix."""
    points = make_points()
    figure = new_figure(10, 5.6)
    for panel, tau in zip(figure.subfigures(2, 2).ravel(), TAUS, strict=True):
        solution = jumbot.solve(points.cost, epsilon=0.0, tau=tau)
        plan = np.asarray(solution.plan)
        crossing = float(plan[points.between].sum())
        symbol = r"$\tau = \infty$ (exact OT)" if math.isinf(tau) else rf"$\tau = {tau:g}$"
        between = f"{crossing:.2g}" if crossing >= 5e-4 else "below 0.001"
        panel.suptitle(f"{symbol}: mass {float(solution.mass):.2f}, between clusters {between}", fontsize=11)
        left, right = panel.subplots(1, 2)
        unit = 1 / len(plan)  # the weight of one point, in every panel
        draw_plan(left, points.source, points.target, plan, *points.clusters, unit=unit)
        draw_matrix(right, plan, *points.clusters, unit=unit)
        left.set_xticks([0, 1], ["source", "target"])
        left.tick_params(length=0)
        left.spines[:].set_visible(False)
        right.set_xlabel("target")
        right.set_ylabel("source")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1])
