"""Does the evidence of `jumbot.tune` for numbers pick well?  Nine shifts, three made up and six of real data.

    python -m benchmarks.number_evidence       writes results/regression/evidence.json

Of every candidate, trained whole: its evidence, which sees no label of the target, and its true error.  "Population"
problems have other numbers in the target, "moved" ones the same numbers and inputs that were moved; the two linear ones
have the very same inputs, so that nothing but labels could tell them apart.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes

import jumbot
from benchmarks.origin import origin
from jumbot.adaptation._config import make_config

SEED = 0
OUT = Path("results/regression/evidence.json")
Data = tuple[np.ndarray, np.ndarray]


def problems() -> dict[str, tuple[Data, Data]]:
    """{name: (source, target)}, both with labels."""
    found: dict[str, tuple[Data, Data]] = {
        "sine, inputs moved": (_sine(0, 0.0), _sine(1, 1.0)),
        "linear, inputs moved": (_linear(0), _linear(1, moved=1.5)),
        "linear, another population": (_linear(0), _linear(1, population=1.5)),
    }
    data = load_diabetes(scaled=False)
    X, y = data.data, data.target
    for name, column in (("bmi", 2), ("age", 0), ("blood pressure", 3), ("sex", 1)):
        low = X[:, column] <= np.median(X[:, column]) if name != "sex" else X[:, column] == 1
        found[f"diabetes, by {name}"] = (X[low], y[low]), (X[~low], y[~low])
    rows = np.random.default_rng(SEED).permutation(len(X))
    here, there = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    odd = np.arange(X.shape[1]) % 2 == 0
    drifted = X[there] * np.where(odd, 1.25, 1.0) + 0.8 * X.std(0) * odd
    found["diabetes, instruments drift"] = (X[here], y[here]), (drifted, y[there])
    cells = load_breast_cancer()
    kept = [i for i in range(30) if i not in (4, 14, 24)]  # without the label's own kin
    parts = [(cells.data[cells.target == t][:, kept], cells.data[cells.target == t][:, 4]) for t in (0, 1)]
    found["cells, malignant to benign"] = parts[0], parts[1]
    return found


def _sine(seed: int, shift: float) -> Data:
    z = np.random.default_rng(seed).normal(size=(300, 5))
    return z + shift * np.array([1.0, -1.0, 1.0, 0.0, 0.0]), 3 * np.sin(1.5 * z[:, 0]) + z[:, 1]


def _linear(seed: int, moved: float = 0.0, population: float = 0.0) -> Data:
    z = np.random.default_rng(seed).normal(size=(300, 4))
    z[:, 0] += population
    return z + np.array([moved, 0.0, 0.0, 0.0]), 2 * z[:, 0] + np.sin(2 * z[:, 1])


def row_of(name: str, source: Data, target: Data) -> dict[str, Any]:
    """The candidates of one problem, and the one that is picked."""
    with tempfile.TemporaryDirectory() as folder:
        best = jumbot.tune(
            source, target, task="regression", out=Path(folder) / "tune", jobs=1, seed=SEED, stop_early=False
        )
        table = best.table.set_index("candidate")
    errors = table["rmse_not_used"] / target[1].std()
    return {
        "problem": name,
        "picked": best.table["candidate"].iloc[0],
        "told": not best.why[0].startswith("Whether adaptation helps cannot be determined"),
        "gap_of_source_only": float(table.loc["source-only", "gap"]),
        "error": {
            "picked": float(errors.iloc[0]),
            "source-only": float(errors["source-only"]),
            "best": float(errors.min()),
            "default": float(errors["jumbot tau=2"]),
        },
        "candidates": json.loads(best.table.drop(columns=["settings", "folder"]).to_json(orient="records")),
    }


def main() -> None:
    record: dict[str, Any] = {
        **origin("number_evidence"),
        "seeds": [SEED],
        "settings": {"jumbot": make_config(None, "jumbot", "table", {}, "regression").to_json()},
        "rows": [],
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    for name, (source, target) in problems().items():
        record["rows"].append(row_of(name, source, target))
        print({key: value for key, value in record["rows"][-1].items() if key != "candidates"}, flush=True)
        OUT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
