"""What people would pick instead: logistic regression and boosted trees, by scikit-learn, on the source alone."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from jumbot.adaptation.networks._stems import Statistics
from jumbot.adaptation.task import Regression, Task
from jumbot.data.domain import Domain
from jumbot.errors import need

Array = np.ndarray[Any, Any]
LINEAR, TREES = "logistic regression", "boosted trees"
"""For numbers the linear one is a ridge regression, and goes by `RIDGE`."""
RIDGE = "ridge regression"
_NARROW = 256  # columns up to which each is brought to deviation 1; others are parts of one whole
_WORK, _FEWEST, _MOST = 40_000, 20, 100  # columns x classes x rounds of the trees, and the rounds: seconds, not minutes
_TINY = 1e-6  # least probability whose logarithm is taken


def rival_outputs(train: Domain, others: Sequence[Domain], task: Task, seed: int = 0) -> dict[str, list[Array]]:
    """`{name: outputs on each of others}` of two models that learn `train`, as the networks of a run see samples.

    Outputs are logarithms of probabilities `(n, classes)`, which judges of logits take, or numbers in the units in
    which networks see them.  Signals are read by their statistics and spectra; images by nothing: then there are none.

    >>> from jumbot.adaptation.task import task_of
    >>> from jumbot.data import as_domain
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> source = as_domain(rows, (rows[:, 0] > 0).astype(int))
    >>> found = rival_outputs(source, [source], task_of(source))
    >>> {name: bool((each[0].argmax(1) == source.labels).mean() > 0.9) for name, each in found.items()}
    {'logistic regression': True, 'boosted trees': True}
    """
    rows = [_rows(domain) for domain in (train, *others)]
    labels = task.labels(train)
    if rows[0] is None or (task.name == "classification" and len(np.unique(labels)) < 2):
        return {}
    need("sklearn", "the models beside a run", "adapt")
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one that has not converged is a rival still
        for name, model in _models(task, rows[0].shape[1], seed).items():
            if isinstance(task, Regression):
                found[name] = [_numbers(model, rows[0], labels, other) for other in rows[1:]]
            else:
                model.fit(rows[0], labels)
                found[name] = [_logarithms(model, other, task.outputs) for other in rows[1:]]
    return found


def _models(task: Task, width: int, seed: int) -> dict[str, Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    numbers = isinstance(task, Regression)
    linear: Any = Ridge() if numbers else LogisticRegression(max_iter=1000)
    linear = make_pipeline(StandardScaler(), linear) if width <= _NARROW else linear
    trees = 1 if numbers or task.outputs == 2 else task.outputs  # in a round
    rounds = int(np.clip(_WORK / (width * trees), _FEWEST, _MOST))
    boosted = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    return {RIDGE if numbers else LINEAR: linear, TREES: boosted(max_iter=rounds, random_state=seed % 2**31)}


def _rows(domain: Domain) -> Array | None:
    """Samples as rows of numbers, float32."""
    if len(domain.shape) > 2:
        return None
    x = domain.samples.batch(np.arange(len(domain)))
    if x.ndim == 3:
        x = Statistics(x.shape[1], x.shape[2]).measure(x)
    found: Array = x.float().numpy()
    return found


def _logarithms(model: Any, rows: Array | None, classes: int) -> Array:
    """A class that the model has not seen has the least probability."""
    found = np.full((0 if rows is None else len(rows), classes), np.log(_TINY))
    found[:, model.classes_] = np.log(np.maximum(model.predict_proba(rows), _TINY))
    return found


def _numbers(model: Any, train: Array, labels: Array, rows: Array | None) -> Array:
    """One model for each number."""
    each = [model.fit(train, labels[:, i]).predict(rows) for i in range(labels.shape[1])]
    return np.stack(each, 1)
