"""The scikit-learn way in: `DomainAdaptationClassifier` on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from jumbot.adaptation.config import make_config
from jumbot.adaptation.networks.build import make_network
from jumbot.adaptation.training.loop import Trainer
from jumbot.data.domain import ArraySamples, Domain
from jumbot.data.scaling import learn_scaling
from jumbot.errors import ArgumentError
from jumbot.methods import make_method
from jumbot.options import Count, check


class DomainAdaptationClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):
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

    def __init__(
        self,
        method: str = "jumbot",
        *,
        options: Mapping[str, Any] | None = None,
        hidden_layer_sizes: Sequence[int] = (100,),
        n_components: int = 32,
        steps: int = 300,
        batch_size: int = 50,
        learning_rate: float = 0.003,
        standardise: str | bool = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.method = method
        self.options = options
        self.hidden_layer_sizes = hidden_layer_sizes
        self.n_components = n_components
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.standardise = standardise
        self.random_state = random_state

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
        self.mean_, self.scale_ = _scaling(X, self.standardise)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        names = tuple(map(str, range(len(self.classes_))))
        source = Domain("source", ArraySamples(self._scaled(X)), labels.astype(np.int64), names)
        # fewer rows than classes would leave classes out of every minibatch
        batch_size = max(check("batch_size", self.batch_size, Count), len(names))
        config = make_config(
            source, self.method, "table",
            {
                **(self.options or {}), "steps": self.steps, "batch_size": batch_size, "optimizer": "adam",
                "learning_rate": self.learning_rate, "schedule": "constant", "evaluate_every": 0, "seed": seed,
                "features": self.n_components, "hidden": self.hidden_layer_sizes,
            },
        )  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network, _ = make_network(config.network, source.shape, len(names))
            method = make_method(self.method, config.options, features=network.features, classes=network.classes)
        unlabelled = Domain("target", ArraySamples(self._scaled(target)))
        trained = Trainer(source, unlabelled, network, method, config.training).fit()
        self.history_ = trained.history
        # in float64 a row is predicted alike alone and among others
        self.network_ = trained.network.cpu().double().eval()
        self.n_iter_ = self.steps
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

    def transform(self, X: Any) -> np.ndarray:
        """The embedding of each row."""
        return self._outputs(X)[0]

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return ((X - self.mean_) / self.scale_).astype(np.float32)

    def _outputs(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        with torch.no_grad():
            z, logits = self.network_(torch.from_numpy((X - self.mean_) / self.scale_))
        return z.numpy(), logits.numpy()


def _scaling(X: np.ndarray, standardise: str | bool) -> tuple[np.ndarray, np.ndarray]:
    """What to subtract and what to divide by; infinity leaves a column out."""
    words = {True: "source", False: "none"}
    found = learn_scaling(X, words[standardise] if isinstance(standardise, bool) else standardise)
    if found is None:
        return np.zeros(X.shape[1]), np.ones(X.shape[1])
    std = np.ones(X.shape[1]) if found.std is None else np.array(found.std)
    return np.array(found.mean), np.where(std > 0, std / found.scale, np.inf)


def _split(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(labelled rows, their labels, target rows), by the rule for -1 in the class docstring."""
    if y.dtype.kind in "if":
        unlabelled = y == -1
        if unlabelled.any() and len(np.unique(y[~unlabelled])) >= 2:
            return X[~unlabelled], y[~unlabelled], X[unlabelled]
    return X, y, X
