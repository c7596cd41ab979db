"""`DomainAdaptationRegressor`, the scikit-learn estimator for numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin

from jumbot.adaptation._base_estimator import AdaptationEstimator, warn_of_no_target
from jumbot.adaptation._evaluation.diagnosis import Diagnosis
from jumbot.adaptation._frame_rows import take
from jumbot.adaptation._skada import SkadaCalls, sources_of, split_by_sign
from jumbot.data._domain import ArraySamples, Domain
from jumbot.errors import ArgumentError
from jumbot.methods import SOURCE_ONLY


class DomainAdaptationRegressor(SkadaCalls, RegressorMixin, AdaptationEstimator):
    """A regressor trained on labelled source rows and adapted to unlabelled target rows.

    y may have any units and one or several columns; it is standardised internally, and predictions have its units.
    `fit(X, y, X_target=...)` adapts to the rows of `X_target`; without it, to X itself.

    Parameters
    ----------
    method : str, optional
        "jumbot", "deepjdot", "dann" or "source-only".  The default is source-only, because it cannot be determined
        without labels whether adaptation helps (`decision_`); name "jumbot" if you know that the inputs have shifted.
    options : dict, optional
        Changes to the method's own settings; `{"label_loss": "huber"}` is less sensitive to outliers.
    hidden_layer_sizes : sequence of int, optional
        Widths of the ReLU layers before the embedding; by default as `jumbot.adapt` on the same rows.
    n_components : int, default 256
        Width of the embedding, which `transform` returns.
    steps, batch_size, learning_rate : numbers, optional
        Length and rate of training; by default as `jumbot.adapt`.
    standardise : {"auto", "source", "none"} or bool, default "auto"
        How rows are scaled, as in `DomainAdaptationClassifier`.
    random_state : int, RandomState or None
        Seed; with an int, every fit gives the same regressor.

    Attributes
    ----------
    method_ : str
        The method that was chosen.
    decision_
        Which method was chosen, and why; None without a target.
    diagnosis_ : Diagnosis or None
        What the plan shows about the target: unexplained rows and the transported mass; None without a target.
    columns_
        How the columns of a frame are converted to numbers; None if X was an array.
    history_
        Loss terms of every step.

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

    def fit(
        self, X: Any, y: Any, X_target: Any = None, *, labelled_target: Any = None, sample_domain: Any = None
    ) -> DomainAdaptationRegressor:
        """Train on (X, y) and adapt to X_target.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            The source rows.
        y : array
            Their numbers.
        X_target : array or frame of shape (m, d), optional
            The target rows.
        labelled_target : pair (X, y), optional
            Target rows whose numbers are known.  They are used in training, and the plan treats them as certain.
        sample_domain : array of shape (n,), optional
            The source of each row of X, if there are several.  Or, as in skada, negative numbers mark the rows of the
            target, whose y is not used; X_target must then be omitted.

        Returns
        -------
        DomainAdaptationRegressor
            The fitted estimator.

        Raises
        ------
        jumbot.ArgumentError
            If the data or a parameter are invalid.
        """
        X, y, X_target, sample_domain = split_by_sign(X, y, X_target, sample_domain)
        taken = take(self, X, y, X_target, None, multi_output=True, y_numeric=True)
        X, y, self.columns_ = taken.X, taken.y, taken.columns
        target = None if X_target is None else self._target(X_target)
        if target is None and self.method != SOURCE_ONLY:
            warn_of_no_target()
        values = np.asarray(y, np.float64)
        sources, known = sources_of(sample_domain, np.ones(len(X), bool)), self._known(labelled_target)
        source = self._train(
            Domain("source", ArraySamples(X), values=values.reshape(len(values), -1), **sources),
            None if target is None else Domain("target", ArraySamples(target)),
            None if known is None else _known_numbers(*known, values),
            taken.raw(np.ones(len(X), bool), X_target),
        )
        self.single_ = values.ndim == 1
        self.method_, self.decision_ = self._config.method, self._judgement.decision
        del self._judgement
        self.diagnosis_: Diagnosis | None = None
        if target is not None:
            self.diagnosis_ = self._explained(source, target)[0]
        return self

    def predict(self, X: Any, *, sample_domain: Any = None, allow_source: bool = False) -> np.ndarray:
        """Predict the number of each row, in the units of y.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            The rows.
        sample_domain, allow_source
            Ignored; skada passes them.

        Returns
        -------
        ndarray of shape (n,) or (n, outputs)
            The numbers, in the shape of y.
        """
        outputs = torch.from_numpy(self._logits(X))
        found: np.ndarray = self.task_.decode(outputs)
        return found.reshape(len(found)) if self.single_ else found.reshape(len(found), -1)


def _known_numbers(rows: np.ndarray, labels: np.ndarray, values: np.ndarray) -> Domain:
    """Rows of the target with labels, as numbers of the width of y."""
    if labels.dtype.kind not in "iuf" or labels.shape[1:] != values.shape[1:] or not np.isfinite(labels).all():
        raise ArgumentError(
            f"labelled_target: labels of shape {labels.shape} ({labels.dtype}); pass finite numbers, per row as "
            "many as y."
        )
    return Domain("labelled_target", ArraySamples(rows), values=labels.astype(np.float64).reshape(len(labels), -1))
