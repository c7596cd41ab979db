"""Scorers for `GridSearchCV` that use the unlabelled target instead of folds of the source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jumbot._base.options import check_word
from jumbot.adaptation._base_estimator import AdaptationEstimator, logits_of_rows
from jumbot.adaptation._evaluation.measures import smoothness
from jumbot.adaptation._evaluation.modularity import modularity, nearest
from jumbot.adaptation._evaluation.selection import entropy, infomax, snd
from jumbot.errors import ArgumentError, suggest

Score = Callable[[np.ndarray, np.ndarray], float]

OF_CLASSES: dict[str, Score] = {
    "modularity": lambda rows, shares: modularity(shares.argmax(1), nearest(rows)),
    "entropy": lambda rows, shares: -entropy(shares),
    "infomax": lambda rows, shares: infomax(shares),
    "snd": lambda rows, shares: snd(shares),
}
"""Functions of the target's rows and their class probabilities; larger is better."""
OF_NUMBERS: dict[str, Score] = {"smoothness": lambda rows, numbers: smoothness(numbers, nearest(rows))}
"""Functions of the target's rows and their predicted numbers; larger is better."""


@dataclass(frozen=True)
class TargetScorer:
    """A scorer as scikit-learn calls it; it ignores the rows that it is given, which are folds of the source."""

    name: str

    def __call__(self, estimator: Any, X: Any = None, y: Any = None) -> float:
        """The score of a fitted estimator, or of the last step of a `Pipeline`, on the target of `fit`."""
        last = (
            estimator.steps[-1][1] if hasattr(estimator, "steps") and isinstance(estimator.steps, list) else estimator
        )
        if not isinstance(last, AdaptationEstimator):
            raise ArgumentError(f"estimator: got {type(last).__name__}; this scorer is for jumbot's estimators.")
        known = OF_NUMBERS if last.task_.name == "regression" else OF_CLASSES
        if self.name not in known:
            raise ArgumentError(
                f"name: {self.name!r} does not score {type(last).__name__}; {suggest(self.name, known)}"
            )
        if last.target_rows_ is None:
            raise ArgumentError("X_target was not passed to fit, so there is no target to score on; pass it.")
        outputs = logits_of_rows(last.network_, last.target_rows_)
        return float(known[self.name](last.target_rows_, _predicted(last, outputs)))


def target_scorer(name: str = "modularity") -> TargetScorer:
    """A scorer that needs no target labels, for `GridSearchCV(..., scoring=target_scorer())`.

    An estimator's own score is computed on folds of the source and says little about the target.  This scorer uses the
    fitted estimator's predictions on the `X_target` of `fit` (2,000 rows at most). Larger is better.

    Parameters
    ----------
    name : {"modularity", "infomax", "snd", "entropy", "smoothness"}, default "modularity"
        "modularity": how far predictions respect the neighbourhoods of the target beyond what class proportions alone
        give;
        "infomax", "snd" and "entropy" are established rules, each with a blind spot; "smoothness" is for numbers.

    Returns
    -------
    TargetScorer
        A callable `(estimator, X, y) -> float`, as scikit-learn takes it.

    Raises
    ------
    jumbot.ArgumentError
        If the name is unknown.

    Examples
    --------
    >>> target_scorer("modularty")
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: name: 'modularty' is not known; did you mean 'modularity'? Known: modularity, ...
    """
    known = {**OF_CLASSES, **OF_NUMBERS}
    return TargetScorer(check_word("name", name, known))


def _predicted(estimator: AdaptationEstimator, outputs: Any) -> np.ndarray:
    found: np.ndarray = outputs.numpy() if estimator.task_.name == "regression" else outputs.softmax(-1).numpy()
    return found
