"""`DomainAdaptationClassifier`, the scikit-learn estimator for classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from jumbot._base.options import check
from jumbot.adaptation._base_estimator import AdaptationEstimator, warn_of_no_target
from jumbot.adaptation._evaluation.accuracy import Calibration, EstimatedAccuracy, Prior
from jumbot.adaptation._evaluation.decision import Harm, warn_of_harm
from jumbot.adaptation._evaluation.diagnosis import Diagnosis, as_predicted
from jumbot.adaptation._evaluation.measures import UNLABELLED, Evaluation, evaluate
from jumbot.adaptation._frame_rows import take
from jumbot.adaptation._judging import calibrated
from jumbot.adaptation._skada import SkadaCalls, sources_of, split_by_sign
from jumbot.data._domain import ArraySamples, Domain
from jumbot.errors import ArgumentError
from jumbot.methods import SOURCE_ONLY


class DomainAdaptationClassifier(SkadaCalls, ClassifierMixin, AdaptationEstimator):
    """A classifier trained on labelled source rows and adapted to unlabelled target rows.

    Parameters
    ----------
    method
        "jumbot", "deepjdot", "source-only", or another name of `jumbot.methods.METHODS`. None trains source-only and
        JUMBOT, judges both without target labels, and keeps the better one: see `decision_`. An option of JUMBOT in
        `options` selects JUMBOT, and a selected method is always kept.
    options
        Changes to the method's own settings, e.g. `{"tau": 1.0, "epsilon": 0.1}`; `jumbot.tune` finds
        some without labels.
    hidden_layer_sizes
        Widths of the ReLU layers before the embedding; None: as `jumbot.adapt` on the same rows.
    n_components
        Width of the embedding, which `transform` returns.
    steps, batch_size, learning_rate
        Length and rate of training; a minibatch has `batch_size` rows of each domain, the source's stratified by class.
        None: as `jumbot.adapt`.
    standardise : {"auto", "source", "none"} or bool, default "auto"
        "auto" scales the rows by one number learned on the source, and also gives each column unit variance if a few
        columns carry most of the squared distances; "source" (or True) always does so, "none" (or False) does not
        scale.
    baseline : bool, default True
        Also train source-only if a method is given, and warn (`jumbot.NegativeTransferWarning`) if adaptation probably
        did harm.  Runs of fewer than 50 steps give no warning.  Turn this off in grid searches.
    prior : {"target", "equal"}, default "target"
        Class proportions to predict with: "target" uses the target's estimated proportions, or the source's if these
        are far from them; "equal" uses equal ones.
    random_state : int, RandomState or None
        Seed; with an int, every fit gives the same classifier.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    columns_
        How the columns of a frame are converted to numbers; None if X was an array.
    history_ : list of dict
        Loss terms, transported mass and transport value of every step.
    diagnosis_ : jumbot.Diagnosis or None
        What the plan shows about the target; None without a target.
    estimated_accuracy_
        The accuracy on the target, estimated without labels; None without a target.
    decision_
        Which method was chosen, and why; None without a target.
    method_ : str
        The name of that method.
    harm_
        The comparison of adaptation with source-only; None without a target or without `baseline`.
    source_shares_ : ndarray or None
        The final weight of each of several sources; None for one source, and for methods other than JUMBOT.

    Notes
    -----
    `fit(X, y, X_target=...)` adapts to the rows of `X_target`.  Without it, rows of X whose label is -1 are the
    target, if y is numeric and at least two other labels remain; otherwise -1 is an ordinary class.  Without any
    target, the classifier adapts to X itself.  In a `Pipeline`, `transform_input=["X_target"]` applies the same
    transformers to the target.  `GridSearchCV` scores folds of the source, which says little about the target; use
    `jumbot.target_scorer` instead.

    Frames may contain strings, categories and missing values, as in `jumbot.adapt`; dates and free text are converted
    to numbers with `options={"dates": True, "text": ["notes"]}`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 200)
    >>> X = rng.normal(size=(200, 2)) + 3 * y[:, None]
    >>> clf = DomainAdaptationClassifier(steps=50, random_state=0).fit(X, y, X_target=X + 1)
    >>> clf.score(X + 1, y) > 0.8
    True
    """

    def __init__(
        self,
        method: str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        hidden_layer_sizes: Sequence[int] | None = None,
        n_components: int = 256,
        steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        standardise: str | bool = "auto",
        baseline: bool = True,
        prior: Prior = "target",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            method,
            options=options,
            hidden_layer_sizes=hidden_layer_sizes,
            n_components=n_components,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            standardise=standardise,
            random_state=random_state,
        )
        self.baseline = baseline
        self.prior = prior

    def fit(
        self, X: Any, y: Any, X_target: Any = None, *, labelled_target: Any = None, sample_domain: Any = None
    ) -> DomainAdaptationClassifier:
        """Train on (X, y) and adapt to X_target.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            The source rows.
        y : array
            Their labels.
        X_target : array or frame of shape (m, d), optional
            The target rows.
        labelled_target : pair (X, y), optional
            Target rows whose labels are known.  They are used in training, and the plan treats them as certain.
        sample_domain : array of shape (n,), optional
            The source of each row of X, if there are several.  Or, as in skada, negative numbers mark the rows of the
            target, whose y is not used; X_target must then be omitted.

        Returns
        -------
        DomainAdaptationClassifier
            The fitted estimator.

        Raises
        ------
        jumbot.ArgumentError
            If the data or a parameter are invalid.
        """
        check("baseline", self.baseline, bool)
        check("prior", self.prior, Prior)
        X, y, X_target, sample_domain = split_by_sign(X, y, X_target, sample_domain)
        taken = take(self, X, y, X_target, None if X_target is not None or y is None else _labelled(np.asarray(y)))
        X, y, self.columns_ = taken.X, taken.y, taken.columns
        check_classification_targets(y)
        is_source = np.ones(len(X), bool) if X_target is not None else _labelled(np.asarray(y))
        target = self._target(X_target) if X_target is not None else None if is_source.all() else X[~is_source]
        raw = taken.raw(is_source, X_target)
        sources, known = sources_of(sample_domain, is_source), self._known(labelled_target)
        if target is None and self.method != SOURCE_ONLY:
            warn_of_no_target("or mark the target's rows by -1 in a numeric y")
        X, y = X[is_source], y[is_source]
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ArgumentError(f"y: contains one class only, {self.classes_[0]}; a classifier needs at least two.")
        names = tuple(map(str, range(len(self.classes_))))
        source = self._train(
            Domain("source", ArraySamples(X), labels.astype(np.int64), names, **sources),
            None if target is None else Domain("target", ArraySamples(target)),
            None if known is None else self._known_classes(*known, names),
            raw,
        )
        self.method_, self.decision_ = self._config.method, self._judgement.decision
        self.calibration_ = Calibration()
        self.diagnosis_, self.estimated_accuracy_, self.harm_ = self._judged(source, target)
        del self._judgement  # the folds' outputs on the target, which are no longer needed
        warn_of_harm(self.harm_)
        return self

    def _known_classes(self, rows: np.ndarray, labels: np.ndarray, names: tuple[str, ...]) -> Domain:
        """Rows of the target with labels, as places in `classes_`."""
        strange = sorted({str(label) for label in labels.ravel()} - {str(label) for label in self.classes_})
        if labels.ndim != 1 or strange:
            what = f"got {', '.join(strange[:5])}" if strange else f"labels of shape {labels.shape}"
            raise ArgumentError(f"labelled_target: {what}; pass one label per row, each of which occurs in y.")
        places = {str(label): place for place, label in enumerate(self.classes_)}
        known = np.array([places[str(label)] for label in labels], np.int64)
        return Domain("labelled_target", ArraySamples(rows), known, names)

    def _judged(
        self, source: Domain, target: np.ndarray | None
    ) -> tuple[Diagnosis | None, EstimatedAccuracy | None, Harm | None]:
        """What can be said of the predictions on the target without its labels."""
        if target is None or source.labels is None:
            return None, None, None
        judged, seed = self._judgement, self._config.training.seed % 2**31
        diagnosis, logits, near = self._explained(source, target, seed)
        harm = None if judged.decision is None or self.method_ == SOURCE_ONLY else judged.decision.harm
        self.calibration_, accuracy = calibrated(judged, self.method_, logits, diagnosis.class_proportions, near)
        predicted = self.calibration_.scores(logits, self.prior).argmax(-1).numpy()
        return as_predicted(diagnosis, predicted, source.labels, harm), accuracy, harm

    def _scores(self, X: Any, prior: Prior | None = None) -> np.ndarray:
        """Logarithms of probabilities, except for a constant of each row."""
        logits = torch.from_numpy(self._logits(X))
        wanted = self.prior if prior is None else check("prior", prior, Prior)
        found: np.ndarray = self.calibration_.scores(logits, wanted).numpy()
        return found

    def decision_function(self, X: Any) -> np.ndarray:
        """Compute the logits `(n, classes)`; for two classes their difference `(n,)`."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(
        self, X: Any, prior: Prior | None = None, *, sample_domain: Any = None, allow_source: bool = False
    ) -> np.ndarray:
        """Predict the label of each row.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            The rows.
        prior : {"target", "equal"}, optional
            Used instead of the parameter of the estimator.
        sample_domain, allow_source
            Ignored; skada passes them.

        Returns
        -------
        ndarray of shape (n,)
            The labels.
        """
        best = self._scores(X, prior).argmax(1)
        labels: np.ndarray = self.classes_[best]
        return labels

    def predict_proba(
        self, X: Any, prior: Prior | None = None, *, sample_domain: Any = None, allow_source: bool = False
    ) -> np.ndarray:
        """Predict the probability of each class.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            The rows.
        prior : {"target", "equal"}, optional
            Used instead of the parameter of the estimator.
        sample_domain, allow_source
            Ignored; skada passes them.

        Returns
        -------
        ndarray of shape (n, classes)
            The probabilities, in the order of `classes_`.
        """
        return torch.from_numpy(self._scores(X, prior)).softmax(-1).numpy()

    def evaluate(self, X: Any, y: Any) -> Evaluation:
        """Compare predictions with labels.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            The rows.
        y : array of shape (n,)
            Their labels; rows with labels other than those of the source are left out.

        Returns
        -------
        Evaluation
            The accuracy, its mean over classes, and the confusion.
        """
        places = {label: place for place, label in enumerate(self.classes_.tolist())}
        labels = np.asarray(y).ravel()
        if self.classes_.dtype.kind in "mM":  # times in another unit are other numbers
            labels = labels.astype(self.classes_.dtype)
        truth = np.array([places.get(label, UNLABELLED) for label in labels.tolist()], np.int64)
        return evaluate(self._scores(X), truth, [str(label) for label in self.classes_])


def _labelled(y: np.ndarray) -> np.ndarray:
    """Which rows are the source, by the rule for -1 in the class docstring; the others are the target."""
    if y.dtype.kind in "if" and len(np.unique(y[y != -1])) >= 2:
        return np.asarray(y != -1)
    return np.ones(len(y), bool)
