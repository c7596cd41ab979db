"""Plain classifiers of the source, of three kinds: how far others agree with them says how good these are.

Two classifiers that learned the same source and err in different ways agree where both are right.  So what a classifier
loses in agreement with them, from the held-out source to the target, it loses in accuracy, whatever its confidence.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from jumbot.adaptation.judgement.modularity import rows_of
from jumbot.adaptation.networks._stems import Statistics
from jumbot.data.domain import Domain
from jumbot.errors import need

Array = np.ndarray[Any, Any]
LINEAR, TREES, NEIGHBOURS = "logistic regression", "trees", "neighbours"
KINDS = (LINEAR, TREES, NEIGHBOURS)
LEARNED = 4000
"""Rows of the source that they learn from, at most."""
_WIDE = 400  # columns, above which rows are projected to their principal ones
_COMPONENTS = 100
_SHORTEST = 8  # signals that have a spectrum


def learning_rows(domain: Domain, seed: int = 0, index: Array | None = None) -> tuple[Array, Array]:
    """(indices, rows) of at most `LEARNED` of the samples in `index`; signals by their statistics and spectra."""
    index = np.arange(len(domain)) if index is None else index
    if len(index) > LEARNED:
        index = np.sort(np.random.default_rng((seed, 9)).choice(index, LEARNED, replace=False))
    if len(domain.shape) != 2 or domain.shape[1] < _SHORTEST:
        return index, rows_of(domain, index)
    signals = domain.samples.batch(index)
    return index, Statistics(*signals.shape[1:]).measure(signals).double().numpy()


def reference_predictions(
    rows: Array, labels: Array, others: Sequence[Array], *, numbers: bool = False, seed: int = 0
) -> dict[str, list[Array]]:
    """`{kind: predictions of each of others}` by a linear, a tree and a neighbour model of `rows` `(n, d)`.

    `labels` are classes `(n,)`, or with `numbers` numbers `(n, outputs)`: then the models are of numbers too.  A class
    that no row has is predicted by none.
    """
    need("sklearn", "the estimate of accuracy", "adapt")
    if not numbers and len(np.unique(labels)) < 2:
        return {kind: [np.full(len(other), labels[0]) for other in others] for kind in KINDS}
    rows, *others = _narrow(rows, others, seed)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one that has not converged is another classifier still
        for kind, model in _models(numbers, len(rows), seed).items():
            model.fit(rows, labels)
            found[kind] = [np.asarray(model.predict(other)).reshape(len(other), *labels.shape[1:]) for other in others]
    return found


def _models(numbers: bool, n: int, seed: int) -> dict[str, Any]:
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    forest = {"n_estimators": 100, "min_samples_leaf": 2, "random_state": seed % 2**31}
    near = min(7, n)
    if numbers:
        return {LINEAR: Ridge(), TREES: ExtraTreesRegressor(**forest), NEIGHBOURS: KNeighborsRegressor(near)}
    return {
        LINEAR: LogisticRegression(max_iter=300),
        TREES: ExtraTreesClassifier(**forest),
        NEIGHBOURS: KNeighborsClassifier(near),
    }


def _narrow(rows: Array, others: Sequence[Array], seed: int) -> list[Array]:
    """Wide rows by their principal components, which all three read in a fraction of the time."""
    every = [np.asarray(each, np.float32) for each in (rows, *others)]
    if rows.shape[1] <= _WIDE:
        return every
    from sklearn.decomposition import PCA

    made = PCA(min(_COMPONENTS, len(rows) - 1), svd_solver="randomized", random_state=seed % 2**31).fit(every[0])
    return [made.transform(each) for each in every]
