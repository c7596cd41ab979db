"""Figure 7: the accuracy of each class along training on M->MM, DeepJDOT and JUMBOT.

The paper sees DeepJDOT overfit from epoch 30 on, each class losing several points, and JUMBOT stay.  Measured here: how
far each class ends below its best evaluation.  The curves are those of the item digits, from the evaluations along its
runs; the last is always on the whole test split.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jumbot._paper.trained import Suite, only
from jumbot.adaptation._runs.folder import read_metrics
from jumbot.report._style import GREY, class_colours, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(
    suite: Suite, *, tasks: Sequence[str] = ("M-MM",), methods: Sequence[str] = ("deepjdot", "jumbot")
) -> dict[str, Any]:
    """Train what is not finished, in the folders of the item digits, then measure, draw and save."""
    runs = suite.runs(only(tasks), methods)
    record = suite.record("fig7", "figure 7", runs, tasks=tasks, methods=methods)
    curves = {each.variant.label: curve_of(each.folder) for each in runs}
    falls = {name: fall(curve["accuracies"]) for name, curve in curves.items()}
    record.data = {
        "curves": curves,
        "points below the best at the end, per class": falls,
        "points below the best at the end, mean over classes": {n: float(np.mean(each)) for n, each in falls.items()},
    }
    if {"deepjdot", "jumbot"} <= set(falls):
        mean = {name: float(np.mean(each)) for name, each in falls.items()}
        record.claim(
            "DeepJDOT overfits, its accuracy on each class reduced; JUMBOT is more stable (supplement, overfitting)",
            mean["jumbot"] < mean["deepjdot"],
            mean_points_below_the_best=mean,
        )
        last = {name: float(curve["accuracies"][-1].mean()) for name, curve in curves.items()}
        record.claim(
            "JUMBOT has a higher accuracy (supplement, overfitting)",
            last["jumbot"] > last["deepjdot"],
            mean_class_accuracy_at_the_end=last,
        )
    record.picture(suite.folder, draw(curves, [str(digit) for digit in range(10)]))
    return record.save(suite.folder)


def curve_of(folder: Path) -> dict[str, Any]:
    """Epochs `(t,)`, accuracies `(t, classes)` in per cent, the epoch in which adaptation starts, samples looked at.

    All with running statistics in the batch norms: after the last step there may be a second evaluation, without them.
    """
    evaluations = [r for r in read_metrics(folder) if r["event"] == "evaluation"]
    seen = list({r["step"]: r for r in reversed(evaluations)}.values())[::-1]
    accuracies = np.array([[np.nan if share is None else 100 * share for share in r["per_class"]] for r in seen])
    before = [r["epoch"] for r in seen if r["phase"] == "source"]
    return {
        "epochs": [r["epoch"] for r in seen],
        "accuracies": accuracies,
        "source epochs": max(before, default=0),
        "samples": sorted({r["n"] for r in seen}),
    }


def fall(accuracies: np.ndarray) -> list[float]:
    """Of each class, points between its best evaluation and its last.

    >>> fall(np.array([[90.0, 50.0], [95.0, 60.0], [92.0, 70.0]]))
    [3.0, 0.0]
    """
    best: np.ndarray = np.nanmax(accuracies, axis=0) - accuracies[-1]
    return [float(each) for each in best]


def draw(curves: dict[str, dict[str, Any]], classes: Sequence[str]) -> Figure:
    """A panel for each method, a line for each class."""
    figure = new_figure(5.6 * len(curves), 4.4)
    colours = class_colours(len(classes))
    panels = figure.subplots(1, len(curves), squeeze=False, sharey=True)[0]
    for panel, (name, curve) in zip(panels, curves.items(), strict=True):
        for label, colour in enumerate(colours):
            panel.plot(curve["epochs"], curve["accuracies"][:, label], color=colour, linewidth=1.4)
        if curve["source epochs"]:
            panel.axvline(curve["source epochs"], color=GREY, linestyle="--", linewidth=1)
        samples = " or ".join(f"{count:,}" for count in curve["samples"])
        panel.set_title(f"{name} (evaluated on {samples} test samples)", fontsize=11)
        panel.set_xlabel("epoch; dashed: adaptation starts")
        panel.grid(color=GREY, alpha=0.25)
    panels[0].set_ylabel("accuracy of a class, %")
    legend_below(figure, dict(zip(classes, (("", colour) for colour in colours), strict=True)))
    return figure
