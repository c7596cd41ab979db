"""Rows of a scipy.sparse matrix as samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.errors import ArgumentError


class SparseSamples:
    """Features that are mostly zero; rows become dense at the batch and not before.

    >>> from scipy.sparse import eye_array
    >>> SparseSamples(eye_array(3)).batch(np.array([2])).tolist()
    [[0.0, 0.0, 1.0]]
    """

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise ArgumentError(f"data: a sparse matrix of shape {matrix.shape}; give (n, d) features.")
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
