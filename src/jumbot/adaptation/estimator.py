"""What the estimators for scikit-learn share: parameters, scaling, training, outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from jumbot.adaptation.config import make_config
from jumbot.adaptation.networks.build import make_network
from jumbot.adaptation.task import task_of
from jumbot.adaptation.training.loop import Trainer
from jumbot.data.domain import ArraySamples, Domain
from jumbot.data.scaling import learn_scaling
from jumbot.errors import ArgumentError
from jumbot.methods import METHODS, make_method, options_class
from jumbot.options import Count, Width, check


class AdaptationEstimator(TransformerMixin, BaseEstimator):
    """A network trained on labelled source rows and adapted to unlabelled target rows."""

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

    def set_params(self, **params: Any) -> Self:
        """As in scikit-learn; an option of the method by its own name, `tau=0.3`, is put into `options`.

        So grids may vary it: `GridSearchCV(clf, {"tau": [0.1, 0.5]})`.
        """
        own = self.get_params(deep=False)
        method = params.get("method", self.method)
        is_known = isinstance(method, str) and method in METHODS
        known = {field.name for field in fields(options_class(method))} if is_known else set()
        flat = {name: value for name, value in params.items() if name not in own and name in known}
        super().set_params(**{name: value for name, value in params.items() if name not in flat})
        if flat:
            self.options = {**(self.options or {}), **flat}
        return self

    def _train(self, X: np.ndarray, target: np.ndarray, **labels: Any) -> Any:
        """Train on rows with these labels of a `Domain`; returns the task."""
        steps, width = check("steps", self.steps, Count), check("n_components", self.n_components, Width)
        hidden = check("hidden_layer_sizes", self.hidden_layer_sizes, tuple[Width, ...])
        if not isinstance(self.options, Mapping | None):
            raise ArgumentError(f"options: {self.options!r} came in; give a dictionary of the method's settings.")
        seed = _seed(self.random_state)
        self.mean_, self.scale_ = _scaling(X, self.standardise)
        source = Domain("source", ArraySamples(self._scaled(X)), **labels)
        task = task_of(source, (self.options or {}).get("label_loss") or "squared")
        # fewer rows than classes would leave classes out of every minibatch
        batch_size = max(check("batch_size", self.batch_size, Count), len(source.classes))
        config = make_config(
            source, self.method, "table",
            {
                **(self.options or {}), "steps": steps, "batch_size": batch_size, "optimizer": "adam",
                "learning_rate": self.learning_rate, "schedule": "constant", "evaluate_every": 0, "seed": seed,
                "features": width, "hidden": hidden,
            },
        )  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network, _ = make_network(config.network, source.shape, task.outputs)
            method = make_method(
                self.method, config.options, features=network.features, classes=network.classes,
                label_loss=task.label_loss,
            )  # fmt: skip
        unlabelled = Domain("target", ArraySamples(self._scaled(target)))
        trained = Trainer(source, unlabelled, network, method, config.training, task=task).fit()
        self.history_ = trained.history
        # in float64 a row is predicted alike alone and among others
        self.network_ = trained.network.cpu().double().eval()
        self.n_iter_ = self.steps
        return task

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


def _seed(random_state: Any) -> int:
    try:
        if isinstance(random_state, bool):
            raise ValueError("True and False are no seeds")
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        raise ArgumentError(f"random_state: {error}.") from error


def _scaling(X: np.ndarray, standardise: str | bool) -> tuple[np.ndarray, np.ndarray]:
    """What to subtract and what to divide by; infinity leaves a column out."""
    words = {True: "source", False: "none"}
    how = words[standardise] if isinstance(standardise, bool) else standardise
    found = learn_scaling(X, check("standardise", how, Literal["auto", "source", "none"]))
    if found is None:
        return np.zeros(X.shape[1]), np.ones(X.shape[1])
    std = np.ones(X.shape[1]) if found.std is None else np.array(found.std)
    return np.array(found.mean), np.where(std > 0, std / found.scale, np.inf)
