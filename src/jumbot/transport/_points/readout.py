"""Passes that read entries of the plan: the largest of each row, those above a threshold, and draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._points.passes import _entries
from jumbot.transport._points.tile_math import PRODUCT, ROWS, add_up, costs, distances


@compiled()
def _strip(
    x: Any,
    norm_x: Any,
    F: Any,
    y: Any,
    norm_y: Any,
    G: Any,
    kind: int,
    scale: float,
    a: int,
    i: int,
    b: int,
    z: Any,
    p: Any,
) -> None:
    """p `(4, V)` = the entries of four rows in one block."""
    distances(x[a, i : i + ROWS], y[b], kind == PRODUCT, z)
    for r in range(ROWS):
        costs(kind, scale, norm_x[a, i + r], norm_y[b], z[r])
        _entries(F[a, i + r], G[b], z[r], p[r])


@compiled()
def _insert(value: float, place: int, values: Any, places: Any) -> None:
    """Into a list that falls, whose last entry is less."""
    k = values.shape[0] - 1
    while k > 0 and values[k - 1] < value:
        values[k], places[k] = values[k - 1], places[k - 1]
        k -= 1
    values[k], places[k] = value, place


@compiled(allocates=True)
def largest(
    cells: Any,
    x: Any,
    norm_x: Any,
    F: Any,
    y: Any,
    norm_y: Any,
    G: Any,
    first: Any,
    last: Any,
    met: Any,
    kind: int,
    scale: float,
    values: Any,
    places: Any,
) -> None:
    """The largest entries of each row, `(A, W, k)`, and where they are; what is there already counts too."""
    z, p = np.empty((ROWS, y.shape[2])), np.empty((ROWS, y.shape[2]))
    for at in range(cells.shape[0]):
        a = cells[at]
        for k in range(first[a], last[a]):
            b = met[k]
            for i in range(0, x.shape[1], ROWS):
                _strip(x, norm_x, F, y, norm_y, G, kind, scale, a, i, b, z, p)
                for r in range(ROWS):
                    best, place = values[a, i + r], places[a, i + r]
                    for j in range(p.shape[1]):
                        if p[r, j] > best[best.shape[0] - 1]:
                            _insert(p[r, j], b * p.shape[1] + j, best, place)


@compiled(allocates=True)
def above(
    cells: Any,
    x: Any,
    norm_x: Any,
    F: Any,
    y: Any,
    norm_y: Any,
    G: Any,
    first: Any,
    last: Any,
    met: Any,
    kind: int,
    scale: float,
    alpha: Any,
    beta: Any,
    threshold: float,
    write: bool,
    begin: Any,
    places: Any,
    values: Any,
) -> None:
    """Count the entries of each row above the threshold in `begin` `(A, W)`, or write them from there on."""
    z, p = np.empty((ROWS, y.shape[2])), np.empty((ROWS, y.shape[2]))
    for at in range(cells.shape[0]):
        a = cells[at]
        for k in range(first[a], last[a]):
            b = met[k]
            for i in range(0, x.shape[1], ROWS):
                _strip(x, norm_x, F, y, norm_y, G, kind, scale, a, i, b, z, p)
                for r in range(ROWS):
                    for j in range(p.shape[1]):
                        value = p[r, j] + alpha[a, i + r] * beta[b, j]
                        if value > threshold:
                            if write:
                                places[begin[a, i + r]] = b * p.shape[1] + j
                                values[begin[a, i + r]] = value
                            begin[a, i + r] += 1


@compiled(allocates=True)
def draw(
    cells: Any,
    x: Any,
    norm_x: Any,
    F: Any,
    y: Any,
    norm_y: Any,
    G: Any,
    first: Any,
    last: Any,
    met: Any,
    kind: int,
    scale: float,
    begin: Any,
    end: Any,
    levels: Any,
    places: Any,
) -> None:
    """For each row the columns at which its running sum passes `levels[begin:end]`, which rise."""
    z, p, passed = np.empty((ROWS, y.shape[2])), np.empty((ROWS, y.shape[2])), np.empty(x.shape[1])
    for at in range(cells.shape[0]):
        a = cells[at]
        for i in range(x.shape[1]):
            passed[i] = 0.0
        for k in range(first[a], last[a]):
            b = met[k]
            for i in range(0, x.shape[1], ROWS):
                if begin[a, i] < end[a, i + ROWS - 1]:
                    _strip(x, norm_x, F, y, norm_y, G, kind, scale, a, i, b, z, p)
                    for r in range(ROWS):
                        t, running = begin[a, i + r], passed[i + r]
                        whole = running + add_up(p[r])
                        passed[i + r] = whole
                        while t < end[a, i + r] and levels[t] < whole:
                            j = 0
                            while j < p.shape[1] - 1 and running + p[r, j] <= levels[t]:
                                running += p[r, j]
                                j += 1
                            running = passed[i + r] - add_up(p[r])
                            places[t] = b * p.shape[1] + j
                            t += 1
                        begin[a, i + r] = t
