"""Arrays and tensors as domains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from jumbot.data.domain import ArraySamples, Domain, Samples
from jumbot.data.labels import encode_labels
from jumbot.data.reading import TaskName
from jumbot.data.tensors import TensorSamples, array_of
from jumbot.data.values import encode_values, guess_task
from jumbot.errors import ArgumentError
from jumbot.transport.checks import check_dense

_ROWS = 8192  # looked at together, so that memory-mapped arrays are never read as a whole


def from_arrays(
    data: Any,
    labels: Any = None,
    *,
    name: str = "data",
    ids: Any = None,
    where: Callable[[int], str] | None = None,
    kind: str | None = None,
    task: TaskName | None = None,
) -> Domain:
    """A Domain of arrays; rows with NaN or infinity are refused, the first of them named by `where`."""
    try:
        array = array_of(data)
    except ValueError as error:
        raise ArgumentError(f"{name}: its items differ in shape ({error}); bring them to one shape first.") from None
    try:
        samples: Samples = ArraySamples(array) if kind is None else TensorSamples(array, kind)
    except ArgumentError as error:
        raise ArgumentError(str(error).replace("data:", f"{name}:", 1)) from None
    _check_finite(array, name, where or (lambda row: f"row {row}"))
    made = Domain(name, samples, ids=None if ids is None else [str(i) for i in ids])
    return with_labels(made, labels, task)


def one_picture(data: Any, channels: int) -> Any:
    """`data` as a stack of one, if it is an array of one picture: (h, w), or (h, w, c).

    (c, h, w) could be one picture or c grey ones; that is refused.

    >>> one_picture(np.zeros((256, 256, 3)), 3).shape, one_picture(np.zeros((9, 28, 28)), 1).shape
    ((1, 256, 256, 3), (9, 28, 28))
    """
    shape = tuple(data.shape) if isinstance(data, np.ndarray | Tensor) else ()
    if len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, channels)):
        return data[None]
    if len(shape) == 3 and channels > 1 and shape[0] in (3, channels):
        raise ArgumentError(
            f"data: an array of shape {shape} could be one picture or {shape[0]} grey ones; give x[None] for one, or "
            "x[:, None] for grey ones."
        )
    return data


def with_labels(domain: Domain, labels: Any, task: TaskName | None = None) -> Domain:
    """`domain` with other labels: of classes, or numbers to predict; None leaves those that it has.

    Without a `task`, labels that have fractions are numbers to predict, and a warning says so.
    """
    if labels is None:
        return domain
    given = array_of(labels) if isinstance(labels, Tensor) else labels
    task = task or guess_task(given, domain.name)
    if task == "regression":
        values = encode_values(given, domain.name)
        return replace(domain, values=None if np.isnan(values).all() else values, labels=None, classes=())
    encoded, classes = encode_labels(given, domain.name)
    return replace(
        domain, labels=encoded if classes else None, classes=classes, values=None, label_dtype=_dtype_of(given)
    )


def _dtype_of(labels: Any) -> str | None:
    """The type that predictions shall have: that of an array of numbers, truth values or texts.

    >>> _dtype_of(np.array(["1", "2"])), _dtype_of(np.array([1.0, 2.0])), _dtype_of([1, None])
    ('<U1', '<f8', None)
    """
    array = np.asarray(labels)
    if array.dtype.kind in "biufU":
        return array.dtype.str
    texts = array.dtype.kind in "OT" and all(isinstance(label, str) for label in array.ravel().tolist())
    return "<U0" if texts else None


def _check_finite(array: np.ndarray, name: str, where: Callable[[int], str]) -> None:
    check_dense(array, name)
    if array.dtype.kind != "f":
        return
    count, first = 0, -1
    for start in range(0, len(array), _ROWS):
        with np.errstate(over="ignore"):  # a number too large for float32 is refused below
            rows = np.asarray(array[start : start + _ROWS]).astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(rows.reshape(len(rows), -1)).all(1))
        if bad.size:
            count, first = count + bad.size, first if first >= 0 else start + int(bad[0])
    if count:
        raise ArgumentError(
            f"{name}: {count} of {len(array)} rows hold NaN, infinity or a number beyond float32, the first is "
            f"{where(first)}; drop or fill them first."
        )
