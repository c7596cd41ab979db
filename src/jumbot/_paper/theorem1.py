"""Theorem 1: how far the incomplete estimator is from its expectation, and the bound, over n and k.

Source: uniform on the unit square; target: uniform on the square moved by (0.5, 0).  |x - y|^2, so costs lie in [0,
1.5^2 + 1]; m = 8, epsilon = 0.05, tau = 1, KL.  E_h is the mean over many minibatches from 900,000 points per side.
Each repetition draws n new points per side, and minibatches 1, ..., k of one draw serve every smaller k too. Shown: the
95 % quantile of |h~_k - E_h| over the repetitions, the bound at delta = 0.05, and the half-width of the 95 % interval
that `jumbot.estimate` gives at the largest k, which uses the observed spread, where the bound must allow for any.

Theorem 1.2: on eight points, m = 3, the largest deviation over the rows of the lifted plan's marginal from that of the
complete plan, with the bound at delta / 8 per row, with the mass of Lemma 2.2.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import jumbot
from jumbot._paper.record import Record
from jumbot.minibatch import bounds
from jumbot.report._style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, VERMILION, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

M, EPSILON, TAU, DELTA = 8, 0.05, 1.0, 0.05
COST_BOUND = 1.5**2 + 1.0
SMALL_N, SMALL_M = 8, 3  # where the complete plan can be enumerated
COLOURS = (ORANGE, VERMILION, PURPLE, BLUE, GREEN)


def draw_points(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """n points per side from the two squares."""
    return random.random((n, 2)), random.random((n, 2)) + np.array([0.5, 0.0])


def deviations(
    seed: int, expectation: float, sizes: list[int], counts: list[int], repetitions: int
) -> tuple[np.ndarray, np.ndarray]:
    """|h~_k - E_h|, `(sizes, counts, repetitions)`; half-widths of the intervals at the largest k, `(sizes,)`."""
    out = np.empty((len(sizes), len(counts), repetitions))
    widths = np.zeros(len(sizes))
    for at, n in enumerate(sizes):
        for repetition in range(repetitions):
            random = np.random.default_rng([seed, n, repetition])
            x, y = draw_points(random, n)
            estimate = _estimate(x, y, counts[-1], int(random.integers(2**31)))
            means = np.cumsum(estimate.values) / np.arange(1, counts[-1] + 1)
            out[at, :, repetition] = np.abs(means[np.array(counts) - 1] - expectation)
            low, high = estimate.interval()
            widths[at] += (high - low) / 2 / repetitions
    return out, widths


def marginal_deviations(seed: int, counts: list[int], repetitions: int) -> tuple[np.ndarray, float]:
    """(max_i |(Pi~ 1)_i - (Pi 1)_i|, `(counts, repetitions)`, the largest mass of a minibatch plan)."""
    random = np.random.default_rng([seed, 1])
    x, y = draw_points(random, SMALL_N)
    settings: dict[str, Any] = {"m": SMALL_M, "epsilon": EPSILON, "tau": TAU, "plan": True}
    complete = jumbot.estimate(x, y, k="all", **settings).plan.marginals[0]
    out = np.empty((len(counts), repetitions))
    heaviest = 0.0
    for at, k in enumerate(counts):
        for repetition in range(repetitions):
            plan = jumbot.estimate(x, y, k=k, seed=int(random.integers(2**31)), **settings).plan
            out[at, repetition] = np.abs(plan.marginals[0] - complete).max()
            heaviest = max(heaviest, plan.mass)
    return out, heaviest


def run(folder: Path, quick: bool = False, seed: int = 0) -> dict[str, Any]:
    """Compute, draw, save."""
    sizes = [32, 512] if quick else [32, 128, 512, 2048]
    counts = [16, 256] if quick else [16, 64, 256, 1024, 4096]
    repetitions = 20 if quick else 100
    settings = {
        "m": M,
        "n": sizes,
        "k": counts,
        "repetitions": repetitions,
        "cost": "sqeuclidean",
        "cost bound": COST_BOUND,
        "epsilon": EPSILON,
        "tau": TAU,
        "divergence": "kl",
        "delta": DELTA,
        "marginals": {"n": SMALL_N, "m": SMALL_M},
    }
    record = Record("theorem1", "Theorem 1", settings, seed, quick)
    whole = _estimate(*draw_points(np.random.default_rng(seed), 900_000), 4_000 if quick else 100_000, seed)
    found, widths = deviations(seed, whole.value, sizes, counts, repetitions)
    limit = bounds.value_bound(COST_BOUND, epsilon=EPSILON, tau=TAU)
    bound, printed = (
        np.array(
            [[bounds.deviation_bound(limit, n=n, m=M, k=k, delta=DELTA, printed=p) for k in counts] for n in sizes]
        )
        for p in (False, True)
    )
    quantile = np.quantile(found, 1 - DELTA, axis=-1)
    rows, heaviest = marginal_deviations(seed, counts[:4], repetitions)
    row_quantile = np.quantile(rows, 1 - DELTA, axis=-1)
    mass = bounds.mass_bound(COST_BOUND, epsilon=EPSILON, tau=TAU)
    row_bound = np.array([bounds.marginal_bound(mass, k=k, delta=DELTA / SMALL_N) for k in counts[:4]])

    record.data = {
        "E_h": whole.value,
        "its standard error": whole.standard_error(),
        "loss bound": limit,
        "deviation, 95 % quantile (n, k)": quantile,
        "deviation, largest (n, k)": found.max(axis=-1),
        "bound (n, k)": bound,
        "bound as printed (n, k)": printed,
        "half-width of the 95 % interval at the largest k (n)": widths,
        "marginal deviation, 95 % quantile (k)": row_quantile,
        "marginal bound (k)": row_bound,
        "mass bound": mass,
        "largest mean mass of a plan": heaviest,
    }
    _claims(record, sizes, counts, found, quantile, bound, printed)
    record.claim(
        "Theorem 1.2: the marginals of the incomplete plan are within the bound of the complete one's",
        bool(np.mean(rows <= row_bound[:, None]) >= 1 - DELTA),
        share_within=float(np.mean(rows <= row_bound[:, None])),
        bound_over_quantile=row_bound / row_quantile,
    )
    record.picture(folder, _draw(sizes, counts, quantile, bound, widths, row_quantile, row_bound))
    return record.save(folder)


def _estimate(x: np.ndarray, y: np.ndarray, k: int, seed: int) -> Any:
    return jumbot.estimate(x, y, m=M, k=k, epsilon=EPSILON, tau=TAU, tol=1e-5, seed=seed)


def _claims(
    record: Record,
    sizes: list[int],
    counts: list[int],
    found: np.ndarray,
    quantile: np.ndarray,
    bound: np.ndarray,
    printed: np.ndarray,
) -> None:
    share = np.mean(found <= bound[..., None], axis=-1)
    record.claim(
        "Theorem 1.1: with probability 1 - delta the deviation is below the bound, for every n and k",
        bool(np.all(share >= 1 - DELTA)),
        smallest_share_below=float(share.min()),
        smallest_share_below_as_printed=float(np.mean(found <= printed[..., None], axis=-1).min()),
        bound_over_quantile={"smallest": float((bound / quantile).min()), "largest": float((bound / quantile).max())},
    )
    joint = min(len(sizes), len(counts))
    diagonal = quantile[np.arange(joint), np.arange(joint)]
    record.claim(
        "increasing the number of data n and of batches k at fixed m brings the estimate closer to E_h (section 4.2)",
        bool(np.all(np.diff(diagonal) < 0)) and _slope(sizes[:joint], diagonal) < -0.35,
        n_and_k=list(zip(sizes, counts, strict=False)),
        deviation=diagonal,
        exponent=_slope(sizes[:joint], diagonal),
        exponent_of_the_bound=-0.5,
        exponent_over_n_at_largest_k=_slope(sizes, quantile[:, -1]),
        exponent_over_k_at_largest_n=_slope(counts, quantile[-1]),
    )


def _slope(x: list[int], y: np.ndarray) -> float:
    """Of log y over log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _draw(
    sizes: list[int],
    counts: list[int],
    quantile: np.ndarray,
    bound: np.ndarray,
    widths: np.ndarray,
    rows: np.ndarray,
    row_bound: np.ndarray,
) -> Figure:
    figure = new_figure(14, 4.6)
    left, middle, right = figure.subplots(1, 3)
    for at, k in enumerate(counts):
        _pair(left, sizes, quantile[:, at], bound[:, at], COLOURS[at], f"$k = {k}$")
    left.plot(sizes, widths, ":", color=INK, linewidth=2, label=f"interval, $k = {counts[-1]}$")
    for at, n in enumerate(sizes):
        _pair(middle, counts, quantile[at], bound[at], COLOURS[at], f"$n = {n}$")
    _pair(right, counts[:4], rows, row_bound, INK, f"$n = {SMALL_N}$, $m = {SMALL_M}$")
    left.set_title(f"over $n$ (Theorem 1.1, $m = {M}$)")
    middle.set_title(f"over $k$ (Theorem 1.1, $m = {M}$)")
    right.set_title("plan marginals over $k$ (Theorem 1.2)")
    left.set_ylabel(r"$|\tilde h_k^m - E_h|$, 95 % quantile", fontsize=10)
    middle.set_ylabel(r"$|\tilde h_k^m - E_h|$, 95 % quantile", fontsize=10)
    right.set_ylabel(r"$\max_i |(\tilde\Pi 1)_i - (\bar\Pi 1)_i|$, 95 % quantile", fontsize=10)
    for axes, ticks, name in ((left, sizes, "n"), (middle, counts, "k"), (right, counts[:4], "k")):
        axes.set(xscale="log", yscale="log", xlabel=f"${name}$")
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.grid(color=GREY, alpha=0.25)
        axes.plot([], [], "--", color=GREY, label="bound")
        axes.legend(
            frameon=False, fontsize=9.5, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, columnspacing=1.0
        )
    return figure


def _pair(axes: Axes, x: list[int], measured: np.ndarray, bound: np.ndarray, colour: str, label: str) -> None:
    axes.plot(x, measured, color=colour, marker="o", markersize=4, label=label)
    axes.plot(x, bound, "--", color=colour)
