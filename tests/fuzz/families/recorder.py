"""Which points a minibatch holds, learned from outside: a cost that writes down the points it is given."""

from __future__ import annotations

import numpy as np
import torch

from ..entropies import Array

Pairs = list[tuple[Array, Array]]  # (I, J) of each minibatch


class Recorder:
    """A ground cost of zero; call it with points that are their own numbers, see `numbers`."""

    def __init__(self) -> None:
        self.pairs: Pairs = []

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x is not y:
            rows, columns = (u.detach().numpy()[..., 0].astype(int) for u in (x, y))
            self.pairs += list(zip(rows, columns, strict=True))
        return 0 * (x[..., :, None, 0] + y[..., None, :, 0])  # flows stay where they are


def numbers(n: int) -> Array:
    return np.arange(float(n))[:, None]
