"""The diagnosis of a whole target in bounded memory: proportions from a sample, received mass of every sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.adaptation._evaluation.diagnosis import Diagnosis, diagnose, diagnose_numbers, widened
from jumbot.adaptation._evaluation.measures import UNLABELLED
from jumbot.adaptation._evaluation.monitor import outputs
from jumbot.adaptation._evaluation.task import Task
from jumbot.data._domain import Domain
from jumbot.methods.network import Network

Array = np.ndarray[Any, Any]
Forward = Callable[[Array], tuple[Tensor, Tensor]]
"""Embeddings and outputs of the rows with these numbers."""

MOST = 20_000  # samples of each domain whose embeddings are held at once
_PART = 5_000  # further samples of the target that are read at once


def diagnose_domains(
    network: Network, source: Domain, target: Domain, task: Task, before: Diagnosis | None = None, seed: int = 0
) -> tuple[Diagnosis, Tensor]:
    """The diagnosis of all target samples, and the outputs of the network on them."""
    return diagnose_rows(
        source,
        len(target),
        lambda rows: outputs(network, source.subset(rows)),
        lambda rows: outputs(network, target.subset(rows)),
        task,
        before,
        seed,
    )


@torch.no_grad()
def diagnose_rows(
    source: Domain,
    count: int,
    of_source: Forward,
    of_target: Forward,
    task: Task,
    before: Diagnosis | None = None,
    seed: int = 0,
) -> tuple[Diagnosis, Tensor]:
    """The same by functions; `count` is the number of target samples.

    Of large domains, `diagnose` uses `MOST` samples, and its plans are then read for the others, part by part.  The
    samples of a part are drawn from the whole domain: files are often sorted, and a minibatch of a single class would
    receive less.  The target is passed through the network once.
    """
    labels = task.labels(source)
    rows_s = some_of_each(labels if source.labels is not None else np.zeros(len(source), int), source.origins, seed)
    first, *parts = _parts(count, seed)
    origins = None if source.origins is None else source.origins[rows_s]
    z_s, (z, predicted) = of_source(rows_s)[0], of_target(first)
    if source.labels is not None:
        found, reader = diagnose(z_s, labels[rows_s], z, predicted, origins=origins, before=before, seed=seed)
        by_numbers = reader
    else:
        values = torch.from_numpy(labels[rows_s])
        found, reader, by_numbers = diagnose_numbers(z_s, values, z, predicted, origins=origins, seed=seed)
    if not parts:
        return found, predicted
    every = predicted.new_empty((count, predicted.shape[1]))
    received = np.empty(count)
    shares = None if found.source_shares is None else np.empty((count, found.source_shares.shape[1]))
    every[first], received[first] = predicted, found.received_mass
    if shares is not None:
        shares[first] = found.source_shares
    del z, predicted
    for rows in parts:
        z, every[rows] = of_target(rows)
        y = every[rows]
        received[rows], own = reader(z, y if source.labels is not None else torch.zeros(len(y), 1))
        if shares is not None:
            shares[rows] = own if by_numbers is reader else by_numbers(z, y)[1]
    return widened(found, before, received, shares, every.argmax(-1).numpy()), every


def _parts(count: int, seed: int) -> list[Array]:
    """The numbers of all target samples, in parts: the first has those with a vote, and none of the others is small."""
    if count < MOST + _PART:
        return [np.arange(count)]
    order = np.random.default_rng((seed, 11)).permutation(count)
    return [np.sort(order[:MOST]), *np.array_split(order[MOST:], (count - MOST) // _PART)]


def some_of_each(labels: Array, origins: Array | None, seed: int) -> Array:
    """Rows of the source: all if there are at most `MOST`, otherwise equally many of each class of each source, so that
    none is lost.
    """
    if len(labels) <= MOST:
        return np.arange(len(labels))
    strata = labels if origins is None else labels * (int(origins.max()) + 1) + origins
    present, counts = np.unique(strata[labels != UNLABELLED], return_counts=True)
    each = _level(counts, MOST)
    rng = np.random.default_rng((seed, 12))
    groups = (np.flatnonzero((strata == s) & (labels != UNLABELLED)) for s in present)
    return np.sort(
        np.concatenate([group if len(group) <= each else rng.choice(group, each, replace=False) for group in groups])
    )


def _level(counts: Array, most: int) -> int:
    """The largest number per group with which groups of these sizes make up `most` at most; one at least.

    >>> _level(np.array([2, 100, 100]), 82)
    40
    """
    low, high = 1, int(counts.max())
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(counts, middle).sum() <= most else (low, middle - 1)
    return low
