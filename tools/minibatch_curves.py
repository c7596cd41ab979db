"""The measured curves of the guide "How many minibatches, how large?".

    python tools/minibatch_curves.py docs/_static

Two clusters in four dimensions, eight apart: half of the source's 20,000 points and 30 % of the target's lie in the
first.  |x - y|^2, epsilon = 0.5.  A pair within a cluster costs about 8, between the clusters about 72.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import jumbot
from jumbot._base.files import write_text
from jumbot._paper.record import rounded
from jumbot.report._style import BLUE, GREEN, GREY, INK, ORANGE, VERMILION, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N, EPSILON, TAU, M = 20_000, 0.5, 10.0, 64
SHARES = 0.5, 0.3


def make_clouds(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Source and target, `(n, 4)`; the first points of each lie in the first cluster."""
    random = np.random.default_rng(seed)
    clouds = random.normal(size=(n, 4)), random.normal(size=(n, 4)) + 0.25
    for cloud, share in zip(clouds, SHARES, strict=True):
        cloud[: round(share * n), 0] += 8
    return clouds


def sample_clouds(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The same, with the shares of the clusters left to chance, as in data drawn anew."""
    random = np.random.default_rng(seed)
    clouds = random.normal(size=(n, 4)), random.normal(size=(n, 4)) + 0.25
    for cloud, share in zip(clouds, SHARES, strict=True):
        cloud[:, 0] += 8 * (random.random(n) < share)
    return clouds


def errors_over_k(counts: list[int], data_sets: int) -> dict[str, Any]:
    """The spread of the estimate over fresh data, beside the standard errors that one estimate gives."""
    means, estimated = [], np.zeros((2, len(counts)))
    for seed in range(data_sets):
        estimate = jumbot.estimate(
            *sample_clouds(N, seed), m=M, k=counts[-1], epsilon=EPSILON, tau=TAU, tol=1e-4, seed=seed
        )
        running = np.cumsum(estimate.values) / np.arange(1, counts[-1] + 1)
        means.append(running[np.array(counts) - 1])
        draw, whole = estimate.standard_error("complete"), estimate.standard_error("population")
        shrunk = draw**2 * counts[-1] / np.array(counts)  # the part of the draw goes like 1/k
        estimated += np.stack([shrunk, shrunk + whole**2 - draw**2]) / data_sets
    draw, whole = np.sqrt(estimated)
    return {"k": counts, "measured": np.std(means, axis=0, ddof=1), "draw": draw, "draw and data": whole}


def values_over_m(sizes: list[int], one: int) -> dict[str, Any]:
    """The mean loss over minibatches of m points, and the loss of one problem with `one` points per side."""
    x, y = make_clouds(N, 0)
    out: dict[str, Any] = {"m": sizes, "one problem": one}
    settings: dict[str, Any] = {"epsilon": EPSILON, "tau": TAU, "tol": 1e-4}
    for name in ("transport", "sinkhorn_divergence"):
        whole = jumbot.estimate(x[:: N // one], y[:: N // one], m=one, k=1, loss=name, **settings)
        out[name] = {
            "estimates": [jumbot.estimate(x, y, m=m, k=_count(m), loss=name, **settings).value for m in sizes],
            "one problem": whole.value,
        }
    itself = [sum(jumbot.estimate(z, z, m=m, k=_count(m), seed=1, **settings).value for z in (x, y)) / 2 for m in sizes]
    out["difference"] = {"estimates": np.array(out["transport"]["estimates"]) - itself}
    return out


def _count(m: int) -> int:
    return max(50, 40_000 // m)


def crossing_over_tau(taus: np.ndarray, sizes: list[int]) -> dict[str, Any]:
    """The share of the transported mass that goes between the clusters."""
    x, y = make_clouds(N, 0)
    first = np.arange(N) < round(SHARES[0] * N), np.arange(N) < round(SHARES[1] * N)
    out: dict[str, Any] = {"tau": taus}
    for m in sizes:
        shares = []
        for tau in taus:
            plan = jumbot.estimate(x, y, m=m, k=6_400 // m, epsilon=EPSILON, tau=float(tau), tol=1e-4, plan=True).plan
            assert plan is not None
            triplets = plan.to_scipy().tocoo()
            crossing = first[0][triplets.row] != first[1][triplets.col]
            shares.append(float(triplets.data[crossing].sum() / plan.mass))
        out[f"m={m}"] = shares
    return out


def main(folder: Path) -> None:
    """Measure, draw `minibatches.png` and write the numbers to `minibatches.json`."""
    over_k = errors_over_k([16, 64, 256, 1024, 4096], 60)
    over_m = values_over_m([16, 32, 64, 128, 256, 512], 4_000)
    over_tau = crossing_over_tau(np.geomspace(1, 1000, 13), [16, 64, 256])
    figure = new_figure(14, 4.8)
    left, middle, right = figure.subplots(1, 3)
    panels: list[tuple[Axes, Callable[[Axes, dict[str, Any]], None], dict[str, Any]]] = [
        (left, _draw_errors, over_k),
        (middle, _draw_values, over_m),
        (right, _draw_crossing, over_tau),
    ]
    for axes, draw, data in panels:
        axes.set_xscale("log")
        draw(axes, data)
        axes.grid(color=GREY, alpha=0.25)
        axes.legend(frameon=False, fontsize=10, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "minibatches.png", dpi=110)
    record = rounded({"over k": over_k, "over m": over_m, "over tau": over_tau})
    write_text(folder / "minibatches.json", json.dumps(record, indent=1) + "\n")


def _draw_errors(axes: Axes, data: dict[str, Any]) -> None:
    axes.plot(data["k"], data["measured"], "o", color=INK, label="measured, 60 data sets")
    axes.plot(data["k"], data["draw and data"], color=BLUE, label="standard_error()")
    axes.plot(data["k"], data["draw"], "--", color=VERMILION, label='standard_error("complete")')
    axes.set_yscale("log")
    axes.set_xlabel("minibatches $k$")
    axes.set_title(f"standard error over $k$ ($m = {M}$)")
    axes.set_xticks(data["k"], [str(k) for k in data["k"]])
    axes.minorticks_off()


def _draw_values(axes: Axes, data: dict[str, Any]) -> None:
    for name, label, colour in (
        ("transport", "transport", BLUE),
        ("sinkhorn_divergence", "Sinkhorn divergence", VERMILION),
        ("difference", "$h(x, y) - (h(x, x) + h(y, y))/2$", GREEN),
    ):
        axes.plot(data["m"], data[name]["estimates"], color=colour, marker="o", ms=4, label=label)
        if "one problem" in data[name]:
            axes.axhline(data[name]["one problem"], color=colour, linestyle="--", linewidth=1.2)
    axes.plot([], [], "--", color=GREY, label=f"one problem, {data['one problem']:,} points")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("minibatch size $m$")
    axes.set_title(rf"value over $m$ ($\tau = {TAU:g}$)")
    axes.set_xticks(data["m"], [str(m) for m in data["m"]])
    axes.minorticks_off()


def _draw_crossing(axes: Axes, data: dict[str, Any]) -> None:
    for (name, shares), colour in zip(list(data.items())[1:], (VERMILION, ORANGE, BLUE), strict=True):
        axes.plot(data["tau"], shares, color=colour, marker="o", ms=4, label=f"${name}$".replace("=", " = "))
    axes.axhline(SHARES[0] - SHARES[1], color=INK, linestyle="--", linewidth=1, label="forced by the proportions")
    axes.set_yscale("log")
    axes.set_xlabel(r"$\tau$")
    axes.set_title("share of the mass between the clusters")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
