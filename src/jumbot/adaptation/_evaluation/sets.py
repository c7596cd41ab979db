"""Prediction sets: sets of classes, and intervals of numbers, with a given coverage.

They rest on one assumption: labels move with the features, so a target sample has the labels of the source samples that
it is matched with.  A class is excluded if two methods agree:

- split conformal prediction under a shift: scores of held-out source samples, each weighted by the mass that the plan
  moves from it to the target in the adapted embedding and by the class proportions found;
- the model's probabilities on the target, rescaled so that the mean confidence equals the estimated accuracy: the sets
have the requested total probability, and half of the permitted error is reserved for the error of that estimate.

Weights alone do not cover if the target is harder than any part of the source: on tables, text and sensors they covered
less often than equal weights (docs/adaptation/sets.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.adaptation._evaluation.accuracy import Calibration
from jumbot.adaptation._evaluation.votes import Witness
from jumbot.cost import squared_euclidean
from jumbot.errors import ArgumentError
from jumbot.transport._solve import solve

Array = np.ndarray[Any, Any]
LEAST_MOVED = 0.5
"""The least mass moved to the target, relative to the mass moved within the source, for which anything is promised."""
MOST_UNKNOWN = 0.1
"""The largest share of the target that is marked as unknown."""
_EPSILON, _PRICES = 0.05, (0.5, 1.0)  # in units of the median squared distance; of the source's mass, of the target's
_MOST = 1000  # samples of each side in a plan
_RATIO = 10.0  # of class proportions, at most
#: Share of the permitted error for the model's own probabilities: found on six families of data, each left out in turn.
_SPENT = 0.5
_LARGEST = 1.25  # size of promised sets relative to plain split conformal's
_POINTS = 1000  # of the curve of expected coverage


@dataclass(frozen=True, eq=False)
class Guarantee:
    """What a model keeps of the held-out source, to decide which answers cannot be excluded."""

    scores: Array
    """(n, outputs) of held-out samples: 1 - the probability of their class, or how far a number is off."""
    weights: Array
    """(n,) the weight of each for the target."""
    moved: float
    """Mass that the plan moves to the target, over what it moves between parts of the held-out source."""
    curve: Array
    """(3, k) thresholds of the score, the coverage of the target that the model's probabilities expect of each, and the
    mean size of the sets there; (3, 0) for numbers, and where the accuracy on the target could not be estimated. Models
    of earlier versions, without sizes, have two rows."""
    strange: float
    """Received mass below which a sample is unknown."""

    kind: int = 0
    """0: classes, 1: numbers."""

    def why_not(self, coverage: float) -> str:
        """Why nothing is promised; empty if something is."""
        if self.moved < LEAST_MOVED:
            return (
                f"the plan moves {100 * self.moved:.0f} % of the mass to the target that it moves inside the source: "
                "too much of the target has no counterpart"
            )
        if self.kind:
            return ""
        if not self.curve.size:
            return "the accuracy on the target cannot be estimated"
        if self._limited(coverage) is None:
            return "on the target, the sets are expected to cover less unless they are several times larger"
        return ""

    def thresholds(self, coverage: float) -> Array:
        """(outputs,) the scores up to which an answer cannot be excluded; infinite if there are too few samples."""
        found = np.array([weighted_quantile(column, self.weights, coverage) for column in self.scores.T])
        if not self.curve.size:
            return found
        limited = self._limited(coverage)
        return np.maximum(found, self._asked(coverage) if limited is None else limited)

    def _asked(self, coverage: float) -> float:
        """The threshold at which the model's probabilities expect the coverage, and half of the misses in reserve."""
        place = int(np.searchsorted(self.curve[1], 1 - _SPENT * (1 - coverage) - 1e-9))
        return float(self.curve[0, place]) if place < self.curve.shape[1] else 1.0

    def _limited(self, coverage: float) -> float | None:
        """The same with sets little larger than those of plain split conformal; None where they would cover less."""
        asked = self._asked(coverage)
        if len(self.curve) < 3:  # a model of an earlier version, without sizes
            return asked
        plain = max(
            weighted_quantile(self.scores[:, 0], w, coverage) for w in (np.ones(len(self.scores)), self.weights)
        )
        usual = np.interp(min(plain, 1.0), self.curve[0], self.curve[2])
        within = np.flatnonzero(self.curve[2] <= _LARGEST * usual)
        found = max(min(asked, float(self.curve[0, within[-1]]) if len(within) else 0.0), min(plain, asked))
        expected = float(np.interp(found, self.curve[0], self.curve[1]))
        return found if expected >= coverage - 1e-9 else None

    def to_tensors(self) -> dict[str, Tensor]:
        """For the file of a model."""
        facts = torch.tensor([self.moved, self.strange, float(self.kind)], dtype=torch.float64)
        arrays = {"scores": self.scores, "weights": self.weights, "curve": self.curve}
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()} | {
            "facts": facts
        }

    @classmethod
    def from_tensors(cls, found: Mapping[str, Tensor], where: Any) -> Guarantee | None:
        """The inverse of `to_tensors`; None for a file of an earlier version without it."""
        if not found:
            return None
        names = ("scores", "weights", "curve", "facts")
        scores, weights, curve, facts = (found.get(name, torch.empty(0)) for name in names)
        fits = scores.ndim == 2 and len(scores) and weights.shape == scores.shape[:1] and facts.shape == (3,)
        if not fits or set(found) != set(names) or curve.ndim != 2 or not bool(weights.isfinite().all()):
            raise ArgumentError(f"{where}: guarantee: is damaged; save the model again.")
        moved, strange, kind = facts.tolist()
        kept, weighed, expected = (one.double().numpy() for one in (scores, weights, curve))
        return cls(kept, weighed, moved, expected, strange, int(kind))


@dataclass(frozen=True, eq=False)
class PredictionSets:
    """What `Model.predict_set` returns.

    Attributes
    ----------
    sets : list of frozenset, or array
        The classes of each sample that cannot be excluded, in the type of the labels; of numbers an array `(n, 2)`, or
        `(n, outputs, 2)`, of the ends of the intervals.
    unknown : array of bool
        Samples that nothing in the source explains; nothing is promised for them.
    coverage : float
        The requested coverage.
    promise : str
        What the sets promise, or why they promise nothing.
    promised : bool
        Whether they promise anything.
    """

    sets: Any
    unknown: Array
    coverage: float
    promise: str
    promised: bool

    @property
    def sizes(self) -> Array:
        """(n,) classes in each set; of numbers, the lengths of the intervals."""
        if isinstance(self.sets, np.ndarray):
            found: Array = self.sets[..., 1] - self.sets[..., 0]
            return found
        return np.array([len(one) for one in self.sets])


def weighted_quantile(scores: Array, weights: Array, level: float) -> float:
    """The smallest score q with sum of w_i over s_i <= q at least `level` of all weights and that of one more sample.

    The additional one has the weight of a sample drawn by weight, sum w^2 / sum w.  With equal weights this is the
    ceil((n + 1) level)-th smallest score of split conformal prediction; infinite where there is none.

    >>> weighted_quantile(np.array([0.1, 0.2, 0.3, 0.4]), np.ones(4), 0.8)
    0.4
    >>> weighted_quantile(np.array([0.1, 0.2, 0.3, 0.4]), np.ones(4), 0.9)
    inf
    """
    total = float(weights.sum())
    if not total > 0:
        return math.inf
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weights[order])
    needed = level * (total + float((weights**2).sum()) / total)
    place = int(np.searchsorted(reached, needed - 1e-9 * total))
    return float(scores[order[place]]) if place < len(scores) else math.inf


def learn_guarantee(
    witness: Witness,
    calibration: Calibration | None,
    shares: Array | None,
    target: Array | None,
    strange: float,
) -> Guarantee | None:
    """Made from the outputs of networks that did not see the held-out samples, on these and on the target.

    `calibration` turns logits into probabilities as the model does, None for numbers; `shares` are those of the classes
    in the target, and `target` the model's probabilities there, None if their mean confidence is not an estimate of the
    accuracy.  Returns None if embeddings were not kept.
    """
    if not witness.held_z:
        return None
    ratio = np.ones(len(witness.labels))
    if calibration is None:
        scores = np.abs(witness.held - witness.labels)
    else:
        q = _probabilities(calibration, witness.held)
        scores = 1 - q[np.arange(len(q)), witness.labels][:, None]
        if shares is not None:
            known = np.divide(shares, witness.shares, out=np.zeros(len(shares)), where=witness.shares > 0)
            ratio = np.clip(known, 1 / _RATIO, _RATIO)[witness.labels]
    weights, moved, start = np.zeros(len(scores)), [], 0
    for number, (z, there) in enumerate(zip(witness.held_z, witness.target_z, strict=True)):
        part = slice(start, start + len(z))
        groups = None if calibration is None else witness.labels[part]
        weights[part], share = plan_weights(z, there, ratio[part], groups, number)
        moved.append(share)
        start += len(z)
    curve = np.zeros((3, 0)) if target is None else expected_coverage(target)
    return Guarantee(scores, weights, float(np.mean(moved)), curve, strange, int(calibration is None))


def expected_coverage(probabilities: Array) -> Array:
    """(3, k): thresholds of 1 - p, the mean probability of the classes up to each, with the likeliest in any case, and
    the mean number of these classes.

    >>> expected_coverage(np.array([[0.75, 0.25]])).round(2).tolist()
    [[0.25, 0.75], [0.75, 1.0], [1.0, 2.0]]
    """
    scores = np.sort(np.unique(1 - probabilities))
    if len(scores) > _POINTS:
        scores = np.unique(np.quantile(scores, np.linspace(0, 1, _POINTS), method="higher"))
    best = probabilities.max(1).mean()
    top = np.zeros(probabilities.shape, bool)
    top[np.arange(len(top)), probabilities.argmax(1)] = True
    others, order = probabilities[~top], np.argsort(1 - probabilities[~top], kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(others[order])]) / len(probabilities)
    count = np.searchsorted(1 - others[order], scores + 1e-12, side="right")
    return np.stack([scores, best + sums[count], 1 + count / len(probabilities)])


def _probabilities(calibration: Calibration | None, logits: Array) -> Array:
    assert calibration is not None
    found: Array = calibration.scores(torch.from_numpy(logits), "target").softmax(-1).numpy()
    return found


def plan_weights(
    held: Array, target: Array, ratio: Array, groups: Array | None = None, seed: int = 0
) -> tuple[Array, float]:
    """((n,) weights of held-out samples of mean 1, mass moved to the target over mass moved between their halves).

    The plan between the samples, weighted by `ratio`, and the target, at the cost of squared distances in units of
    their median among held-out samples; mass that is expensive to move is left.  Labels play no role: a plan that used
    predictions would prefer correctly predicted held-out samples.  Samples beyond a thousand get the mean weight of
    their group.
    """
    rng = np.random.default_rng((seed, 21))
    here, there = (np.sort(rng.permutation(len(rows))[:_MOST]) for rows in (held, target))
    x, y = (torch.from_numpy(np.asarray(rows[some], np.float64)) for rows, some in ((held, here), (target, there)))
    own = squared_euclidean(x, x).numpy()
    scale = float(np.median(own[np.triu_indices(len(own), 1)])) if len(own) > 1 else 1.0
    scale = scale if scale > 0 else 1.0

    def solved(costs: Array, a: Array) -> tuple[Array, float]:
        plan = solve(costs, a / a.sum(), epsilon=_EPSILON, tau=_PRICES, tol=1e-4).plan
        found: Array = plan.sum(1)
        return found, float(plan.sum())

    a = np.maximum(ratio[here], 1e-6)
    given, mass = solved(squared_euclidean(x, y).numpy() / scale, a)
    halves = np.array_split(rng.permutation(len(here)), 2)
    _, between = solved(own[np.ix_(*halves)] / scale, np.ones(len(halves[0])))
    weights = np.zeros(len(held))
    weights[here] = given
    rest = np.setdiff1d(np.arange(len(held)), here)
    if len(rest):
        groups = np.zeros(len(held), int) if groups is None else groups
        means = {c: given[groups[here] == c].mean() if (groups[here] == c).any() else given.mean() for c in set(groups)}
        weights[rest] = [means[c] for c in groups[rest]]
    return weights / max(float(weights.mean()), 1e-300), min(mass / max(between, 1e-300), 1.0)


def members(names: Array) -> list[Any]:
    """The classes as members of sets: Python's values, but for times, of which only NumPy's have every unit."""
    return list(names) if names.dtype.kind in "mM" else names.tolist()


def class_sets(probabilities: Array, threshold: float, names: Array) -> list[frozenset[Any]]:
    """The classes whose score 1 - p is at most `threshold`, and always the likeliest."""
    inside = 1 - probabilities <= threshold + 1e-12
    inside[np.arange(len(inside)), probabilities.argmax(1)] = True
    values = members(names)
    return [frozenset(values[c] for c in np.flatnonzero(row)) for row in inside]


def promise_of(guarantee: Guarantee, coverage: float) -> str:
    """What is promised, in one sentence."""
    if why_not := guarantee.why_not(coverage):
        return f"no promise: {why_not}"
    what = "intervals" if guarantee.kind else "sets"
    return (
        f"{100 * coverage:.0f} % of the {what} hold the truth where labels move with the features, among samples that "
        "are not unknown"
    )
