"""Cost matrices of many minibatches: gathered and computed in one compiled pass where the cost is a named one.

At 64 points a problem takes some 40 microseconds to solve, so building its cost through several passes over all
matrices of a chunk would take longer than solving them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from torch import Tensor

from jumbot.cost import Cost, parse_cost
from jumbot.minibatch._sampling import Points
from jumbot.transport._checks import called
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.threads import run_range

_COMPILED = ("sqeuclidean", "euclidean")
_PART = 64  # coordinates that are summed at once: those of 64 points of both sides stay in the cache
_THREADED_FROM = 1 << 16  # costs


@intrinsic
def _prefetch(typing: Any, array: Any, row: Any, column: Any) -> Any:
    """Ask for the memory of array[row, column] without waiting for it."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        item = cgutils.get_item_pointer(context, builder, signature.args[0], struct, arguments[1:])
        pointer, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [pointer], ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
        )
        builder.call(function, [builder.bitcast(item, pointer), flag(0), flag(3), flag(1)])  # to read, keep, data
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), build


@compiled(inline="always")
def _prefetch_part(array: Any, row: int, low: int, high: int) -> None:
    for e in range(low, high, 8):
        _prefetch(array, row, e)  # type: ignore[call-arg]
    _prefetch(array, row, high - 1)  # type: ignore[call-arg]


@compiled(allocates=True)
def squared_distances(x: Any, y: Any, I: Any, J: Any, root: bool, out: Any, first: int, last: int) -> None:
    """|x_i - y_j|^2, or its root, of the minibatches first <= k < last, each over m x m pairs, into `out`.

    Differences are squared and summed, `_PART` coordinates at a time: |x|^2 + |y|^2 - 2 <x, y> by a matrix product
    loses the digits of points that nearly coincide, and is no faster, as most time goes into fetching the points.
    """
    m, p, d = I.shape[1], J.shape[1], x.shape[1]
    wide = min(_PART, (d + 3) // 4 * 4)
    # rows are taken two at a time and coordinates four: an odd last row is paired with another one; missing
    # coordinates are zero
    points, columns, padding = np.zeros((m + 1, wide)), np.zeros((wide, p)), np.zeros(p)
    for k in range(first, last):
        sums = out[k]
        sums[:] = 0.0
        for low in range(0, d, wide):
            width = min(wide, d - low)
            filled = (width + 3) // 4 * 4
            points[:m, width:filled] = 0.0
            columns[width:filled] = 0.0
            for i in range(m):
                row = I[k, i]
                for e in range(width):
                    points[i, e] = x[row, low + e]
            for j in range(p):
                row = J[k, j]
                for e in range(width):
                    columns[e, j] = y[row, low + e]
            ahead, begin = (k, low + wide) if low + wide < d else (k + 1, 0)
            end = min(begin + wide, d)
            for i in range(0, m, 2):
                for s in range(i, min(i + 2, m)):
                    if ahead < last:  # what is summed next arrives while this is computed
                        _prefetch_part(x, I[ahead, s], begin, end)
                        if s < p:
                            _prefetch_part(y, J[ahead, s], begin, end)
                one, two = sums[i], sums[i + 1] if i + 1 < m else padding
                for e in range(0, filled, 4):
                    u0, u1, u2, u3 = points[i, e], points[i, e + 1], points[i, e + 2], points[i, e + 3]
                    v0, v1, v2, v3 = points[i + 1, e], points[i + 1, e + 1], points[i + 1, e + 2], points[i + 1, e + 3]
                    c0, c1, c2, c3 = columns[e], columns[e + 1], columns[e + 2], columns[e + 3]
                    for j in range(p):
                        d0, d1, d2, d3 = u0 - c0[j], u1 - c1[j], u2 - c2[j], u3 - c3[j]
                        one[j] = d3 * d3 + (d2 * d2 + (d1 * d1 + (d0 * d0 + one[j])))  # four fused operations
                        d0, d1, d2, d3 = v0 - c0[j], v1 - c1[j], v2 - c2[j], v3 - c3[j]
                        two[j] = d3 * d3 + (d2 * d2 + (d1 * d1 + (d0 * d0 + two[j])))
        if root:
            for i in range(m):
                for j in range(p):
                    sums[i, j] = math.sqrt(sums[i, j])


@dataclass(frozen=True)
class Minibatches:
    """The pairs of minibatches (x[I], y[J]), `I` and `J` `(c, m)`."""

    x: Points
    y: Points
    I: np.ndarray
    J: np.ndarray
    ground: str | Cost

    def side(self, name: str) -> tuple[Points, np.ndarray]:
        """The points and indices of "x" or "y"."""
        return (self.x, self.I) if name == "x" else (self.y, self.J)

    @property
    def plain(self) -> bool:
        """Whether `squared_distances` builds the costs."""
        return self.ground in _COMPILED and _is_compiled_over(self.x) and _is_compiled_over(self.y)

    def take(self, at: np.ndarray) -> Minibatches:
        """The pairs at `at` alone."""
        return Minibatches(self.x, self.y, self.I[at], self.J[at], self.ground)

    def cost(self, first: str, second: str) -> Tensor:
        """C between the "x" or "y" minibatches and the "x" or "y" minibatches, `(c, m, m)` in float64."""
        (p, index_p), (q, index_q) = self.side(first), self.side(second)
        if self.plain:
            return self._compiled(p, q, index_p, index_q)
        points = p.rows(index_p)
        other = points if first == second else q.rows(index_q)
        return called(parse_cost(self.ground), points, other)

    def check(self) -> None:
        """Raise an error that names the first row that is not finite, if there is one."""
        self.x.rows(self.I)
        self.y.rows(self.J)

    def _compiled(self, p: Points, q: Points, index_p: np.ndarray, index_q: np.ndarray) -> Tensor:
        count, m = index_p.shape
        out = np.empty((count, m, index_q.shape[1]))
        root = self.ground == "euclidean"
        task = partial(squared_distances, np.asarray(p.data), np.asarray(q.data), index_p, index_q, root, out)
        run_range(task, count, out.size >= _THREADED_FROM)
        return torch.from_numpy(out)


def _is_compiled_over(points: Points) -> bool:
    data = points.data
    if not isinstance(data, np.ndarray) or data.ndim != 2:
        return False
    return data.dtype in (np.float32, np.float64) or data.dtype.kind in "iub"
