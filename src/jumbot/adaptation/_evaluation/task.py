"""The task, classes or numbers: labels for training, outputs in the user's words or units, metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from jumbot._settings.reading import TaskName
from jumbot.adaptation._evaluation.measures import Evaluation, RegressionEvaluation, evaluate, evaluate_numbers
from jumbot.data._domain import Domain, Label


@dataclass(frozen=True)
class Classification:
    """One of several classes.

    >>> Classification(("cat", "dog")).outputs, Classification(("3", "5")).names()
    (2, array([3, 5]))
    >>> Classification(("01", "1")).names()
    array(['01', '1'], dtype='<U2')
    >>> Classification(("False", "True")).names()
    array([False,  True])
    >>> Classification(("3", "5"), "<U1").names(), Classification(("3", "5"), "<f8").names()
    (array(['3', '5'], dtype='<U1'), array([3., 5.]))
    """

    classes: tuple[str, ...]
    dtype: str | None = None
    """The numpy dtype of the given labels; None for text from a file."""
    given: tuple[Label, ...] = ()
    """Each class as it was given, where its name does not say that; else empty."""
    name: ClassVar[TaskName] = "classification"
    label_loss: ClassVar[str] = "cross-entropy"
    metric: ClassVar[str] = "accuracy"

    @property
    def outputs(self) -> int:
        """Width of the network's output."""
        return len(self.classes)

    def labels(self, domain: Domain) -> np.ndarray:
        """Labels for training: int64 `(n,)`."""
        assert domain.labels is not None
        return domain.labels

    def names(self) -> np.ndarray:
        """The classes as an array of the type of the labels.

        Of labels from files: numbers where all are whole numbers as Python writes them, so not "01" or "1_0", and truth
        values where they are False and True.
        """
        kind = None if self.dtype is None else np.dtype(self.dtype).kind
        if kind in ("U", "S", "O"):
            given = [name.encode() for name in self.classes] if kind == "S" else list(self.given or self.classes)
            if kind == "O":
                return np.array(given, dtype=object)
            found = np.array(given)
            return found.astype(np.result_type(found, np.dtype(self.dtype)))
        if kind in ("i", "u", "f"):
            return np.array([float(name) if kind == "f" else int(name) for name in self.classes], self.dtype)
        if kind in ("m", "M") and all(isinstance(units, int) for units in self.given):
            return np.array(self.given, np.int64).view(np.dtype(self.dtype))
        if self.classes == ("False", "True"):
            return np.array([False, True])
        try:
            numbers = [int(name) for name in self.classes]
        except ValueError:
            return np.array(self.classes)
        return np.array(numbers if tuple(map(str, numbers)) == self.classes else self.classes)

    def decode(self, outputs: Tensor) -> np.ndarray:
        """The class of each row."""
        return self.names()[outputs.argmax(-1).numpy()]

    def evaluate(self, outputs: Tensor, domain: Domain) -> Evaluation:
        """Accuracies of logits, or of probabilities."""
        assert domain.labels is not None
        return evaluate(outputs, domain.labels, self.classes)


@dataclass(frozen=True)
class Regression:
    """One number or several, standardised by the source's mean and standard deviation for the network.

    >>> task = Regression.of(np.array([[100.0], [300.0]]))
    >>> task.mean, task.std
    ((200.0,), (100.0,))
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    label_loss: str = "squared"
    names: tuple[str, ...] = ()
    """Names of the columns of several numbers, if they have any."""
    name: ClassVar[TaskName] = "regression"
    metric: ClassVar[str] = "r2"
    classes: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, values: np.ndarray, label_loss: str = "squared", names: tuple[str, ...] = ()) -> Regression:
        """With the units of these `(n, outputs)`; a constant number keeps its unit."""
        std = values.std(0)
        std[std <= 1e-12 * np.abs(values).max(0)] = 1.0
        return cls(tuple(values.mean(0).tolist()), tuple(std.tolist()), label_loss, names)

    @property
    def outputs(self) -> int:
        """How many numbers."""
        return len(self.mean)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of several numbers, from their columns or counted from 1; none for one number."""
        if self.outputs == 1:
            return ()
        return self.names or tuple(str(i + 1) for i in range(self.outputs))

    def labels(self, domain: Domain) -> np.ndarray:
        """Labels for training: float32 `(n, outputs)` of mean 0 and deviation 1 on the source."""
        assert domain.values is not None
        return ((domain.values - np.array(self.mean)) / np.array(self.std)).astype(np.float32)

    def decode(self, outputs: Tensor) -> np.ndarray:
        """In the units of the source: `(n,)` for one number, otherwise `(n, outputs)`."""
        values: np.ndarray = outputs.double().numpy() * np.array(self.std) + np.array(self.mean)
        return values[:, 0] if self.outputs == 1 else values

    def evaluate(self, outputs: Tensor, domain: Domain) -> RegressionEvaluation:
        """RMSE, MAE and R2 in the units of the labels."""
        return evaluate_numbers(self.decode(outputs).reshape(-1, self.outputs), domain.values, self.output_names)


Task = Classification | Regression


def task_of(source: Domain, label_loss: str = "squared") -> Task:
    """The task given by the labels of a source."""
    if source.values is not None:
        label = None if source.roles is None else source.roles.label
        names = tuple(part.strip() for part in (label or "").split(","))
        return Regression.of(source.values, label_loss, names if len(names) == source.values.shape[1] > 1 else ())
    own = source.given_labels
    given = tuple(own.get(name, name) for name in source.classes) if own else ()
    return Classification(source.classes, source.label_dtype, given)
