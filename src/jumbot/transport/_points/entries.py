"""Entries of a plan that is not stored, as they are asked for: rows, the largest, those above a threshold, draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._points.callable_tiles import CallableTiles
from jumbot.transport._points.passes import EVERY, entries, over_blocks, visiting
from jumbot.transport._points.point_tiles import Tiles
from jumbot.transport._points.rounding import Solved, StreamedPlan
from jumbot.transport._points.tile_math import ROOT, ROWS, WFR, add_up

_ENTRIES = 1 << 20


@compiled()
def _insert(p: Any, place: int, values: Any, places: Any) -> None:
    """Entries into a list that falls, where they are larger than its last."""
    for j in range(p.shape[0]):
        k = values.shape[0] - 1
        if p[j] > values[k]:
            while k > 0 and values[k - 1] < p[j]:
                values[k], places[k] = values[k - 1], places[k - 1]
                k -= 1
            values[k], places[k] = p[j], place + j


@visiting
def _find_largest(a: int, i: int, b: int, z: Any, work: Any, tiles: Any, state: Any) -> None:
    entries(a, i, b, z, work[0], tiles)
    _insert(work[0], b * z.shape[0], state[0][a, i], state[1][a, i])


@compiled()
def _list(p: Any, alpha: float, beta: Any, threshold: float, write: bool, at: int, place: int, out: Any) -> int:
    """Count, or write, the entries above the threshold; where the next one goes."""
    for j in range(p.shape[0]):
        value = p[j] + alpha * beta[j]
        if value > threshold:
            if write:
                out[0][at], out[1][at] = place + j, value
            at += 1
    return at


@visiting
def _find_above(a: int, i: int, b: int, z: Any, work: Any, tiles: Any, state: Any) -> None:
    alpha, beta, threshold, write, begin, places, values = state
    entries(a, i, b, z, work[0], tiles)
    out = places, values
    begin[a, i] = _list(work[0], alpha[a, i], beta[b], threshold, write, begin[a, i], b * z.shape[0], out)


@visiting
def _find_levels(a: int, i: int, b: int, z: Any, work: Any, tiles: Any, state: Any) -> None:
    begin, end, levels, passed, places = state
    if begin[a, i] < end[a, i]:
        entries(a, i, b, z, work[0], tiles)
        begin[a, i] = _pass_levels(work[0], begin[a, i], end[a, i], levels, passed[a, i], b * z.shape[0], places)
        passed[a, i] += add_up(work[0])


@compiled()
def _pass_levels(p: Any, at: int, end: int, levels: Any, before: float, place: int, places: Any) -> int:
    """Write where the running sum passes the levels that lie in this block; the first level that does not."""
    whole = before + add_up(p)
    while at < end and levels[at] < whole:
        running, j = before, 0
        while j < p.shape[0] - 1 and running + p[j] <= levels[at]:
            running += p[j]
            j += 1
        places[at] = place + j
        at += 1
    return at


#: state (values, places): the largest entries of each row, `(A, W, k)`, and where they are; what is there counts too.
_largest = over_blocks(_find_largest)
#: state (alpha, beta, threshold, write, begin, places, values): count the entries of each row above the threshold in
#: `begin` `(A, W)`, or write them from there on.
_above = over_blocks(_find_above)
#: state (begin, end, levels, passed, places): for each row the columns at which its running sum, from `passed` on,
#: passes `levels[begin:end]`, which rise.
_levels = over_blocks(_find_levels)


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
        kept_cells = np.zeros((len(i), other.count), dtype=bool)
        for k, cell in enumerate(own.at[i] // own.width):
            kept_cells[k, met[first[cell] : last[cell]]] = True
        cost = np.where(kept_cells[:, other.at // other.width], cost, np.inf)
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


def _tiling(stream: Tiles, plan: StreamedPlan, wanted: np.ndarray = EVERY) -> tuple[Any, ...]:
    return stream.tiling(0, *stream.padded(0, plan.F, plan.G), wanted=wanted)


def top(solved: Solved, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and entries `(n, k)` of the k largest of each row, the largest first."""
    stream, plan = solved.stream, solved.proof.plan
    n, m = stream.shape
    columns, values = np.empty((n, k), dtype=np.int64), np.empty((n, k))
    if isinstance(stream, Tiles) and plan.alpha is None:
        own, other = stream.cells
        best = np.full((own.count, own.width, k), -1.0)
        places = np.zeros((own.count, own.width, k), dtype=np.int64)
        stream.each(_largest, 0, _tiling(stream, plan), (best, places))
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
    tiling = _tiling(stream, plan)
    alpha = own.padded(np.zeros(len(own.at)) if plan.alpha is None else plan.alpha, 0.0)
    beta = other.padded(np.zeros(len(other.at)) if plan.beta is None else plan.beta, 0.0)
    begin, none = np.zeros((own.count, own.width), dtype=np.int64), np.empty(0, dtype=np.int64)
    stream.each(_above, 0, tiling, (alpha, beta, threshold, False, begin, none, np.empty(0)))
    numbers = own.taken(begin)
    total = np.cumsum(begin.ravel())
    begin = np.concatenate([[0], total[:-1]]).reshape(begin.shape)
    starts = own.taken(begin)
    places, values = np.empty(int(total[-1]), dtype=np.int64), np.empty(int(total[-1]))
    stream.each(_above, 0, tiling, (alpha, beta, threshold, True, begin, places, values))
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
    # the running sums of the pass end at the marginal up to rounding
    targets = within * solved.proof.rows[i] * (1 - 1e-12)
    place = own.at[i]
    order = np.lexsort((targets, place))
    edges = np.searchsorted(place[order], np.arange(own.count * own.width + 1))
    begin, end = (x.reshape(own.count, own.width).copy() for x in (edges[:-1], edges[1:]))
    wanted = np.asarray((begin < end).reshape(own.count, -1, ROWS).any(2))
    places, passed = np.full(len(i), -1, dtype=np.int64), np.zeros(begin.shape)
    tiling = _tiling(stream, solved.proof.plan, wanted)
    stream.each(_levels, 0, tiling, (begin, end, targets[order], passed, places))
    j = np.empty(len(i), dtype=np.int64)
    j[order] = np.where(places >= 0, _back(other)[places], -1)
    lost = np.flatnonzero(j < 0)  # by rounding of the last bit: the largest entry of the row
    for k in lost:
        j[k] = int(np.argmax(rows(solved, i[k : k + 1])[0]))
    return j
