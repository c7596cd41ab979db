"""Reference models: scikit-learn's logistic regression and boosted trees, trained on the source alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from jumbot._base.options import Measured, Text, Weight
from jumbot._base.schema import Record
from jumbot.adaptation._evaluation.accuracy import EstimatedAccuracy, estimate_accuracy
from jumbot.adaptation._evaluation.task import Regression, Task
from jumbot.adaptation._evaluation.votes import Panel, Witness
from jumbot.adaptation._networks.stems import Statistics
from jumbot.data._domain import Domain
from jumbot.errors import need

Array = np.ndarray[Any, Any]
LINEAR, TREES = "logistic regression", "boosted trees"
"""For numbers the linear one is a ridge regression, named `RIDGE`."""
RIDGE = "ridge regression"
_NARROW = 256  # columns up to which each is brought to deviation 1; others are parts of one whole
_WORK, _FEWEST, _MOST = 300_000, 20, 100  # columns x classes x rounds of the trees, and the rounds: a few seconds
_MANY, _COARSE = 400, 31  # columns x classes, above which trees use so few bins: as good in a quarter of the time
_TINY = 1e-6  # least probability whose logarithm is taken
_LEAST, _ERRORS = 0.01, 2.0  # a model is clearly ahead by both: a point, and as many standard errors
MOST_LEARNED = 20_000
"""Rows of the source that they learn from, at most."""


@dataclass(frozen=True)
class Reference(Record):
    """A common alternative, trained on the source alone."""

    name: Text
    held_out: Measured
    """Accuracy on held-out source samples; R2 for numbers."""
    error: Weight
    """Standard error of `held_out`."""
    ahead: bool
    """Whether it is clearly better on the held-out source than the model of the run."""
    estimated_accuracy: EstimatedAccuracy | None = None
    """On the target, without its labels; None for numbers."""


@dataclass(frozen=True)
class References(Record):
    """The model of a run on source samples that it never saw, and others on the same samples."""

    measure: Literal["accuracy", "r2"]
    held_out: Measured
    error: Weight
    n: int
    """Held-out source samples."""
    models: tuple[Reference, ...]


def compare_references(
    own: Witness,
    rivals: Mapping[str, Witness],
    targets: int,
    judged: Callable[[EstimatedAccuracy, Array, Array], EstimatedAccuracy] = lambda found, *_: found,
) -> References:
    """Compare the witness of a run's method with those of other models on the same held-out samples.

    One is clearly ahead if it is better by a point and by two standard errors of the paired difference.  `targets` are
    the samples of the target; `judged` turns an estimate, predictions of the target and class proportions into the
    final estimate.
    """
    numbers = own.labels.ndim == 2
    losses = _losses(own)
    models = []
    for name, rival in rivals.items():
        theirs = _losses(rival)
        gain = losses - theirs
        ahead = float(gain.mean()) > max(_LEAST, _ERRORS * _error(gain))
        estimated = None
        if not numbers:
            # a model trained in the same way would agree with it on any target
            held = {kind: predicted for kind, predicted in own.panel.held.items() if kind != name}
            voted = replace(rival, panel=Panel(held, {kind: own.panel.target[kind] for kind in held}))
            estimated = estimate_accuracy(voted.votes(), targets, len(rival.labels), skill=voted.skill)
            estimated = judged(estimated, np.concatenate(rival.predicted), rival.shares)
        models.append(Reference(name, 1 - float(theirs.mean()), _error(theirs), ahead, estimated))
    measure: Literal["accuracy", "r2"] = "r2" if numbers else "accuracy"
    return References(measure, 1 - float(losses.mean()), _error(losses), len(losses), tuple(models))


def _losses(witness: Witness) -> Array:
    """The loss of each held-out sample: whether it is wrong; for numbers, the squared error in variances, averaged over
    outputs.
    """
    if witness.labels.ndim == 1:
        found: Array = (witness.probabilities(witness.held).argmax(1) != witness.labels).astype(float)
        return found
    spread = witness.labels.var(0)
    found = ((witness.held - witness.labels) ** 2 / np.where(spread > 0, spread, 1)).mean(1)
    return found


def _error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def rival_outputs(train: Domain, others: Sequence[Domain], task: Task, seed: int = 0) -> dict[str, list[Array]]:
    """`{name: outputs on each of others}` of two models that learn `train`, as the networks of a run see samples.

    Outputs are logarithms of probabilities `(n, classes)`, which can replace logits, or numbers in the units that
    networks see.  Signals are represented by their statistics and spectra; for images there are no such models.

    >>> from jumbot.adaptation._evaluation.task import task_of
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
    need("sklearn", "the reference models of a run", "adapt")
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model that has not converged is still useful
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
    work = width * (1 if numbers or task.outputs == 2 else task.outputs)  # in a round
    rounds = int(np.clip(_WORK / work, _FEWEST, _MOST))
    boosted = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    trees = boosted(max_iter=rounds, max_bins=_COARSE if work > _MANY else 255, random_state=seed % 2**31)
    return {RIDGE if numbers else LINEAR: linear, TREES: trees}


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
    """A class that the model has not seen gets the least probability."""
    found = np.full((0 if rows is None else len(rows), classes), np.log(_TINY))
    found[:, model.classes_] = np.log(np.maximum(model.predict_proba(rows), _TINY))
    return found


def _numbers(model: Any, train: Array, labels: Array, rows: Array | None) -> Array:
    """One model for each number."""
    each = [model.fit(train, labels[:, i]).predict(rows) for i in range(labels.shape[1])]
    return np.stack(each, 1)
