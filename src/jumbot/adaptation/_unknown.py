"""Target samples of classes that the source lacks: by outlier mass and set size, with a threshold from the source."""

from __future__ import annotations

import csv
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jumbot._base.files import replacing
from jumbot.adaptation._evaluation.votes import softmax
from jumbot.errors import ArgumentError

if TYPE_CHECKING:
    from jumbot.adaptation._domains import Domains
    from jumbot.adaptation._model import Model

Array = np.ndarray[Any, Any]
FALSE_ALARMS = 0.05
"""Share of held-out source samples that would be marked."""
_NEAREST = 3
_FOLDS = 3
_EFFECTIVE, _ITERATIONS = 20.0, 200  # of a logistic regression: its C times the number of columns
_SOURCE = 2000  # samples of the source that others are compared with
_PART = 4096
_COLUMNS = ("unknown", "unknown_score")


@dataclass(frozen=True, eq=False)
class Unknown:
    """What `mark_unknown` found."""

    score: Array
    """(n,) score of target samples, in [0, 1]; high if none of the source's classes fits."""
    marked: Array
    """(n,) whether the score exceeds that of 95 % of the held-out source."""


def combine(target: tuple[Array, Array], held: tuple[Array, Array]) -> Unknown:
    """The mean rank of two scores in the target, and the threshold at which 5 % of the held-out source are marked.

    Held-out samples are ranked among the target's, so that both are on the same scale.

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
    p = softmax(logits)
    found: Array = -(p * np.log(np.maximum(p, 1e-300))).sum(1)
    return found


def unexplained(rows: Array, source: Array, own: bool = False) -> Array:
    """One minus the mean cosine to the three nearest source samples, all around the means of their domains.

    The cost of incoming mass for small epsilon and a free source marginal.  With `own`, rows are those of the source,
    and none is compared with itself.
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


def source_entropies(source: Array, labels: Array, target: Array) -> tuple[Array, Array]:
    """The entropies of target rows and of source rows by a logistic regression that was fitted without the row.

    Not those of the adapted network, which has learned to be confident on the target: with five of ten classes hidden
    on Office-Caltech10 it is more confident on samples whose class it does not know.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    spread = source.std(0)
    spread[spread < 1e-9 * max(float(spread.max()), 1e-300)] = np.inf
    here, there = source / spread, target / spread
    plain = LogisticRegression(C=min(1.0, _EFFECTIVE / here.shape[1]), max_iter=_ITERATIONS)
    few = np.bincount(labels)[np.unique(labels)].max()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes with fewer samples than folds, and of iterations
        folds = StratifiedKFold(min(_FOLDS, int(few)))
        own = cross_val_predict(plain, here, labels, cv=folds, method="predict_log_proba")
        found = plain.fit(here, labels).predict_log_proba(there)
    return effective_classes(found), effective_classes(np.maximum(own, -700.0))


def mark_unknown(model: Model, domains: Domains, seed: int) -> Unknown:
    """Mark the target by features that adaptation does not change; the threshold is that of held-out source samples."""
    source, target = domains.source, domains.target
    assert source.labels is not None
    compared = model.compared_by(target)
    some = np.sort(np.random.default_rng((seed, 23)).permutation(len(source))[:_SOURCE])
    labels = np.asarray(source.labels)[some]
    if len(np.unique(labels)) < 2 or np.bincount(labels).max() < 2:
        raise ArgumentError("unknown needs two classes in the source, one of them with two samples.")
    here, there = compared(source.subset(some)).astype(np.float64), compared(target).astype(np.float64)
    here, there = here - here.mean(0), there - there.mean(0)
    surprise, own = source_entropies(here, labels, there)
    return combine((surprise, unexplained(there, here)), (own, unexplained(here, here, own=True)))


def is_marked(file: Path) -> bool:
    """Whether predictions have the columns of `write_marks`, as those of a run that was finished before."""
    with file.open(newline="", encoding="utf-8") as opened:
        return _COLUMNS[0] in next(csv.reader(opened))


def write_marks(file: Path, found: Unknown) -> None:
    """Add the columns `unknown` and `unknown_score` to predictions."""
    with file.open(newline="", encoding="utf-8") as opened:
        head, *rows = list(csv.reader(opened))
    with replacing(file) as part, part.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow([*head, *_COLUMNS])
        for row, marked, score in zip(rows, found.marked, found.score, strict=True):
            writer.writerow([*row, int(marked), f"{score:.4f}"])
