r"""Figure 2: what an outlier costs as it moves away.

Source: n = 10 points, Gaussian of standard deviation 0.5.  Target: the same points and an outlier z, eleven points of
weight 1/11.  z starts one unit from their centre and moves out to six.  |x - y|^2, epsilon = 0, KL, tau = 1. OT and UOT
are the full problems; MBOT and UMBOT the averages over k pairs of minibatches of m = 5 points, each computed 5 times
with independent draws.  The dashed curve is Lemma 1.1, here with OT(alpha, alpha) = 0:

    OT(alpha', alpha) <= 2 tau / (n + 1) (1 - exp(-m(z) / 2 tau)),    m(z) the mean cost from z to the points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import jumbot
from jumbot._paper.record import Record
from jumbot.minibatch.bounds import outlier_upper_bound
from jumbot.report._style import BLUE, GREEN, GREY, INK, ORANGE, SKY, VERMILION, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N, M, TAU, RUNS = 10, 5, 1.0, 5
COUNTS = (30, 500)
CURVES = {("MBOT", 30): ORANGE, ("MBOT", 500): VERMILION, ("UMBOT", 30): SKY, ("UMBOT", 500): BLUE}


@dataclass(frozen=True)
class Costs:
    """Each over the outlier's distances; the minibatch ones `(runs, distances)`."""

    ot: np.ndarray
    uot: np.ndarray
    bound: np.ndarray
    minibatch: dict[tuple[str, int], np.ndarray]

    def variance(self, name: str, k: int) -> np.ndarray:
        """Over the runs, at each distance."""
        return self.minibatch[name, k].var(axis=0, ddof=1)


def compute(points: np.ndarray, outliers: np.ndarray, seed: int) -> Costs:
    """All costs for each place of the outlier."""
    tainted = np.stack([np.vstack([points, z]) for z in outliers])
    costs = ((points[None, :, None] - tainted[:, None]) ** 2).sum(-1)
    ot: Any = jumbot.solve(costs, epsilon=0.0)
    uot: Any = jumbot.solve(costs, epsilon=0.0, tau=TAU)
    mean_costs = costs[:, :, -1].mean(-1)
    bound = np.array([outlier_upper_bound(0.0, float(cost), zeta=N / (N + 1), tau=TAU) for cost in mean_costs])
    minibatch = {}
    for name, k in CURVES:
        tau = TAU if name == "UMBOT" else math.inf
        draws = np.random.default_rng([seed, k]).integers(2**31, size=(RUNS, len(outliers)))
        minibatch[name, k] = np.array(
            [
                [jumbot.estimate(points, y, m=M, k=k, epsilon=0.0, tau=tau, seed=int(s)).value for y, s in pairs]
                for pairs in (zip(tainted, row, strict=True) for row in draws)
            ]
        )
    return Costs(np.asarray(ot.value), np.asarray(uot.value), bound, minibatch)


def run(folder: Path, quick: bool = False, seed: int = 0) -> dict[str, Any]:
    """Compute, draw, save."""
    distances = np.linspace(1.0, 6.0, 5 if quick else 21)
    settings = {
        "n": N,
        "m": M,
        "k": COUNTS,
        "runs": RUNS,
        "cost": "sqeuclidean",
        "epsilon": 0.0,
        "tau": TAU,
        "divergence": "kl",
    }
    record = Record("fig2", "figure 2", settings, seed, quick)
    points = 0.5 * np.random.default_rng(seed).standard_normal((N, 2))
    centre = points.mean(axis=0)
    outliers = centre + np.stack([distances, np.zeros_like(distances)], axis=-1)
    costs = compute(points, outliers, seed)

    means = {f"{name} k={k}": values.mean(axis=0) for (name, k), values in costs.minibatch.items()}
    variances = {f"{name} k={k}": costs.variance(name, k) for name, k in CURVES}
    record.data = {
        "distance": distances,
        "source": points,
        "OT": costs.ot,
        "UOT": costs.uot,
        "Lemma 1.1": costs.bound,
        "means": means,
        "variances over the runs": variances,
    }
    _claims(record, costs, means, variances)
    record.picture(folder, _draw(points, outliers, distances, costs))
    return record.save(folder)


def _claims(record: Record, costs: Costs, means: dict[str, np.ndarray], variances: dict[str, np.ndarray]) -> None:
    def growth(values: np.ndarray) -> float:
        """How much of the whole rise falls into the second half of the way."""
        return float((values[-1] - values[len(values) // 2]) / (values[-1] - values[0]))

    balanced = {"OT": costs.ot} | {name: means[name] for name in means if name.startswith("MBOT")}
    unbalanced = {"UOT": costs.uot} | {name: means[name] for name in means if name.startswith("UMBOT")}
    rise = {name: growth(values) for name, values in balanced.items()}
    record.claim(
        "OT variants are not robust to the outlier: their loss increases along its displacement (section 3)",
        bool(np.all(np.diff(costs.ot) > 0)) and min(rise.values()) > 0.5,
        share_of_the_rise_in_the_second_half=rise,
        last={name: float(v[-1]) for name, v in balanced.items()},
    )
    plateau = {name: growth(values) for name, values in unbalanced.items()}
    record.claim(
        "UOT variants reach a plateau (section 3)",
        abs(plateau["UOT"]) < 0.1 and all(abs(value) < 0.25 for value in plateau.values()),
        share_of_the_rise_in_the_second_half=plateau,
        last={name: float(v[-1]) for name, v in unbalanced.items()},
    )
    record.claim(
        "UOT stays below the bound of Lemma 1.1",
        bool(np.all(costs.uot <= costs.bound * (1 + 1e-6))),
        largest_ratio_to_the_bound=float((costs.uot / costs.bound).max()),
        plateau=float(costs.uot[-1]),
        bound=float(costs.bound[-1]),
    )
    average = {name: float(v.mean()) for name, v in variances.items()}
    record.claim(
        "variance is lower for bigger k (section 3)",
        all(average[f"{name} k=500"] < average[f"{name} k=30"] for name in ("MBOT", "UMBOT")),
        mean_variance=average,
    )
    record.claim(
        "UMBOT has a lower variance than MBOT for k = 30 and k = 500 (section 3)",
        all(average[f"UMBOT k={k}"] < average[f"MBOT k={k}"] for k in COUNTS),
        ratio={f"k={k}": average[f"MBOT k={k}"] / average[f"UMBOT k={k}"] for k in COUNTS},
    )


def _draw(points: np.ndarray, outliers: np.ndarray, distances: np.ndarray, costs: Costs) -> Figure:
    figure = new_figure(13, 4.4)
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.0, 1.25, 1.25])
    left.scatter(*points.T, color=BLUE, label="points of both", s=36)
    left.scatter(*outliers[0], color=GREEN, label="target only: the outlier", s=60, zorder=3)
    left.annotate(
        "", outliers[-1], outliers[0] + [0.25, 0], arrowprops={"arrowstyle": "->", "color": GREEN, "linewidth": 2}
    )
    far = points[:, 0].min() - 0.5, outliers[-1, 0] + 0.5
    left.set(aspect="equal", xlim=far, ylim=(-3.5, 3.5), title="the outlier moves away")
    left.legend(loc="upper right", frameon=False)

    _draw_costs(middle, distances, costs)
    middle.set_title("what it costs")
    _draw_costs(right, distances, costs)
    right.plot(distances, costs.bound, "--", color=INK, label="Lemma 1.1: bound of UOT")
    top = max(costs.minibatch["UMBOT", 30].max(), costs.bound.max())
    right.set(ylim=(0, 1.25 * top), title="the same, lower part")
    for axes in (middle, right):
        axes.set(xlabel="distance of the outlier", ylabel="cost", xlim=(distances[0], distances[-1]))
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=7, frameon=False, fontsize=10)
    return figure


def _draw_costs(axes: Axes, distances: np.ndarray, costs: Costs) -> None:
    axes.plot(distances, costs.ot, color=INK, label="OT", linewidth=2)
    axes.plot(distances, costs.uot, color=GREEN, label="UOT", linewidth=2)
    for (name, k), colour in CURVES.items():
        mean, spread = costs.minibatch[name, k].mean(axis=0), np.sqrt(costs.variance(name, k))
        axes.plot(distances, mean, color=colour, label=f"{name}, $k = {k}$")
        axes.fill_between(distances, mean - spread, mean + spread, color=colour, alpha=0.25, linewidth=0)
    axes.grid(color=GREY, alpha=0.25)
