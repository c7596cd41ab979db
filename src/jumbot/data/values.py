"""Labels that are numbers to predict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from jumbot.data._remarks import remark
from jumbot.data.column_kinds import number_in
from jumbot.data.domain import Domain
from jumbot.data.reading import TaskName
from jumbot.errors import ArgumentError

_MANY = 50  # different whole numbers above which labels, most of them rare, may be meant as quantities
_RARE = 10  # samples of a class, below which it is rare


def encode_values(values: Any, name: str = "labels") -> np.ndarray:
    """float64 `(n, outputs)`; NaN where a value is missing (None, NaN, "").

    >>> encode_values([1.5, None, "2"]).tolist()
    [[1.5], [nan], [2.0]]
    """
    array = np.asarray(values)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not array.shape[1]:
        raise ArgumentError(f"{name}: labels of shape {array.shape}; give one number per sample, or a row of numbers.")
    if array.dtype.kind not in "fiub":
        array = np.array([[_number(value, name) for value in row] for row in array.tolist()])
    found = array.astype(np.float64)
    infinite = np.flatnonzero(np.isinf(found).any(1))
    if infinite.size:
        raise ArgumentError(f"{name}: the label of row {infinite[0]} is infinite; drop or correct such rows.")
    return found


def guess_task(values: Any, name: str) -> TaskName:
    """ "regression" where labels have fractions, which no class has; a warning says what was guessed.

    Many whole numbers, most of them rare, may be meant either way and are refused.
    """
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] > 1:
        one_hot = np.isin(array, (0, 1)).all() and (array.astype(float).sum(1) == 1).all()
        several = "several numbers per sample are predicted with task='regression'"
        how = "give y.argmax(1), one class per sample" if one_hot else several
        raise ArgumentError(f"{name}: labels of shape {array.shape}; {how}.")
    numbers = _plain_numbers(array)
    if numbers is None:
        return "classification"
    present = numbers[np.isfinite(numbers)]
    fractions = present[present % 1 != 0]
    if fractions.size:
        remark(
            f"{name}: labels have fractions ({fractions[0]:g}, ...), so that numbers are predicted and not classes; "
            "say task='regression' (--task regression) to confirm it.",
            stacklevel=3,
        )
        return "regression"
    sizes = np.unique(present, return_counts=True)[1]
    if len(sizes) > _MANY and np.median(sizes) < _RARE:
        raise ArgumentError(
            f"{name}: {len(sizes)} different whole numbers as labels of {len(present)} samples, most of them rare: is "
            "this a number to predict? Say task='regression' (--task regression), or task='classification' (--task "
            "classification) if each of them is a class.",
            remedy={"task": "regression"},
        )
    return "classification"


def as_numbers(domain: Domain) -> Domain:
    """`domain` with the names of its classes as numbers to predict: folders named after ages, digits.

    >>> from jumbot.data.domain import ArraySamples
    >>> faces = Domain("faces", ArraySamples(np.zeros((3, 2))), np.array([1, 0, -1]), ("30", "41"))
    >>> as_numbers(faces).values.tolist()
    [[41.0], [30.0], [nan]]
    """
    if domain.labels is None:
        return domain
    values = [_number(name, domain.name) for name in domain.classes]
    return replace(domain, labels=None, classes=(), values=np.array([*values, np.nan])[domain.labels][:, None])


def _plain_numbers(array: np.ndarray) -> np.ndarray | None:
    """The labels as float64, if all of them are numbers and none is text."""
    if array.dtype.kind in "fiu":
        return array.astype(np.float64).ravel()
    if array.dtype == object:
        items = [np.nan if value is None else value for value in array.ravel().tolist()]
        if items and all(isinstance(value, int | float) and not isinstance(value, bool) for value in items):
            return np.array([number_in(value) for value in items], np.float64)
    return None


def _number(value: Any, name: str) -> float:
    if value is None or str(value).strip() == "":
        return np.nan
    found = number_in(value)
    if found is None:
        raise ArgumentError(f"{name}: the label {value!r} came in; task='regression' predicts numbers.")
    return found
