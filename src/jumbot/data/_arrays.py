"""Arrays and tensors as domains, and the sparse matrices of scipy, in memory or in a file."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot._settings.reading import TaskName
from jumbot.data._column_kinds import number_in
from jumbot.data._domain import ArraySamples, Domain, Samples
from jumbot.data._labels import as_given, encode_labels
from jumbot.data._remarks import remark
from jumbot.errors import ArgumentError
from jumbot.transport._checks import check_dense, check_unmasked

KINDS = ("signal", "raw")


def array_of(data: Any) -> np.ndarray:
    """`data` as a numpy array; bfloat16, which numpy lacks, as float32."""
    if isinstance(data, Tensor):
        return (data.float() if data.dtype == torch.bfloat16 else data).numpy(force=True)
    return np.asanyarray(data)


class TensorSamples:
    """Samples of one array, unchanged.

    "signal" is `(n, channels, length)`, or `(n, length)` for one channel; "raw" has any shape. Whole numbers of "raw"
    stay whole (int64: tokens), all others become float32.

    >>> TensorSamples(np.zeros((4, 100)), "signal").batch(np.array([0, 2])).shape
    torch.Size([2, 1, 100])
    >>> TensorSamples(np.zeros((4, 7), int), "raw").batch(np.array([0])).dtype
    torch.int64
    """

    def __init__(self, array: np.ndarray, kind: str) -> None:
        if array.dtype.kind not in "fiub":
            raise ArgumentError(f"data: an array of {array.dtype}; samples must be numbers.")
        if array.ndim < 2 or 0 in array.shape:
            raise ArgumentError(f"data: an array of shape {array.shape} contains no samples; pass (n, ...).")
        self.array, self.kind = array, kind
        self.shape: tuple[int, ...] = tuple(self.batch(np.arange(1)).shape[1:])
        check_shape(self.shape, kind)

    def __len__(self) -> int:
        return len(self.array)

    def batch(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        return as_tensors(self.array[np.asarray(indices)], self.kind)


def as_tensors(rows: np.ndarray, kind: str) -> Tensor:
    """Rows of an array as a batch."""
    if kind == "signal" and rows.ndim == 2:
        rows = rows[:, None]
    whole = kind == "raw" and rows.dtype.kind in "iu"
    return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.int64 if whole else np.float32))


def check_shape(shape: tuple[int, ...], kind: str) -> None:
    """Refuse samples that are not signals; warn if the channels seem to be last."""
    if kind != "signal":
        return
    if len(shape) != 2:
        raise ArgumentError(f"data: samples of shape {shape}; signals are (n, channels, length), or (n, length).")
    if shape[0] > shape[1]:
        remark(
            f"got signals of {shape[0]} channels and length {shape[1]}, as (n, channels, length); if it is the "
            "other way round, pass x.transpose(0, 2, 1).",
            stacklevel=2,
        )


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
        raise ArgumentError(f"{name}: labels of shape {array.shape}; pass one number per sample, or a row of numbers.")
    if array.dtype.kind in "mM":  # whose numbers depend on the unit
        raise ArgumentError(f"{name}: labels of {array.dtype}; task='regression' predicts numbers.")
    if array.dtype.kind not in "fiub":
        array = np.array([[_number(value, name) for value in row] for row in array.tolist()])
    found = array.astype(np.float64)
    infinite = np.flatnonzero(np.isinf(found).any(1))
    if infinite.size:
        raise ArgumentError(f"{name}: the label of row {infinite[0]} is infinite; drop or correct such rows.")
    return found


def guess_task(values: Any, name: str) -> TaskName:
    """ "regression" if labels have fractions, which classes never have, with a warning.

    Many whole numbers, most of them rare, are ambiguous and refused.
    """
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] > 1:
        one_hot = np.isin(array, (0, 1)).all() and (array.astype(float).sum(1) == 1).all()
        several = "several numbers per sample are predicted with task='regression'"
        how = "pass y.argmax(1), one class per sample" if one_hot else several
        raise ArgumentError(f"{name}: labels of shape {array.shape}; {how}.")
    numbers = _plain_numbers(array)
    if numbers is None:
        return "classification"
    present = numbers[np.isfinite(numbers)]
    fractions = present[present % 1 != 0]
    if fractions.size:
        remark(
            f"{name}: labels have fractions ({fractions[0]:g}, ...), so they are taken as numbers to predict and not "
            f"as classes; pass task='regression' (--task regression) to confirm.",
            stacklevel=3,
        )
        return "regression"
    sizes = np.unique(present, return_counts=True)[1]
    if len(sizes) > _MANY and np.median(sizes) < _RARE:
        raise ArgumentError(
            f"{name}: {len(sizes)} different whole numbers as labels of {len(present)} samples, most of them rare. If "
            "they are numbers to predict, pass task='regression' (--task regression); if each is a class, pass "
            "task='classification' (--task classification).",
            remedy={"task": "regression"},
        )
    return "classification"


def as_numbers(domain: Domain) -> Domain:
    """`domain` with the names of its classes as numbers to predict: folders named after ages, digits.

    >>> from jumbot.data._domain import ArraySamples
    >>> faces = Domain("faces", ArraySamples(np.zeros((3, 2))), np.array([1, 0, -1]), ("30", "41"))
    >>> as_numbers(faces).values.tolist()
    [[41.0], [30.0], [nan]]
    """
    if domain.labels is None:
        return domain
    values = [_number(name, domain.name) for name in domain.classes]
    return replace(domain, labels=None, classes=(), values=np.array([*values, np.nan])[domain.labels][:, None])


def _plain_numbers(array: np.ndarray) -> np.ndarray | None:
    """The labels as float64 if all of them are numbers."""
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
        raise ArgumentError(f"{name}: got the label {value!r}; task='regression' predicts numbers.")
    return found


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
    """A Domain of arrays; rows with NaN or infinity are refused, and the error names the first of them by `where`."""
    try:
        array = array_of(data)
    except ValueError as error:
        raise ArgumentError(f"{name}: its items differ in shape ({error}); give them the same shape first.") from None
    try:
        samples: Samples = ArraySamples(array) if kind is None else TensorSamples(array, kind)
    except ArgumentError as error:
        raise ArgumentError(str(error).replace("data:", f"{name}:", 1)) from None
    _check_finite(array, name, where or (lambda row: f"row {row}"))
    made = Domain(name, samples, ids=None if ids is None else [str(i) for i in ids])
    return with_labels(made, labels, task)


def one_picture(data: Any, channels: int) -> Any:
    """`data` as a stack of one image if it is one image: (h, w), or (h, w, c).

    (c, h, w) could be one image or c grey ones; that is refused.

    >>> one_picture(np.zeros((256, 256, 3)), 3).shape, one_picture(np.zeros((9, 28, 28)), 1).shape
    ((1, 256, 256, 3), (9, 28, 28))
    """
    shape = tuple(data.shape) if isinstance(data, np.ndarray | Tensor) else ()
    if len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, channels)):
        return data[None]
    if len(shape) == 3 and channels > 1 and shape[0] in (3, channels):
        raise ArgumentError(
            f"data: an array of shape {shape} could be one image or {shape[0]} grey ones; pass x[None] for one, or "
            "x[:, None] for grey ones."
        )
    return data


def with_labels(domain: Domain, labels: Any, task: TaskName | None = None) -> Domain:
    """`domain` with other labels, classes or numbers to predict; None keeps its own.

    Without a `task`, labels that have fractions are numbers to predict, and a warning says so.
    """
    if labels is None:
        return domain
    given = array_of(labels) if isinstance(labels, Tensor) else labels
    check_unmasked(given, domain.name)
    task = task or guess_task(given, domain.name)
    if task == "regression":
        values = encode_values(given, domain.name)
        return replace(domain, values=None if np.isnan(values).all() else values, labels=None, classes=())
    encoded, classes = encode_labels(given, domain.name)
    dtype, own = as_given(given)
    labels = encoded if classes else None
    return replace(domain, labels=labels, classes=classes, values=None, label_dtype=dtype, given_labels=own)


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
            f"{name}: {count} of {len(array)} rows contain NaN, infinity or a number beyond float32, the first is "
            f"{where(first)}; drop or fill them first."
        )


class SparseSamples:
    """Features that are mostly zero; rows become dense batch by batch.

    >>> from scipy.sparse import eye_array
    >>> SparseSamples(eye_array(3)).batch(np.array([2])).tolist()
    [[0.0, 0.0, 1.0]]
    """

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise ArgumentError(f"data: a sparse matrix of shape {matrix.shape}; pass (n, d) features.")
        if matrix.dtype.kind not in "fiub":
            raise ArgumentError(f"data: a sparse matrix of {matrix.dtype}; samples must be numbers.")
        self.matrix = matrix.tocsr()
        self.shape: tuple[int, ...] = (int(matrix.shape[1]),)
        with np.errstate(over="ignore"):
            bad = np.flatnonzero(~np.isfinite(self.matrix.data.astype(np.float32)))
        if bad.size:
            row = int(np.searchsorted(self.matrix.indptr, bad[0], side="right")) - 1
            raise ArgumentError(
                f"data: {bad.size} entries are NaN, infinity or beyond float32, the first in row {row}; drop or fill "
                "them first."
            )

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def batch(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        return torch.from_numpy(self.matrix[np.asarray(indices)].toarray().astype(np.float32))


def is_sparse(arrays: Collection[str]) -> bool:
    """Whether these are the arrays in a file of `scipy.sparse.save_npz`."""
    return {"format", "shape", "data"} <= set(arrays)


def read_sparse(path: Path) -> SparseSamples:
    """The matrix in a file of `scipy.sparse.save_npz`."""
    from scipy.sparse import load_npz

    try:
        return SparseSamples(load_npz(path))
    except ArgumentError as error:
        raise ArgumentError(str(error).replace("data:", f"{path}:", 1)) from None
    except Exception as error:  # the reader may raise anything for a damaged file
        raise ArgumentError(f"{path}: cannot be read ({error}).") from error
