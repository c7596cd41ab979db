"""Tensors as they are: signals, and anything that a backbone of the user's takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.data._remarks import remark
from jumbot.errors import ArgumentError

KINDS = ("signal", "raw")


def array_of(data: Any) -> np.ndarray:
    """`data` as numpy has it; bfloat16, which it does not have, as float32."""
    if isinstance(data, Tensor):
        return (data.float() if data.dtype == torch.bfloat16 else data).numpy(force=True)
    return np.asanyarray(data)


class TensorSamples:
    """Samples of one array that nothing is done to.

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
            raise ArgumentError(f"data: an array of shape {array.shape} holds no samples; give (n, ...).")
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
    """Refuse samples that are no signals, and ask about channels that stand last."""
    if kind != "signal":
        return
    if len(shape) != 2:
        raise ArgumentError(f"data: samples of shape {shape}; signals are (n, channels, length), or (n, length).")
    if shape[0] > shape[1]:
        remark(
            f"signals of {shape[0]} channels and length {shape[1]} came in, as (n, channels, length); if it is the "
            "other way round, give x.transpose(0, 2, 1).",
            stacklevel=2,
        )
