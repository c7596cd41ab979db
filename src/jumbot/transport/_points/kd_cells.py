"""Points in cells of a kd-tree: neighbours in space are neighbours in memory, and a cell is a tile of the plan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.memory import contiguous

#: Points of a cell at most.
LARGEST = 256
_MULTIPLE = 8  # of the width of a cell: of the rows of a strip, and of the numbers in a vector


@dataclass(frozen=True)
class Cells:
    """Points `(n, d)` in cells of equal width; `at` is the place of each point among those of all cells, padded.

    Beyond three, coordinates are filled up with zeros to a multiple of four, as the strips take them.
    """

    points: np.ndarray
    at: np.ndarray
    count: int
    width: int

    @classmethod
    def of(cls, points: np.ndarray, largest: int) -> Cells:
        order, sizes = split_in_cells(points, largest)
        width = -(-int(sizes.max()) // _MULTIPLE) * _MULTIPLE
        within = np.arange(len(points)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        at = np.empty(len(points), dtype=np.int64)
        at[order] = np.repeat(np.arange(len(sizes)) * width, sizes) + within
        return cls(points, at, len(sizes), width)

    def padded(self, values: np.ndarray, fill: float, dtype: type = np.float64) -> np.ndarray:
        """Numbers `(n,)` as `(cells, width)`."""
        out: np.ndarray = np.full(self.count * self.width, fill, dtype=dtype)
        out[self.at] = values
        return out.reshape(self.count, self.width)

    def taken(self, padded: np.ndarray) -> np.ndarray:
        """The numbers of the points, `(n, ...)`."""
        return padded.reshape(self.count * self.width, *padded.shape[2:])[self.at]

    def coordinates(self, dtype: type, factor: float = 1.0) -> np.ndarray:
        """Coordinates `(cells, d, width)`; padding stands at the first point, where its exponent makes it nothing."""
        d = self.points.shape[1]
        out: np.ndarray = np.zeros((self.count, d if d <= 3 else -(-d // 4) * 4, self.width), dtype=dtype)
        for e in range(d):  # one at a time: a second copy of all would be the largest array of a problem
            out[:, e] = self.padded(self.points[:, e] * factor, self.points[0, e] * factor, dtype)
        return out

    @cached_property
    def boxes(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest coordinates of each cell, `(cells, d)`."""
        cell, d = self.at // self.width, self.points.shape[1]
        order = np.argsort(cell, kind="stable")
        starts = np.searchsorted(cell[order], np.arange(self.count))
        low, high = np.empty((self.count, d)), np.empty((self.count, d))
        for e in range(d):
            column = self.points[order, e]
            low[:, e], high[:, e] = np.minimum.reduceat(column, starts), np.maximum.reduceat(column, starts)
        return low, high

    def means(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weighted means and weights of the cells, and the squared distances of the points from theirs."""
        cell = self.at // self.width
        mass = np.bincount(cell, weights, self.count)
        number = np.bincount(cell, minlength=self.count)
        share = np.where(mass[cell] > 0, weights / np.where(mass > 0, mass, 1.0)[cell], 1.0 / number[cell])
        centre, apart = np.empty((self.count, self.points.shape[1])), np.zeros(len(cell))
        for e, column in enumerate(self.points.T):
            centre[:, e] = np.bincount(cell, share * column, self.count)
            apart += (column - centre[cell, e]) ** 2
        return centre, mass, apart


@compiled()
def _select(points: Any, axis: int, order: Any, first: int, last: int, middle: int) -> None:
    """Order the places first..last such that those before `middle` have no larger coordinate than those after."""
    last -= 1
    while first < last:
        one, two, three = (
            points[order[first], axis],
            points[order[(first + last) // 2], axis],
            points[order[last], axis],
        )
        pivot = max(min(one, two), min(max(one, two), three))
        i, j = first, last
        while i <= j:
            while points[order[i], axis] < pivot:
                i += 1
            while points[order[j], axis] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            last = j
        elif middle >= i:
            first = i
        else:
            return


@compiled()
def _widest(points: Any, order: Any, first: int, last: int) -> int:
    axis, most = 0, -1.0
    for e in range(points.shape[1]):
        low = high = points[order[first], e]
        for k in range(first + 1, last):
            low, high = min(low, points[order[k], e]), max(high, points[order[k], e])
        if high - low > most:
            axis, most = e, high - low
    return axis


@compiled()
def _halve(points: Any, order: Any, edges: Any, count: int) -> None:
    """Each of `count` runs in two, along its widest coordinate; `edges` holds where they begin and end."""
    for k in range(count - 1, -1, -1):  # from the last, as the edges spread to twice their places
        first, last = edges[k], edges[k + 1]
        middle = (first + last) // 2
        _select(points, _widest(points, order, first, last), order, first, last, middle)
        edges[2 * k + 2], edges[2 * k + 1], edges[2 * k] = last, middle, first


def split_in_cells(points: np.ndarray, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """An order of the points, and the sizes of the cells that it runs through: halved along the widest coordinate.

    >>> order, sizes = split_in_cells(np.array([[0.0], [5.0], [1.0], [6.0]]), 2)
    >>> [sorted(order[:2].tolist()), sorted(order[2:].tolist())], sizes.tolist()
    ([[0, 2], [1, 3]], [2, 2])
    """
    levels = max(0, int(np.ceil(np.log2(len(points) / largest))))
    order, edges = np.arange(len(points)), np.zeros(2**levels + 1, dtype=np.int64)
    edges[1], points = len(points), contiguous(points)
    for level in range(levels):
        _halve(points, order, edges, 2**level)
    return order, np.diff(edges)
