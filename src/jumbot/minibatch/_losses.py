"""h, the loss of one minibatch, for many minibatches at once.

Entropic transport with KL penalties between plain arrays of points goes from indices to slopes in tiles: a tile is a
few minibatches whose costs and plans stay in the cache of one core.  Each thread builds and solves tile after tile in
its own memory: a chunk that is first built and then solved goes through main memory instead, and threads wait whenever
one of them works alone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot._base.options import check_word
from jumbot.errors import ArgumentError, NotConvergedWarning
from jumbot.minibatch._costs import Minibatches, squared_distances
from jumbot.transport import _placement
from jumbot.transport._certificate import reachable, solved
from jumbot.transport._debiased import debiased, excess_mass, finer
from jumbot.transport._entropic import compiled_sweeps
from jumbot.transport._gradients import weight_gradient
from jumbot.transport._kernels import sweeps, symmetric
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.threads import Stop, run
from jumbot.transport._kernels.vectormath import exp
from jumbot.transport._marginal import Marginal, marginals
from jumbot.transport._outcome import GAP, OBJECTIVE, SCALE, arguments
from jumbot.transport._problem import Terms, check_reference, make_problem
from jumbot.transport._solve import MAX_ITERATIONS, find_outcome
from jumbot.transport.divergences import KL, Divergence

LOSSES = ("transport", "sinkhorn_divergence")
_TOGETHER = 64  # problems that `solve` finishes at once where tiles leave some open


@dataclass(frozen=True)
class Loss:
    """`transport` is OT(a, b, C); `sinkhorn_divergence` takes off half of the two self terms and adds the mass term."""

    name: str
    epsilon: float
    tau: Any
    divergence: str | Divergence = "kl"
    reference: str = "product"
    tol: float = 1e-6

    def __post_init__(self) -> None:
        check_word("loss", self.name, LOSSES)
        check_reference(self.reference)
        if self.name == "sinkhorn_divergence":
            if self.reference != "product":
                raise ArgumentError("reference: the Sinkhorn divergence is defined with 'product' only.")
            if isinstance(self.tau, tuple | list):
                raise ArgumentError("tau: the Sinkhorn divergence is symmetric; pass one number.")

    @property
    def terms(self) -> Terms:
        return Terms(self.epsilon, self.tau, self.divergence, self.reference)

    def __call__(
        self, batch: Minibatches, a: Tensor | None = None, b: Tensor | None = None, plan: bool = False
    ) -> Solved:
        """Weights are `(c, m)`, or None for uniform of mass one."""
        if self.name == "transport":
            return self._transport(batch, "x", "y", a, b, self.tol, plan)
        tol = finer(self.tol)
        between = self._transport(batch, "x", "y", a, b, tol, plan)
        x = self._transport(batch, "x", "x", a, a, tol, False)
        y = self._transport(batch, "y", "y", b, b, tol, False)
        excess = np.asarray(excess_mass(a, b), dtype=np.float64)
        shift = self.epsilon * excess[..., None]
        return Solved(
            debiased(between.value, x.value - x.gap, y.value - y.gap, self.epsilon, excess),
            between.gap + (x.gap + y.gap) / 2,
            np.unique(np.concatenate([between.unsolved, x.unsolved, y.unsolved])),
            (between.slopes[0] - x.slopes[0] + shift, between.slopes[1] - y.slopes[0] - shift),
            between.plan,
        )

    def _transport(
        self, batch: Minibatches, first: str, second: str, a: Tensor | None, b: Tensor | None, tol: float, plan: bool
    ) -> Solved:
        """In tiles where the problem is of the common kind; unfinished problems continue in the general solver."""
        many = batch.I.shape[1] * batch.J.shape[1] > _placement.LARGEST_MATRIX
        if many and self.epsilon > 0 and isinstance(batch.ground, str) and not plan:
            return self._from_points(batch, first, second, a, b, tol)
        sides = self._sides(batch, a, b)
        if sides is None:
            return self._general(batch, first, second, a, b, tol, plan)
        solved, reached = solve_tiles(batch, first, second, sides, tol, plan)
        left = []
        for number in range(0, len(solved.unsolved), _TOGETHER):
            at = solved.unsolved[number : number + _TOGETHER]
            part_a, part_b = None if a is None else a[at], None if b is None else b[at]
            start = None
            if all(k in reached for k in at):  # not where a point is not finite
                start = _stack([reached[k][0] for k in at]), _stack([reached[k][1] for k in at])
            part = self._general(batch.take(at), first, second, part_a, part_b, tol, plan, start)
            solved.put(at, part)
            left.append(at[part.unsolved])
        return replace(solved, unsolved=np.concatenate(left)) if left else solved

    def _from_points(
        self, batch: Minibatches, first: str, second: str, a: Tensor | None, b: Tensor | None, tol: float
    ) -> Solved:
        """Minibatches whose matrices would not fit, one after the other."""
        from jumbot.transport._points.sample_gradients import weight_gradient as slope
        from jumbot.transport._points.solve_sample import solve_sample

        found, slopes = [], []
        for k in range(len(batch.I)):
            x, y = (points.rows(index[k]) for points, index in map(batch.side, (first, second)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotConvergedWarning)  # `estimate` counts them
                solution = solve_sample(
                    x,
                    y,
                    None if a is None else a[k],
                    None if b is None else b[k],
                    cost=batch.ground,
                    epsilon=self.epsilon,
                    tau=self.tau,
                    divergence=self.divergence,
                    reference=self.reference,
                    tol=tol,
                )
            (solved,) = solution._solved
            found.append((float(solution.value), solved.proof.gap, solution.converged))
            slopes.append([_array(slope(solved, side)) for side in (0, 1)])
        value, gap, converged = map(np.array, zip(*found, strict=True))
        unsolved = np.flatnonzero(~converged)
        return Solved(value, gap, unsolved, tuple(np.stack(part) for part in zip(*slopes, strict=True)))

    def _sides(self, batch: Minibatches, a: Tensor | None, b: Tensor | None) -> Sides | None:
        """The problem as tiles take it, None where they do not."""
        if not batch.plain or self.reference != "product":
            return None
        p, q = (
            np.full((1, index.shape[1]), 1 / index.shape[1]) if w is None else w.numpy()
            for w, index in ((a, batch.I), (b, batch.J))
        )
        sides = Sides(p, q, self.epsilon, *marginals(self.divergence, self.tau))
        return sides if sides.fit else None

    def _general(
        self,
        batch: Minibatches,
        first: str,
        second: str,
        a: Tensor | None,
        b: Tensor | None,
        tol: float,
        plan: bool,
        start: tuple[Tensor, Tensor] | None = None,
    ) -> Solved:
        """By the general solver, starting from the result of the tiles."""
        cost = batch.cost(first, second)
        try:
            problem = make_problem(cost, a, b, self.terms)
        except ArgumentError:
            batch.check()  # if it is a point that is not finite, name its row rather than the cost
            raise
        swept = 0 if start is None else SWEEPS
        outcome = find_outcome(problem, start, tol, MAX_ITERATIONS, first == second, swept)
        certificate = outcome.certificate
        return Solved(
            _array(certificate.objective + problem.constant),
            _array(certificate.gap),
            np.flatnonzero(_array(~(certificate.relative_gap <= reachable(tol, self.epsilon)))),
            tuple(_array(weight_gradient(problem, outcome, k)) for k in (0, 1)),
            _array(outcome.plan) if plan else None,
        )


def _array(x: Tensor) -> np.ndarray:
    return x.detach().cpu().numpy()


def _stack(arrays: list[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.stack(arrays))


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
