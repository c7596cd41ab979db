"""Rows that are mostly zero: matrices of scipy.sparse, and the files that scipy writes of them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.errors import ArgumentError


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
