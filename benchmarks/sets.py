"""Prediction sets, and classes that the source lacks, with the networks that `adapt` trains.

    python -m benchmarks.sets sets [--families heart gas ...] [--each 3] [--seed 0]
    python -m benchmarks.sets unknown FEATURES.npz [--seed 0]

`sets`: of every family of `benchmarks.shift_tasks` some tasks; the default of `adapt`, sets at a coverage of .9, and
what plain split conformal prediction (equal weights, the same held-out scores) gives with the same model. `unknown`:
AUROC of target samples whose class the source lacks, the source having the first five classes of ten, beside maximum
softmax and entropy of the same model. Kept in results/sets; tasks that are there are not run again.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
import warnings
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import numpy as np

import jumbot
from benchmarks.origin import origin
from benchmarks.shift_tasks import FAMILIES, Rows, tasks
from jumbot.adaptation._evaluation.sets import weighted_quantile

OUT = Path("results/sets")
COVERAGE = 0.9
HIDDEN = 5


def sets_of(task: Rows, seed: int) -> dict[str, Any]:
    """Coverage and size of the sets of one task, ours and plain ones."""
    start = time.perf_counter()
    model = jumbot.adapt((task.X, task.y), task.X_target, seed=seed)
    found = model.predict_set(task.X_target, COVERAGE)
    inside = np.array([truth in one for one, truth in zip(found.sets, task.y_target.tolist(), strict=True)])
    known = ~found.unknown
    assert model.guarantee is not None
    scores = model.guarantee.scores[:, 0]
    least = 1 - weighted_quantile(scores, np.ones(len(scores)), COVERAGE)
    plain = model.predict_proba(task.X_target) >= least
    return {
        "family": task.family,
        "task": task.name,
        "method": model.results["method"] if "method" in model.results else str(model.decision).split()[0].lower(),
        "accuracy": float((model.predict(task.X_target) == task.y_target).mean()),
        "promised": found.promised,
        "unknown": float(found.unknown.mean()),
        "coverage": float(inside[known].mean()),
        "size": float(found.sizes[known].mean()),
        "plain_coverage": float(plain[np.arange(len(plain)), task.y_target].mean()),
        "plain_size": float(plain.sum(1).mean()),
        "classes": len(np.unique(task.y)),
        "seconds": round(time.perf_counter() - start, 1),
    }


def unknown_of(data: Any, a: str, b: str, seed: int) -> dict[str, Any]:
    """AUROC of unknown against known samples of one task."""
    from sklearn.metrics import roc_auc_score

    (X, y), (T, truth) = ((data[f"{name}_X"], data[f"{name}_y"]) for name in (a, b))
    shown = y < HIDDEN
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        model = jumbot.adapt((X[shown], y[shown]), T, seed=seed, out=out, unknown=True, report=False)
        with (out / "predictions.csv").open(newline="") as stream:
            rows = list(csv.DictReader(stream))
    q = np.maximum(model.predict_proba(T), 1e-12)
    strange = truth >= HIDDEN
    marked = np.array([row["unknown"] in ("1", "True", "true") for row in rows])
    return {
        "task": f"{a} -> {b}",
        "jumbot": float(roc_auc_score(strange, [float(row["unknown_score"]) for row in rows])),
        "maximum softmax": float(roc_auc_score(strange, -q.max(1))),
        "entropy": float(roc_auc_score(strange, -(q * np.log(q)).sum(1))),
        "marked of unknown": float(marked[strange].mean()),
        "marked of known": float(marked[~strange].mean()),
        "accuracy on known": float((model.predict(T) == truth)[~strange].mean()),
    }


def photographs(file: Path) -> tuple[dict[str, Any], list[str]]:
    """Rows and labels of the domains in a file of features, and the domains' names."""
    found = np.load(file, allow_pickle=False)
    rows, labels, domains = found["features"], np.unique(found["label"], return_inverse=True)[1], found["domain"]
    names = [str(name) for name in np.unique(domains)]
    data = {f"{name}_X": rows[domains == name].astype(np.float32) for name in names}
    return data | {f"{name}_y": labels[domains == name] for name in names}, names


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the floors ask for."""
    good = [row["coverage"] >= 0.85 for row in rows]
    ratios = [row["size"] / max(row["plain_size"], 1e-9) for row in rows if row["plain_coverage"] >= 0.85]
    return {
        "tasks": len(rows),
        "covered": float(np.mean(good)),
        "covered where promised": float(np.mean([g for g, r in zip(good, rows, strict=True) if r["promised"]] or [1])),
        "promised": float(np.mean([row["promised"] for row in rows])),
        "plain covered": float(np.mean([row["plain_coverage"] >= 0.85 for row in rows])),
        "mean size": float(np.mean([row["size"] for row in rows])),
        "plain mean size": float(np.mean([row["plain_size"] for row in rows])),
        "largest size beside plain": max(ratios, default=float("nan")),
        "most unknown": max(row["unknown"] for row in rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("sets", "unknown"))
    parser.add_argument("features", type=Path, nargs="?")
    parser.add_argument("--families", nargs="+", choices=tuple(FAMILIES), default=tuple(FAMILIES))
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    file = asked.out / f"{asked.part}.json"
    rows: list[dict[str, Any]] = json.loads(file.read_text())["rows"] if file.exists() else []
    warnings.simplefilter("ignore")

    def keep(row: dict[str, Any]) -> None:
        rows.append(row)
        print(json.dumps(row), flush=True)
        words = [asked.part, *(["features.npz"] if asked.part == "unknown" else ["--each", str(asked.each)])]
        record: dict[str, Any] = origin("sets", [*words, "--seed", str(asked.seed)])
        record |= {"seed": asked.seed, "settings": {"coverage": COVERAGE, "hidden classes": HIDDEN}}
        record["summary"] = summary(rows) if asked.part == "sets" else _means(rows)
        file.write_text(json.dumps(record | {"rows": rows}, indent=2) + "\n")

    if asked.part == "unknown":
        data, names = photographs(asked.features)
        for a, b in permutations(names, 2):
            if f"{a} -> {b}" not in {row["task"] for row in rows}:
                keep(unknown_of(data, a, b, asked.seed))
        return
    for family in asked.families:
        for task in islice(tasks(seed=asked.seed, families=[family]), asked.each):
            if (family, task.name) not in {(row["family"], row["task"]) for row in rows}:
                keep(sets_of(task, asked.seed))


def _means(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0] if name != "task"}


if __name__ == "__main__":
    main()
