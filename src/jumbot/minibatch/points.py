"""Point clouds that may be larger than memory: only the rows of a minibatch are ever read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.errors import ArgumentError
from jumbot.files import read_arrays
from jumbot.transport.checks import check_dense


@dataclass(frozen=True)
class Points:
    """`n` points of one shape, numpy (also memory-mapped) or torch."""

    name: str
    data: Any

    @classmethod
    def of(cls, name: str, data: Any) -> Points:
        """Arrays, tensors, or the path of an `.npy` file (memory-mapped) or `.npz` file (its first array)."""
        if isinstance(data, str | Path):
            data = _open(name, Path(data))
        if not isinstance(data, Tensor | np.ndarray) and not hasattr(data, "toarray"):
            data = np.asarray(data)
        check_dense(data, name)
        numbers = not data.is_complex() if isinstance(data, Tensor) else data.dtype.kind in "fiub"
        if not numbers:
            raise ArgumentError(f"{name}: dtype {data.dtype}; points must be real numbers.")
        if data.ndim == 1:
            data = data[:, None]
        if data.ndim < 2 or 0 in data.shape:
            raise ArgumentError(f"{name}: shape {tuple(data.shape)}; it must be (points, coordinates), not empty.")
        return cls(name, _readable(data))

    @property
    def n(self) -> int:
        return int(self.data.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape[1:])

    def rows(self, index: np.ndarray) -> Tensor:
        """The points at `index`, with its shape in front, in float64."""
        if isinstance(self.data, Tensor):
            out = self.data.detach()[torch.from_numpy(index).to(self.data.device)].double()
        else:
            out = torch.from_numpy(np.asarray(self.data[index], dtype=np.float64))
        if not bool(torch.isfinite(out.sum())) and not bool(torch.isfinite(out).all()):
            bad = np.unique(index[~torch.isfinite(out).flatten(index.ndim).all(-1).cpu().numpy()])
            raise ArgumentError(f"{self.name}: row {bad[0]} holds NaN or infinity; clean the data first.")
        return out

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest coordinate, read in blocks."""
        step = max(1, (1 << 22) // max(1, int(np.prod(self.shape))))
        low = high = None
        for first in range(0, self.n, step):
            block = self.data[first : first + step]
            block = block.detach().cpu().numpy() if isinstance(block, Tensor) else np.asarray(block)
            least, greatest = block.min(0), block.max(0)
            low = least if low is None else np.minimum(low, least)
            high = greatest if high is None else np.maximum(high, greatest)
        assert low is not None
        assert high is not None
        return low.astype(np.float64), high.astype(np.float64)


def _readable(data: Any) -> Any:
    """As the compiled passes read it: on the CPU an array, without a copy but for half precision."""
    if isinstance(data, Tensor) and data.device.type == "cpu":
        data = data.detach()
        data = (data.float() if data.dtype == torch.bfloat16 else data).numpy()
    half = isinstance(data, np.ndarray) and data.dtype == np.float16 and not isinstance(data, np.memmap)
    return data.astype(np.float32) if half else data


def _open(name: str, path: Path) -> Any:
    if not path.exists():
        raise ArgumentError(f"{name}: there is no file {path}.")
    if path.suffix == ".npy":
        return read_arrays(path)
    if path.suffix == ".npz":
        arrays = read_arrays(path)
        if not arrays:
            raise ArgumentError(f"{name}: {path} holds no array.")
        return next(iter(arrays.values()))
    raise ArgumentError(f"{name}: {path.name} is neither .npy nor .npz; load it first and pass the array.")


def as_weights(name: str, weights: Any, n: int) -> np.ndarray | None:
    """Weights of all points in float64, or None for uniform of mass one."""
    if weights is None:
        return None
    try:
        out = np.asarray(weights.detach().cpu() if isinstance(weights, Tensor) else weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"{name}: {type(weights).__name__} came in; pass an array of numbers.") from error
    if out.shape != (n,):
        raise ArgumentError(f"{name}: shape {out.shape}; there are {n} points, so it must be ({n},).")
    if not np.isfinite(out).all() or out.min() < 0 or out.sum() <= 0:
        raise ArgumentError(f"{name}: weights must be finite, non-negative and not all zero.")
    return out
