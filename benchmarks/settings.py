"""Which settings of JUMBOT are the default for rows of numbers: the general or the partial ones of the paper.

    python -m benchmarks.settings --data DIR [--kinds features ...] [--out settings]

Three kinds of rows, from easy to hard: Office-Caltech10's ResNet features (`DIR/office_caltech10/features.npz`), the
same features seen through 12 random directions, and digits as 16 x 16 pixels (`DIR/{usps,mnist,mnistm}/train.npz`,
1,500 of each).  Each with all classes in the target, with the first five alone ("partial"), and with every second class
at an eighth of its samples ("imbalanced").  One seed, 500 steps; labels of the target only measure.  Runs stand in
`OUT/settings.json` as soon as they are done, and are not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import jumbot
from benchmarks.origin import origin
from jumbot._base.files import write_text

FEATURES = (
    "amazon-webcam",
    "caltech10-dslr",
    "dslr-amazon",
    "webcam-caltech10",
    "amazon-caltech10",
    "webcam-dslr",
)
TASKS = {
    "features": FEATURES,
    "projected": FEATURES,
    "pixels": ("usps-mnist", "mnist-usps", "mnist-mnistm", "usps-mnistm"),
}
TARGETS = ("full", "partial", "imbalanced")
SETTINGS: dict[str, dict[str, Any]] = {
    "source-only": {"method": "source-only"},
    "general": {"method": "jumbot", "eta1": 0.01, "eta2": 0.5, "eta3": 1.0, "tau": 0.5},
    "partial": {"method": "jumbot", "eta1": 0.003, "eta2": 0.75, "eta3": 10.0, "tau": 0.12},
}
Rows = tuple[np.ndarray, np.ndarray]


def rows(kind: str, domain: str, data: Path, seed: int) -> Rows:
    """Numbers and classes of a domain."""
    if kind == "pixels":
        found = np.load(data / domain / "train.npz")
        chosen = np.random.default_rng(seed).permutation(len(found["labels"]))[:1500]
        pictures = [Image.fromarray(picture).convert("L").resize((16, 16)) for picture in found["images"][chosen]]
        return np.stack([np.asarray(picture) for picture in pictures]).reshape(1500, -1), found["labels"][chosen]
    found = np.load(data / "office_caltech10" / "features.npz")
    inside = found["domain"] == domain
    features = found["features"][inside].astype(np.float32)
    if kind == "projected":
        features = features @ np.random.default_rng(5).normal(size=(features.shape[1], 12)).astype(np.float32)
    return features, np.unique(found["label"], return_inverse=True)[1][inside]


def cut(target: Rows, kind: str) -> Rows:
    """The target with fewer samples of some classes."""
    features, labels = target
    keep = labels < 5 if kind == "partial" else np.ones(len(labels), bool)
    if kind == "imbalanced":
        for label in range(1, 10, 2):
            members = np.flatnonzero(labels == label)
            keep[members[max(1, len(members) // 8) :]] = False
    return features[keep], labels[keep]


def accuracy(source: Rows, target: Rows, settings: dict[str, Any]) -> float:
    model = jumbot.adapt(source, target[0], recipe="table", evaluate_every=0, **settings)
    return float((model.predict(target[0]) == target[1]).mean())


def means(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each table, over the tasks that all settings have run."""
    lines = []
    for kind, target in product(TASKS, TARGETS):
        found = {(r["task"], r["settings"]): r["accuracy"] for r in runs if (r["rows"], r["target"]) == (kind, target)}
        whole = [task for task in TASKS[kind] if all((task, settings) in found for settings in SETTINGS)]
        if whole:
            mean = {settings: statistics.fmean(found[task, settings] for task in whole) for settings in SETTINGS}
            lines.append({"rows": kind, "target": target, "tasks": len(whole), **mean})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("JUMBOT_DATA", "data")))
    parser.add_argument("--kinds", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--out", type=Path, default=Path("settings"))
    options = parser.parse_args()
    file = options.out / "settings.json"
    record = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"runs": []}
    options.out.mkdir(parents=True, exist_ok=True)
    done = {(run["rows"], run["target"], run["task"], run["settings"]) for run in record["runs"]}
    for kind in options.kinds:
        for task, target, settings in product(TASKS[kind], TARGETS, SETTINGS):
            if (kind, target, task, settings) in done:
                continue
            source_name, target_name = task.split("-")
            source = rows(kind, source_name, options.data, 0)
            right = accuracy(source, cut(rows(kind, target_name, options.data, 1), target), SETTINGS[settings])
            run = {"rows": kind, "target": target, "task": task, "settings": settings, "accuracy": right}
            record["runs"].append(run)
            write_text(file, json.dumps(record, indent=1) + "\n")
    record |= {
        **origin("settings", sys.argv[1:]),
        "seed": 0,
        "settings": SETTINGS,
        "means": means(record["runs"]),
    }
    write_text(file, json.dumps(record, indent=1) + "\n")
    for line in record["means"]:
        print(*(f"{100 * v:.1f}" if isinstance(v, float) else v for v in line.values()))


if __name__ == "__main__":
    main()
