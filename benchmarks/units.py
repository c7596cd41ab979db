"""What units do to the accuracy: the same data multiplied, one column in another unit, scaled by the user, as pixels.

    python -m benchmarks.units --data DIR [--out units]

Rows: Office-Caltech10's features (`DIR/office_caltech10/features.npz`), one task, source-only and JUMBOT.  Pictures:
the embedded digits of `jumbot demo`, as bytes and as fractions, JUMBOT.  One seed; labels of the target only measure.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jumbot
from benchmarks.origin import origin
from benchmarks.settings import Rows, rows
from jumbot.data.embedded import embedded
from jumbot.files import write_text

METHODS = ("source-only", "jumbot")
TASK = "amazon-webcam"


def one_column(x: np.ndarray) -> np.ndarray:
    """The middle column in a unit that is a million times smaller."""
    x = x.astype(np.float64)
    x[:, x.shape[1] // 2] *= 1e6
    return x


UNITS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as they are": lambda x: x,
    "times 1,000": lambda x: 1000.0 * x,
    "divided by 1,000": lambda x: x / 1000.0,
    "one column times 1,000,000": one_column,
}
WORDS = {"standardise='source'": "source", "standardise='none'": "none"}


def accuracy(source: Rows, target: Rows, method: str, **options: str) -> float:
    model = jumbot.adapt(source, target[0], method=method, evaluate_every=0, **options)
    return float((model.predict(target[0]) == target[1]).mean())


def by_estimator(source: Rows, target: Rows, method: str, *before: StandardScaler) -> float:
    """The estimator, whose network is smaller, behind a scaler or not; the scaler reaches the target too."""
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = jumbot.DomainAdaptationClassifier(method, random_state=0, baseline=False)
        pipeline = make_pipeline(*before, estimator.set_fit_request(X_target=True), transform_input=["X_target"])
        pipeline.fit(*source, X_target=target[0])
        return float(pipeline.score(*target))


def of_rows(data: Path) -> list[dict[str, object]]:
    names = TASK.split("-")
    source, target = (rows("features", name, data, seed) for seed, name in enumerate(names))
    found: dict[str, dict[str, float]] = {}
    for method in METHODS:
        for name, change in UNITS.items():
            moved = [(change(x), y) for x, y in (source, target)]
            found.setdefault(name, {})[method] = accuracy(*moved, method)
        for name, word in WORDS.items():
            found.setdefault(name, {})[method] = accuracy(source, target, method, standardise=word)
        found.setdefault("the estimator, as they are", {})[method] = by_estimator(source, target, method)
        scaled = by_estimator(source, target, method, StandardScaler())
        found.setdefault("the estimator behind a StandardScaler", {})[method] = scaled
    return [{"data": f"features, {TASK}", "units": name, **each} for name, each in found.items()]


def of_pictures() -> list[dict[str, object]]:
    source, target, test = embedded("balanced")
    fractions = [d.samples.batch(np.arange(len(d)))[:, 0].numpy() for d in (source, target, test)]
    lines: list[dict[str, object]] = []
    for name, in_bytes in (("bytes, 0 to 255", True), ("fractions, 0 to 1", False)):
        train, adapt_to, seen = (np.rint(255 * x).astype(np.uint8) if in_bytes else x for x in fractions)
        model = jumbot.adapt((train, source.labels), adapt_to, recipe="embedded", evaluate_every=0)
        right = float((model.predict(seen).astype(int) == test.labels).mean())
        lines.append({"data": "digits, balanced", "units": name, "jumbot": right})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("JUMBOT_DATA", "data")))
    parser.add_argument("--out", type=Path, default=Path("units"))
    options = parser.parse_args()
    record = {
        **origin("units", sys.argv[1:]), "seed": 0, "settings": "the recipes table and embedded",
        "lines": of_rows(options.data) + of_pictures(),
    }  # fmt: skip
    write_text(options.out / "units.json", json.dumps(record, indent=1) + "\n")
    for line in record["lines"]:
        print(*(f"{100 * v:.1f}" if isinstance(v, float) else v for v in line.values()), sep="  ")


if __name__ == "__main__":
    main()
