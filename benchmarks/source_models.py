"""Held-out accuracy on the source alone: ours beside scikit-learn's logistic regression and boosted trees.

    python -m benchmarks.source_models ../shared/data/shifts [TASK ...] writes results/source-models/source-models.json

Five folds of every source (shuffled with seed 0, stratified by class; R2 for numbers): mean, standard error and seconds
of one training, on one thread where OMP_NUM_THREADS is 1.  The rivals see what people would give them: the encoded
columns, counts of words (the linear model each divided by its maximum), statistics and spectra of signals.  Tables that
scikit-learn ships or makes are of families on which no setting of the networks was chosen.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import sklearn.datasets
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

import jumbot
from benchmarks.origin import origin
from benchmarks.shift_tasks import encode
from jumbot.adaptation._networks.stems import Statistics
from jumbot.data import as_domain, prepare

OUT = Path("results/source-models/source-models.json")
FOLDS = 5
Source = tuple[Any, np.ndarray]


def _table(file: Path, label: str, task: Any = None) -> Source:
    """Rows with categories one-hot and missing numbers filled, as a person would do it."""
    domain = as_domain(str(file), label=label, task=task)
    encoded = prepare(domain, domain, standardise="none")[0]
    rows = encoded.samples.batch(np.arange(len(encoded))).double().numpy()
    return rows, encoded.labels if encoded.values is None else encoded.values[:, 0]


def _words(folder: Path, name: str) -> Source:
    return scipy.sparse.load_npz(folder / f"amazon_{name}_train.npz"), np.load(folder / f"amazon_{name}_train_y.npy")


def _watch(folder: Path, right: bool) -> Source:
    file = np.load(folder / "watch.npz")
    rows = file["side"] == 1 if right else file["subject"] <= 5
    return file["X"][rows].astype(np.float32), file["y"][rows]


def _gas(folder: Path) -> Source:
    file = np.load(folder / "gas.npz")
    return file["X1"].astype(np.float64), file["y1"]


def _shipped(name: str) -> Source:
    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return X.astype(np.float64), y


def _made(n: int, d: int, classes: int = 2, tails: bool = False, mixed: bool = False) -> Source:
    """`make_classification`, with heavy tails, or with every third column cut into words and a tenth of all missing."""
    import pandas

    informative = max(2, min(d // 2, 10))
    redundant = min(d - informative, 4)
    X, y = sklearn.datasets.make_classification(
        n, d, n_informative=informative, n_redundant=redundant, n_classes=classes, flip_y=0.05, random_state=0
    )
    rng = np.random.default_rng(0)
    X = X * (rng.chisquare(1.5, X.shape) / 1.5) ** -0.5 if tails else X
    if not mixed:
        return X, y
    frame = pandas.DataFrame(X, columns=[f"x{i}" for i in range(d)])
    for name in frame.columns[::3]:
        frame[name] = pandas.qcut(frame[name], 5, labels=list("abcde")).astype(object)
    return frame.mask(rng.random(X.shape) < 0.1), y


SOURCES: dict[str, Callable[[Path], Source]] = {
    "heart": lambda folder: _table(folder / "heart_cleveland.csv", "disease"),
    "adult": lambda folder: _table(folder / "adult_private.csv", "income"),
    "gas": _gas,
    "bike": lambda folder: _table(folder / "bike_2011.csv", "count", "regression"),
    "amazon books": lambda folder: _words(folder, "books"),
    "amazon kitchen": lambda folder: _words(folder, "kitchen"),
    "watch right": lambda folder: _watch(folder, right=True),
    "watch subjects 1-5": lambda folder: _watch(folder, right=False),
    "breast cancer": lambda folder: _shipped("breast_cancer"),
    "wine": lambda folder: _shipped("wine"),
    "diabetes": lambda folder: _shipped("diabetes"),
    "digits as rows": lambda folder: _shipped("digits"),
    "iris": lambda folder: _shipped("iris"),
    "made, 60 x 2": lambda folder: _made(60, 2),
    "made, 200 x 100": lambda folder: _made(200, 100),
    "made, 500 x 12, mixed": lambda folder: _made(500, 12, mixed=True),
    "made, 1,000 x 500": lambda folder: _made(1000, 500),
    "made, 2,000 x 20, tails": lambda folder: _made(2000, 20, 3, tails=True),
    "made, 5,000 x 30, mixed": lambda folder: _made(5000, 30, 4, mixed=True),
}


def predictions(name: str, X: Any, y: np.ndarray, other: Any, numbers: bool) -> np.ndarray:
    """What a model of (X, y) says of other samples."""
    if name == "source-only" and hasattr(X, "columns"):
        labelled = X.assign(label=y)
        model = jumbot.adapt(labelled, other, label="label", method=name, seed=0, evaluate_every=0, judge=False)
        return np.asarray(model.predict(other))
    if hasattr(X, "columns"):
        X, other = encode(X.assign(label=y), other, "label")
    if name == "source-only":
        how: dict[str, Any] = {"kind": "signal"} if X.ndim == 3 else {"task": "regression"} if numbers else {}
        # of numbers the network follows from folds of what it learns
        return jumbot.adapt((X, y), other, method=name, seed=0, evaluate_every=0, judge=numbers, **how).predict(other)
    if X.ndim == 3:
        measure = Statistics(*X.shape[1:]).measure
        X, other = (measure(torch.from_numpy(x)).numpy() for x in (X, other))
    words = scipy.sparse.issparse(X)
    if name == "boosted trees":
        X, other = (x.toarray() if words else x for x in (X, other))
        model = (HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier)(random_state=0)
    else:
        scaler = MaxAbsScaler() if words else StandardScaler()
        model = make_pipeline(scaler, Ridge() if numbers else LogisticRegression(max_iter=2000))
    found: np.ndarray = model.fit(X, y).predict(other)
    return found


def row_of(X: Any, y: np.ndarray) -> dict[str, Any]:
    """Every model on five folds of one source."""
    numbers = y.dtype.kind == "f" and len(np.unique(y)) > 20
    folds: Any = (KFold if numbers else StratifiedKFold)(FOLDS, shuffle=True, random_state=0)
    found: dict[str, Any] = {"n": len(y), "metric": "r2" if numbers else "accuracy"}
    for name in ("source-only", "logistic regression", "boosted trees"):
        scores, start = [], time.process_time()
        for train, held in folds.split(np.zeros(len(y)), y):
            rows = X.iloc if hasattr(X, "iloc") else X
            predicted = predictions(name, rows[train], y[train], rows[held], numbers)
            off = np.mean((predicted - y[held]) ** 2) / y[held].var() if numbers else np.mean(predicted != y[held])
            scores.append(1 - float(off))
        seconds = (time.process_time() - start) / FOLDS
        error = float(np.std(scores, ddof=1) / np.sqrt(FOLDS))
        found[name] = {"mean": float(np.mean(scores)), "error": error, "seconds": round(seconds, 1)}
        print(f"  {name:20} {100 * np.mean(scores):.1f} +- {100 * error:.1f}, {seconds:.1f} s", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("tasks", nargs="*", default=list(SOURCES), choices=list(SOURCES))
    given = parser.parse_args()
    record = json.loads(OUT.read_text()) if OUT.exists() else {"tasks": {}}
    for task in given.tasks:
        print(task)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = origin("source_models", [str(given.folder)])
            record["tasks"][task] = {**row_of(*SOURCES[task](given.folder)), "created": made["created"]}
        record |= {"seed": 0, "settings": {"folds": FOLDS}, **made}
        OUT.parent.mkdir(parents=True, exist_ok=True)
        OUT.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
