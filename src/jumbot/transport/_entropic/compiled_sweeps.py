"""Batches of problems through the compiled sweeps, in threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.transport._kernels import balanced_sweeps, sweeps, symmetric
from jumbot.transport._kernels.memory import contiguous, empty
from jumbot.transport._kernels.threads import NEVER, Stop, run, split
from jumbot.transport._outcome import RawOutcome, Start, arguments, kinds_known, reference
from jumbot.transport._problem import Problem
from jumbot.transport.divergences import Balanced

#: One problem larger than this gains more from float32 passes in threads than from one compiled loop.
LARGEST = 1 << 20
PATIENCE = 3000
_THREADED_FROM = 1 << 16  # entries: sweeps of fewer are short enough for a user to wait after Ctrl-C
_ONE_FROM = 1 << 18  # the same where there is one problem, with nothing to share


def fits(problem: Problem) -> bool:
    """Whether the compiled sweeps are the right engine; if a marginal is exact, only this engine rounds during the
    sweeps.
    """
    cost = problem.cost
    _, n, m = cost.shape
    if cost.device.type != "cpu" or not kinds_known(problem):
        return False
    return n * m <= LARGEST or certifies(problem)


def certifies(problem: Problem) -> bool:
    if is_balanced(problem):
        return True
    return sweeps.one_exact(*(arguments(side, problem.epsilon)[0] for side, _ in problem.sides))


def is_balanced(problem: Problem) -> bool:
    """Whether both marginals are the weights themselves, and not some multiple that a range allows."""
    return type(problem.source.divergence) is Balanced and type(problem.target.divergence) is Balanced


def sweep(
    problem: Problem,
    start: Start | None,
    tol: float,
    limit: int,
    price: Tensor,
    rounded: bool = True,
    symmetric: bool = False,
) -> RawOutcome:
    """All problems of the batch, some at a time in threads; `symmetric` promises C = C' and equal sides.

    Where both marginals are exact, problems that are far out at first come back with a count of -1.
    """
    cost, epsilon = contiguous(problem.cost.numpy()), problem.epsilon
    batch, n, m = cost.shape
    F, G = _begun(problem, start)
    plan, rows, columns, out = empty(batch, n, m), np.empty((batch, n)), np.empty((batch, m)), np.empty((batch, 5))
    a, b = problem.a.contiguous().numpy(), problem.b.contiguous().numpy()
    how: tuple[Any, ...]
    if is_balanced(problem):
        kernel, memory = balanced_sweeps.solve_range, partial(balanced_sweeps.memory, n, m)
        cold = 0 if start is not None else 1 if symmetric else 2
        how = cold, symmetric, rounded, tol, limit
    else:
        (kind_a, *source), (kind_b, *target) = arguments(problem.source, epsilon), arguments(problem.target, epsilon)
        kernel = sweeps.solver(kind_a, kind_b)
        memory = partial(sweeps.memory, n, m, sweeps.one_exact(kind_a, kind_b))
        how = *source, *target, start is None, tol, limit, price.numpy()
    given = cost, a, b, *reference(problem), epsilon
    _in_threads(kernel, memory, batch, cost.size, *given, *how, F, G, plan, rows, columns, out)
    return RawOutcome(epsilon, F, G, plan, rows, columns, out)


def _begun(problem: Problem, start: Start | None) -> tuple[np.ndarray, np.ndarray]:
    """Potentials in units of epsilon, uninitialised without a start."""
    (batch, n, m), epsilon = problem.cost.shape, problem.epsilon
    if start is None:
        return np.empty((batch, n)), np.empty((batch, m))
    f, g = start
    return np.array(f.expand(batch, n).numpy() / epsilon), np.array(g.expand(batch, m).numpy() / epsilon)


def is_symmetric(problem: Problem) -> bool:
    """Whether the symmetric fixed point applies: C = C' >= 0 with zero diagonal."""
    cost = problem.cost
    if cost.shape[-1] != cost.shape[-2] or not fits(problem) or problem.blocked is not None:
        return False
    return all(map(symmetric.is_symmetric, contiguous(cost.numpy())))


def sweep_symmetric(problem: Problem, tol: float, limit: int, price: Tensor) -> RawOutcome:
    """As `sweep` for symmetric problems with equal sides, by the averaged fixed point."""
    if is_balanced(problem):
        return sweep(problem, None, tol, limit, price, symmetric=True)
    cost, epsilon = contiguous(problem.cost.numpy()), problem.epsilon
    batch, n, _ = cost.shape
    F, plan, rows, out = np.empty((batch, n)), empty(batch, n, n), np.empty((batch, n)), np.empty((batch, 5))
    a = problem.a.contiguous().numpy()
    r, _, o, _ = reference(problem)
    kind, *side = arguments(problem.source, epsilon)
    given, how, found = (cost, a, r, o, epsilon), (*side, tol, limit, price.numpy()), (F, plan, rows, out)
    _in_threads(symmetric.solver(kind), partial(symmetric.memory, n), batch, cost.size, *given, *how, *found)
    return RawOutcome(epsilon, F, F, plan, rows, rows.copy(), out)


def _in_threads(kernel: Any, memory: Callable[[], Any], batch: int, work: int, *arguments: Any) -> None:
    if work < (_THREADED_FROM if batch > 1 else _ONE_FROM):
        kernel(*arguments, *memory(), NEVER.flag, 0, batch)
        return
    kernel(*arguments, *memory(), NEVER.flag, 0, 0)  # compile before the threads start
    stop = Stop()
    # several runs for each thread, because some problems take more sweeps than others
    parts = split(batch, 8 * min(torch.get_num_threads(), batch))
    run(lambda part: kernel(*arguments, *memory(), stop.flag, *part), parts, stop)
