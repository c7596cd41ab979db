"""The scikit-learn way in, for numbers: `DomainAdaptationRegressor` on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from jumbot.adaptation.estimator import AdaptationEstimator


class DomainAdaptationRegressor(RegressorMixin, AdaptationEstimator):
    """Numbers, one or several per row, learned from source rows and adapted to unlabelled target rows.

    The parameters are those of `DomainAdaptationClassifier`; `method` is "jumbot", "deepjdot", "dann" or "source-only",
    and `options={"label_loss": "huber"}` lets outliers count less.  y may have any units: it is scaled inside by its
    mean and deviation, and predictions come in its units.  `fit(X, y, X_target=...)` adapts to the rows of `X_target`;
    without it, to X itself.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> reg = DomainAdaptationRegressor(steps=100, random_state=0).fit(X, 100 * X[:, 0], X_target=X + 0.5)
    >>> reg.predict(X).shape, reg.score(X, 100 * X[:, 0]) > 0.5
    ((200,), True)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, X_target: Any = None) -> DomainAdaptationRegressor:
        """Train on (X, y) and adapt to X_target."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        target = X if X_target is None else validate_data(self, X_target, dtype=np.float64, reset=False)
        values = np.asarray(y, np.float64)
        self.task_ = self._train(X, target, values=values[:, None] if values.ndim == 1 else values)
        self.single_ = values.ndim == 1
        return self

    def predict(self, X: Any) -> np.ndarray:
        """`(n,)`, or `(n, outputs)` as y was."""
        outputs = torch.from_numpy(self._outputs(X)[1])
        found: np.ndarray = self.task_.decode(outputs)
        return found.reshape(len(found)) if self.single_ else found.reshape(len(found), -1)
