"""Figure 4: gradient flows of minibatch Sinkhorn divergences between imbalanced clusters.

10,000 points per side: 6,400 in the upper left and 3,600 in the upper right shape flow to 3,600 in the lower left and
6,400 in the lower right one; k = 1, learning rate 0.02, 5,000 steps, m = 64 and 128, as in the paper.  The paper gives
neither epsilon, tau nor the shapes.  Here: epsilon = 0.02, tau = 1 (UMBOT) or infinite (MBOT); a disc and a square
around (-1, 0.5) and (1, 0.5) flow to a crescent and a ring around (-1, -0.5) and (1, -0.5), each about 0.8 wide.

The cost is |x - y|^2.  The paper's library halves it: half of the cost with epsilon, tau and a learning rate is the
whole cost with twice the epsilon and tau and half of the learning rate.  A step takes a drawn point at most
2 x 0.02 = 4 % of its way, and at m = 64 a point is drawn 32 times in 5,000 steps, so 27 % of the way remains;
the flow is continued to 20,000 steps to show where it ends.

A particle is counted as wrong if the target point nearest to it lies on the other side, left or right, than it started.
That UMBOT respects the shapes shows only at 20,000 steps: at the paper's 5,000 more of its particles than of MBOT's are
still on the way, because unbalanced mass moves slower.  tau matters: in a trial at m = 64, epsilon = 0.05 and 10,000
steps none were wrong at tau = 0.5 and 1, and 3 % at tau = 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import jumbot
from jumbot._paper.record import Record
from jumbot.report._style import GREEN, ORANGE, PURPLE, VERMILION, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EPSILON, TAU, RATE = 0.02, 1.0, 0.02
METHODS = {"MBOT": math.inf, "UMBOT": TAU}
CENTRES = np.array([[-1.0, 0.5], [1.0, 0.5], [-1.0, -0.5], [1.0, -0.5]])
REACH = 0.5  # no shape is wider than this around its centre
OFF = 0.1  # a particle further than this from every target point is off the shapes


@dataclass(frozen=True)
class Clouds:
    """Source and target `(n, 2)`, and whether each point belongs to the left (0) or right (1) shape."""

    source: np.ndarray
    target: np.ndarray
    source_side: np.ndarray
    target_side: np.ndarray

    @cached_property
    def _tree(self) -> Any:
        from scipy.spatial import KDTree

        return KDTree(self.target)

    def wrong(self, points: np.ndarray) -> np.ndarray:
        """Whether the target point nearest to each particle lies on the other side than it started."""
        return np.asarray(self.target_side[self._tree.query(points)[1]] != self.source_side)

    def distances(self, points: np.ndarray) -> np.ndarray:
        """To the nearest target point."""
        return np.asarray(self._tree.query(points)[0])


def make_clouds(n: int, seed: int) -> Clouds:
    """64 % of the source in a disc on the left, of the target in a ring on the right."""
    random = np.random.default_rng(seed)
    large = round(0.64 * n)
    square = random.uniform(-0.35, 0.35, (n - large, 2))
    crescent = _annulus(random, 8 * (n - large), 0.0, 0.45)
    crescent = crescent[np.hypot(crescent[:, 0], crescent[:, 1] - 0.22) > 0.33][: n - large]
    shapes = _annulus(random, large, 0.0, 0.4), square, crescent, _annulus(random, large, 0.22, 0.42)
    placed = [shape + centre for shape, centre in zip(shapes, CENTRES, strict=True)]
    sides = [np.repeat([0, 1], [len(left), len(right)]) for left, right in (shapes[:2], shapes[2:])]
    return Clouds(np.concatenate(placed[:2]), np.concatenate(placed[2:]), *sides)


def run(folder: Path, quick: bool = False, seed: int = 0) -> dict[str, Any]:
    """Compute, draw, save."""
    n, sizes, end = (125, (16,), 250) if quick else (10_000, (64, 128), 5_000)
    stops = [0, end // 5, end // 2, end, 4 * end]
    settings = {
        "n": n,
        "points in a cluster": [round(0.64 * n), n - round(0.64 * n)],
        "m": sizes,
        "k": 1,
        "learning rate": RATE,
        "steps": end,
        "continued to": stops[-1],
        "loss": "sinkhorn_divergence",
        "cost": "sqeuclidean",
        "epsilon": EPSILON,
        "tau of UMBOT": TAU,
        "divergence": "kl",
        "tol": 1e-4,
    }
    record = Record("fig4", "figure 4", settings, seed, quick)
    clouds = make_clouds(n, seed)
    flows = {
        (name, m): jumbot.gradient_flow(
            clouds.source,
            clouds.target,
            m=m,
            steps=stops[-1],
            learning_rate=RATE,
            epsilon=EPSILON,
            tau=tau,
            snapshots=stops,
            seed=seed,
            tol=1e-4,
        )
        for m in sizes
        for name, tau in METHODS.items()
    }
    shares = {key: _shares(clouds, np.asarray(flow.snapshots)) for key, flow in flows.items()}
    record.data = {
        "steps": stops,
        "shares of the particles": {f"{name}, m={m}": share for (name, m), share in shares.items()},
        "minibatch loss, mean of the last 100 steps": {
            f"{name}, m={m}": float(flow.losses[-100:].mean()) for (name, m), flow in flows.items()
        },
    }
    _claims(record, shares, sizes, stops.index(end))
    snapshots = {key: np.asarray(flow.snapshots) for key, flow in flows.items()}
    record.picture(folder, _draw(clouds, snapshots, stops, shares, end), few_colours=True)
    return record.save(folder)


def _annulus(random: np.random.Generator, n: int, inner: float, outer: float) -> np.ndarray:
    """Uniform between two circles."""
    angle = random.uniform(0, 2 * np.pi, n)
    radius = np.sqrt(random.uniform(inner**2, outer**2, n))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)


def _shares(clouds: Clouds, snapshots: np.ndarray) -> dict[str, list[float]]:
    """At each snapshot: particles on the wrong side, and particles that are on no target shape."""
    wrong = np.stack([clouds.wrong(points) for points in snapshots])
    off = np.stack([clouds.distances(points) > OFF for points in snapshots])
    between = np.abs(np.abs(snapshots[:, :, 0]) - CENTRES[1, 0]) > REACH
    return {
        "wrong": wrong.mean(-1).tolist(),
        "wrong, of the upper left": wrong[:, clouds.source_side == 0].mean(-1).tolist(),
        "wrong, of the upper right": wrong[:, clouds.source_side == 1].mean(-1).tolist(),
        "off the shapes": off.mean(-1).tolist(),
        "outside the width of both shapes": between.mean(-1).tolist(),
    }


def _claims(
    record: Record, shares: dict[tuple[str, int], dict[str, list[float]]], sizes: tuple[int, ...], end: int
) -> None:
    def at_end(name: str, what: str) -> dict[str, float]:
        return {f"m={m}": shares[name, m][what][end] for m in sizes}

    wrong = {name: at_end(name, "wrong") for name in METHODS}
    later = {name: {f"m={m}": shares[name, m]["wrong"][-1] for m in sizes} for name in METHODS}
    record.claim(
        "MBOT: data from the upper left cluster converge to the lower right one (section 5.1)",
        min(at_end("MBOT", "wrong, of the upper left").values()) > 0.05,
        share_of_the_upper_left=at_end("MBOT", "wrong, of the upper left"),
        share_of_all=wrong["MBOT"],
        share_of_all_after_four_times_the_steps=later["MBOT"],
        share_that_balanced_transport_of_all_points_sends_there=0.28,
    )
    record.claim(
        "minibatch UOT is robust to the imbalanced classes (section 5.1)",
        all(wrong["UMBOT"][key] < 0.1 * wrong["MBOT"][key] for key in wrong["MBOT"]),
        share_of_all=wrong["UMBOT"],
        share_of_all_after_four_times_the_steps=later["UMBOT"],
    )
    between = {name: at_end(name, "outside the width of both shapes") for name in METHODS}
    off = {name: {f"m={m}": shares[name, m]["off the shapes"][-1] for m in sizes} for name in METHODS}
    record.claim(
        "MBOT breaks the target shapes, minibatch UOT better respects them (section 5.1)",
        all(between["UMBOT"][key] < 0.5 * between["MBOT"][key] for key in between["MBOT"])
        and all(off["UMBOT"][key] < 0.5 * off["MBOT"][key] for key in off["MBOT"]),
        share_outside_the_width_of_both_shapes=between,
        share_off_the_shapes_after_four_times_the_steps=off,
    )


def _draw(
    clouds: Clouds,
    snapshots: dict[tuple[str, int], np.ndarray],
    stops: list[int],
    shares: dict[tuple[str, int], dict[str, list[float]]],
    end: int,
) -> Figure:
    figure = new_figure(2.75 * len(stops) + 0.4, 2.25 * len(snapshots) + 0.4)
    axes = figure.subplots(len(snapshots), len(stops), squeeze=False, sharex=True, sharey=True)
    for row, ((name, m), frames) in enumerate(snapshots.items()):
        for column, (step, points) in enumerate(zip(stops, frames, strict=True)):
            panel = axes[row, column]
            _draw_clouds(panel, clouds, points)
            if row == 0:
                beyond = ", beyond the paper" if step > end else ""
                panel.set_title(f"step {step:,}{beyond}", fontsize=12)
            wrong = shares[name, m]["wrong"][column]
            panel.set_xlabel(f"wrong: {100 * wrong:.1f} %" if step else "", fontsize=11)
        tau = r"$\tau = \infty$" if math.isinf(METHODS[name]) else rf"$\tau = {METHODS[name]:g}$"
        axes[row, 0].set_ylabel(f"{name}, $m = {m}$\n{tau}", fontsize=12)
    _legend(figure, clouds)
    return figure


def _draw_clouds(panel: Axes, clouds: Clouds, points: np.ndarray) -> None:
    # points as pixels, not as vectors: the PDF would hold 400,000 of them
    size = min(6.0, 6_000 / len(points))
    for side, colour in ((0, ORANGE), (1, GREEN)):
        place = clouds.target[clouds.target_side == side]
        panel.scatter(place[:, 0], place[:, 1], s=size, color=colour, linewidths=0, alpha=0.5, rasterized=True)
    for side, colour in ((0, VERMILION), (1, PURPLE)):
        place = points[clouds.source_side == side]
        panel.scatter(place[:, 0], place[:, 1], s=size, color=colour, linewidths=0, rasterized=True)
    panel.set(aspect="equal", xlim=(-1.6, 1.6), ylim=(-1.1, 1.1), xticks=[], yticks=[])


def _legend(figure: Figure, clouds: Clouds) -> None:
    left, right = np.bincount(clouds.source_side)
    colours = {
        f"source left ({left:,})": VERMILION,
        f"source right ({right:,})": PURPLE,
        f"target left ({right:,})": ORANGE,
        f"target right ({left:,})": GREEN,
    }
    legend_below(figure, {label: ("o", colour) for label, colour in colours.items()})
