"""Unregularised balanced transport."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def balanced(cost: Array, a: Array, b: Array) -> tuple[Array, Array, Array]:
    ...
