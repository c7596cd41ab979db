"""How often the estimator's warning of harm is right, on tables whose classes have other proportions in the target.

    python -m benchmarks.harm [--seeds 0 1 2] [--tables wine digits ...] [--method jumbot]

Half of a table of scikit-learn, or of made-up clouds, is the source.  The other half is the target: its rows are as
they were, noisy, moved, or (digits) turned by 25 degrees, and its classes as they were, skewed (each half as frequent
as the one before; a third where there are three or fewer), or only half of them.  What the warning says is compared
with the true change of accuracy against a classifier that saw the source alone.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.ndimage import rotate
from sklearn import datasets

import jumbot

TABLES = ("wine", "digits", "clouds", "cancer")
ROWS = ("same", "noise", "offset", "turned")
CLASSES = ("same", "skew", "partial")
Array = np.ndarray[Any, Any]


def load(name: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """Rows and labels of a table."""
    if name == "clouds":
        centres, y = rng.normal(size=(5, 10)), rng.integers(0, 5, 600)
        return centres[y] + rng.normal(size=(600, 10)), y
    made = {"wine": datasets.load_wine, "digits": datasets.load_digits, "cancer": datasets.load_breast_cancer}[name]()
    some = rng.permutation(len(made.target))[:800]
    X = made.data.astype(float)
    return (X if name == "digits" else (X - X.mean(0)) / X.std(0))[some], made.target[some]


def moved(X: Array, how: str, rng: np.random.Generator) -> Array:
    """The rows of the target."""
    if how == "noise":
        return X + 0.8 * X.std(0).mean() * rng.normal(size=X.shape)
    if how == "offset":
        return X + 0.7 * X.std(0) * rng.choice([-1, 1], X.shape[1])
    if how == "turned":
        return np.stack([rotate(row.reshape(8, 8), 25, reshape=False, order=1).ravel() for row in X])
    return X


def kept(y: Array, how: str, rng: np.random.Generator) -> Array:
    """Which rows stay in the target."""
    names = rng.permutation(np.unique(y))
    ratio = 2.0 if len(names) > 3 else 3.0
    shares = {
        "same": np.ones(len(names)),
        "skew": ratio ** -np.arange(len(names)),
        "partial": (np.arange(len(names)) < (len(names) + 1) // 2).astype(float),
    }[how]
    share = dict(zip(names.tolist(), shares, strict=True))
    return np.flatnonzero(rng.random(len(y)) < [share[label] for label in y.tolist()])


def cases(tables: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[str, int, tuple[Array, Array, Array, Array]]]:
    """(name, seed, source rows and labels, target rows and labels)."""
    for seed in seeds:
        for table in tables:
            for how in ROWS:
                for classes in CLASSES:
                    if (how, classes) == ("same", "same") or (how == "turned" and table != "digits"):
                        continue
                    rng = np.random.default_rng(seed)
                    X, y = load(table, rng)
                    source, target = np.array_split(rng.permutation(len(y)), 2)
                    X_target, truth = moved(X[target], how, rng), y[target]
                    rows = kept(truth, classes, rng)
                    yield f"{table} {how} {classes}", seed, (X[source], y[source], X_target[rows], truth[rows])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.harm", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tables", choices=TABLES, nargs="+", default=list(TABLES))
    parser.add_argument("--method", default="jumbot")
    asked = parser.parse_args(arguments)
    counts = {name: [0, 0] for name in ("worse by more than 4 points", "worse by more than 1", "within 1", "better")}
    for name, seed, (X, y, X_target, truth) in cases(asked.tables, asked.seeds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jumbot.NegativeTransferWarning)
            clf = jumbot.DomainAdaptationClassifier(asked.method, random_state=seed).fit(X, y, X_target=X_target)
        alone = jumbot.DomainAdaptationClassifier("source-only", random_state=seed).fit(X, y, X_target=X_target)
        change = clf.score(X_target, truth) - alone.score(X_target, truth)
        warned = clf.harm_ is not None and clf.harm_.likely
        found = [["better"], ["within 1"], ["worse by more than 1"]][int(change <= 0.01) + int(change < -0.01)]
        for group in found + ["worse by more than 4 points"] * (change < -0.04):
            counts[group][0] += warned
            counts[group][1] += 1
        print(f"{name} seed {seed}: {100 * change:+.1f} points, {'warned' if warned else 'not warned'}", flush=True)
    for group, (warned, of) in counts.items():
        print(f"{group}: warned in {warned} of {of}")


if __name__ == "__main__":
    main()
