"""Choosing a model without target labels: scores of its outputs, each with a direction and a blind spot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jumbot._base.options import check_word
from jumbot.adaptation._evaluation.measures import as_array, check_probabilities
from jumbot.data._domain import drawn_rows
from jumbot.errors import ArgumentError

Array = np.ndarray[Any, np.dtype[np.float64]]
LAST = "last"
_CHUNK = 512  # rows of the similarity matrix at once


@dataclass(frozen=True)
class Score:
    """The quantity of a selection rule, and which direction is better."""

    name: str
    higher_is_better: bool
    help: str

    def read(self, record: Mapping[str, Any]) -> float:
        """This score of an evaluation record; NaN if the record does not contain it."""
        truth = record.get("r2") if record.get("accuracy") is None else record["accuracy"]
        value = truth if self.name == "oracle" else record.get("scores", {}).get(self.name)
        return math.nan if value is None else float(value)


def entropy(probabilities: Any) -> float:
    """(1/n) sum_i H(p_i) with H(p) = -sum_c p_c log p_c.  Lower is better.

    Blind to collapse: a network that gives every sample the same confident class scores 0, the best value.

    >>> entropy([[0.5, 0.5], [1.0, 0.0]])
    0.346...
    """
    return float(_entropies(_distributions(probabilities)).mean())


def infomax(probabilities: Any) -> float:
    """H((1/n) sum_i p_i) - (1/n) sum_i H(p_i), the mutual information of sample and prediction.  Higher is better.

    The first term guards against collapse by rewarding *equal* predicted proportions.  So it fails on an imbalanced
    target: with true proportions q the perfect predictor scores H(q) < log C, and a worse one that spreads its
    predictions over all classes scores up to log C.

    >>> infomax([[1.0, 0.0], [0.0, 1.0]])
    0.693...
    """
    p = _distributions(probabilities)
    return float(_entropies(p.mean(0, keepdims=True))[0] - _entropies(p).mean())


def snd(probabilities: Any, *, temperature: float = 0.05, most: int = 5_000, seed: int = 0) -> float:
    """Soft neighbourhood density: (1/n) sum_i H(w_i).  Higher is better.

    w_ij = exp(s_ij / temperature) / sum_{k != i} exp(s_ik / temperature) for j != i, where s_ij is the cosine of the
    softmax outputs p_i and p_j (Saito et al., ICCV 2021): dense neighbourhoods spread w_i over many samples.  Above
    `most` samples a subset drawn from `seed` is used, because the score grows with log n and costs n^2; memory is
    limited to 512 rows.  Blind to collapse: equal outputs score log(n - 1), the best value.

    >>> snd([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    0.693...
    """
    p = _distributions(probabilities)
    if not temperature > 0:
        raise ArgumentError(f"temperature: {temperature!r}; it must be positive.")
    if most < 2:
        raise ArgumentError(f"most: {most!r}; at least 2 samples are needed.")
    if len(p) < 2:
        return math.nan
    p = p[drawn_rows(len(p), most, seed)]
    p = p / np.linalg.norm(p, axis=1, keepdims=True)
    total = 0.0
    for start in range(0, len(p), _CHUNK):
        rows = p[start : start + _CHUNK]
        # cosines are at most 1, so (s - 1) / temperature cannot overflow, and the constant cancels in w
        logits = (rows @ p.T - 1) / temperature
        weights = np.exp(logits)
        own = np.arange(len(rows))
        weights[own, start + own] = 0
        norm = weights.sum(1)
        total += float((np.log(norm) - np.einsum("ij,ij->i", weights, logits) / norm).sum())
    return total / len(p)


SCORES: dict[str, Score] = {
    score.name: score
    for score in (
        Score("entropy", False, "mean entropy of the target predictions; misled by collapse to few classes"),
        Score("infomax", True, "entropy of the mean prediction minus mean entropy; misled by imbalanced targets"),
        Score("snd", True, "soft neighbourhood density of the target predictions; misled by collapse"),
        Score(
            "smoothness", True, "of predicted numbers: neighbours in the target agree; blind to what is smoothly wrong"
        ),
        Score("source_validation", True, "accuracy, or R2, on held-out source samples; blind to the target"),
        # never <C, P> alone, which falls when mass is destroyed
        Score("transport", False, "mean full unbalanced transport value between source and target minibatches"),
        Score("oracle", True, "accuracy, or R2, from the target labels: an upper bound for study, not a rule for use"),
    )
}
RULES: dict[str, str] = {LAST: "the last iterate"} | {name: score.help for name, score in SCORES.items()}


def best(history: Sequence[Mapping[str, Any]], rule: str = LAST) -> int:
    """The step whose evaluation is best by `rule`; of equal ones the later is chosen, NaN or missing scores never are.

    `history` holds the records of `metrics.jsonl`; other events are ignored.

    >>> found = {10: 0.5, 20: 0.3, 30: 0.3}
    >>> best([{"step": step, "scores": {"entropy": value}} for step, value in found.items()], "entropy")
    30
    """
    check_word("select", rule, RULES)
    records = [record for record in history if record.get("event", "evaluation") == "evaluation"]
    if not records:
        raise ArgumentError("history: it contains no evaluation, so no step can be chosen.")
    if rule == LAST:
        return int(records[-1]["step"])
    score = SCORES[rule]
    sign = 1 if score.higher_is_better else -1
    chosen, top = None, -math.inf
    for record in records:
        value = sign * score.read(record)
        if math.isfinite(value) and value >= top:
            chosen, top = record, value
    if chosen is None:
        why = "it needs target labels" if rule == "oracle" else "it is missing or not finite in all of them"
        raise ArgumentError(f"select: none of the {len(records)} evaluations has the score {rule!r}: {why}.")
    return int(chosen["step"])


def scores(
    probabilities_target: Any, source_accuracy: float | None = None, transport_value: float | None = None
) -> dict[str, float]:
    """Every label-free score that these inputs allow, by the names of `SCORES`.

    >>> sorted(scores([[0.9, 0.1], [0.2, 0.8]], source_accuracy=0.95))
    ['entropy', 'infomax', 'snd', 'source_validation']
    """
    p = _distributions(probabilities_target)
    found = {"entropy": entropy(p), "infomax": infomax(p), "snd": snd(p)}
    if source_accuracy is not None:
        found["source_validation"] = float(source_accuracy)
    if transport_value is not None:
        found["transport"] = float(transport_value)
    return found


def _distributions(probabilities: Any) -> Array:
    p = as_array(probabilities)
    if p.ndim != 2 or not p.size:
        raise ArgumentError(f"probabilities: shape {p.shape}; pass (n, C) with at least one sample.")
    p = p.astype(np.float64, copy=False)
    check_probabilities(p)
    return p


def _entropies(p: Array) -> Array:
    return -np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0).sum(-1)
