"""Accuracy on Office-Caltech10 by the number of target labels per class that are trained on.

    python -m benchmarks.few_labels office_caltech10/features.npz
        writes results/office-caltech10-labels/labels.json and labels.png

A task is SOURCE-TARGET.  Of each class of the target the first samples of one shuffle are labelled, so that more
labels contain fewer.  Accuracy is on the same samples at every count: those that no count has labelled.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import jumbot
from benchmarks.origin import origin
from jumbot.adaptation._config import make_config
from jumbot.data import as_domain
from jumbot.data._domain import Domain
from jumbot.report._style import METHOD_COLOURS, legend_below, new_figure, percent_axis, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASKS = (("amazon", "webcam"), ("caltech10", "amazon"), ("webcam", "caltech10"), ("dslr", "amazon"))
COUNTS = (0, 1, 3, 10)
METHODS = ("source-only", "jumbot")
SEED = 0
OUT = Path("results/office-caltech10-labels/labels.json")


def first_of_each_class(domain: Domain, count: int, seed: int = SEED) -> np.ndarray:
    """Rows: `count` of each class, the first of one shuffle."""
    assert domain.labels is not None
    order = np.random.default_rng(seed).permutation(len(domain))
    classes = range(len(domain.classes))
    return np.concatenate([order[domain.labels[order] == c][:count] for c in classes]).astype(np.int64)


def rows_of(task: tuple[str, str], file: str) -> list[dict[str, Any]]:
    """A row per method and count; samples that any count labels are left out of every evaluation."""
    source, target = (as_domain(f"{file}:{name}") for name in task)
    most = first_of_each_class(target, max(COUNTS))
    judged = target.subset(np.setdiff1d(np.arange(len(target)), most))
    found = []
    for method in METHODS:
        for count in COUNTS:
            few = target.subset(first_of_each_class(target, count)) if count else None
            model = jumbot.adapt(
                source,
                target.unlabelled(),
                labelled_target=few,
                evaluate_on=judged,
                method=method,
                seed=SEED,
                evaluate_every=0,
            )
            results = model.results
            found.append(
                {
                    "task": "-".join(task),
                    "method": method,
                    "seed": SEED,
                    "labels": count,
                    "n": results["n"],
                    "accuracy": results["accuracy"],
                }
            )
            print(found[-1], flush=True)
    return found


def draw(record: dict[str, Any]) -> Figure:
    """A panel per task: accuracy by the number of labels, a line per method."""
    figure = new_figure(3.1 * len(TASKS), 3.0)
    panels = figure.subplots(1, len(TASKS), sharey=True)
    for axes, task in zip(panels, TASKS, strict=True):
        name = "-".join(task)
        for method in METHODS:
            points = [
                (COUNTS.index(row["labels"]), row["accuracy"])
                for row in record["rows"]
                if (row["task"], row["method"]) == (name, method)
            ]
            axes.plot(*zip(*points, strict=True), marker="o", color=METHOD_COLOURS[method])
        axes.set_title(name)
        axes.set_xticks(range(len(COUNTS)), list(map(str, COUNTS)))
        axes.set_xlabel("target labels per class")
    panels[0].set_ylabel("accuracy on the rest of the target")
    percent_axis(panels[0])
    legend_below(figure, {method: ("o", METHOD_COLOURS[method]) for method in METHODS})
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", help="features.npz of Office-Caltech10, see docs/adaptation/results.md")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {
        **origin("few_labels", [Path(options.features).name]),
        "seeds": [SEED],
        "settings": {m: make_config(None, m, "table", {}).to_json() for m in METHODS},
        "rows": [],
    }
    for task in TASKS:
        record["rows"] += rows_of(task, options.features)
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    with styled():
        draw(record).savefig(options.out.with_suffix(".png"), dpi=150)


if __name__ == "__main__":
    main()
