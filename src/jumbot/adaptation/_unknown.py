"""Target samples of classes that the source lacks: by outlier mass and set size, with a threshold from the source."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jumbot._base.files import replacing
from jumbot.adaptation._evaluation.modularity import some_rows
from jumbot.adaptation._evaluation.monitor import logits_of
from jumbot.errors import ArgumentError

if TYPE_CHECKING:
    from jumbot.adaptation._domains import Domains
    from jumbot.adaptation._judging import Judged
    from jumbot.adaptation._model import Model

Array = np.ndarray[Any, Any]
FALSE_ALARMS = 0.05
"""Share of held-out source samples that would be marked."""
_NEAREST = 3
_SOURCE = 2000  # samples of the source that others are compared with
_PART = 4096


@dataclass(frozen=True, eq=False)
class Unknown:
    """What `mark_unknown` found."""

    score: Array
    """(n,) of target samples, in [0, 1]; high where none of the source's classes fits."""
    marked: Array
    """(n,) whether the score exceeds that of 95 % of the held-out source."""


def combine(target: tuple[Array, Array], held: tuple[Array, Array]) -> Unknown:
    """The mean rank of two scores in the target, and the threshold at which 5 % of the held-out source are marked.

    Ranks of held-out samples are theirs among the target's, so that both are on one scale.

    >>> found = combine((np.array([0.1, 0.2, 5.0]), np.array([1.0, 2.0, 9.0])), (np.full(20, 0.3), np.full(20, 3.0)))
    >>> found.marked.tolist()
    [False, False, True]
    """

    def ranks(values: Array, among: Array) -> Array:
        ordered = np.sort(among)
        low, high = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
        return (low + high) / (2 * len(ordered))

    score, own = (np.mean([ranks(v, t) for v, t in zip(some, target, strict=True)], axis=0) for some in (target, held))
    return Unknown(score, score > np.quantile(own, 1 - FALSE_ALARMS, method="higher"))


def effective_classes(logits: Array) -> Array:
    """The entropy of softmax(logits), the logarithm of how many classes cannot be excluded.

    >>> np.exp(effective_classes(np.zeros((1, 4)))).round(6).tolist()
    [4.0]
    """
    z = logits - logits.max(1, keepdims=True)
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    found: Array = -(p * np.log(np.maximum(p, 1e-300))).sum(1)
    return found


def unexplained(rows: Array, source: Array, own: bool = False) -> Array:
    """One less the mean cosine to the three nearest source samples, all around the means of their domains.

    The cost at which mass would arrive, for small epsilon and a source that may give any mass.  With `own`, rows are
    those of the source, and none is compared with itself.
    """
    unit = source / np.maximum(np.linalg.norm(source, axis=1, keepdims=True), 1e-300)
    found = []
    for start in range(0, len(rows), _PART):
        part = rows[start : start + _PART]
        cosine = part @ unit.T / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-300)
        if own:
            cosine[np.arange(len(part)), start + np.arange(len(part))] = -np.inf
        few = min(_NEAREST, cosine.shape[1] - int(own))
        found.append(1 - np.sort(cosine, axis=1)[:, -few:].mean(1))
    return np.concatenate(found)


def mark_unknown(model: Model, domains: Domains, judged: Judged, seed: int) -> Unknown:
    """Mark the target; the threshold is that of source samples which the judging networks did not see."""
    name = str(model.method["name"])
    source, target, held = domains.source, domains.target, domains.watch.validation
    compared = model.compared_by(target)
    here, there = compared(source).astype(np.float64), compared(target).astype(np.float64)
    middle = here.mean(0)
    some = np.sort(np.random.default_rng((seed, 23)).permutation(len(here))[:_SOURCE])
    near = here[some] - middle
    logits = logits_of(model.network, target).double().numpy() / model.temperature
    scores = effective_classes(logits), unexplained(there - there.mean(0), near)
    if judged.heard is not None and judged.heard.held is not None:
        rows, said = judged.heard.held, judged.heard.by_method[name].held
        place = {row: i for i, row in enumerate(some.tolist())}
        seen = np.array([row in place for row in rows.tolist()])
        alone = unexplained(near, near, own=True)
        own = alone[[place[row] for row in rows[seen].tolist()]]
        return combine(scores, (effective_classes(said[seen] / model.temperature), own))
    if held is None:
        raise ArgumentError("unknown needs source samples that are held out: leave judge on, or give validation.")
    few = held.subset(some_rows(held, seed)[0])
    said = logits_of(model.network, few).double().numpy() / model.temperature
    own = unexplained(compared(few).astype(np.float64) - middle, near)
    return combine(scores, (effective_classes(said), own))


def write_marks(file: Path, found: Unknown) -> None:
    """Add the columns `unknown` and `unknown_score` to predictions."""
    with file.open(newline="", encoding="utf-8") as opened:
        head, *rows = list(csv.reader(opened))
    with replacing(file) as part, part.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow([*head, "unknown", "unknown_score"])
        for row, marked, score in zip(rows, found.marked, found.score, strict=True):
            writer.writerow([*row, int(marked), f"{score:.4f}"])
