"""Entries of a plan that is not stored, as they are asked for: rows, the largest, those above a threshold, draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from jumbot.transport._points import readout
from jumbot.transport._points.callable_tiles import CallableTiles
from jumbot.transport._points.point_tiles import Tiles
from jumbot.transport._points.rounding import Solved, StreamedPlan
from jumbot.transport._points.tile_math import NOTHING, ROOT, WFR

_ENTRIES = 1 << 20
_READ: Any = readout


def rows(solved: Solved, i: np.ndarray) -> np.ndarray:
    """The rows `(len(i), m)` of the plan; blocks that were left out are zero, as in all else that reads it."""
    plan, stream = solved.proof.plan, solved.stream
    if isinstance(stream, CallableTiles):
        x = CallableTiles(stream.points[0][torch.from_numpy(i)], stream.points[1], stream.cost, stream.epsilon)
        cost = x.block(slice(None), slice(None)).numpy()
    else:
        cost = _costs(stream, i)
        own, other = stream.cells
        first, last, met = stream.lists[0]
        keeps = np.zeros((len(i), other.count), dtype=bool)
        for k, cell in enumerate(own.at[i] // own.width):
            keeps[k, met[first[cell] : last[cell]]] = True
        cost = np.where(keeps[:, other.at // other.width], cost, np.inf)
    out = np.exp(plan.F[i, None] + plan.G[None] - cost)
    return out if plan.alpha is None or plan.beta is None else out + plan.alpha[i, None] * plan.beta


def _costs(stream: Tiles, i: np.ndarray) -> np.ndarray:
    x, y = (c.points for c in stream.cells)
    z = np.zeros((len(i), len(y)))
    for e in range(x.shape[1]):
        z += (x[i, e, None] - y[:, e]) ** 2
    if stream.ground.kind == ROOT:
        return np.sqrt(z)
    if stream.ground.kind == WFR:
        far = z >= np.pi**2 / 4
        return np.where(far, np.inf, -2 * stream.ground.scale * np.log(np.cos(np.sqrt(np.where(far, 0.0, z)))))
    return z


def _chunks(solved: Solved) -> Iterator[np.ndarray]:
    n, m = solved.stream.shape
    step = max(1, _ENTRIES // m)
    for first in range(0, n, step):
        yield np.arange(first, min(first + step, n))


def _arguments(stream: Tiles, plan: StreamedPlan) -> tuple[Any, ...]:
    """What the passes of `readout` take after the row cells."""
    layout, (own, other) = stream.in_double(), stream.cells
    F, G = own.padded(np.maximum(plan.F, NOTHING), NOTHING), other.padded(np.maximum(plan.G, NOTHING), NOTHING)
    return (
        layout.rows[0],
        stream.padded_norms[0],
        F,
        layout.columns[1],
        stream.padded_norms[1],
        G,
        *stream.lists[0],
        stream.ground.kind,
        stream.ground.scale,
    )


def top(solved: Solved, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and entries `(n, k)` of the k largest of each row, the largest first."""
    stream, plan = solved.stream, solved.proof.plan
    n, m = stream.shape
    columns, values = np.empty((n, k), dtype=np.int64), np.empty((n, k))
    if isinstance(stream, Tiles) and plan.alpha is None:
        own, other = stream.cells
        best = np.full((own.count, own.width, k), -1.0)
        places = np.zeros((own.count, own.width, k), dtype=np.int64)
        arguments = _arguments(stream, plan)
        stream.each(0, lambda cells: _READ.largest(cells, *arguments, best, places))
        back = _back(other)
        values[:], columns[:] = own.taken(best), back[own.taken(places)]
        short = np.flatnonzero((values < 0).any(1) | (columns < 0).any(1))  # fewer kept than asked for
    else:
        short = np.arange(n)
    step = max(1, _ENTRIES // m)
    for first in range(0, len(short), step):
        at = short[first : first + step]
        entries = rows(solved, at)
        order = np.argsort(-entries, axis=1, kind="stable")[:, :k]
        columns[at], values[at] = order, np.take_along_axis(entries, order, 1)
    return columns, values


def _back(cells: Any) -> np.ndarray:
    """The point at each place among the cells, -1 for padding."""
    out = np.full(cells.count * cells.width, -1, dtype=np.int64)
    out[cells.at] = np.arange(len(cells.at))
    return out


def above(solved: Solved, threshold: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of the entries above the threshold."""
    stream, plan = solved.stream, solved.proof.plan
    outside = plan.alpha is not None and plan.beta is not None and float(plan.alpha.max() * plan.beta.max()) > threshold
    if not isinstance(stream, Tiles) or outside:
        parts = []
        for i in _chunks(solved):
            entries = rows(solved, i)
            at, j = np.nonzero(entries > threshold)
            parts.append((i[at], j, entries[at, j]))
        found = [np.concatenate([part[k] for part in parts]) for k in range(3)]
        return found[0], found[1], found[2]
    own, other = stream.cells
    arguments = _arguments(stream, plan)
    alpha = own.padded(np.zeros(len(own.at)) if plan.alpha is None else plan.alpha, 0.0)
    beta = other.padded(np.zeros(len(other.at)) if plan.beta is None else plan.beta, 0.0)
    begin, none = np.zeros((own.count, own.width), dtype=np.int64), np.empty(0, dtype=np.int64)
    empty = np.empty(0)
    stream.each(0, lambda cells: _READ.above(cells, *arguments, alpha, beta, threshold, False, begin, none, empty))
    numbers = own.taken(begin)
    total = np.cumsum(begin.ravel())
    begin = np.concatenate([[0], total[:-1]]).reshape(begin.shape)
    starts = own.taken(begin)
    places, values = np.empty(int(total[-1]), dtype=np.int64), np.empty(int(total[-1]))
    stream.each(0, lambda cells: _READ.above(cells, *arguments, alpha, beta, threshold, True, begin, places, values))
    order = np.repeat(starts - np.concatenate([[0], np.cumsum(numbers)[:-1]]), numbers) + np.arange(int(total[-1]))
    return np.repeat(np.arange(len(numbers)), numbers), _back(other)[places[order]], values[order]


def draw(solved: Solved, levels: np.ndarray, within: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (i, j) with probability P_ij / mass, from two uniform numbers each."""
    stream, plan, marginal = solved.stream, solved.proof.plan, solved.proof.rows
    cumulative = np.cumsum(marginal)
    at = np.minimum(levels * cumulative[-1], np.nextafter(cumulative[-1], 0))
    i = np.searchsorted(cumulative, at, side="right")
    if isinstance(stream, Tiles) and plan.alpha is None:
        return i, _draw_in_cells(solved, i, within)
    j = np.empty(len(i), dtype=np.int64)
    order = np.argsort(i, kind="stable")
    step = max(1, _ENTRIES // stream.shape[1])
    for first in range(0, len(order), step):
        which = order[first : first + step]
        sums = np.cumsum(rows(solved, i[which]), axis=1)
        targets = np.minimum(within[which] * sums[:, -1], np.nextafter(sums[:, -1], 0))
        j[which] = (sums <= targets[:, None]).sum(1)
    return i, j


def _draw_in_cells(solved: Solved, i: np.ndarray, within: np.ndarray) -> np.ndarray:
    stream = solved.stream
    own, other = stream.cells
    # the running sums of the pass end at the marginal but for rounding
    targets = within * solved.proof.rows[i] * (1 - 1e-12)
    place = own.at[i]
    order = np.lexsort((targets, place))
    edges = np.searchsorted(place[order], np.arange(own.count * own.width + 1))
    begin, end = (x.reshape(own.count, own.width).copy() for x in (edges[:-1], edges[1:]))
    places, arguments, ordered = (
        np.full(len(i), -1, dtype=np.int64),
        _arguments(stream, solved.proof.plan),
        targets[order],
    )
    stream.each(0, lambda cells: _READ.draw(cells, *arguments, begin, end, ordered, places))
    j = np.empty(len(i), dtype=np.int64)
    j[order] = np.where(places >= 0, _back(other)[places], -1)
    lost = np.flatnonzero(j < 0)  # by rounding of the last bit: the largest entry of the row
    for k in lost:
        j[k] = int(np.argmax(rows(solved, i[k : k + 1])[0]))
    return j
