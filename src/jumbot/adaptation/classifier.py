"""The scikit-learn way in, for classes: `DomainAdaptationClassifier` on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from jumbot.adaptation.estimator import AdaptationEstimator
from jumbot.errors import ArgumentError


class DomainAdaptationClassifier(ClassifierMixin, AdaptationEstimator):
    """A classifier trained on labelled source rows and adapted to unlabelled target rows.

    Parameters
    ----------
    method
        "jumbot", "deepjdot", "source-only", or another name of `jumbot.methods.METHODS`.
    options
        Changes to the method's own settings, e.g. `{"tau": 1.0, "epsilon": 0.1}`; `jumbot.tune` finds
        some without labels.
    hidden_layer_sizes
        Widths of the ReLU layers before the embedding.
    n_components
        Width of the embedding, which `transform` returns.
    steps, batch_size, learning_rate
        Length and step of Adam; a minibatch has `batch_size` rows of each domain, the source's stratified by class.
    standardise
        "auto" brings the rows to one scale, learned on the source, and each column to the same deviation where a few of
        them carry most of the squared distances; "source" (or True) does so always, "none" (or False) changes nothing.
    random_state
        Seed; an int gives the same classifier at every fit.

    Attributes
    ----------
    classes_
        The labels.
    history_
        Loss terms, transported mass and transport value of every step.

    Notes
    -----
    `fit(X, y, X_target=...)` adapts to the rows of `X_target`.  Without it, rows of X whose label is -1 are the
    target, if y is numeric and at least two other labels remain; otherwise -1 is a class like any other, and with no
    target at all the classifier adapts to X itself.  In a `Pipeline`, `transform_input=["X_target"]` brings the target
    through the same scaler.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 200)
    >>> X = rng.normal(size=(200, 2)) + 3 * y[:, None]
    >>> clf = DomainAdaptationClassifier(steps=50, random_state=0).fit(X, y, X_target=X + 1)
    >>> clf.score(X + 1, y) > 0.8
    True
    """

    def fit(self, X: Any, y: Any, X_target: Any = None) -> DomainAdaptationClassifier:
        """Train on (X, y) and adapt to X_target."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        if X_target is None:
            X, y, target = _split(X, np.asarray(y))
        else:
            target = validate_data(self, X_target, dtype=np.float64, reset=False)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ArgumentError(f"y: one class only, {self.classes_[0]!r}; a classifier needs at least two.")
        names = tuple(map(str, range(len(self.classes_))))
        self._train(X, target, labels=labels.astype(np.int64), classes=names)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Logits; for two classes their difference."""
        logits = self._outputs(X)[1]
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict(self, X: Any) -> np.ndarray:
        """The label of each row."""
        best = self._outputs(X)[1].argmax(1)
        labels: np.ndarray = self.classes_[best]
        return labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities, a column per class in the order of `classes_`."""
        return torch.from_numpy(self._outputs(X)[1]).softmax(-1).numpy()


def _split(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(labelled rows, their labels, target rows), by the rule for -1 in the class docstring."""
    if y.dtype.kind in "if":
        unlabelled = y == -1
        if unlabelled.any() and len(np.unique(y[~unlabelled])) >= 2:
            return X[~unlabelled], y[~unlabelled], X[unlabelled]
    return X, y, X
