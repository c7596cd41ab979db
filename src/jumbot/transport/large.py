"""One large problem at a time on the CPU: float32 storage, float64 sums, rows of the kernel shared among threads.

Above a million entries a sweep is bound by memory, so K is stored in float32 and read once a sweep.  The algorithm
is that of `kernels.py`, with the loop over sweeps in Python; the certificate is evaluated in float64 at the plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.transport.certificate import Certificate, Outcome
from jumbot.transport.fused import arguments, kinds_known, reference
from jumbot.transport.problem import Problem
from jumbot.transport.threads import run, split

_CUT, _SPREAD = 50.0, 25.0  # float32 holds e^-87: entries below e^-CUT are dropped
_PATIENCE = 300  # sweeps without progress before giving up: float32 sums resolve no more


def fits(problem: Problem) -> bool:
    return problem.cost.device.type == "cpu" and kinds_known(problem)


def sweep(
    problem: Problem, start: tuple[Tensor, Tensor] | None, tol: float, limit: int, price: Tensor
) -> Outcome:  # fmt: skip
    """As `fused.sweep`, one problem after the other."""
    parts = []
    for k in range(problem.cost.shape[0]):
        first = None if start is None else (start[0][k].numpy(), start[1][k].numpy())
        parts.append(_Large(problem.take(slice(k, k + 1)), first).run(tol, limit, float(price[k])))
    F, G, plan, rows, columns, stats = (_stack([part[i] for part in parts]) for i in range(6))
    certificate = Certificate(plan, rows, columns, *(stats[:, k] for k in range(1, 5)))
    return Outcome(F, G, stats[:, 0], certificate)


def _stack(arrays: list[np.ndarray]) -> Tensor:
    return torch.from_numpy(arrays[0][None] if len(arrays) == 1 else np.stack(arrays))


class _Large:
    def __init__(self, problem: Problem, start: tuple[np.ndarray, np.ndarray] | None) -> None:
        from jumbot.transport import kernels

        self.kernels = kernels
        self.epsilon, self.scale = problem.epsilon, 1 / problem.epsilon
        self.cost = problem.cost[0].contiguous().numpy()
        self.a, self.b = problem.a[0].numpy(), problem.b[0].numpy()
        (self.r_a, self.o_a), (self.r_b, self.o_b) = reference(problem, self.a), reference(problem, self.b)
        self.skip_a, self.skip_b = (np.where(r > 0, 0.0, 1e200) for r in (self.r_a, self.r_b))
        self.source, self.target = arguments(problem.source, self.epsilon), arguments(problem.target, self.epsilon)
        self.n, self.m = self.cost.shape
        self.blocks = [slice(*part) for part in split(self.n, torch.get_num_threads())]
        self.K = np.empty((self.n, self.m), dtype=np.float32)
        self.F0, self.G0 = np.empty(self.n), np.empty(self.m)
        self.cold = start is None
        if start is None:
            self._centre_rows(np.zeros(self.m))
            work = np.empty(self.n), np.empty(self.m)
            shift = kernels.translation(*self.source[:2], *self.target[:2], self.a, self.b, self.F0, self.G0, *work)
            self.F, self.G = self.F0 + shift, self.G0 - shift
        else:
            self.F, self.G = start[0] * self.scale, start[1] * self.scale
            self._centre_rows(self.G)
        self._build()

    def _each(self, task: Callable[[slice], Any]) -> list[Any]:
        return run(task, self.blocks)

    def _centre_rows(self, G: np.ndarray) -> None:
        """F0 and G0 such that the row and column maxima of K are one, rows first."""
        parts = np.empty((len(self.blocks), self.m))

        def task(k: int) -> None:
            s = self.blocks[k]
            self.kernels.minima(self.cost[s], self.scale, G, self.skip_a[s], self.skip_b, self.F0[s], parts[k])

        run(task, range(len(self.blocks)))
        self.G0[:] = parts.min(0)

    def _centre_columns(self, F: np.ndarray) -> None:
        parts = np.empty((len(self.blocks), self.m))

        def task(k: int) -> None:
            s = self.blocks[k]
            self.kernels.column_minima(self.cost[s], self.scale, F[s], self.skip_a[s], parts[k])

        run(task, range(len(self.blocks)))
        self.G0[:] = parts.min(0)
        self._each(lambda s: self.kernels.row_minima(self.cost[s], self.scale, self.G0, self.skip_b, self.F0[s]))

    def _build(self) -> None:
        self._each(lambda s: self.kernels.fill(self.cost[s], self.scale, self.F0[s], self.G0, _CUT, self.K[s]))
        self.fresh = True

    def _pass(self, omega: float, soft: np.ndarray, top_a: float) -> np.ndarray:
        """F from G, and the column sums at the new F, scaled by e^top_a."""
        w_b, w_a = np.empty(self.m), np.empty(self.n)
        top_b = self.kernels.scalings(self.r_b, self.G - self.G0, w_b)
        sums = np.empty((len(self.blocks), self.m))

        def task(k: int) -> None:
            s = self.blocks[k]
            self.kernels.sweep_rows(
                self.K[s], w_b, top_b, self.F0[s], self.o_a[s], self.r_a[s], *self.source,
                omega, top_a, self.F[s], soft[s], w_a[s], sums[k],
            )  # fmt: skip

        run(task, range(len(self.blocks)))
        return sums.sum(0)

    def _column_sums(self, w_a: np.ndarray) -> np.ndarray:
        sums = np.empty((len(self.blocks), self.m))

        def task(k: int) -> None:
            self.kernels.column_sums(self.K[self.blocks[k]], w_a[self.blocks[k]], sums[k])

        run(task, range(len(self.blocks)))
        return sums.sum(0)

    def run(self, tol: float, limit: int, price: float) -> tuple[np.ndarray, ...]:
        kernels = self.kernels
        kind_a, tau_a, kind_b, tau_b = *self.source[:2], *self.target[:2]
        hard = {kind_a, kind_b} & {kernels.BALANCED, kernels.RANGE}
        relaxation = _Relaxation(kind_a, tau_a, kind_b, tau_b)
        soft_a, w_a, sums = np.empty(self.n), np.empty(self.n), np.empty(5)
        work_a, work_b = np.empty((4, self.n)), np.empty((4, self.m))
        safety, best, best_at = 1.0, math.inf, 0
        count = 0
        while True:
            count += 1
            if not self.fresh and kernels.spread(self.G - self.G0, self.r_b) > _SPREAD:
                self._centre_rows(self.G)
                self._build()
            self.fresh = False
            omega = relaxation.next() if count > 1 else 1.0
            top_a = float(np.max(np.where(self.r_a > 0, self.F - self.F0, -np.inf)))
            column = self._pass(omega, soft_a, top_a)
            log_u = self.F - self.F0
            if kernels.spread(log_u, self.r_a) > _SPREAD:
                self._centre_columns(self.F)
                self._build()
                self.fresh = False
                top_a = kernels.scalings(self.r_a, self.F - self.F0, w_a)
                column = self._column_sums(w_a)
            elif abs(float(np.max(np.where(self.r_a > 0, log_u, -np.inf))) - top_a) > 200:
                top_a = kernels.scalings(self.r_a, log_u, w_a)  # the scale guessed beforehand was too far off
                column = self._column_sums(w_a)
            soft_b = self.G0 + self.o_b - top_a - np.log(np.maximum(column, 1e-300))
            new_G = np.empty(self.m)
            kernels.step(*self.target, soft_b, omega, self.G, new_G)

            sums[:] = 0.0
            kernels.side(*self.source, self.a, self.F, soft_a, work_a, sums)
            mass = sums[4]
            kernels.side(*self.target, self.b, self.G, soft_b, work_b, sums)
            worth = sums[1] + mass + max(0.0, sums[3] - mass * math.log(self.m))
            estimate = (sums[0] + price * self.scale * sums[2]) / max(worth, 1e-300)
            if estimate < 0.99 * best:
                best, best_at = estimate, count
            last = count >= limit or count > best_at + _PATIENCE
            if last or estimate <= safety * tol:
                plan, rows, columns, stats = self._certify(count, work_a, work_b, soft_a, soft_b)
                gap, scale = stats[3], stats[4]
                if hard or last or gap <= tol * scale:
                    return self.F * self.epsilon, self.G * self.epsilon, plan, rows, columns, stats
                safety *= max(0.5 * tol * scale / gap, 1e-3)
            residual = float(np.abs(new_G - self.G)[self.r_b > 0].max()) / omega
            relaxation.observe(residual, count)
            self.G = new_G
            shift = kernels.translation(
                kind_a, tau_a, kind_b, tau_b, self.a, self.b, self.F, self.G, work_a[0], work_b[0]
            )  # fmt: skip
            self.F += shift
            self.G -= shift

    def _certify(
        self, count: int, work_a: np.ndarray, work_b: np.ndarray, soft_a: np.ndarray, soft_b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        kernels, sums = self.kernels, np.zeros(5)
        plan, rows = np.empty((self.n, self.m)), np.empty(self.n)
        parts = np.empty((len(self.blocks), self.m))

        def task(k: int) -> Any:
            s = self.blocks[k]
            return kernels.write_plan(
                self.cost[s], self.scale, self.r_a[s], self.r_b, self.F[s], self.G, plan[s], rows[s], parts[k]
            )  # fmt: skip

        linear, size = np.sum(run(task, range(len(self.blocks))), axis=0)
        columns = parts.sum(0)
        kernels.soft_from_marginal(self.F, rows, self.a, soft_a)
        kernels.soft_from_marginal(self.G, columns, self.b, soft_b)
        kernels.side(*self.source, self.a, self.F, soft_a, work_a, sums)
        kernels.side(*self.target, self.b, self.G, soft_b, work_b, sums)
        mass = rows.sum()
        value = self.epsilon * (self.F @ rows + self.G @ columns - mass + sums[1])
        scale = size + self.epsilon * (sums[1] + mass)
        return plan, rows, columns, np.array([count, linear, value, self.epsilon * sums[0], scale])


class _Relaxation:
    """The over-relaxation factor, as in `kernels.py`."""

    def __init__(self, kind_a: int, tau_a: float, kind_b: int, tau_b: float) -> None:
        kappa_a, kappa_b = (tau / (tau + 1) if kind == 0 else 1.0 for kind, tau in ((kind_a, tau_a), (kind_b, tau_b)))
        self.known = max(kind_a, kind_b) <= 1 and min(kind_a, kind_b) == 0
        self.best = 2 / (1 + math.sqrt(1 - kappa_a * kappa_b)) if self.known else 1.0
        self.ramp, self.omega, self.residual, self.at = 0, 1.0, 0.0, 0

    def next(self) -> float:
        self.ramp += self.best > 1
        self.omega = min(self.best, 2 - 6 / (self.ramp + 6))
        return self.omega

    def observe(self, residual: float, count: int) -> None:
        if self.known or count - self.at < 12 or residual <= 0:
            return
        if self.residual > 0 and self.omega >= self.best:
            rate = (residual / self.residual) ** (1 / (count - self.at))
            if self.best - 1 < rate < 1:
                plain = (rate + self.best - 1) ** 2 / (self.best**2 * rate)
                self.best = max(self.best, 2 / (1 + math.sqrt(1 - min(plain, 1 - 1e-7))))
            elif rate >= 1:
                self.best = 1 + 0.7 * (self.best - 1)
        self.residual, self.at = residual, count
