"""Networks trained without a part of the source, for what they say of it: the witnesses of `judgement.witness`."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from jumbot.adaptation._config import RunConfig
from jumbot.adaptation._evaluation.modularity import rows_of, some_rows
from jumbot.adaptation._evaluation.monitor import outputs
from jumbot.adaptation._evaluation.rivals import MOST_LEARNED, rival_outputs
from jumbot.adaptation._evaluation.task import Task
from jumbot.adaptation._evaluation.votes import Panel, Witness
from jumbot.adaptation._networks.build import make_network
from jumbot.adaptation._training.loop import Trainer
from jumbot.data._domain import Domain
from jumbot.errors import need
from jumbot.methods import make_method
from jumbot.methods.network import Network

Array = np.ndarray[Any, Any]
LINEAR, TREES, NEIGHBOURS = "logistic regression", "trees", "neighbours"
KINDS = (LINEAR, TREES, NEIGHBOURS)
LEARNED = 4000
"""Rows of the source that they learn from, at most."""
_WIDE = 400  # columns, above which rows are projected to their principal ones
_COMPONENTS = 100


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
        warnings.simplefilter("ignore")  # one that has not converged is another classifier still
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
    """Wide rows by their principal components, which all three read in a fraction of the time."""
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


@dataclass(frozen=True)
class Heard:
    """What the witnesses of several methods say of the same samples."""

    by_method: Mapping[str, Witness]
    index: Array
    """Which samples of the target."""


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


def hear(
    source: Domain,
    target: Domain,
    configs: Sequence[RunConfig],
    task: Task,
    labelled: Domain | None = None,
    until: float = math.inf,
) -> Heard:
    """Train every method of `configs` on each fold; ask it, and the references, for the held-out part and target."""
    seed = configs[0].training.seed
    index, target_rows = some_rows(target, seed)
    sample = target.subset(index).unlabelled()
    numbers = source.labels is None
    known = task.labels(source)
    held_outputs: dict[str, list[Array]] = {config.method: [] for config in configs}
    target_outputs: dict[str, list[Array]] = {config.method: [] for config in configs}
    held_said: dict[str, list[Array]] = {}
    target_said: dict[str, list[Array]] = {}
    order = []
    parts = folds(source.labels, len(source), seed)
    left = len(parts) * len(configs)
    for rest, held in parts:
        order.append(held)
        part, unseen = source.subset(rest), source.subset(held)
        learned = _some(rest, seed)
        said = reference_predictions(
            rows_of(source, learned), known[learned], (rows_of(unseen), target_rows), numbers=numbers, seed=seed
        )
        for name, (there, here) in said.items():
            held_said.setdefault(name, []).append(there)
            target_said.setdefault(name, []).append(here)
        for config in configs:
            now = time.monotonic()
            network = train_network(part, target, config, task, labelled, now + max(until - now, 0) / left)
            left -= 1
            held_outputs[config.method].append(outputs(network, unseen)[1].double().numpy())
            target_outputs[config.method].append(outputs(network, sample)[1].double().numpy())
    panel = Panel(
        {name: np.concatenate(parts) for name, parts in held_said.items()},
        {name: tuple(parts) for name, parts in target_said.items()},
    )
    truth, said_by = known[np.concatenate(order)], {}
    for config in configs:
        shares, offset = shares_of(source, task.outputs, config.training.sampler == "stratified")
        held_out, said_here = np.concatenate(held_outputs[config.method]), tuple(target_outputs[config.method])
        said_by[config.method] = Witness(held_out, truth, said_here, shares, offset, panel)
    return Heard(said_by, index)


def hear_held_out(
    source: Domain, held: Domain, target: Domain, networks: Mapping[str, Network], config: RunConfig, task: Task
) -> Heard:
    """The same of networks that were trained on `source`, without `held`, already."""
    seed = config.training.seed
    index, target_rows = some_rows(target, seed)
    few, held_rows = some_rows(held, seed)
    part, sample = held.subset(few), target.subset(index).unlabelled()
    learned = _some(np.arange(len(source)), seed)
    rows, others = rows_of(source, learned), (held_rows, target_rows)
    said = reference_predictions(rows, task.labels(source)[learned], others, seed=seed)
    panel = Panel({name: one for name, (one, _) in said.items()}, {name: (one,) for name, (_, one) in said.items()})
    shares, offset = shares_of(source, task.outputs, config.training.sampler == "stratified")
    labels = task.labels(part)
    by_method = {
        name: Witness(
            outputs(network, part)[1].double().numpy(),
            labels,
            (outputs(network, sample)[1].double().numpy(),),
            shares,
            offset,
            panel,
        )
        for name, network in networks.items()
    }
    return Heard(by_method, index)


def hear_rivals(
    source: Domain, target: Domain, task: Task, heard: Heard, seed: int, held: Domain | None = None
) -> dict[str, Witness]:
    """What plain models of the source say of the samples on which methods were `heard`.

    `held` is the part of the source that was held out where `source` lacks one already, see `hear_held_out`.
    """
    if held is None:
        parts = [
            (source.subset(_some(rest, seed, MOST_LEARNED)), source.subset(unseen))
            for rest, unseen in folds(source.labels, len(source), seed)
        ]
    else:
        learned = _some(np.arange(len(source)), seed, MOST_LEARNED)
        parts = [(source.subset(learned), held.subset(some_rows(held, seed)[0]))]
    sample = target.subset(heard.index).unlabelled()
    said = [rival_outputs(part, (unseen, sample), task, seed) for part, unseen in parts]
    truth = np.concatenate([task.labels(unseen) for _, unseen in parts])
    shares, offset = shares_of(source, task.outputs, stratified=False)
    found = {}
    for name in said[0]:
        if all(name in one for one in said):
            held_out, here = np.concatenate([one[name][0] for one in said]), tuple(one[name][1] for one in said)
            found[name] = Witness(held_out, truth, here, shares, offset)
    return found


def shares_of(source: Domain, classes: int, stratified: bool) -> tuple[Array, Array]:
    """Shares of the classes in a source, and the offset of logits to them: see `Witness`."""
    if source.labels is None:
        return np.ones(classes), np.zeros(classes)
    shares = np.bincount(source.labels, minlength=classes) / len(source)
    return shares, np.log(np.maximum(shares * classes, _RAREST)) if stratified else np.zeros(classes)


def _some(index: Array, seed: int, most: int = LEARNED) -> Array:
    """As many as the references learn from."""
    if len(index) <= most:
        return index
    found: Array = np.sort(np.random.default_rng((seed, 9)).choice(index, most, replace=False))
    return found


def train_network(
    source: Domain,
    target: Domain,
    config: RunConfig,
    task: Task,
    labelled: Domain | None = None,
    until: float = math.inf,
) -> Network:
    """A network of rows with the settings and the seed of a run, for its predictions alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        network, _ = make_network(
            config.network, source.shape, task.outputs, source=source, labelled=labelled, target=target
        )
        method = make_method(
            config.method,
            config.options,
            features=network.features,
            classes=network.classes,
            label_loss=task.label_loss,
        )
    training = replace(config.training, select="last", evaluate_every=0, trackers=(), tensorboard=False)
    Trainer(source, target.unlabelled(), network, method, training, task=task, labelled=labelled, until=until).fit()
    return network.cpu().eval()
