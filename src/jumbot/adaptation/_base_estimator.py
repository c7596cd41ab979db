"""What the estimators for scikit-learn share: parameters, scaling, training, outputs."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from jumbot._base.options import Count, Width, check
from jumbot.adaptation._config import RunConfig, make_config
from jumbot.adaptation._evaluation.diagnosis import Diagnosis, less_explained
from jumbot.adaptation._evaluation.modularity import some_rows
from jumbot.adaptation._evaluation.nearness import of_domains, received_by
from jumbot.adaptation._evaluation.task import task_of
from jumbot.adaptation._evaluation.whole_target import diagnose_rows
from jumbot.adaptation._frame_rows import take_more
from jumbot.adaptation._judging import ADAPTED, Again, Judged, judge_before, names_a_method, own_options
from jumbot.adaptation._networks.stems import rows_as_trained_on
from jumbot.adaptation._training.loop import Trainer
from jumbot.adaptation._training.parts import TrainingData, make_parts
from jumbot.data._column_kinds import too_fine
from jumbot.data._domain import ArraySamples, Domain
from jumbot.data._fitting import warn_of_digits
from jumbot.data._remarks import few_of_each
from jumbot.data._scaling import learn_scaling
from jumbot.data._screening import screen
from jumbot.data._tables import check_same_rows
from jumbot.errors import ArgumentError, NoTargetWarning
from jumbot.methods import METHODS, SOURCE_ONLY, options_class
from jumbot.methods.network import Network
from jumbot.transport._checks import check_unmasked

PARAMETERS = {
    "steps": "steps",
    "epochs": "steps",
    "batch_size": "batch_size",
    "learning_rate": "learning_rate",
    "features": "n_components",
    "hidden": "hidden_layer_sizes",
    "standardise": "standardise",
    "seed": "random_state",
}
"""Options of a run that are parameters of the estimators, by their names there."""
FIXED = (
    "optimizer",
    "schedule",
    "evaluate_every",
    "select",
    "validation",
    "checkpoint_every",
    "columns",
    "partial",
    "thin",
)
"""Options of a run that have no effect on the estimators."""
_ROWS = 4096  # in one forward pass


class AdaptationEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A network trained on labelled source rows and adapted to unlabelled target rows."""

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
        """As in scikit-learn; an option of the method, such as `tau=0.3`, is added to `options`.

        So grids can vary it: `GridSearchCV(clf, {"tau": [0.1, 0.5]})`.
        """
        own = self.get_params(deep=False)
        method = params.get("method", self.method)
        method = ADAPTED if method is None else method
        is_known = isinstance(method, str) and method in METHODS
        known = {field.name for field in fields(options_class(method))} if is_known else set()
        flat = {name: value for name, value in params.items() if name not in own and name in known}
        super().set_params(**{name: value for name, value in params.items() if name not in flat})
        if flat:
            self.options = {**(self.options or {}), **flat}
        return self

    @property
    def _n_features_out(self) -> int:
        """The width of the embedding, from which scikit-learn makes names for `set_output`."""
        return int(self.network_.features)

    def transform(self, X: Any) -> np.ndarray:
        """Compute the embedding `(n, n_components)` of each row."""
        rows = self._checked(X)
        found: np.ndarray = outputs_of(self.network_, rows)[0].numpy()
        return found

    def _train(
        self,
        source: Domain,
        target: Domain | None,
        known: Domain | None,
        raw: tuple[Domain, Domain | None] | None = None,
    ) -> Domain:
        """Train on a source and on `known` samples of the target, rows of numbers; returns the source, scaled.

        Without a target the network adapts to the source itself.  `raw` are source and target as given, if these are
        frames.
        """
        settings = self._settings()
        changes = {**(self.options or {}), **settings, "seed": _seed(self.random_state)}
        automatic = not names_a_method(self.method, None, None, self.options or {})
        given = source if raw is None else source.with_samples(raw[0].samples)  # determines the recipe
        config = self._configured(given, ADAPTED if self.method is None else self.method, changes)
        self.mean_, self.scale_ = _scaling(_array(source), config.inputs.standardise)
        _warn_of_digits(_array(source), self.mean_)
        if target is not None:
            there = None if raw is None else raw[1]
            names = getattr(self, "feature_names_in_", None) if raw is None else None
            screen(given if there else source, there or target, names)
        data = self._as_networks_take_it(source, target, known, config)
        self.task_ = data.task
        again = functools.cache(lambda method: self._configured(given, method, own_options(method, changes)))
        self._config = config = self._judge(data, config, again, automatic, target is not None)
        network, _, method = make_parts(config, data)
        trained = Trainer(data, network, method, config.training).fit()
        self.history_ = trained.history
        # in float64 the prediction of a row does not depend on the other rows
        self.network_ = trained.network.cpu().double().eval()
        self.n_iter_ = sum(config.training.lengths(len(data.source))[1:])
        self.source_shares_ = _shares(method, data.source)
        self.target_rows_ = None if target is None else some_rows(data.target)[1].astype(np.float32)
        return data.source

    def _as_networks_take_it(
        self, source: Domain, target: Domain | None, known: Domain | None, config: RunConfig
    ) -> TrainingData:
        """The rows scaled, and reduced to directions if requested."""

        def scaled(domain: Domain) -> Domain:
            return domain.with_samples(ArraySamples(self._scaled(_array(domain))))

        task = task_of(source, (self.options or {}).get("label_loss") or "squared")
        unlabelled = scaled(Domain("target", source.samples) if target is None else target)
        data = TrainingData(scaled(source), unlabelled, task, None if known is None else scaled(known))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.training.seed)
            return data.in_directions(config.network.rank) if config.network.rank else data

    def _judge(self, data: TrainingData, config: RunConfig, again: Again, automatic: bool, adapts: bool) -> RunConfig:
        """What to train on the whole source; `self._judgement` keeps the evidence."""
        self._judgement = Judged(automatic)
        if adapts:
            baseline = getattr(self, "baseline", True)
            self._judgement, config = judge_before(
                data, config, again, automatic=automatic, baseline=baseline, given=self.options or ()
            )
        elif automatic:  # nothing to adapt to
            config = again(SOURCE_ONLY)
        return config

    def _settings(self) -> dict[str, Any]:
        """The estimator's own parameters as options of a run."""
        if not isinstance(self.options, Mapping | None):
            raise ArgumentError(f"options: got {self.options!r}; pass a dictionary of the method's settings.")
        for name in self.options or ():
            if name in PARAMETERS:
                raise ArgumentError(
                    f"options: got {name}, which is the parameter {PARAMETERS[name]} here; set that parameter instead."
                )
            if name in FIXED:
                raise ArgumentError(f"options: {name} has no effect on the estimators; see jumbot.adapt.")
        given: dict[str, Any] = {
            "steps": check("steps", self.steps, Count | None),
            "batch_size": check("batch_size", self.batch_size, Count | None),
            "learning_rate": self.learning_rate,
            "features": check("n_components", self.n_components, Width),
            "hidden": check("hidden_layer_sizes", self.hidden_layer_sizes, tuple[Width, ...] | None),
        }
        words = {True: "source", False: "none"}
        how = words[self.standardise] if isinstance(self.standardise, bool) else self.standardise
        check("standardise", how, Literal["auto", "source", "none"])
        given |= {"standardise": None if how == "auto" else how}  # which the recipe may know better
        return {"evaluate_every": 0, **{name: value for name, value in given.items() if value is not None}}

    def _configured(self, source: Domain, method: str, changes: Mapping[str, Any]) -> RunConfig:
        """What `jumbot.adapt` would train with on these rows, without the estimator's parameters."""
        config = make_config(source, method, None, changes)
        # minibatches smaller than the number of classes would miss some
        least = len(source.classes) * max(1, len(source.sources))
        if config.training.batch_size >= least:
            return config
        return replace(config, training=replace(config.training, batch_size=least))

    def _target(self, X_target: Any) -> np.ndarray:
        return take_more(self, X_target, "X_target")

    def _known(self, labelled_target: Any) -> tuple[np.ndarray, Any] | None:
        """Rows of `labelled_target` and their labels, as given."""
        if labelled_target is None:
            return None
        if not isinstance(labelled_target, tuple | list) or len(labelled_target) != 2:
            raise ArgumentError(
                f"labelled_target: got {type(labelled_target).__name__}; pass a pair (X, y) of target rows and "
                "their labels."
            )
        rows, labels = labelled_target
        check_unmasked(labels, "labelled_target")
        check_same_rows(labels, rows, "labelled_target")
        rows, labels = self._target(rows), np.asarray(labels)
        if labels.ndim == 0 or len(labels) != len(rows):
            raise ArgumentError(f"labelled_target: {len(rows)} rows and labels of shape {labels.shape}; pass one each.")
        return rows, labels

    def _rows(self, source: Domain) -> np.ndarray:
        """The scaled rows of a source that `_train` made."""
        rows: np.ndarray = source.samples.batch(np.arange(len(source))).numpy()
        return rows

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return ((X - self.mean_) / self.scale_).astype(np.float32)

    def _explained(
        self, source: Domain, target: np.ndarray, seed: int = 0
    ) -> tuple[Diagnosis, torch.Tensor, np.ndarray | None]:
        """What plans show about the target's rows, their outputs, and how well the source explains each."""
        labelled, rows = self._rows(source), self._scaled(target)
        found, outputs = diagnose_rows(
            source,
            len(rows),
            lambda some: outputs_of(self.network_, labelled[some]),
            lambda some: outputs_of(self.network_, rows[some]),
            self.task_,
            seed=seed,
        )
        domain = Domain("target", ArraySamples(rows))
        by = functools.partial(rows_as_trained_on, self.network_)
        near = received_by(of_domains(source, domain, by, seed), domain, by)
        return less_explained(found, near), outputs, near

    def _logits(self, X: Any) -> np.ndarray:
        rows = self._checked(X)
        found: np.ndarray = logits_of_rows(self.network_, rows).numpy()
        return found

    def _checked(self, X: Any) -> np.ndarray:
        """Rows as the network takes them."""
        check_is_fitted(self)
        rows: np.ndarray = (take_more(self, X) - self.mean_) / self.scale_
        return rows


@torch.no_grad()
def outputs_of(network: Network, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Embeddings and logits of scaled rows, in float64."""
    found = [network(torch.from_numpy(part.astype(np.float64))) for part in _split(rows)]
    return torch.cat([z for z, _ in found]), torch.cat([logits for _, logits in found])


@torch.no_grad()
def logits_of_rows(network: Network, rows: np.ndarray) -> torch.Tensor:
    """The logits alone: the embeddings of a million rows would take gigabytes."""
    return torch.cat([network(torch.from_numpy(part.astype(np.float64)))[1] for part in _split(rows)])


def _split(rows: np.ndarray) -> Iterator[np.ndarray]:
    yield from (rows[start : start + _ROWS] for start in range(0, max(len(rows), 1), _ROWS))


def warn_of_no_target(otherwise: str = "") -> None:
    """Warn that `fit` adapts to X itself."""
    more = f", {otherwise}" * bool(otherwise)
    warnings.warn(
        f"X_target: none was given, so the estimator adapts to X itself, which has no effect; pass X_target{more}.",
        NoTargetWarning,
        stacklevel=3,
    )


def _shares(method: Any, source: Domain) -> dict[str, float] | None:
    weights = getattr(method, "sources", None)
    return None if weights is None else dict(zip(source.sources, weights.shares.tolist(), strict=True))


def _warn_of_digits(X: np.ndarray, mean: np.ndarray) -> None:
    """Warn of columns that lose their differences in the float32 of networks, as they do unless centred."""
    with few_of_each("X"):
        for column in np.flatnonzero(too_fine(X - mean)):
            warn_of_digits("X", str(column + 1), X[:, column])


def _array(domain: Domain) -> np.ndarray:
    """The rows of a domain that `fit` made."""
    assert isinstance(domain.samples, ArraySamples)
    return domain.samples.array


def _seed(random_state: Any) -> int:
    try:
        if isinstance(random_state, bool):
            raise ValueError("True and False are not valid seeds")
        if isinstance(random_state, int | np.integer):
            check_random_state(random_state)
            return int(random_state)  # that of `jumbot.adapt`, so that both give the same network
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        raise ArgumentError(f"random_state: {error}.") from error


def _scaling(X: np.ndarray, standardise: str) -> tuple[np.ndarray, np.ndarray]:
    """What to subtract and what to divide by; infinity leaves a column out."""
    with np.errstate(over="ignore"):
        if not np.isfinite(np.square(X).sum()):
            raise ArgumentError("X: contains numbers that are too large to be squared; rescale them first.")
    found = learn_scaling(X, standardise)
    if found is None:
        return np.zeros(X.shape[1]), np.ones(X.shape[1])
    std = np.ones(X.shape[1]) if found.std is None else np.array(found.std)
    return np.array(found.mean), np.where(std > 0, std / found.scale, np.inf)
