"""The plan between two clouds as a stream of tiles: what the solver asks of it, for any cost.

Potentials enter as exponents F = f/epsilon + log r_a, with r the reference weights; P = e^(F + G - C/epsilon).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from jumbot.transport._kernels.threads import run, split
from jumbot.transport._points import passes
from jumbot.transport._points._team import ALONE
from jumbot.transport._points.kd_cells import LARGEST, Cells
from jumbot.transport._points.tile_math import NOTHING, PRODUCT, SQUARED, WFR, Ground

_SHARES = 16  # runs of row cells for each thread: another process may hold up one of them
_LOW, _HIGH = 1e-25, 1e25  # of sums in float32 that are certainly accurate
_BINS, _WIDTH = 600, 0.1  # of the logarithms of bounds on blocks
_RUNS = 64  # of row cells, whatever the number of threads: sums of bounds are then the same in all processes
_DENSE = 0.9  # share of kept blocks above which all are kept
_LN2, _MOST = math.log(2), 1e300
_PAIRS = 4096  # that a mean cost is estimated from
Lists = tuple[np.ndarray, np.ndarray, np.ndarray]


class Tiles:
    """Tiles of a named cost: cells of a kd-tree, of which those that cannot matter are left out."""

    may_be_closed = False  # of other points than `close` finds

    def __init__(self, x: np.ndarray, y: np.ndarray, ground: Ground, largest: int = LARGEST) -> None:
        self.ground = ground
        self.cells = Cells.of(x, largest), Cells.of(y, largest)
        by_products = ground.kind == PRODUCT
        self.norms = [_squares(c.points) if by_products else np.zeros(len(c.points)) for c in self.cells]
        self.padded_norms = [c.padded(v, 0.0) for c, v in zip(self.cells, self.norms, strict=True)]
        self._laid_out: tuple[type, dict[int, np.ndarray]] = np.float64, {}
        self.lists, self.kept, self.left_out = self._all(), 1.0, 0.0
        self.closed: list[np.ndarray | None] = [None, None]
        self.team = ALONE

    def close(self, weights: tuple[np.ndarray, np.ndarray]) -> None:
        """Find the points whose cost to all points of weight is infinite: none, but for -log cos^2."""
        if self.ground.kind == WFR:
            for k, other in enumerate(weights[::-1]):
                zero = np.zeros(self.shape[k])
                least = self._minima(k, np.where(other > 0, 0.0, NOTHING), None, zero)
                self.closed[k] = least >= -NOTHING

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.cells[0].points), len(self.cells[1].points)

    @property
    def noise(self) -> float:
        """What a float32 exponent of a pair that matters may be off by, potentials apart."""
        reach = max(float(np.abs(c.points).max()) for c in self.cells)
        by_products = self.ground.kind == PRODUCT
        return 2.0**-23 * (max(float(v.max()) for v in self.norms) * 2 if by_products else 10 * reach + 40)

    def _all(self) -> tuple[Lists, Lists]:
        a, b = (c.count for c in self.cells)
        return _every(a, b), _every(b, a)

    def coordinates(self, side: int, dtype: type = np.float64) -> np.ndarray:
        """Those of a side as the passes take them, `(cells, d, width)`.

        Made when asked for, in one precision at a time, because they are the largest arrays.
        """
        if self._laid_out[0] is not dtype:
            self._laid_out = dtype, {}
        made = self._laid_out[1]
        if side not in made:
            made[side] = self.cells[side].coordinates(dtype, self.ground.base if dtype == np.float32 else 1.0)
        return made[side]

    def _exponents(self, side: int, values: np.ndarray, dtype: type) -> np.ndarray:
        """Exponents of the points of a side, without what the products leave out."""
        padded = np.maximum(values - self.norms[side], NOTHING)
        if dtype == np.float32:
            padded = np.maximum(padded / _LN2, NOTHING)
        return self.cells[side].padded(padded, NOTHING, dtype)

    def _shares(self, side: int, cells: np.ndarray | None = None) -> list[np.ndarray]:
        """Row cells in runs of about as many blocks."""
        first, last, _ = self.lists[side]
        cells = np.arange(self.cells[side].count) if cells is None else cells
        if not len(cells):
            return []
        total = np.cumsum(last[cells] - first[cells])
        parts = min(len(cells), _SHARES * torch.get_num_threads())
        edges = np.searchsorted(total, np.arange(1, parts) * total[-1] / parts)
        return [part for part in np.split(cells, edges) if len(part)]

    def log_sums(self, side: int, other: np.ndarray, guess: np.ndarray | None, dtype: type) -> np.ndarray:
        """log sum_j e^(G_j - C_ij/epsilon) of the points of a side; near -guess, it takes one pass less."""
        dtype = dtype if self.ground.single else np.float64
        if guess is None:
            guess = self._minima(side, other, None, np.zeros(len(self.norms[side])))
        sums, shift = self._sums(side, other, guess, dtype, None)
        wrong = ~((sums > _LOW) & (sums < _HIGH))
        if wrong.any():
            again = np.unique(self.cells[side].at[wrong] // self.cells[side].width)
            guess = self._minima(side, other, again, guess)
            new, new_shift = self._sums(side, other, guess, dtype, again)
            here = np.isin(self.cells[side].at // self.cells[side].width, again)
            sums, shift = np.where(here, new, sums), np.where(here, new_shift, shift)
        return np.log(np.maximum(sums, 1e-300)) - shift

    def _sums(
        self, side: int, other: np.ndarray, guess: np.ndarray, dtype: type, cells: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """sum_j e^(guess_i + G_j - C_ij/epsilon) of the points in some cells, and the guess as `dtype` holds it."""
        F, G = self._exponents(side, guess, dtype), self._exponents(1 - side, other, dtype)
        out = np.zeros(F.shape)
        kernel = passes.sums_single if dtype == np.float32 else passes.sums_double
        self._run(kernel, side, self.tiling(side, F, G, dtype), (out,), out, cells)
        if dtype == np.float32:
            guess = self.cells[side].taken(F).astype(np.float64) * _LN2 + self.norms[side]
        return self.cells[side].taken(out), guess

    def both_log_sums(
        self, G: np.ndarray, guesses: Any, dtype: type, rows_at: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """`log_sums` of the rows, and of the columns at F = rows_at(those of the rows): with one all-reduce.

        Each process sums up its own rows, and what these add to the columns.
        """
        dtype = dtype if self.ground.single else np.float64
        team, lists, own = self.team, self.lists, self.cells[0]
        mine = np.arange(own.count)[self._part(0, np.arange(own.count))]
        here = np.isin(own.at // own.width, mine)
        self.team = ALONE
        try:
            sums, shift = self._sums(0, G, guesses[0], dtype, mine)
            if (here & ~((sums > _LOW) & (sums < _HIGH))).any():
                guess = self._minima(0, G, mine, guesses[0])
                sums, shift = self._sums(0, G, guess, dtype, mine)
            rows = np.where(here, np.log(np.maximum(sums, 1e-300)) - shift, 0.0)
            self.lists = lists[0], _within(lists[1], mine)
            added, shift = self._sums(1, np.where(here, rows_at(rows), NOTHING), guesses[1], dtype, None)
        finally:
            self.team, self.lists = team, lists
        both = team.joined(np.concatenate([rows, added]))
        rows, sums = both[: len(rows)], both[len(rows) :]
        if not ((sums > _LOW) & (sums < _HIGH)).all():
            return rows, self.log_sums(1, rows_at(rows), guesses[1], dtype)
        return rows, np.log(sums) - shift

    def _minima(self, side: int, other: np.ndarray, cells: np.ndarray | None, guess: np.ndarray) -> np.ndarray:
        """min_j C_ij/epsilon - G_j, of the points in some cells; else the guess."""
        own, out = self.cells[side], self.cells[side].padded(guess, 0.0)
        out[slice(None) if cells is None else cells] = _MOST
        G = self.cells[1 - side].padded(np.maximum(other, NOTHING), NOTHING)
        self._run(passes.minima, side, self.tiling(side, out, G), (out,), out, cells)
        return own.taken(out)

    def tiling(
        self,
        side: int,
        own: np.ndarray,
        other: np.ndarray,
        dtype: type = np.float64,
        wanted: np.ndarray = passes.EVERY,
    ) -> tuple[Any, ...]:
        """What every pass takes after its cells: the points of a side as rows, with padded exponents of both sides."""
        x, y = self.coordinates(side, dtype), self.coordinates(1 - side, dtype)
        norms, ground = self.padded_norms, self.ground
        return x, norms[side], own, y, norms[1 - side], other, *self.lists[side], wanted, ground.kind, ground.scale

    def padded(self, side: int, own: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Exponents of the points of a side and of the other, in float64, as `tiling` takes them."""
        first, second = self.cells[side], self.cells[1 - side]
        return first.padded(np.maximum(own, NOTHING), NOTHING), second.padded(np.maximum(other, NOTHING), NOTHING)

    def _run(
        self, kernel: Any, side: int, tiling: Any, state: Any, out: np.ndarray, cells: np.ndarray | None = None
    ) -> None:
        """A pass over row cells, or over some of them, in threads; `out` `(cells, ...)` is what it writes.

        Each process does its part, and has all of `out` in the end.
        """
        cells = np.arange(self.cells[side].count) if cells is None else cells
        own = cells[self._part(side, cells)]
        run(lambda part: kernel(part, tiling, state), self._shares(side, own))
        if self.team.world > 1:
            kept = np.zeros_like(out)
            kept[own] = out[own]
            out[cells] = self.team.joined(kept[cells])

    def _part(self, side: int, cells: np.ndarray) -> slice:
        first, last, _ = self.lists[side]
        return self.team.part(last[cells] - first[cells])

    def each(self, kernel: Any, side: int, tiling: Any, state: Any) -> None:
        """A pass over all row cells, in threads of this process alone."""
        run(lambda part: kernel(part, tiling, state), self._shares(side))

    def plan_sums(self, F: np.ndarray, G: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        """P 1, P' 1, and <C, P> and <|C|, P> in units of epsilon, in float64."""
        own, other = self.cells
        shares = self._shares(0, np.arange(own.count)[self._part(0, np.arange(own.count))])
        tiling = self.tiling(0, *self.padded(0, F, G))
        rows, linear = np.zeros((own.count, own.width)), np.zeros((own.count, own.width))
        parts = np.array_split(np.arange(len(shares)), torch.get_num_threads())
        columns = np.zeros((len(parts), other.count, other.width))

        def task(k: int) -> None:
            for share in parts[k]:
                passes.plan_sums(shares[share], tiling, (rows, linear, columns[k]))

        run(task, range(len(parts)))
        rows, linear, total = (self.team.joined(z) for z in (rows, linear, columns.sum(0)))
        paid = float(own.taken(linear).sum())
        return own.taken(rows), other.taken(total), paid, paid

    def products(self, side: int, F: np.ndarray, G: np.ndarray, v: np.ndarray, by_slopes: bool = False) -> np.ndarray:
        """P v (side 0) or P' v, `(n, k)`; `by_slopes` as the pass of that name."""
        own, other = self.cells[side], self.cells[1 - side]
        tiling = self.tiling(side, *self.padded(side, *((F, G) if side == 0 else (G, F))))
        columns = np.stack([other.padded(column, 0.0) for column in v.T], axis=1)
        out = np.zeros((own.count, own.width, v.shape[1]))
        self._run(passes.products, side, tiling, (by_slopes, columns, out), out)
        return own.taken(out)

    def mixture(
        self, F: np.ndarray, G: np.ndarray, log_u: np.ndarray, log_v: np.ndarray, alpha: np.ndarray, beta: np.ndarray
    ) -> tuple[float, float, np.ndarray]:
        """KL(Q | P) and <C, Q> over the kept blocks, Q = u P v + alpha beta'; of alpha beta' in the others its mass, a
        bound on <C, .>, and one on sum e log(e/P)."""
        own, other = self.cells
        log_alpha, log_beta = (np.log(np.maximum(x, 1e-300)) - 1e5 * (x <= 0) for x in (alpha, beta))
        out, logs = np.zeros((own.count, 2)), (own.padded(log_u, 0.0), other.padded(log_v, 0.0))
        state = *logs, own.padded(log_alpha, -1e5), other.padded(log_beta, -1e5), out
        self._run(passes.mixture, 0, self.tiling(0, *self.padded(0, F, G)), state, out)
        rest = np.zeros(3)
        if self.kept < 1.0 and alpha.sum() > 0:
            sums = []
            for cells, x, log_x, values in ((own, alpha, log_alpha, F), (other, beta, log_beta, G)):
                cell = cells.at // cells.width
                terms = np.where(x > 0, x * (log_x - values), 0.0)
                sums += [np.bincount(cell, x, cells.count), np.bincount(cell, terms, cells.count)]
            rows, columns = (*own.boxes, *sums[:2]), (*other.boxes, *sums[2:])
            for k in range(own.count):
                passes.fill_left_out(rows, columns, self.lists[0], (self.ground.kind, self.ground.scale), k, rest)
        return float(out[:, 0].sum()), float(out[:, 1].sum()), rest

    def mean_cost(self, a: np.ndarray, b: np.ndarray) -> float:
        """The mean cost over epsilon under a b', from some pairs."""
        draw = np.random.default_rng(0)
        i, j = (draw.choice(len(w), _PAIRS, p=w / w.sum()) for w in (a, b))
        z = ((self.cells[0].points[i] - self.cells[1].points[j]) ** 2).sum(1)
        cost = z if self.ground.kind in (SQUARED, PRODUCT) else np.sqrt(z)
        return float(cost.mean())

    def choose(self, F: np.ndarray, G: np.ndarray, budget: float) -> float:
        """Leave out blocks of the plan whose mass is at most `budget` in all; returns a bound on what they hold."""
        log_a, log_b = (_log_mass(c, values) for c, values in zip(self.cells, (F, G), strict=True))
        rows, columns = ((*c.boxes, logs) for c, logs in zip(self.cells, (log_a, log_b), strict=True))
        ground = self.ground.kind, self.ground.scale
        least = math.log(budget / (len(log_a) * len(log_b)))

        def weigh(part: tuple[int, int]) -> np.ndarray:
            bins = np.zeros(_BINS)
            for a in range(*part):
                passes.weigh_blocks(rows, columns, ground, a, least, _WIDTH, bins)
            return bins

        parts = split(len(log_a), _RUNS)
        within = int(np.searchsorted(np.cumsum(np.sum(run(weigh, parts), axis=0)), budget, side="right"))
        threshold = least + _WIDTH * (within - 1)

        def keep(part: tuple[int, int]) -> tuple[list[np.ndarray], float]:
            kept, lists, left = np.empty(len(log_b), dtype=np.int64), [], 0.0
            for a in range(*part):
                count, dropped = passes.keep_blocks(rows, columns, ground, a, threshold, kept)
                lists.append(kept[:count].astype(np.int32))
                left += dropped
            return lists, left

        found = run(keep, parts)
        lists = [part for lists, _ in found for part in lists]
        for b in np.setdiff1d(np.arange(len(log_b)), np.concatenate(lists)):  # a column cell meets one at least, too
            best = np.empty(len(log_a), dtype=np.int64)
            passes.keep_blocks(columns, rows, ground, int(b), np.inf, best)
            lists[best[0]] = np.sort(np.append(lists[best[0]], np.int32(b)))
        self._set(lists)
        self.left_out = 0.0 if self.kept == 1.0 else sum(left for _, left in found) * (1 + 1e-9)
        return self.left_out

    def _set(self, lists: list[np.ndarray]) -> None:
        a, b = (c.count for c in self.cells)
        number = sum(map(len, lists))
        if number > _DENSE * a * b:
            self.lists, self.kept = self._all(), 1.0
            return
        first = np.concatenate([[0], np.cumsum([len(part) for part in lists])])
        met = np.concatenate(lists)
        rows = np.repeat(np.arange(a, dtype=np.int32), np.diff(first))
        order = np.argsort(met, kind="stable")
        back = np.concatenate([[0], np.cumsum(np.bincount(met, minlength=b))])
        self.lists = (first[:-1], first[1:], met), (back[:-1], back[1:], rows[order])
        self.kept = number / (a * b)


def _squares(points: np.ndarray) -> np.ndarray:
    norms: np.ndarray = np.einsum("ij,ij->i", points, points)
    return norms


def _every(a: int, b: int) -> Lists:
    return np.zeros(a, dtype=np.int64), np.full(a, b), np.arange(b, dtype=np.int32)


def _within(lists: Lists, cells: np.ndarray) -> Lists:
    """The lists of column cells with those of a run of row cells alone; they rise."""
    first, last, met = lists
    edges = (cells[0], cells[-1] + 1) if len(cells) else (0, 0)
    below, through = (np.concatenate([[0], np.cumsum(met < edge)]) for edge in edges)
    return first + below[last] - below[first], first + through[last] - through[first], met


def _log_mass(cells: Cells, values: np.ndarray) -> np.ndarray:
    """log sum e^values of each cell."""
    padded = cells.padded(np.maximum(values, NOTHING), NOTHING)
    top = padded.max(1, keepdims=True)
    return np.log(np.exp(padded - top).sum(1)) + top[:, 0]
