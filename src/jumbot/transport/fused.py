"""Batches of problems through the compiled kernels, in threads."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.transport import divergences
from jumbot.transport.certificate import Certificate
from jumbot.transport.marginal import Marginal, PartialMarginal
from jumbot.transport.problem import Problem

_KINDS: dict[type, int] = {
    divergences.KL: 0,
    divergences.Balanced: 1,
    divergences.TV: 2,
    divergences.Range: 3,
    divergences.ChiSquare: 4,
}
#: One problem larger than this gains more from float32 passes in threads than from fusion.
LARGEST = 1 << 20
_THREADED_FROM = 1 << 18


def fits(problem: Problem) -> bool:
    """Whether the kernels know this kind of problem."""
    if problem.cost.device.type != "cpu" or problem.cost[0].numel() > LARGEST:
        return False
    if isinstance(problem.source, PartialMarginal):
        return False
    if problem.reference == "ones" and not (bool((problem.a > 0).all()) and bool((problem.b > 0).all())):
        return False
    return type(problem.source.divergence) in _KINDS and type(problem.target.divergence) in _KINDS


def _arguments(side: Marginal, epsilon: float) -> tuple[int, float, float, float]:
    upper = side.divergence.upper
    return _KINDS[type(side.divergence)], side.tau / epsilon, side.divergence.lower, min(upper, 1e300)


def sweep(
    problem: Problem, start: tuple[Tensor, Tensor] | None, tol: float, limit: int, price: Tensor
) -> tuple[Tensor, Tensor, Tensor, Certificate]:
    """Potentials, sweeps taken and the certificate; exact only where no marginal is constrained.

    `price` `(B,)` is what a unit of violated constraint is taken to cost when the gap is estimated.
    """
    from jumbot.transport import kernels

    cost = problem.cost.double().contiguous().numpy()
    batch, n, m = cost.shape
    epsilon = problem.epsilon
    if start is None:
        F, G = np.empty((batch, n)), np.empty((batch, m))
    else:
        F = np.array(start[0].expand(batch, n).numpy() / epsilon)
        G = np.array(start[1].expand(batch, m).numpy() / epsilon)
    plan, rows, columns, out = np.empty((batch, n, m)), np.empty((batch, n)), np.empty((batch, m)), np.empty((batch, 8))
    r_a, r_b = (r.contiguous().numpy() for r in problem.reference_weights)
    o_a, o_b = (o.contiguous().numpy() / epsilon for o in problem.offsets)
    arguments: tuple[Any, ...] = (
        cost, problem.a.contiguous().numpy(), problem.b.contiguous().numpy(), r_a, r_b, o_a, o_b, epsilon,
        *_arguments(problem.source, epsilon), *_arguments(problem.target, epsilon),
        start is None, tol, limit, price.numpy(), F, G, plan, rows, columns, out,
    )  # fmt: skip
    threads = min(torch.get_num_threads(), batch) if batch * n * m >= _THREADED_FROM else 1
    if threads == 1:
        kernels.solve_range(*arguments, 0, batch)
    else:
        kernels.solve_range(*arguments, 0, 0)  # compile before the threads start
        chunk = math.ceil(batch / (4 * threads))
        with ThreadPoolExecutor(threads) as pool:
            parts = [
                pool.submit(kernels.solve_range, *arguments, first, min(first + chunk, batch))
                for first in range(0, batch, chunk)
            ]
            for part in parts:
                part.result()
    stats = torch.from_numpy(out)
    linear, size, penalty = stats[:, kernels.LINEAR], stats[:, kernels.SIZE], stats[:, kernels.PENALTY]
    mass, entropy = stats[:, kernels.MASS], stats[:, kernels.ENTROPY]
    certificate = Certificate(
        plan=torch.from_numpy(plan), rows=torch.from_numpy(rows), columns=torch.from_numpy(columns), linear=linear,
        objective=linear + epsilon * (entropy - mass) + penalty, gap=stats[:, kernels.GAP],
        scale=size + penalty + epsilon * mass,
    )  # fmt: skip
    return (
        torch.from_numpy(F * epsilon), torch.from_numpy(G * epsilon), stats[:, kernels.ITERATIONS].long(), certificate,
    )  # fmt: skip
