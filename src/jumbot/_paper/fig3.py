"""Figure 3: plans between classes in different proportions.

Ten source points, 5 + 5 in two classes, against ten target points, 3 + 7: what exact marginals force between the
classes, and what a finite tau leaves out.  |x - y|^2; a pair within a class costs about 1, between the classes about 5.
OT, UOT and the minibatch plans have epsilon = 0, entropic OT has epsilon = 0.5; minibatch plans are complete, m = 2.
A second picture shows the mass between the classes over tau.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import jumbot
from jumbot._paper.fig1 import plan_at
from jumbot._paper.record import Points, Record, make_points
from jumbot.report._drawings import draw_matrix, draw_plan, plan_legend
from jumbot.report._style import BLUE, GREEN, GREY, ORANGE, VERMILION, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

M, EPSILON = 2, 0.5
TAUS = (5.0, 1.0, 0.3)  # drawn as plans


def solve_plan(points: Points, epsilon: float = 0.0, tau: float = math.inf) -> np.ndarray:
    """The plan of the full problem."""
    return np.asarray(jumbot.solve(points.cost, epsilon=epsilon, tau=tau).plan)


def run(folder: Path, quick: bool = False, seed: int = 0) -> dict[str, Any]:
    """Compute, draw, save."""
    taus = np.geomspace(0.1, 100, 4 if quick else 25)
    drawn = TAUS[1:2] if quick else TAUS
    settings = {
        "n": 10,
        "m": M,
        "classes": "source 5 + 5, target 3 + 7",
        "cost": "sqeuclidean",
        "divergence": "kl",
        "epsilon": 0.0,
        "epsilon of entropic OT": EPSILON,
        "tau": drawn,
        "minibatch estimator": "complete",
    }
    record = Record("fig3", "figure 3", settings, seed, quick)
    points = make_points(seed)
    plans = {"OT": solve_plan(points), "MBOT": plan_at(points, M), "entropic OT": solve_plan(points, EPSILON)}
    plans |= {f"UOT, $\\tau = {tau:g}$": solve_plan(points, tau=tau) for tau in drawn}
    plans |= {f"UMBOT, $\\tau = {tau:g}$": plan_at(points, M, tau) for tau in drawn}
    curves = {
        "UOT": np.array([_mixing(points, solve_plan(points, tau=tau)) for tau in taus]),
        "UMBOT": np.array([_mixing(points, plan_at(points, M, tau)) for tau in taus]),
    }
    between = {name: _mixing(points, plan)[0] for name, plan in plans.items()}
    record.data = {
        "source": points.source,
        "target": points.target,
        "plans": plans,
        "mass between classes": between,
        "tau": taus,
        "mass between classes over tau": {name: curve[:, 0] for name, curve in curves.items()},
        "mass over tau": {name: curve[:, 1] for name, curve in curves.items()},
    }
    _claims(record, taus, between, curves)
    record.picture(folder, _draw_plans(points, plans))
    record.picture(folder, _draw_curves(taus, between, curves), "_tau")
    return record.save(folder)


def _mixing(points: Points, plan: np.ndarray) -> tuple[float, float]:
    """(mass between the classes, all of the mass)."""
    return float(plan[points.between].sum()), float(plan.sum())


def _claims(record: Record, taus: np.ndarray, between: dict[str, float], curves: dict[str, np.ndarray]) -> None:
    record.claim(
        "OT and minibatch OT tend to connect samples from different classes (section 3)",
        between["OT"] > 0.2 - 1e-9 and between["MBOT"] > between["OT"],
        mass_between_OT=between["OT"],
        mass_between_MBOT=between["MBOT"],
        forced_by_the_proportions=0.2,
    )
    for name, balanced in (("UOT", "OT"), ("UMBOT", "MBOT")):
        mixing, mass = curves[name].T
        record.claim(
            f"{name}: pairings between classes are diminished, and tend to disappear when tau is reduced (section 3)",
            bool(np.all(np.diff(mixing) > -1e-6)) and mixing[-1] < between[balanced] and mixing[0] < 1e-4,
            tau=taus,
            mass_between=mixing,
            share_of_the_mass=mixing / mass,
            mass_between_balanced=between[balanced],
        )


def _draw_plans(points: Points, plans: dict[str, np.ndarray]) -> Figure:
    figure = new_figure(1.72 * len(plans) + 0.4, 4.3)
    axes = figure.subplots(2, len(plans), squeeze=False)
    for column, (name, plan) in enumerate(plans.items()):
        upper, lower = axes[:, column]
        draw_matrix(upper, plan, *points.clusters)
        upper.set_title(name, fontsize=11.5)
        draw_plan(lower, points.source, points.target, plan, *points.clusters)
        mixing, mass = _mixing(points, plan)
        lower.set_xlabel(f"mass {mass:.2f}\nbetween {mixing:.3f}", fontsize=10.5)
    axes[0, 0].set_ylabel("plan / its maximum", fontsize=11)
    axes[1, 0].set_ylabel("its support", fontsize=11)
    plan_legend(figure, "class")
    return figure


def _draw_curves(taus: np.ndarray, between: dict[str, float], curves: dict[str, np.ndarray]) -> Figure:
    figure = new_figure(9.5, 3.8)
    left, right = figure.subplots(1, 2)
    for name, balanced, colour, limit in (("UOT", "OT", BLUE, GREEN), ("UMBOT", "MBOT", VERMILION, ORANGE)):
        mixing, mass = curves[name].T
        label = f"{name}, $m = {M}$" if name == "UMBOT" else name
        left.plot(taus, mixing, color=colour, label=label, linewidth=2)
        left.axhline(between[balanced], color=limit, linestyle="--", label=balanced)
        right.plot(taus, mixing / mass, color=colour, linewidth=2)
        right.axhline(between[balanced], color=limit, linestyle="--")
    left.set_title("mass between the classes")
    right.set_title("as a share of the transported mass")
    for axes in (left, right):
        axes.set(xscale="log", xlabel=r"$\tau$")
        axes.set_ylim(bottom=0)
        axes.grid(color=GREY, alpha=0.25)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure
