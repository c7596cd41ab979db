"""One large problem at a time on the CPU: a float32 kernel, its rows shared among threads.

Above a million entries a sweep is bound by memory, so K is stored in float32 and read once a sweep.  The sweeps
are those of `_kernels/sweeps.py`, mixed at every tau, with the loop in Python; the certificate is made in float64 at
the plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.transport._certificate import Certificate, solved
from jumbot.transport._kernels import gibbs, row_blocks, sides
from jumbot.transport._kernels.memory import empty
from jumbot.transport._kernels.policy import Relaxation, RingMixing, best_shift, kappa, stricter
from jumbot.transport._kernels.threads import run, split
from jumbot.transport._outcome import (
    BALANCED,
    GAP,
    ITERATIONS,
    KL,
    LINEAR,
    OBJECTIVE,
    POWER,
    RANGE,
    SCALE,
    Outcome,
    arguments,
    kinds_known,
    reference,
)
from jumbot.transport._problem import Problem

_CUT, _SPREAD = 50.0, 25.0  # float32 holds e^-87: entries below e^-CUT are dropped
_SLIP = 25.0  # how far the scale of the column sums, guessed beforehand, may be off
_SAMPLE = 16  # one row in so many gives the first column minima
_SHARES = 4  # blocks of rows per thread, because another process may delay one of the threads
_NOISE = 1e-12  # relative gap that float32 sums leave, for tau = epsilon
PATIENCE = 3000
_STALLED = 300  # sweeps without progress before giving up: float32 sums resolve no more


def fits(problem: Problem) -> bool:
    return problem.cost.device.type == "cpu" and kinds_known(problem)


def certifies(problem: Problem) -> bool:
    return False


def sweep(
    problem: Problem,
    start: tuple[Tensor, Tensor] | None,
    tol: float,
    limit: int,
    price: Tensor,
    rounded: bool = True,
) -> Outcome:
    """One problem after the other."""
    parts = []
    for k in range(problem.cost.shape[0]):
        first = None if start is None else (start[0][k].numpy(), start[1][k].numpy())
        parts.append(_Large(problem.take(slice(k, k + 1)), first, tol).run(tol, limit, float(price[k])))
    F, G, plan, rows, columns, stats = (_stack([part[i] for part in parts]) for i in range(6))
    certificate = Certificate(plan, rows, columns, *(stats[:, k] for k in (LINEAR, OBJECTIVE, GAP, SCALE)))
    return Outcome(F, G, stats[:, ITERATIONS], certificate)


def _stack(arrays: list[np.ndarray]) -> Tensor:
    return torch.from_numpy(arrays[0][None] if len(arrays) == 1 else np.stack(arrays))


class _Large:
    def __init__(self, problem: Problem, start: tuple[np.ndarray, np.ndarray] | None, tol: float) -> None:
        self.epsilon, self.scale = problem.epsilon, 1 / problem.epsilon
        self.cost = problem.cost[0].contiguous().numpy()
        self.a, self.b = problem.a[0].numpy(), problem.b[0].numpy()
        self.r_a, self.r_b, self.o_a, self.o_b = (x[0] for x in reference(problem))
        (self.kind_a, *self.source), (self.kind_b, *self.target) = (
            arguments(side, self.epsilon) for side, _ in problem.sides
        )
        (self.lifted_a, self.lift_a), (self.lifted_b, self.lift_b) = (self._lift(r) for r in (self.r_a, self.r_b))
        self.n, self.m = self.cost.shape
        self.blocks = [slice(*part) for part in split(self.n, _SHARES * torch.get_num_threads())]
        kinds = {self.kind_a, self.kind_b}
        soft = kinds <= {KL, POWER}
        noise = _NOISE * max(1.0, self.source[0], self.target[0])
        self.precision = np.float32 if soft and noise <= tol else np.float64
        self.plan = empty(self.n, self.m)
        self.K = self.plan.reshape(-1).view(np.float32)[: self.n * self.m].reshape(self.n, self.m)
        self.F0, self.G0, self.new_G = np.empty(self.n), np.empty(self.m), np.empty(self.m)
        self.soft_a, self.soft_b = np.empty(self.n), np.empty(self.m)
        self.work_a, self.work_b = np.empty((4, self.n)), np.empty((4, self.m))
        taus = (self.kind_a, self.source[0]), (self.kind_b, self.target[0])
        kappas = [kappa(tau) if kind == KL else 1.0 for kind, tau in taus]
        self.relaxation = Relaxation(kappas[0] * kappas[1] if KL in kinds and kinds <= {KL, BALANCED} else None)
        self.inverse_a, self.inverse_b = (1 / tau if kind == KL else 0.0 for kind, tau in taus)
        self.mixing = RingMixing(self.m) if kinds == {KL} else None
        self.count, self.omega, self.top_a = 0, 1.0, 0.0
        self.fresh = self.unbuilt = False
        if start is None and problem.blocked is None:
            self._begin()
        else:  # if pairs are blocked, some rows do not represent all
            f, g = (np.zeros(self.n), np.zeros(self.m)) if start is None else start
            self.F, self.G = f * self.scale, g * self.scale
            self._centre_rows(self.G)
            self._build()

    def _lift(self, r: np.ndarray) -> tuple[np.ndarray, float]:
        """Reference weights as the passes want them, and the log of the factor."""
        log_factor = row_blocks.LIFT - math.log(r.max())
        return r * math.exp(log_factor), log_factor

    def _begin(self) -> None:
        """Column minima at the minima of some rows, translated; the first sweep builds K around them.

        The row minima F0 at that G0 then have all row and column maxima of K at one, as if all rows had been used.
        """
        rows = np.flatnonzero(self.r_a > 0)
        first = np.arange(0, len(rows) - _SAMPLE + 1, _SAMPLE)
        if len(first) > 64:  # one of each run, at random: rows may be periodic in some class
            rows = rows[first + np.random.default_rng(0).integers(_SAMPLE, size=len(first))]
        shares = [slice(*part) for part in split(len(rows), len(self.blocks))]
        F, parts, added = np.empty(len(rows)), np.empty((len(shares), self.m)), self._added(np.zeros(self.m))

        def task(k: int) -> None:
            row_blocks.minima_of(self.cost, rows[shares[k]], self.scale, added, F[shares[k]], parts[k])

        run(task, range(len(shares)))
        self.G0[:] = parts.min(0)
        a = self.a[rows]
        mass = a.sum()
        if mass > 0:
            a *= self.a.sum() / mass
        else:
            a[:] = self.a.mean()
        work_a, work_b = np.empty(len(rows)), np.empty(self.m)
        if self.relaxation.known:
            self.top_a = best_shift(self.inverse_a, self.inverse_b, a, self.b, F, self.G0, work_a, work_b)
        self.F, self.G = np.zeros(self.n), self.G0 - self.top_a
        self.unbuilt = True

    def _each(self, task: Callable[[slice], Any]) -> list[Any]:
        return run(task, self.blocks)

    def _columns(self, task: Callable[[slice, np.ndarray], Any]) -> np.ndarray:
        """What `task` writes of the columns for each block of rows, `(blocks, m)`."""
        parts = np.empty((len(self.blocks), self.m))
        run(lambda k: task(self.blocks[k], parts[k]), range(len(self.blocks)))
        return parts

    def _centre_rows(self, G: np.ndarray) -> None:
        """F0 and G0 such that the row and column maxima of K are one, rows first."""
        added = self._added(G)

        def task(s: slice, part: np.ndarray) -> None:
            row_blocks.minima(self.cost[s], self.scale, added, self.r_a[s], self.F0[s], part)

        self.G0[:] = self._columns(task).min(0)

    def _added(self, G: np.ndarray) -> np.ndarray:
        """What the row minima add to costs."""
        return np.where(self.r_b > 0, -G, 1e200)

    def _centre_columns(self, F: np.ndarray) -> None:
        added = np.where(self.r_a > 0, -F, 1e200)

        def task(s: slice, part: np.ndarray) -> None:
            part[:] = 1e300
            gibbs.lower_column_minima(self.cost[s], self.scale, added[s], part)

        self.G0[:] = self._columns(task).min(0)
        added = self._added(self.G0)
        self._each(lambda s: gibbs.row_minima(self.cost[s], self.scale, added, self.F0[s]))

    def _build(self) -> None:
        self._each(lambda s: row_blocks.fill_single(self.cost[s], self.scale, self.F0[s], self.G0, _CUT, self.K[s]))
        self.fresh = True

    def _pass(self) -> tuple[np.ndarray, float]:
        """F from G, and the column sums at the new F with the log of their scale."""
        build, self.unbuilt = self.unbuilt, False
        w_b, top_b = self._weights(self.lifted_b, self.lift_b, self.G, self.G0)
        top_a = self.top_a if build else float(np.max(np.where(self.r_a > 0, self.F - self.F0, -np.inf)))
        w_a = np.empty(self.n, dtype=self.precision)
        sweep_rows, added = row_blocks.sweeper(self.kind_a, build), self._added(self.G0)

        def task(s: slice, part: np.ndarray) -> None:
            sweep_rows(
                self.cost[s],
                self.scale,
                self.G0,
                added,
                _CUT,
                self.K[s],
                w_b,
                top_b,
                self.F0[s],
                self.o_a[s],
                self.lifted_a[s],
                *self.source,
                self.omega,
                top_a,
                self.F[s],
                self.soft_a[s],
                w_a[s],
                part,
            )

        sums = self._columns(task)
        log_u = self.F - self.F0
        if self._spread(log_u, self.r_a) > _SPREAD:
            self._centre_columns(self.F)
            self._build()
            self.fresh = False
            return self._column_sums()
        if abs(float(np.max(np.where(self.r_a > 0, log_u, -np.inf))) - top_a) > _SLIP:
            return self._column_sums()
        return sums.sum(0), top_a - self.lift_a

    def _spread(self, log_scaling: np.ndarray, r: np.ndarray) -> float:
        return float(np.ptp(log_scaling[r > 0]))

    def _weights(self, lifted: np.ndarray, lift: float, x: np.ndarray, x0: np.ndarray) -> tuple[np.ndarray, float]:
        """Reference weights times scalings in the precision of the sums, and the log of their scale."""
        w = np.empty(len(lifted))
        top, _ = gibbs.scalings(lifted, x, x0, w)
        return w.astype(self.precision), top - lift

    def _column_sums(self) -> tuple[np.ndarray, float]:
        w_a, top_a = self._weights(self.lifted_a, self.lift_a, self.F, self.F0)
        sums = self._columns(lambda s, part: row_blocks.column_pass(self.K[s], w_a[s], part))
        return sums.sum(0), top_a

    def _sweep(self, price: float) -> tuple[float, float]:
        """One sweep, with the next G kept apart; returns estimates of the gap at F and G and of its scale."""
        self.count += 1
        if not self.fresh and self._spread(self.G - self.G0, self.r_b) > _SPREAD:
            self._centre_rows(self.G)
            self._build()
            self.unbuilt = False
        self.fresh = False
        self.omega = self.relaxation.next() if self.count > 1 and self.mixing is None else 1.0
        column, top = self._pass()
        self.soft_b[:] = self.G0 + self.o_b - top - np.log(np.maximum(column, 1e-300))
        sides.STEPS[self.kind_b](*self.target, self.soft_b, self.omega, self.G, self.new_G)
        sums, mass = self._fenchel_young(self.F - self.soft_a, self.G - self.soft_b)
        worth = sums[1] + mass + max(0.0, sums[3] - mass * math.log(self.m))
        gap = float(sums[0] + price * self.scale * sums[2])
        self.estimate = gap / max(float(worth), 1e-300)
        return gap, float(worth)

    def _fenchel_young(self, log_a: np.ndarray, log_b: np.ndarray) -> tuple[np.ndarray, float]:
        """What `sides.SIDES` sums over both sides with these log(p/a), and the mass of the rows."""
        sums = np.zeros(5)
        sides.SIDES[self.kind_a](*self.source, self.a, self.F, log_a, self.work_a, sums)
        mass = float(sums[4])
        sides.SIDES[self.kind_b](*self.target, self.b, self.G, log_b, self.work_b, sums)
        return sums, mass

    def _advance(self) -> None:
        """Go to the next G."""
        before, self.G, self.new_G = self.G, self.new_G, np.empty(self.m)
        if self.mixing is None:
            residual = float(np.abs(self.G - before)[self.r_b > 0].max()) / self.omega
            self.relaxation.observe(residual, self.count)
        self._translate()
        if self.mixing is not None:
            self.G = self.mixing.next(before, self.G, self.b, self.estimate)

    def _translate(self) -> None:
        if not self.relaxation.known:
            return
        shift = best_shift(
            self.inverse_a, self.inverse_b, self.a, self.b, self.F, self.G, self.work_a[0], self.work_b[0]
        )
        self.F += shift
        self.G -= shift

    def run(self, tol: float, limit: int, price: float) -> tuple[np.ndarray, ...]:
        hard = {self.kind_a, self.kind_b} & {BALANCED, RANGE}
        safety, best, best_at = 1.0, math.inf, 0
        while True:
            estimated = self._sweep(price)
            if self.estimate < 0.99 * best:
                best, best_at = self.estimate, self.count
            last = self.count >= limit or self.count > best_at + _STALLED
            if last or solved(*estimated, safety * tol):
                rows, columns, stats = self._certify()
                gap, scale = stats[GAP], stats[SCALE]
                if hard or last or solved(gap, scale, tol):
                    return self.F * self.epsilon, self.G * self.epsilon, self.plan, rows, columns, stats
                safety = stricter(safety, tol, scale, gap)
                self._build()
            self._advance()

    def _certify(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The plan in place of K, its marginals and what it proves."""
        rows = np.empty(self.n)
        parts = np.empty((len(self.blocks), self.m))
        F, G = (
            x + np.log(r, where=r > 0, out=np.full(len(r), -1e200)) for x, r in ((self.F, self.r_a), (self.G, self.r_b))
        )

        def task(k: int) -> Any:
            s = self.blocks[k]
            return row_blocks.write_plan(self.cost[s], self.scale, F[s], G, self.plan[s], rows[s], parts[k])

        linear, size = np.sum(run(task, range(len(self.blocks))), axis=0)
        columns = parts.sum(0)
        log_a, log_b = self.F - self.soft_a, self.G - self.soft_b
        sides.log_ratios(rows, self.a, log_a)
        sides.log_ratios(columns, self.b, log_b)
        sums, _ = self._fenchel_young(log_a, log_b)
        mass = rows.sum()
        value = self.epsilon * (self.F @ rows + self.G @ columns - mass + sums[1])
        scale = size + self.epsilon * (sums[1] + mass)
        return rows, columns, np.array([self.count, linear, value, self.epsilon * sums[0], scale])
