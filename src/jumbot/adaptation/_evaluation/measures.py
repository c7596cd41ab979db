"""Measures of predictions with known labels: accuracies and the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from jumbot.errors import ArgumentError

UNLABELLED = -1
_SHOWN = 40  # classes that str() lists one by one


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Counts of (true class, predicted class), and what follows from them.

    >>> found = evaluate([0, 1, 1, 0], [0, 1, 0, -1], ["cat", "dog"])
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


def evaluate(outputs: Any, labels: Any, classes: Sequence[str] | int | None = None) -> Evaluation:
    """confusion[t, p] = number of samples of true class t that are predicted as class p.

    Parameters
    ----------
    outputs
        Predicted classes `(n,)` as integers, or probabilities (or logits) `(n, C)`, of which the largest counts.
    labels
        True classes `(n,)`, integers in [0, C); -1 marks a sample without a label, which is left out and counted.
    classes
        Names of the classes, or their number; by default the number of columns of `outputs`.

    >>> print(evaluate([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]], [0, 1, 0], ["cat", "dog"]))
    accuracy 66.7 %, mean over classes 75.0 %, 3 samples
      cat   50.0 % of 2, mostly predicted as dog (1)
      dog  100.0 % of 1
    """
    found = as_array(outputs)
    if found.ndim not in (1, 2):
        raise ArgumentError(f"outputs: shape {found.shape}; pass classes (n,) or probabilities (n, C).")
    names = _names(classes, found)
    if found.ndim == 2:
        if found.shape[1] != len(names):
            raise ArgumentError(f"outputs: {found.shape[1]} columns, but {len(names)} classes; pass one for each.")
        if np.isnan(found).any():
            rows = int(np.isnan(found).any(1).sum())
            raise ArgumentError(f"outputs: NaN in {rows} of {len(found)} rows; the network has diverged.")
        found = found.argmax(1) if len(found) else np.zeros(0, np.int64)
    predictions = _whole(found, "outputs", 0, len(names))
    truth = as_array(labels)
    if truth.shape != predictions.shape:
        raise ArgumentError(f"labels: shape {truth.shape}, but {len(predictions)} outputs; pass one for each.")
    truth = _whole(truth, "labels", UNLABELLED, len(names))
    known = truth != UNLABELLED
    confusion = np.zeros((len(names), len(names)), np.int64)
    np.add.at(confusion, (truth[known], predictions[known]), 1)
    confusion.flags.writeable = False
    return Evaluation(names, confusion, int((~known).sum()))


def as_array(values: Any) -> np.ndarray[Any, Any]:
    """A tensor on any device, an array or nested lists as a numpy array; half precision becomes float32."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype in (torch.float16, torch.bfloat16) else values).numpy()
    return np.asarray(values)


def check_probabilities(values: np.ndarray[Any, Any]) -> None:
    """Refuse anything but distributions over the last axis: NaN, negative numbers, rows that do not sum to one."""
    if np.isnan(values).any():
        raise ArgumentError("probabilities: got NaN; the network has diverged.")
    if values.size and (values.min() < 0 or np.abs(values.sum(-1) - 1).max() > 1e-2):
        raise ArgumentError("probabilities: rows must be >= 0 and sum to 1; apply a softmax to the logits first.")


def _names(classes: Sequence[str] | int | None, outputs: np.ndarray[Any, Any]) -> tuple[str, ...]:
    if classes is None:
        if outputs.ndim != 2:
            raise ArgumentError(
                "classes must be given (names or number): predicted classes alone do not determine them."
            )
        classes = outputs.shape[1]
    if isinstance(classes, int | np.integer):
        return tuple(map(str, range(int(classes))))
    if isinstance(classes, str):
        raise ArgumentError(f"classes: {classes!r} is one string; pass a list of names, or their number.")
    return tuple(map(str, classes))


def _whole(values: np.ndarray[Any, Any], name: str, least: int, end: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    if not len(values):
        return np.zeros(0, np.int64)
    if values.dtype.kind not in "iuf" or (values.dtype.kind == "f" and not np.all(values == np.round(values))):
        raise ArgumentError(f"{name}: {values.dtype} values; pass classes as whole numbers from {least} to {end - 1}.")
    if values.min() < least or values.max() >= end:
        raise ArgumentError(
            f"{name}: values from {values.min():g} to {values.max():g}, but with {end} classes they lie in "
            f"[{least}, {end - 1}]."
        )
    return values.astype(np.int64)
