"""The plan of a cost that is a function of blocks of points: what `point_tiles.Tiles` offers, without cells."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import torch
from torch import Tensor

from jumbot.cost import Cost
from jumbot.errors import ArgumentError
from jumbot.transport._checks import called
from jumbot.transport._points._team import ALONE
from jumbot.transport._points.tile_math import NOTHING

_ENTRIES = 1 << 20  # of a block
_SAMPLE = 256  # points of a side that a mean cost is estimated from
_ABSENT = -1e29  # exponents below belong to points without weight


class CallableTiles:
    """Blocks `cost(x[i], y[j])`, each made when it is needed, in the dtype of the points."""

    kept, left_out, noise, may_be_closed = 1.0, 0.0, 0.0, True

    def __init__(self, x: Tensor, y: Tensor, cost: Cost, epsilon: float, entries: int = _ENTRIES) -> None:
        self.points, self.cost, self.epsilon = (x.detach(), y.detach()), cost, epsilon
        self.closed: list[np.ndarray | None] = [None, None]
        self.team = ALONE
        wide = min(len(y), max(1, int(entries**0.5)))
        self.blocks = [
            [slice(k, min(k + step, len(z))) for k in range(0, len(z), step)]
            for z, step in ((x, max(1, entries // wide)), (y, wide))
        ]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.points[0]), len(self.points[1])

    def block(self, i: slice, j: slice) -> Tensor:
        """The costs of a block over epsilon, in float64, checked."""
        x, y = self.points[0][i], self.points[1][j]
        with torch.no_grad():
            cost = called(self.cost, x, y)
        if bool(cost.isnan().any()) or bool(cost.isneginf().any()):
            raise ArgumentError("cost: the callable returned NaN or -inf for finite points.")
        return cost.double() / self.epsilon

    def _own(self, side: int) -> list[slice]:
        """The blocks of a side that this process takes."""
        return self.blocks[side][self.team.part(np.ones(len(self.blocks[side])))]

    def _rows(self, side: int) -> Iterator[tuple[slice, list[tuple[slice, slice, slice]]]]:
        """Blocks of one side, each with those of the other as (rows, columns, place of the other side)."""
        for own in self._own(side):
            yield own, [((own, j, j) if side == 0 else (j, own, j)) for j in self.blocks[1 - side]]

    def log_sums(self, side: int, other: np.ndarray, guess: np.ndarray | None, dtype: type) -> np.ndarray:
        G, out = torch.from_numpy(other), np.zeros(self.shape[side])
        for own, blocks in self._rows(side):
            parts = []
            for i, j, at in blocks:
                cost = self.block(i, j)
                parts.append(torch.logsumexp(G[at] - (cost if side == 0 else cost.mT), -1))
            logs = torch.logsumexp(torch.stack(parts), 0)
            out[own] = torch.where(logs < _ABSENT, NOTHING, logs).numpy()
        return self.team.joined(out)

    def _plan(self, i: slice, j: slice, F: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
        """Entries and costs of a block; costs zero where they are infinite."""
        cost = self.block(i, j)
        P = torch.exp(F[i, None] + G[None, j] - cost)
        return P, torch.where(cost.isposinf(), 0.0, cost)

    def plan_sums(self, F: np.ndarray, G: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        rows, columns = np.zeros(self.shape[0]), np.zeros(self.shape[1])
        linear = size = 0.0
        for i, j in product(self._own(0), self.blocks[1]):
            P, cost = self._plan(i, j, torch.from_numpy(F), torch.from_numpy(G))
            rows[i] += P.sum(1).numpy()
            columns[j] += P.sum(0).numpy()
            linear, size = linear + float((P * cost).sum()), size + float((P * cost.abs()).sum())
        rows, columns = self.team.joined(rows), self.team.joined(columns)
        linear, size = self.team.joined(np.array([linear, size])).tolist()
        return rows, columns, linear, size

    def products(self, side: int, F: np.ndarray, G: np.ndarray, v: np.ndarray) -> np.ndarray:
        out, v = np.zeros((self.shape[side], v.shape[1])), np.ascontiguousarray(v)
        for i, j in product(self._own(0), self.blocks[1]):
            P, _ = self._plan(i, j, torch.from_numpy(F), torch.from_numpy(G))
            if side == 0:
                out[i] += P.numpy() @ v[j]
            else:
                out[j] += P.numpy().T @ v[i]
        return self.team.joined(out)

    def mixture(
        self, F: np.ndarray, G: np.ndarray, log_u: np.ndarray, log_v: np.ndarray, alpha: np.ndarray, beta: np.ndarray
    ) -> tuple[float, float, np.ndarray]:
        divergence = linear = 0.0
        own = [torch.from_numpy(x) for x in (F, log_u, np.log(np.maximum(alpha, 1e-300)) - 1e5 * (alpha <= 0))]
        other = [torch.from_numpy(x) for x in (G, log_v, np.log(np.maximum(beta, 1e-300)) - 1e5 * (beta <= 0))]
        for i, j in product(self._own(0), self.blocks[1]):
            cost = self.block(i, j)
            log_p = (own[0][i, None] + other[0][None, j] - cost).clamp_min(-1e5)
            log_q = torch.logaddexp(log_p + own[1][i, None] + other[1][None, j], own[2][i, None] + other[2][None, j])
            r, p, q = log_q - log_p, torch.exp(log_p), torch.exp(log_q)
            terms = torch.where(r.abs() < 1e-4, p * r * r * (0.5 + r / 3), (q * r - q + p).clamp_min(0))
            divergence += float(terms.sum())
            linear += float((q * torch.where(cost.isposinf(), 0.0, cost)).sum())
        divergence, linear = self.team.joined(np.array([divergence, linear])).tolist()
        return divergence, linear, np.zeros(3)

    def mean_cost(self, a: np.ndarray, b: np.ndarray) -> float:
        draw = np.random.default_rng(0)
        i, j = (torch.from_numpy(draw.choice(len(w), _SAMPLE, p=w / w.sum())) for w in (a, b))
        small = CallableTiles(self.points[0][i], self.points[1][j], self.cost, self.epsilon)
        cost = small.block(slice(None), slice(None))
        return float(torch.where(cost.isposinf(), 0.0, cost.abs()).mean())

    def pull_back(self, F: np.ndarray, G: np.ndarray, needed: tuple[bool, bool]) -> list[Tensor | None]:
        """The gradients of <C, P> in x and y at this P, a block at a time."""
        grads = [torch.zeros_like(z) if need else None for z, need in zip(self.points, needed, strict=True)]
        for i, j in product(*self.blocks):
            P, _ = self._plan(i, j, torch.from_numpy(F), torch.from_numpy(G))
            with torch.enable_grad():
                x, y = self.points[0][i].clone().requires_grad_(), self.points[1][j].clone().requires_grad_()
                cost = self.cost(x, y)
                paid = (torch.where(P > 0, P, 0.0).to(cost.dtype) * torch.where(P > 0, cost, 0.0)).sum()
                found = torch.autograd.grad(paid, (x, y), allow_unused=True) if paid.requires_grad else (None, None)
            for grad, at, part in zip(grads, (i, j), found, strict=True):
                if grad is not None and part is not None:
                    grad[at] += part
        return grads
