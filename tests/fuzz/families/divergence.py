"""`jumbot.sinkhorn_divergence`: its value against single solves, its gradients against finite differences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import jumbot

from ..draw import Generator, chance
from ..engines import ENGINES, engine
from ..entropies import Array
from ..judge import CLOSE
from ..report import Report
from ..slopes import compare
from ..watch import Watch
from .clouds import Loss, border_loss, random_clouds, random_loss, some_weights, uniform


def sinkhorn_divergence(rng: Generator, watch: Watch, report: Report) -> None:
    n, m = (int(k) for k in rng.integers(1, 25, size=2))
    batch = (int(rng.integers(2, 4)),) if chance(rng, 0.2) else ()
    name, threads = str(rng.choice(ENGINES, p=[0.8, 0.1, 0.1])), int(rng.choice([1, 1, 1, 2, 4]))
    with engine(name, threads):
        _judged(rng, watch, report, (n, m), batch, f"{name} engine, {threads} threads")


def above_the_border(rng: Generator, watch: Watch, report: Report) -> None:
    """More than 2^20 pairs: the engine for large problems."""
    sizes = int(rng.integers(1025, 1080)), int(rng.integers(1025, 1080))
    with engine("its own", 2):
        _judged(rng, watch, report, sizes, (), "above 2^20 pairs")


@dataclass(frozen=True)
class _Call:
    """x, y, a, b (None for uniform weights) and the loss between them."""

    arrays: tuple[Array, Array, Array | None, Array | None]
    loss: Loss

    @property
    def options(self) -> dict[str, Any]:
        given = self.loss
        return {"cost": given.cost, "epsilon": given.epsilon, "tau": given.tau, "divergence": given.divergence}

    @property
    def large(self) -> bool:
        return self.arrays[0].shape[-2] > 1000

    def singles(self, watch: Watch) -> list[tuple[float, float, float, Array]]:
        """What single solves say of each pair of clouds of the batch."""
        x, y = (u.reshape(-1, *u.shape[-2:]).astype(np.float64) for u in self.arrays[:2])
        weights = [uniform(w, u.shape[-2]) for w, u in zip(self.arrays[2:], (x, y), strict=True)]
        return [self.loss.of(watch, u, v, *weights) for u, v in zip(x, y, strict=True)]

    def moved(self, t: float, moves: list[Array | None]) -> _Call:
        arrays = tuple(u if v is None else u + t * v for u, v in zip(self.arrays, moves, strict=True))
        return replace(self, arrays=arrays)


def _judged(
    rng: Generator, watch: Watch, report: Report, sizes: tuple[int, int], batch: tuple[int, ...], how: str
) -> None:
    x, y, unit = random_clouds(rng, *sizes, batch)
    loss = (border_loss if sizes[0] > 1000 else random_loss)(rng, unit, symmetric=True)
    weights = some_weights(rng, loss, sizes, zeros=chance(rng, 0.2))
    dtype: type = np.float64 if sizes[0] > 1000 or chance(rng, 0.75) else np.float32
    call = _Call(tuple(None if u is None else u.astype(dtype) for u in (x, y, *weights)), loss)
    report.label = f"{'x'.join(map(str, (*batch, *sizes)))} points {dtype.__name__} {loss} {how}"
    report.problems = max(1, int(np.prod(batch)))
    tensors = [None if u is None else torch.tensor(u, requires_grad=True) for u in call.arrays]
    found, warned = watch(jumbot.sinkhorn_divergence, *tensors, **call.options, tol=1e-9)
    plain, _ = watch(jumbot.sinkhorn_divergence, *call.arrays, **call.options, tol=1e-9)
    report.converged = 0 if warned else report.problems
    if found.shape != batch or np.shape(plain) != batch or plain.dtype != dtype:
        report.faults.append(f"shapes {tuple(found.shape)} and {np.shape(plain)}, dtype {plain.dtype}")
        return
    singles = call.singles(watch)
    # a tensor keeps its strides, so that sums may be taken in another order
    rounding = 8 * np.finfo(dtype).eps * np.array([single[2] for single in singles])
    if (np.abs(plain - found.detach().numpy()).reshape(-1) > rounding).any():
        report.faults.append("numpy and torch get different numbers")
    for value, (truth, error, scale, _) in zip(np.atleast_1d(plain), singles, strict=True):
        if not abs(float(value) - truth) <= CLOSE * scale + error:
            report.faults.append(f"value {float(value):.9g}, single solves say {truth:.9g} (scale {scale:.3g})")
    if dtype is np.float64 and not warned and not report.faults:
        scale = sum(single[2] for single in singles)
        report.faults += _slopes(rng, watch, call, tensors, found, scale)


def _slopes(
    rng: Generator, watch: Watch, call: _Call, tensors: list[torch.Tensor | None], found: torch.Tensor, scale: float
) -> list[str]:
    """Along one random direction in all of the inputs at once."""
    gradients = iter(torch.autograd.grad(found.sum(), [t for t in tensors if t is not None]))
    moves = [_move(rng, u, k < 2, call.loss.constrained) for k, u in enumerate(call.arrays)]
    terms = [next(gradients).numpy() * move for move in moves if move is not None]

    def value(t: float) -> tuple[float, float]:
        there = call.moved(t, moves)
        if call.large:  # the judge's own precision takes too long there
            out, _ = watch(jumbot.sinkhorn_divergence, *there.arrays, **call.options, tol=1e-9)
            return float(out), 2e-12 * scale
        singles = there.singles(watch)
        return sum(single[0] for single in singles), sum(single[1] for single in singles)

    size = sum(float(np.abs(t).sum()) for t in terms)
    return compare(float(sum(t.sum() for t in terms)), size, value, 1e-4)


def _move(rng: Generator, u: Array | None, points: bool, constrained: bool) -> Array | None:
    if u is None:
        return None
    if points:
        return rng.normal(size=u.shape) * float(np.abs(u).mean())
    move = 0.3 * u * rng.normal(size=u.shape)
    return move - u * (move.sum() / u.sum()) if constrained else move
