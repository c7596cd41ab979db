"""Entropic transport with KL penalties between plain arrays of points, from indices to slopes in tiles.

A tile is a few minibatches whose costs and plans stay in the cache of one core.  Each thread builds and solves tile
after tile in its own memory: a chunk that is first built and then solved goes through main memory instead, and threads
wait whenever one of them works alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from jumbot.minibatch._costs import Minibatches, squared_distances
from jumbot.transport._certificate import solved
from jumbot.transport._entropic import compiled_sweeps
from jumbot.transport._kernels import sweeps, symmetric
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.threads import Stop, run
from jumbot.transport._kernels.vectormath import exp
from jumbot.transport._marginal import Marginal
from jumbot.transport._outcome import GAP, OBJECTIVE, SCALE, arguments
from jumbot.transport.divergences import KL

_ENTRIES = 1 << 16  # of the cost matrices of a tile: half a megabyte, and as much for the plans
#: Problems that need more are left to the general solver.
SWEEPS = 3000


@dataclass(frozen=True)
class Sides:
    """The problem without its cost: KL penalties, reference a b', and positive weights `(c, m)` or `(1, m)`."""

    a: np.ndarray
    b: np.ndarray
    epsilon: float
    source: Marginal
    target: Marginal

    @property
    def fit(self) -> bool:
        """Whether the problem is of this kind, and a tile holds one."""
        kl = isinstance(self.source.divergence, KL) and isinstance(self.target.divergence, KL)
        small = self.a.shape[1] * self.b.shape[1] <= compiled_sweeps.LARGEST
        return kl and small and self.epsilon > 0 and bool((self.a > 0).all()) and bool((self.b > 0).all())


@dataclass(frozen=True)
class Solved:
    """What is known of c minibatches, as numpy or torch: `unsolved` lists those above tol or not finite.

    Values and gaps are `(c,)`, `slopes` the derivatives in the weights of both sides `(c, m)`, plans `(c, m, m)`.
    """

    value: Any
    gap: Any
    unsolved: np.ndarray
    slopes: tuple[Any, ...] = ()
    plan: Any = None

    def put(self, at: np.ndarray, part: Solved) -> None:
        """Take over the minibatches `at` from `part`."""
        pairs = (self.value, part.value), (self.gap, part.gap), *zip(self.slopes, part.slopes, strict=True)
        for mine, new in pairs:
            mine[at] = new
        if self.plan is not None and part.plan is not None:
            self.plan[at] = part.plan


@compiled(fastmath={"reassoc"})
def _sum(costs: Any, count: int) -> float:
    """The sum of the first `count` matrices, compiled without the promise that there is no NaN."""
    total = 0.0
    for k in range(count):
        for i in range(costs.shape[1]):
            row = costs[k, i]
            for j in range(row.shape[0]):
                total += row[j]
    return total


@compiled()
def _slopes(F: Any, weights: Any, marginal: Any, other: Any, epsilon: float, tau: float, out: Any) -> None:
    """The derivative in the weights: tau (1 - e^{-f/tau}) + epsilon (mass of the other side - (P 1)/a)."""
    scale = epsilon / tau
    for k in range(out.shape[0]):
        w = weights[k if weights.shape[0] > 1 else 0]
        mass = other[k if other.shape[0] > 1 else 0].sum()
        for i in range(out.shape[1]):
            out[k, i] = tau - tau * exp(min(-F[k, i] * scale, 700.0)) + epsilon * (mass - marginal[k, i] / w[i])


def solve_tiles(
    batch: Minibatches, first: str, second: str, sides: Sides, tol: float, plan: bool
) -> tuple[Solved, dict[int, tuple[np.ndarray, np.ndarray]]]:
    """OT between the "x" or "y" minibatches and the "x" or "y" minibatches; of one with itself as symmetric.

    Also the potentials of the minibatches that `SWEEPS` sweeps have left unsolved.
    """
    tiles, epsilon = _Tiles(batch, first, second, sides, tol, plan), sides.epsilon
    count, n, m = tiles.shape
    threads = torch.get_num_threads() if count * n * m >= _ENTRIES else 1
    size = max(1, min(_ENTRIES // (n * m), -(-count // threads)))
    tiles.work(size, iter([count]))  # an empty tile compiles everything before the threads start
    starts, stop = iter(range(0, count, size)), tiles.stop
    run(lambda _: tiles.work(size, (start for start in starts if not stop)), range(threads), stop)
    gap, scale = tiles.out[:, GAP], tiles.out[:, SCALE]
    value = tiles.out[:, OBJECTIVE] + epsilon * sides.a.sum(1) * sides.b.sum(1)
    unsolved = np.flatnonzero(~solved(gap, scale, tol))
    return Solved(value, gap, unsolved, tiles.slopes, tiles.plans), tiles.left


class _Tiles:
    """What the threads of one call share: the minibatches, their solver, and the arrays that results go to."""

    def __init__(self, batch: Minibatches, first: str, second: str, sides: Sides, tol: float, plan: bool) -> None:
        (p, self.I), (q, self.J) = batch.side(first), batch.side(second)
        self.x, self.y, self.root = np.asarray(p.data), np.asarray(q.data), batch.ground == "euclidean"
        self.sides, self.tol, self.symmetric = sides, tol, first == second
        count, n, m = self.shape = *self.I.shape, self.J.shape[1]
        (kind_a, *self.side_a), (kind_b, *self.side_b) = (
            arguments(side, sides.epsilon) for side in (sides.source, sides.target)
        )
        self.solve = symmetric.solver(kind_a) if self.symmetric else sweeps.solver(kind_a, kind_b)
        self.out, self.slopes = np.full((count, 5), np.nan), (np.empty((count, n)), np.empty((count, m)))
        self.plans = np.empty((count, n, m)) if plan else None
        self.stop, self.left = Stop(), dict[int, tuple[np.ndarray, np.ndarray]]()

    def work(self, size: int, starts: Iterator[int]) -> None:
        """Tiles of so many minibatches from these on, in this thread's own memory."""
        count, n, m = self.shape
        costs, spare, price = np.empty((size, n, m)), np.empty((size, n, m)), np.zeros(size)
        F, G, rows, columns = np.empty((size, n)), np.empty((size, m)), np.empty((size, n)), np.empty((size, m))
        zeros = np.zeros((size, n)), np.zeros((size, m))
        memory = symmetric.memory(n) if self.symmetric else sweeps.memory(n, m)
        sides, epsilon, flag = self.sides, self.sides.epsilon, self.stop.flag
        for start in starts:
            at = slice(start, min(start + size, count))
            c = at.stop - start
            P = spare if self.plans is None else self.plans[at]
            squared_distances(self.x, self.y, self.I[at], self.J[at], self.root, costs, 0, c)
            if not math.isfinite(_sum(costs, c)):
                continue
            a, b = (w if len(w) == 1 else w[at] for w in (sides.a, sides.b))
            o_a, o_b = zeros[0][: len(a)], zeros[1][: len(b)]
            end = self.out[at], *memory, flag, 0, c
            if self.symmetric:
                self.solve(costs, a, a, o_a, epsilon, *self.side_a, self.tol, SWEEPS, price, F, P, rows, *end)
            else:
                problem = costs, a, b, a, b, o_a, o_b, epsilon, *self.side_a, *self.side_b
                self.solve(*problem, True, self.tol, SWEEPS, price, F, G, P, rows, columns, *end)
                _slopes(G, b, columns, a, epsilon, sides.target.tau, self.slopes[1][at])
            _slopes(F, a, rows, b, epsilon, sides.source.tau, self.slopes[0][at])
            for k in np.flatnonzero(~solved(self.out[at, GAP], self.out[at, SCALE], self.tol)):
                self.left[start + int(k)] = F[k] * epsilon, (F if self.symmetric else G)[k] * epsilon
