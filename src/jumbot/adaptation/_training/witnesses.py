"""Networks trained without a part of the source, and their predictions there, for `_evaluation.votes`."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jumbot.adaptation._config import RunConfig
from jumbot.adaptation._evaluation.decision import LEAST_STEPS
from jumbot.adaptation._evaluation.modularity import NEIGHBOURLY, nearest, neighbourly, rows_of, some_samples
from jumbot.adaptation._evaluation.monitor import outputs
from jumbot.adaptation._evaluation.rivals import MOST_LEARNED, rival_outputs
from jumbot.adaptation._evaluation.votes import Panel, Witness
from jumbot.adaptation._networks.stems import Statistics
from jumbot.adaptation._training.loop import Trainer
from jumbot.adaptation._training.parts import TrainingData, make_parts
from jumbot.data._domain import Domain, drawn_rows
from jumbot.errors import JumbotError, need
from jumbot.methods.network import Network

Array = np.ndarray[Any, Any]
LINEAR, TREES, NEIGHBOURS = "logistic regression", "trees", "neighbours"
KINDS = (LINEAR, TREES, NEIGHBOURS)
LEARNED = 4000
"""The largest number of source rows that they are trained on."""
_WIDE = 400  # columns, above which rows are projected to their principal ones
_COMPONENTS = 100
_SHORTEST = 8  # shortest signals with a spectrum


def learning_rows(domain: Domain, seed: int = 0, index: Array | None = None) -> tuple[Array, Array]:
    """(indices, rows) of at most `LEARNED` of the samples in `index`; signals by their statistics and spectra."""
    index = np.arange(len(domain)) if index is None else index
    index = _some(index, seed, LEARNED)
    if len(domain.shape) != 2 or domain.shape[1] < _SHORTEST:
        return index, rows_of(domain, index)
    signals = domain.samples.batch(index)
    return index, Statistics(*signals.shape[1:]).measure(signals).double().numpy()


def reference_predictions(
    rows: Array, labels: Array, others: Sequence[Array], *, numbers: bool = False, seed: int = 0
) -> dict[str, list[Array]]:
    """`{kind: predictions of each of others}` by a linear, a tree and a neighbour model of `rows` `(n, d)`.

    `labels` are classes `(n,)`, or with `numbers` numbers `(n, outputs)`: then the models are of numbers too.  A class
    that no row has is predicted by none.
    """
    need("sklearn", "the estimate of accuracy", "adapt")
    if not numbers and len(np.unique(labels)) < 2:
        return {kind: [np.full(len(other), labels[0]) for other in others] for kind in KINDS}
    rows, *others = _narrow(rows, others, seed)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model that has not converged is still useful
        for kind, model in _models(numbers, len(rows), seed).items():
            model.fit(rows, labels)
            found[kind] = [np.asarray(model.predict(other)).reshape(len(other), *labels.shape[1:]) for other in others]
    return found


def _models(numbers: bool, n: int, seed: int) -> dict[str, Any]:
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    forest = {"n_estimators": TREES_GROWN, "min_samples_leaf": 2, "random_state": seed % 2**31}
    near = min(7, n)
    if numbers:
        return {LINEAR: Ridge(), TREES: ExtraTreesRegressor(**forest), NEIGHBOURS: KNeighborsRegressor(near)}
    return {
        LINEAR: LogisticRegression(max_iter=300),
        TREES: ExtraTreesClassifier(**forest),
        NEIGHBOURS: KNeighborsClassifier(near),
    }


def _narrow(rows: Array, others: Sequence[Array], seed: int) -> list[Array]:
    """Wide rows by their principal components, which all three models use in a fraction of the time."""
    every = [np.asarray(each, np.float32) for each in (rows, *others)]
    if rows.shape[1] <= _WIDE:
        return every
    from sklearn.decomposition import PCA

    made = PCA(min(_COMPONENTS, len(rows) - 1), svd_solver="randomized", random_state=seed % 2**31).fit(every[0])
    return [made.transform(each) for each in every]


TREES_GROWN = 100
SHARE = 0.2  # of the source that is held out
SMALL = 400  # source samples up to which every one is held out once
FOLDS = 3
MOST_HELD = 2000
_RAREST = 1e-6


class OutOfTimeError(JumbotError):
    """A network or a plain model could not be trained in its time."""


@dataclass(frozen=True)
class Witnesses:
    """The outputs of the witnesses of several methods for the same samples."""

    by_method: Mapping[str, Witness]
    index: Array
    """The samples of the target."""
    held: Array | None = None
    """The held-out samples of the source, fold by fold; None if they are a separate part."""


def folds(labels: Array | None, n: int, seed: int) -> list[tuple[Array, Array]]:
    """[(trained on, held out)], classes in their proportions: a fifth once, or of small sources each third in turn.

    >>> [(len(rest), len(held)) for rest, held in folds(np.arange(90) % 2, 90, 0)]
    [(60, 30), (60, 30), (60, 30)]
    """
    rng = np.random.default_rng((seed, 10))
    strata = np.zeros(n, np.int64) if labels is None else labels
    parts = FOLDS if n <= SMALL else round(1 / SHARE)
    place, turn = np.empty(n, np.int64), 0
    for c in np.unique(strata):
        members = rng.permutation(np.flatnonzero(strata == c))
        place[members] = (turn + np.arange(len(members))) % parts
        turn += len(members)  # so that parts are of one size, and a class of one sample is not always in the first
    wanted = range(FOLDS) if n <= SMALL else range(1)
    found = []
    for part in wanted:
        held = np.flatnonzero(place == part)
        if len(held) > MOST_HELD:
            held = np.sort(rng.choice(held, MOST_HELD, replace=False))
        found.append((np.setdiff1d(np.arange(n), held), held))
    return found


def train_witnesses(data: TrainingData, configs: Sequence[RunConfig], until: float = math.inf) -> Witnesses:
    """Train every method of `configs` on each fold; predict the held-out part and the target with it and the
    references.

    Raises `OutOfTimeError` if that cannot be done `until` then, a time of `time.monotonic`.
    """
    source, target, task, seed = data.source, data.target, data.task, configs[0].training.seed
    index = some_samples(target, seed)
    sample = target.subset(index).unlabelled()
    target_rows = learning_rows(sample)[1]
    known, parts = task.labels(source), folds(source.labels, len(source), seed)
    asked = {config.method: _Asked() for config in configs}
    references: list[dict[str, list[Array]]] = []
    left = len(parts) * len(configs)
    for rest, held in parts:
        part, unseen = source.subset(rest), source.subset(held)
        _check_time(until)
        if source.labels is not None:  # of numbers nothing is asked of them
            learned, rows = learning_rows(source, seed, rest)
            others = learning_rows(unseen)[1], target_rows
            references.append(reference_predictions(rows, known[learned], others, seed=seed))
        for config in configs:
            now = _check_time(until)
            network = train_network(replace(data, source=part), config, now + max(until - now, 0) / left)
            left -= 1
            asked[config.method].ask(network, unseen, sample)
    panel = _panel(references, neighbourhoods(source, target_rows, seed))
    order = np.concatenate([held for _, held in parts])
    by_method = {}
    for config in configs:
        shares, offset = shares_of(source, task.outputs, config.training.sampler == "stratified")
        by_method[config.method] = asked[config.method].witness(known[order], shares, offset, panel)
    return Witnesses(by_method, index, order)


class _Asked:
    """The outputs of the networks of a method, one for each fold, for the held-out part and the target."""

    def __init__(self) -> None:
        self.held: list[tuple[Array, Array]] = []
        self.target: list[tuple[Array, Array]] = []

    def ask(self, network: Network, unseen: Domain, sample: Domain) -> None:
        """Add one network."""
        for domain, answers in ((unseen, self.held), (sample, self.target)):
            z, logits = outputs(network, domain)
            answers.append((z.float().numpy(), logits.double().numpy()))

    def witness(self, truth: Array, shares: Array, offset: Array, panel: Panel) -> Witness:
        """The witness of all networks; `truth` are the labels of the held-out samples."""
        (held_z, held_logits), (target_z, target_logits) = (zip(*a, strict=True) for a in (self.held, self.target))
        held = np.concatenate(held_logits)
        return Witness(held, truth, tuple(target_logits), shares, offset, panel, tuple(held_z), tuple(target_z))


def held_out_witnesses(
    data: TrainingData, held: Domain, networks: Mapping[str, Network], config: RunConfig
) -> Witnesses:
    """The same for networks that are already trained on the source without `held`."""
    source, target, task, seed = data.source, data.target, data.task, config.training.seed
    index = some_samples(target, seed)
    part, sample = held.subset(some_samples(held, seed)), target.subset(index).unlabelled()
    learned, rows = learning_rows(source, seed)
    others = [learning_rows(each)[1] for each in (part, sample)]
    predictions = reference_predictions(rows, task.labels(source)[learned], others, seed=seed)
    panel = _panel([predictions], neighbourhoods(source, others[1], seed))
    shares, offset = shares_of(source, task.outputs, config.training.sampler == "stratified")
    by_method = {}
    for name, network in networks.items():
        asked = _Asked()
        asked.ask(network, part, sample)
        by_method[name] = asked.witness(task.labels(part), shares, offset, panel)
    return Witnesses(by_method, index)


def _panel(references: Sequence[Mapping[str, list[Array]]], neighbours: Array | None) -> Panel:
    """From `{name: [predictions of the held-out part, and of the target]}` for each fold, if anything was asked."""
    names = references[0] if references else ()
    held = {name: np.concatenate([one[name][0] for one in references]) for name in names}
    return Panel(held, {name: tuple(one[name][1] for one in references) for name in names}, neighbours)


def neighbourhoods(source: Domain, target_rows: Array, seed: int) -> Array | None:
    """Nearest samples in the target if neighbours in the source share their class (`NEIGHBOURLY`), otherwise None."""
    if source.labels is None or min(len(source), len(target_rows)) < 2:
        return None
    index, rows = learning_rows(source, seed, some_samples(source, seed))
    clear = neighbourly(source.labels[index], nearest(rows)) > NEIGHBOURLY
    return nearest(target_rows) if clear else None


def rival_witnesses(data: TrainingData, witnesses: Witnesses, seed: int, held: Domain | None) -> dict[str, Witness]:
    """The outputs of reference models for the samples of the `witnesses` of methods.

    `held` is the held-out part if the source already lacks it, see `held_out_witnesses`.
    """
    source, task = data.source, data.task
    if held is None:
        parts = [
            (source.subset(_some(rest, seed, MOST_LEARNED)), source.subset(unseen))
            for rest, unseen in folds(source.labels, len(source), seed)
        ]
    else:
        learned = _some(np.arange(len(source)), seed, MOST_LEARNED)
        parts = [(source.subset(learned), held.subset(some_samples(held, seed)))]
    sample = data.target.subset(witnesses.index).unlabelled()
    predictions = [rival_outputs(part, (unseen, sample), task, seed) for part, unseen in parts]
    truth = np.concatenate([task.labels(unseen) for _, unseen in parts])
    shares, offset = shares_of(source, task.outputs, stratified=False)
    found = {}
    for name in predictions[0]:
        if all(name in one for one in predictions):
            held_out, here = (
                np.concatenate([one[name][0] for one in predictions]),
                tuple(one[name][1] for one in predictions),
            )
            found[name] = Witness(held_out, truth, here, shares, offset)
    return found


def shares_of(source: Domain, classes: int, stratified: bool) -> tuple[Array, Array]:
    """Shares of the classes in a source, and the offset of logits to them: see `Witness`."""
    if source.labels is None:
        return np.ones(classes), np.zeros(classes)
    shares = np.bincount(source.labels, minlength=classes) / len(source)
    return shares, np.log(np.maximum(shares * classes, _RAREST)) if stratified else np.zeros(classes)


def _some(index: Array, seed: int, most: int) -> Array:
    """At most this many of them."""
    found: Array = index[drawn_rows(len(index), most, (seed, 9))]
    return found


def train_network(data: TrainingData, config: RunConfig, until: float = math.inf) -> Network:
    """Train a network of rows with the settings and the seed of a run, only for its predictions.

    If `until` allows fewer than `LEAST_STEPS` steps of its method, the result would be mostly chance, and
    `OutOfTimeError` is raised.
    """
    network, _, method = make_parts(config, data)
    training = replace(config.training, select="last", evaluate_every=0, trackers=(), tensorboard=False)
    trainer = Trainer(data, network, method, training, until=until)
    planned = trainer.total - trainer.source_steps
    trainer.fit()
    if trainer.step - trainer.source_steps < min(LEAST_STEPS, planned):
        raise OutOfTimeError(f"the time budget ended after {trainer.step} steps")
    return network.cpu().eval()


def _check_time(until: float) -> float:
    """Now, a time of `time.monotonic`."""
    now = time.monotonic()
    if now >= until:
        raise OutOfTimeError("the time budget ended")
    return now
