"""Figure 1: the plans of minibatch OT between ten and ten points, over the minibatch size m.

Two clusters per side, five points in each, |x - y|^2, epsilon = 0.  The plan at m is the complete estimator: the
average of the exact plans over all pairs of subsets of m points, lifted to 10 x 10; m = 10 is OT itself.  The record
also has the unbalanced plans (tau = 0.5), which the paper's figure leaves to figure 3.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import jumbot
from jumbot._paper.record import Points, Record, make_points
from jumbot.report._drawings import draw_matrix, draw_plan, plan_legend, support
from jumbot.report._style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (10, 7, 5, 3, 2)
QUICK_SIZES = (10, 9, 2)
TAU = 0.5


def plan_at(points: Points, m: int, tau: float = math.inf) -> np.ndarray:
    """The complete minibatch plan, 10 x 10."""
    estimate = jumbot.estimate(points.source, points.target, m=m, k="all", epsilon=0.0, tau=tau, plan=True)
    assert estimate.plan is not None
    return np.asarray(estimate.plan.to_dense())


def run(folder: Path, quick: bool = False, seed: int = 0) -> dict[str, Any]:
    """Compute, draw, save."""
    sizes = QUICK_SIZES if quick else SIZES
    settings = {
        "n": 10,
        "m": sizes,
        "clusters": "5 + 5 points per side",
        "cost": "sqeuclidean",
        "epsilon": 0.0,
        "estimator": "complete",
        "tau of the unbalanced plans": TAU,
        "support": "entries above 1 % of the largest",
    }
    record = Record("fig1", "figure 1", settings, seed, quick)
    points = make_points(seed, target=(5, 5))
    plans = {m: plan_at(points, m) for m in sizes}
    unbalanced = {m: plan_at(points, m, TAU) for m in sizes}

    entries = [int(support(plan).sum()) for plan in plans.values()]
    between = [float(plan[points.between].sum()) for plan in plans.values()]
    share = [float(plan[points.between].sum() / plan.sum()) for plan in unbalanced.values()]
    record.data = {
        "m": sizes,
        "source": points.source,
        "target": points.target,
        "plans": plans,
        "entries": entries,
        "mass between clusters": between,
        "unbalanced: share of the mass between clusters": share,
        "unbalanced: mass": [float(plan.sum()) for plan in unbalanced.values()],
    }
    record.claim(
        "minibatch OT plans are less sparse than the OT plan, the more so the smaller m (section 1)",
        all(np.diff(entries) > 0),
        m=sizes,
        entries=entries,
    )
    record.claim(
        "OT matches the clusters exactly; in minibatches samples of one cluster are matched to the other (section 3)",
        between[0] < 1e-9 and all(np.diff(between) > 0),
        m=sizes,
        mass_between_clusters=between,
    )
    record.claim(
        "unbalanced OT at the minibatch level decreases the influence of these undesired couplings (section 1)",
        all(u < 0.1 * b for u, b in zip(share[1:], between[1:], strict=True)),
        m=sizes[1:],
        share_between_balanced=between[1:],
        share_between_unbalanced=share[1:],
        tau=TAU,
    )
    record.picture(folder, _draw(points, plans))
    return record.save(folder)


def _draw(points: Points, plans: dict[int, np.ndarray]) -> Figure:
    figure = new_figure(2.3 * len(plans) + 0.5, 5.2)
    axes = figure.subplots(2, len(plans), squeeze=False)
    for column, (m, plan) in enumerate(plans.items()):
        upper, lower = axes[:, column]
        image = draw_matrix(upper, plan, *points.clusters)
        upper.set_title(f"OT ($m = n = {m}$)" if m == len(plan) else f"MBOT, $m = {m}$", fontsize=12)
        draw_plan(lower, points.source, points.target, plan, *points.clusters)
        lower.set_xlabel(f"mass between: {plan[points.between].sum():.2f}", fontsize=11)
    axes[0, 0].set_ylabel("plan / its maximum", fontsize=11)
    axes[1, 0].set_ylabel("its support", fontsize=11)
    figure.colorbar(image, ax=axes[0, :], shrink=0.85, pad=0.01)
    plan_legend(figure, "cluster")
    return figure
