"""A term of the cost that keeps pairs of like condition: labels, or numbers such as an embedded text."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.cost import squared_euclidean
from jumbot.errors import ArgumentError
from jumbot.transport.checks import check_number, from_numpy


def condition_cost(conditions: Any, sizes: tuple[int, int], like: Tensor) -> Tensor:
    """weight |c0_i - c1_j|^2 of numbers; of labels (integers, texts, truth values) weight where they differ."""
    if not isinstance(conditions, tuple | list) or len(conditions) != 3:
        raise ArgumentError("conditions must be (c0, c1, weight): the conditions of x0 and x1, and their weight.")
    weight = check_number("conditions", conditions[2], least=0)
    arrays = [_array(c, size, f"c{k}") for k, (c, size) in enumerate(zip(conditions[:2], sizes, strict=True))]
    numbers = [isinstance(c, Tensor) for c in arrays]
    if numbers[0] != numbers[1]:
        raise ArgumentError("conditions must both be labels or both be numbers, got one of each.")
    if not numbers[0]:
        codes = np.unique(np.concatenate(arrays), axis=0, return_inverse=True)[1].reshape(-1)
        left, right = (torch.from_numpy(part).to(like.device) for part in np.split(codes, [sizes[0]]))
        return weight * (left[:, None] != right).to(like.dtype)
    left, right = (c.to(like) for c in arrays)
    if left.shape[1] != right.shape[1]:
        raise ArgumentError(f"conditions must have the same shape, got {left.shape[1]} and {right.shape[1]} numbers.")
    return weight * squared_euclidean(left, right)


def _array(condition: Any, size: int, name: str) -> Any:
    """Numbers as a tensor `(size, k)`, labels as an array `(size, k)`."""
    if isinstance(condition, Tensor):
        condition = condition.detach()
        array: Any = condition if condition.is_floating_point() else condition.cpu().numpy()
    else:
        array = np.asarray(condition)
        array = from_numpy(array) if array.dtype.kind == "f" else array
    if array.ndim == 0 or len(array) != size:
        raise ArgumentError(f"conditions: {name} must have {size} rows, got the shape {tuple(array.shape)}.")
    if isinstance(array, Tensor):
        if not bool(array.isfinite().all()):
            raise ArgumentError(f"conditions: {name} contains NaN or infinite values.")
        return array.reshape(size, -1)
    if array.dtype.kind not in "iubUS":
        raise ArgumentError(f"conditions: {name} must hold numbers or labels, got the dtype {array.dtype}.")
    return array.reshape(size, -1)
