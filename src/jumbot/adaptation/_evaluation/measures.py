"""Measures of predictions with known labels: accuracies and the confusion matrix; RMSE, MAE and R2 of numbers.

Numbers have no score of their own in `modularity.py`; theirs, which needs no labels, is here too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import wasserstein_distance

from jumbot.errors import ArgumentError

Array = np.ndarray[Any, Any]
UNLABELLED = -1
_SHOWN = 40  # classes that str() lists one by one


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Counts of (true class, predicted class), and what follows from them.

    >>> found = evaluate(np.eye(2)[[0, 1, 1, 0]], np.array([0, 1, 0, -1]), ["cat", "dog"])
    >>> found.accuracy, found.per_class, found.left_out
    (0.666..., (0.5, 1.0), 1)
    """

    classes: tuple[str, ...]
    confusion: np.ndarray[Any, np.dtype[np.int64]]
    """(C, C) counts: rows are the true classes, columns the predicted ones."""
    left_out: int = 0
    """Samples whose label is -1, which are not counted."""

    @property
    def n(self) -> int:
        """Samples that were counted."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """Share of all samples predicted correctly; NaN if no sample has a label."""
        return float(np.trace(self.confusion) / self.n) if self.n else float("nan")

    @property
    def per_class(self) -> tuple[float | None, ...]:
        """Share of each true class predicted correctly; None for a class without a sample."""
        totals = self.confusion.sum(1).tolist()
        return tuple(hit / n if n else None for hit, n in zip(np.diag(self.confusion).tolist(), totals, strict=True))

    @property
    def mean_class_accuracy(self) -> float:
        """Mean of `per_class` over the classes that are present; NaN if no sample has a label."""
        present = [share for share in self.per_class if share is not None]
        return sum(present) / len(present) if present else float("nan")

    def to_json(self) -> dict[str, Any]:
        """Everything as a dictionary for `json.dumps`; None for missing figures."""
        return {
            "n": self.n,
            "left_out": self.left_out,
            "accuracy": self.accuracy if self.n else None,
            "mean_class_accuracy": self.mean_class_accuracy if self.n else None,
            "per_class": list(self.per_class),
            "confusion": self.confusion.tolist(),
            "classes": list(self.classes),
        }

    def __str__(self) -> str:
        without = f" ({self.left_out} without a label of these classes left out)" if self.left_out else ""
        if not self.n:
            return f"no labelled sample{without}"
        lines = [
            f"accuracy {100 * self.accuracy:.1f} %, mean over classes {100 * self.mean_class_accuracy:.1f} %, "
            f"{self.n} samples{without}"
        ]
        if len(self.classes) > _SHOWN:
            return lines[0]
        width = max(map(len, self.classes))
        for row, (name, share) in enumerate(zip(self.classes, self.per_class, strict=True)):
            if share is None:
                lines.append(f"  {name:<{width}}  no sample")
                continue
            line = f"  {name:<{width}}  {100 * share:5.1f} % of {self.confusion[row].sum()}"
            wrong = self.confusion[row].copy()
            wrong[row] = 0
            if wrong.any():
                line += f", mostly predicted as {self.classes[int(wrong.argmax())]} ({wrong.max()})"
            lines.append(line)
        return "\n".join(lines)


def evaluate(outputs: Any, labels: Array, classes: Sequence[str]) -> Evaluation:
    """confusion[t, p] = number of samples of true class t that are predicted as class p.

    Parameters
    ----------
    outputs
        Probabilities or logits `(n, C)`, of which the largest counts.
    labels
        True classes `(n,)`, integers in [0, C); -1 marks a sample without a label, which is left out and counted.
    classes
        Names of the C classes.

    >>> print(evaluate([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]], np.array([0, 1, 0]), ["cat", "dog"]))
    accuracy 66.7 %, mean over classes 75.0 %, 3 samples
      cat   50.0 % of 2, mostly predicted as dog (1)
      dog  100.0 % of 1
    """
    found = as_array(outputs)
    if found.shape != (len(labels), len(classes)):
        raise ArgumentError(
            f"outputs: shape {found.shape}, but {len(labels)} labels and {len(classes)} classes; pass (n, C)."
        )
    if np.isnan(found).any():
        rows = int(np.isnan(found).any(1).sum())
        raise ArgumentError(f"outputs: NaN in {rows} of {len(found)} rows; the network has diverged.")
    known = labels != UNLABELLED
    confusion = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(confusion, (labels[known], found.argmax(1)[known]), 1)
    confusion.flags.writeable = False
    return Evaluation(tuple(classes), confusion, int((~known).sum()))


def as_array(values: Any) -> Array:
    """A tensor on any device, an array or nested lists as a numpy array; half precision becomes float32."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype in (torch.float16, torch.bfloat16) else values).numpy()
    return np.asarray(values)


def total_variation(p: Any, q: Any) -> float:
    """(1/2) sum |p - q| of two proportions."""
    return float(np.abs(np.subtract(p, q)).sum() / 2)


def check_probabilities(values: Array) -> None:
    """Refuse anything but distributions over the last axis: NaN, negative numbers, rows that do not sum to one."""
    if np.isnan(values).any():
        raise ArgumentError("probabilities: got NaN; the network has diverged.")
    if values.size and (values.min() < 0 or np.abs(values.sum(-1) - 1).max() > 1e-2):
        raise ArgumentError("probabilities: rows must be >= 0 and sum to 1; apply a softmax to the logits first.")


@dataclass(frozen=True)
class RegressionEvaluation:
    """`rmse` and `mae` in the units of the labels, means over the outputs where there are several; R2 as well."""

    rmse: float
    mae: float
    r2: float | None
    """1 - mean squared error / variance of the labels; None where these are all equal."""
    n: int
    left_out: int = 0
    """Samples without a label."""
    per_output: tuple[tuple[float, float, float | None], ...] = ()
    """(rmse, mae, r2) of each output."""
    names: tuple[str, ...] = ()
    """Of the outputs, where there are several."""

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        named: list[dict[str, Any]] = [dict(zip(("rmse", "mae", "r2"), one, strict=True)) for one in self.per_output]
        for one, name in zip(named, self.names, strict=False):
            one["name"] = name
        return {
            "rmse": self.rmse,
            "mae": self.mae,
            "r2": self.r2,
            "n": self.n,
            "left_out": self.left_out,
            "per_output": named,
        }

    def __str__(self) -> str:
        without = f" ({self.left_out} without a label left out)" if self.left_out else ""
        if not self.n:
            return f"no labelled sample{without}"
        lines = [f"{_figures(self.rmse, self.mae, self.r2)}, {self.n} samples{without}"]
        if len(self.per_output) > 1:
            names = self.names or tuple(f"output {i}" for i in range(1, len(self.per_output) + 1))
            lines += [f"  {name}: {_figures(*one)}" for name, one in zip(names, self.per_output, strict=True)]
        return "\n".join(lines)


def evaluate_numbers(predictions: Any, values: Any, names: tuple[str, ...] = ()) -> RegressionEvaluation:
    """RMSE, MAE and R2 of predictions `(n, outputs)` and true values, NaN where one is not known.

    >>> print(evaluate_numbers([[1.0], [2.0], [4.0]], [[1.0], [2.0], [3.0]]))
    RMSE 0.5774, MAE 0.3333, R2 0.500, 3 samples
    """
    found, truth = as_array(predictions).astype(np.float64), as_array(values).astype(np.float64)
    if found.shape != truth.shape or found.ndim != 2:
        raise ArgumentError(f"values: shape {truth.shape}, but predictions of {found.shape}; pass (n, outputs) both.")
    if not np.isfinite(found).all():
        raise ArgumentError("predictions: not all are finite; the network has diverged.")
    known = ~np.isnan(truth).any(1)
    left_out = int((~known).sum())
    if not known.any():
        return RegressionEvaluation(math.nan, math.nan, None, 0, left_out)
    found, truth = found[known], truth[known]
    squares, sizes, spread = ((found - truth) ** 2).mean(0), np.abs(found - truth).mean(0), truth.var(0)
    each = tuple(
        (math.sqrt(square), float(size), 1 - float(square / var) if var > 0 else None)
        for square, size, var in zip(squares, sizes, spread, strict=True)
    )
    r2 = [one[2] for one in each]
    mean = None if any(one is None for one in r2) else float(np.mean(np.array(r2, float)))
    rmse, mae = (float(np.mean([one[i] for one in each])) for i in (0, 1))
    return RegressionEvaluation(rmse, mae, mean, int(known.sum()), left_out, each, names)


def smoothness(predictions: Any, neighbours: Any) -> float:
    r"""Moran's I of predicted numbers along a graph of neighbours: 1 where neighbours agree, about 0 at random.

    .. math:: \frac{\frac1{nk} \sum_i \sum_{j \in N(i)} \langle f_i - \bar f, f_j - \bar f\rangle}
        {\frac1n \sum_i \|f_i - \bar f\|^2}

    A constant prediction scores 0.  A smooth but wrong prediction is not detected.

    >>> round(smoothness([[0.0], [0.1], [5.0], [5.1]], [[1], [0], [3], [2]]), 2)
    1.0
    """
    f, graph = as_array(predictions).astype(np.float64), as_array(neighbours)
    centred = f - f.mean(0)
    total = float((centred**2).sum(1).mean())
    if not total > 1e-20:
        return 0.0
    return float((centred[:, None] * centred[graph]).sum(-1).mean()) / total


def _figures(rmse: float, mae: float, r2: float | None) -> str:
    return f"RMSE {rmse:.4g}, MAE {mae:.4g}" + ("" if r2 is None else f", R2 {r2:.3f}")


UNKNOWN = 0.75
"""The gap of source-only, in standard deviations, above which it cannot be determined without labels whether adaptation
helps: it does harm if the target's numbers differ, and helps if its inputs have moved.
"""


@dataclass(frozen=True)
class NumberEvidence:
    """The score of a candidate: how far it agrees with the others, and how far its numbers are distributed like the
    source's.
    """

    agreement: float
    """1 - mean squared distance to the mean of the candidates, in variances of the source's numbers."""
    gap: float
    """Wasserstein distance between predicted numbers and the source's, in deviations of these."""
    smoothness: float
    """Moran's I among the neighbours of the target, to compare with."""

    @property
    def value(self) -> float:
        """agreement - gap: the candidate with the largest is picked."""
        return self.agreement - self.gap

    def to_row(self) -> dict[str, float]:
        """Columns of the table of candidates."""
        return {"evidence": self.value, **asdict(self)}

    def words(self) -> str:
        """The score with its parts, for messages."""
        return f"{self.value:.3f} (agreement {self.agreement:.3f} - gap {self.gap:.3f})"


def weigh_numbers(predictions: Mapping[str, Any], source: Any, neighbours: Any) -> dict[str, NumberEvidence]:
    r"""The score of each of several candidates.

    .. math::
        \mathrm{evidence}_k = 1 - \frac1n \sum_i \frac{(f_{ki} - \bar f_i)^2}{\sigma^2}
        - \frac{W_1(f_k, y)}{\sigma}, \qquad \bar f_i = \frac1K \sum_l f_{li}

    with predictions `f_k` `(n, outputs)` of the same target samples by candidate, the source's numbers `y` `(m,
    outputs)` and their deviation sigma; a mean over the outputs.  Like transport, it assumes that numbers have the same
    distribution in both domains.  A candidate that predicts only the mean has a gap of about .8.

    >>> y = np.linspace(0, 1, 50)[:, None]
    >>> found = weigh_numbers({"a": y, "b": y, "constant": 0 * y + 0.5}, y, np.arange(50)[:, None])
    >>> {name: round(each.value, 2) for name, each in found.items()}
    {'a': 0.89, 'b': 0.89, 'constant': -0.31}
    """
    values = as_array(source).astype(np.float64)
    found = {name: as_array(f).astype(np.float64) for name, f in predictions.items()}
    if not found or len({f.shape for f in found.values()} | {(len(f), values.shape[1]) for f in found.values()}) > 1:
        shapes = ", ".join(f"{name} {f.shape}" for name, f in found.items()) or "none"
        raise ArgumentError(
            f"predictions: {shapes}; pass (n, {values.shape[1]}) of the same samples for each candidate."
        )
    deviation = values.std(0)
    deviation[deviation == 0] = 1.0
    mean = np.mean(list(found.values()), axis=0)
    return {
        name: NumberEvidence(
            1 - float((((f - mean) / deviation) ** 2).mean()),
            float(
                np.mean([wasserstein_distance(f[:, k], values[:, k]) / deviation[k] for k in range(values.shape[1])])
            ),
            smoothness(f / deviation, neighbours),
        )
        for name, f in found.items()
    }
