"""One problem between points, solved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from jumbot.transport._points.rounding import Proof
from jumbot.transport.problem import Problem


@dataclass(frozen=True)
class Solved:
    """A problem, its stream of tiles, its potentials `(1, n)`, `(1, m)`, and what they prove."""

    problem: Problem
    stream: Any
    f: Tensor
    g: Tensor
    taken: int
    proof: Proof
    kept: float
    interrupted: bool
    points: tuple[np.ndarray, np.ndarray]  # as given
    directions: bool = False  # whether the points are compared by their directions alone
