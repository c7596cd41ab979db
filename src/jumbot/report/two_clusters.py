"""Two clusters in unequal proportions: source 5 + 5 points, target 3 + 7 points, and the plans between them.

Exact marginals force two source points out of their cluster; a finite tau lets the plan leave them alone.
This is the example of section 3 of Fatras et al. (2021).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import jumbot
from jumbot.report.plans import draw_matrix, draw_plan
from jumbot.report.style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


@dataclass(frozen=True)
class Points:
    """Source and target points `(10, 2)` and the cluster, 0 or 1, that each belongs to."""

    source: np.ndarray
    target: np.ndarray
    source_cluster: np.ndarray
    target_cluster: np.ndarray

    @property
    def cost(self) -> np.ndarray:
        """|x_i - y_j|^2."""
        return ((self.source[:, None] - self.target[None]) ** 2).sum(-1)

    @property
    def clusters(self) -> tuple[np.ndarray, np.ndarray]:
        return self.source_cluster, self.target_cluster

    @property
    def between(self) -> np.ndarray:
        """True where source i and target j lie in different clusters."""
        return self.source_cluster[:, None] != self.target_cluster[None]


@dataclass(frozen=True)
class Result:
    """The exact plan (epsilon = 0) at one tau."""

    tau: float
    plan: np.ndarray
    mass: float
    value: float
    relative_gap: float
    mass_between: float

    @property
    def problem(self) -> str:
        return "balanced" if math.isinf(self.tau) else "unbalanced"


def make_points(seed: int = 0, target: tuple[int, int] = (3, 7)) -> Points:
    """5 + 5 sources around (0, 1) and (0, -1), as many targets as said around (1, 1) and (1, -1); deviation 0.22.

    >>> make_points().cost.shape
    (10, 10)
    """
    random = np.random.default_rng(seed)
    source_cluster, target_cluster = np.repeat([0, 1], [5, 5]), np.repeat([0, 1], target)

    def scatter(x: float, cluster: np.ndarray) -> np.ndarray:
        centres = np.stack([np.full(len(cluster), x), 1.0 - 2.0 * cluster], axis=-1)
        return centres + 0.22 * random.standard_normal(centres.shape)

    return Points(scatter(0.0, source_cluster), scatter(1.0, target_cluster), source_cluster, target_cluster)


def solve_two_clusters(points: Points, taus: Sequence[float] = (math.inf, 10.0, 2.0, 0.5)) -> list[Result]:
    """min_P <C, P> + tau KL(P1 | a) + tau KL(P'1 | b) at each tau, uniform weights; tau = inf is exact OT.

    >>> [exact] = solve_two_clusters(make_points(), taus=[math.inf])
    >>> round(exact.mass_between, 6)
    0.2
    """
    results = []
    for tau in taus:
        solution: Any = jumbot.solve(points.cost, epsilon=0.0, tau=tau)
        plan = np.asarray(solution.plan)
        results.append(
            Result(
                tau=tau,
                plan=plan,
                mass=float(solution.mass),
                value=float(solution.value),
                relative_gap=float(solution.relative_gap),
                mass_between=float(plan[points.between].sum()),
            )
        )
    return results


def draw_two_clusters(figure: Figure, points: Points, results: Sequence[Result]) -> None:
    """For each result: left the points, joined by lines as wide as the plan, right the plan as a matrix."""
    columns = min(2, len(results))
    panels = figure.subfigures(math.ceil(len(results) / columns), columns, squeeze=False).ravel()
    for panel, result in zip(panels, results, strict=False):
        _draw_result(panel, points, result)


def save_two_clusters(path: str, points: Points, results: Sequence[Result]) -> None:
    """Draw into a picture file; its format follows the file name."""
    figure = new_figure(10, 5.6)
    draw_two_clusters(figure, points, results)
    figure.savefig(path, dpi=110)


def _draw_result(panel: SubFigure, points: Points, result: Result) -> None:
    symbol = r"$\tau = \infty$ (exact OT)" if math.isinf(result.tau) else rf"$\tau = {result.tau:g}$"
    between = f"{result.mass_between:.2g}" if result.mass_between >= 5e-4 else "below 0.001"
    panel.suptitle(f"{symbol}: mass {result.mass:.2f}, between clusters {between}", fontsize=11)
    left, right = panel.subplots(1, 2)
    unit = 1 / len(result.plan)  # the weight of one point, in every panel
    draw_plan(left, points.source, points.target, result.plan, *points.clusters, unit=unit)
    draw_matrix(right, result.plan, *points.clusters, unit=unit)
    left.set_xticks([0, 1], ["source", "target"])
    left.tick_params(length=0)
    left.spines[:].set_visible(False)
    right.set_xlabel("target")
    right.set_ylabel("source")
