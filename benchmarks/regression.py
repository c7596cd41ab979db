"""Regression on data that scikit-learn ships: diabetes, from patients of low body mass index to those of high.

python -m benchmarks.regression        writes results/regression/diabetes.json
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

import jumbot
from benchmarks.origin import origin
from jumbot.adaptation._config import make_config
from jumbot.methods import for_numbers

SEEDS = (0, 1, 2)
OUT = Path("results/regression/diabetes.json")


def main() -> None:
    data = load_diabetes(scaled=False)
    low = data.data[:, 2] <= np.median(data.data[:, 2])
    source = data.data[low], data.target[low]
    target = data.data[~low], data.target[~low]
    rows = []
    for method in for_numbers():
        for seed in SEEDS:
            found = jumbot.adapt(
                source, target, task="regression", method=method, seed=seed, report=False, evaluate_every=0
            ).results
            row = {"method": method, "seed": seed, **{name: found[name] for name in ("rmse", "mae", "r2")}}
            rows.append(row)
            print(row, flush=True)
    means = {m: statistics.fmean(row["rmse"] for row in rows if row["method"] == m) for m in for_numbers()}
    record = {
        **origin("regression"),
        "data": "sklearn.datasets.load_diabetes(scaled=False), source: bmi up to the median, target: bmi above it",
        "seeds": list(SEEDS),
        "settings": {m: make_config(None, m, "table", {}, "regression").to_json() for m in for_numbers()},
        "n": [int(low.sum()), int((~low).sum())],
        "mean_rmse": means,
        "runs": rows,
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
