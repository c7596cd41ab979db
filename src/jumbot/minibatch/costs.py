"""Cost matrices of many minibatches: gathered and computed in one compiled pass where the cost is a named one.

At 64 points a problem takes some 50 microseconds to solve, so building its cost through several passes over all
matrices of a chunk would take longer than solving them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.cost import COSTS, Cost, parse_cost
from jumbot.minibatch.points import Points
from jumbot.transport.threads import run, split
from jumbot.transport.vectormath import compiled

_FEW = 64  # coordinates up to which sums of squared differences beat a matrix product


@compiled()
def _squared_distances(x: Any, y: Any, I: Any, J: Any, root: bool, out: Any, first: int, last: int) -> None:
    m, p, d = I.shape[1], J.shape[1], x.shape[1]
    columns = np.empty((d, p))
    for k in range(first, last):
        for j in range(p):
            for e in range(d):
                columns[e, j] = y[J[k, j], e]
        for i in range(m):
            row = out[k, i]
            for j in range(p):
                row[j] = 0.0
            blocked = d // 4 * 4
            for e in range(0, blocked, 4):
                v0, v1, v2, v3 = x[I[k, i], e], x[I[k, i], e + 1], x[I[k, i], e + 2], x[I[k, i], e + 3]
                c0, c1, c2, c3 = columns[e], columns[e + 1], columns[e + 2], columns[e + 3]
                for j in range(p):
                    d0, d1, d2, d3 = v0 - c0[j], v1 - c1[j], v2 - c2[j], v3 - c3[j]
                    row[j] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
            for e in range(blocked, d):
                v, column = x[I[k, i], e], columns[e]
                for j in range(p):
                    row[j] += (v - column[j]) * (v - column[j])
            if root:
                for j in range(p):
                    row[j] = math.sqrt(row[j])


@dataclass(frozen=True)
class Minibatches:
    """The pairs of minibatches (x[I], y[J]), `I` and `J` `(c, m)`."""

    x: Points
    y: Points
    I: np.ndarray
    J: np.ndarray
    ground: str | Cost

    def cost(self, first: str, second: str) -> Tensor:
        """C between the "x" or "y" minibatches and the "x" or "y" minibatches, `(c, m, m)` in float64."""
        sides = {"x": (self.x, self.I), "y": (self.y, self.J)}
        (p, index_p), (q, index_q) = sides[first], sides[second]
        if isinstance(self.ground, str) and self.ground in COSTS and _plain(p) and _plain(q):
            return self._compiled(p, q, index_p, index_q)
        points = p.rows(index_p)
        other = points if first == second else q.rows(index_q)
        return parse_cost(self.ground)(points, other)

    def check(self) -> None:
        """Raise an error that names the first row that is not finite, if there is one."""
        self.x.rows(self.I)
        self.y.rows(self.J)

    def _compiled(self, p: Points, q: Points, index_p: np.ndarray, index_q: np.ndarray) -> Tensor:
        count, m = index_p.shape
        out = np.empty((count, m, index_q.shape[1]))
        arguments = (
            np.asarray(p.data), np.asarray(q.data), index_p, index_q, self.ground == "euclidean", out,
        )  # fmt: skip
        threads = torch.get_num_threads()
        if out.size < 1 << 16 or threads == 1:
            _squared_distances(*arguments, 0, count)
        else:
            _squared_distances(*arguments, 0, 0)  # compile before the threads start
            run(lambda part: _squared_distances(*arguments, *part), split(count, threads))
        return torch.from_numpy(out)


def _plain(points: Points) -> bool:
    data = points.data
    return isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind == "f" and data.shape[1] <= _FEW
