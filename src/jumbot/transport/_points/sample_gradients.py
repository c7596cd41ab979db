"""Derivatives of the value in the points and the weights: one more pass, no graph through the sweeps.

The second ones say how the plan of a stream moves with them.
Where x moves by xi and y by eta, each cost C/epsilon = h(z), z = |x - y|^2 in scaled units, moves by

    W = 2 h'(z) t,    t = <x - y, xi - eta>,

the potentials by what `_curvature.System` says, and the gradient sum_j P 2 h' (x - y) of a point by

    sum_j A (x_i - y_j) + B (xi_i - eta_j),   A = P (2 h' (F' + G' - W) + 4 h'' t),   B = 2 P h'

with F' + G' the move of the exponents.  No entry is stored: two passes, and one in each step of conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.transport._curvature import TRACE, System, refusal
from jumbot.transport._entropic.translation import centre
from jumbot.transport._gradients import Barred, Held, edge, graphed, with_closed_points
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import inner
from jumbot.transport._points.callable_tiles import CallableTiles
from jumbot.transport._points.passes import entries, over_blocks, visiting
from jumbot.transport._points.point_tiles import Tiles
from jumbot.transport._points.rounding import Solved, exponents
from jumbot.transport._points.tile_math import ROOT, WFR, add_up


def point_gradients(solved: Solved, needed: tuple[bool, bool]) -> list[Tensor | None]:
    """dOT/dx and dOT/dy: sum_j P_ij dC_ij/dx_i."""
    plan, stream, epsilon = solved.proof.plan, solved.stream, solved.problem.epsilon
    if isinstance(stream, CallableTiles):
        return stream.pull_back(plan.F, plan.G, needed)
    out: list[Tensor | None] = []
    points = [cells.points for cells in stream.cells]
    for k, need in enumerate(needed):
        if not need:
            out.append(None)
            continue
        own, other = points[k], points[1 - k]
        v = np.concatenate([other, np.ones((len(other), 1))], axis=1)
        sums = stream.products(k, plan.F, plan.G, v, by_slopes=True)
        slope = 2 * epsilon * stream.ground.factor * (sums[:, -1:] * own - sums[:, :-1])
        out.append(torch.from_numpy(slope))
    return out


def weight_gradient(solved: Solved, k: int) -> Tensor:
    """dOT/da (k = 0) or dOT/db (k = 1), `(n,)` or `(m,)`: as `autograd.weight_gradient`, soft minima by a pass."""
    problem, epsilon = solved.problem, solved.problem.epsilon
    side, weights = problem.sides[k]
    f, g = centre(problem, solved.f, solved.g)
    potential, mass = (f, g)[k], problem.given[1 - k].sum(-1, keepdim=True)
    if problem.reference == "product":
        rows = torch.from_numpy((solved.proof.rows, solved.proof.columns)[k])[None]
        ratio = rows / torch.where(weights > TRACE, weights, 1.0)
        if not bool((weights > TRACE).all()) or side.hard:
            # a point without weight leaves no trace in the gap, so its potential is set here to the best one
            other = exponents(problem, solved.stream.closed, f, g)[1 - k]
            soft = -epsilon * torch.from_numpy(solved.stream.log_sums(k, other, None, np.float64))[None]
            potential = torch.where(weights > 0, potential, side.step(soft, weights, epsilon))
            ratio = torch.exp((potential - soft) / epsilon)
        gradient = side.weight_gradient(potential, weights) + epsilon * (mass - ratio)
    else:
        gradient = side.weight_gradient(potential, weights)
    shut = solved.stream.closed[k]
    closed = None if shut is None or not shut.any() else torch.from_numpy(shut)[None]
    return with_closed_points(problem, k, gradient, closed)[0]


class SampleValue(torch.autograd.Function):
    """The value of each problem of a batch `(B,)`; the points and weights come flattened to `(B, ...)`."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, solved: list[Solved], *inputs: Tensor | None) -> Tensor:
        ctx.solved = solved
        ctx.save_for_backward(*inputs)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        needed, inputs = ctx.needs_input_grad[2:], ctx.saved_tensors
        with torch.no_grad():
            slopes = _slopes(ctx.solved, needed)
        if torch.is_grad_enabled():
            slopes = list(graphed(slopes, [edge(x) for x in inputs], SampleCurvature(ctx.solved)))
        grads = [
            None if slope is None else (grad.reshape(-1, *[1] * (slope.ndim - 1)) * slope).to(x)
            for slope, x in zip(slopes, inputs, strict=True)
        ]
        return None, None, *grads


_UNMOVED = "the gradient of linear in the weights is not supported from points; use value, or jumbot.solve."


class SampleLinear(torch.autograd.Function):
    """<C, P> of each problem of a batch, the plan held fixed: in the points its slopes are those of the value."""

    @staticmethod
    def forward(ctx: Any, linear: Tensor, solved: list[Solved], x: Tensor, y: Tensor) -> Tensor:
        ctx.solved = solved
        ctx.save_for_backward(x, y)
        return linear.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        with torch.no_grad():
            slopes = _slopes(ctx.solved, (*ctx.needs_input_grad[2:], False, False))[:2]
        if torch.is_grad_enabled():
            slopes = list(graphed(slopes, [edge(x) for x in ctx.saved_tensors], Held()))
        grads = [
            None if slope is None else (grad.reshape(-1, 1, 1) * slope).to(x)
            for slope, x in zip(slopes, ctx.saved_tensors, strict=True)
        ]
        return None, None, *grads


def linear_of(values: Tensor, solved: list[Solved], inputs: Sequence[Tensor | None]) -> Tensor:
    """`values`, the linear costs `(B,)`, with their gradient in the points; one in the weights raises an error."""
    x, y, *weights = inputs
    found: Tensor = SampleLinear.apply(values, solved, x, y)
    for w in weights:
        if w is not None and w.requires_grad:
            found = found + Barred.apply(_UNMOVED, w).flatten(1).sum(1) * 0
    return found


def _slopes(solved: list[Solved], needed: Sequence[bool]) -> list[Tensor | None]:
    """Those in x, y, a and b that are needed, for all problems of the batch, in float64."""
    found: list[list[Tensor]] = [[] for _ in needed]
    for s in solved:
        points = point_gradients(s, (needed[0], needed[1]))
        weights = [weight_gradient(s, k) if needed[2 + k] else None for k in (0, 1)]
        for at, slope in enumerate([*points, *weights]):
            if slope is not None:
                found[at].append(slope.double())
    return [torch.stack(slopes) if slopes else None for slopes in found]


_NEAR = 1e-3  # of the distance, below which tan(r)/r is a series
_LIMIT = np.pi**2 / 4 * (1 - 1e-12)


@compiled()
def _bends(kind: int, scale: float, z: Any, first: Any, second: Any) -> None:
    """h' and h''; 0 at distance zero, where the root has none."""
    for j in range(z.shape[0]):
        first[j], second[j] = 1.0, 0.0
        if kind == ROOT:
            r = np.sqrt(z[j])
            first[j] = 0.5 / r if r > 0.0 else 0.0
            second[j] = -0.25 / (r * r * r) if r > 0.0 else 0.0
        elif kind == WFR:
            r, q = np.sqrt(z[j]), z[j]
            first[j] = scale * (1.0 + q / 3.0)
            second[j] = scale * (1.0 / 3.0 + q * (4.0 / 15.0))
            if r > _NEAR:
                tangent = np.tan(r)
                first[j] = scale * tangent / r
                second[j] = scale * (r * (1.0 + tangent * tangent) - tangent) / (2.0 * r * r * r)
            if q >= _LIMIT:
                first[j] = second[j] = 0.0


@compiled(fastmath=True)
def _along(x: Any, u: Any, i: int, columns: Any, moves: Any, t: Any) -> None:
    """t = <x - y, u - w>, of point i."""
    for j in range(t.shape[0]):
        t[j] = 0.0
    for e in range(x.shape[0]):
        x_e, u_e, y, w = x[e, i], u[e, i], columns[e], moves[e]
        for j in range(t.shape[0]):
            t[j] += (x_e - y[j]) * (u_e - w[j])


@visiting
def _push(a: int, i: int, b: int, z: Any, work: Any, tiles: Any, state: Any) -> None:
    u, w, out = state
    h, p, t = work[0], work[1], work[2]
    _bends(tiles[10], tiles[11], z, h, t)
    entries(a, i, b, z, p, tiles)
    _along(tiles[0][a], u[a], i, tiles[3][b], w[b], t)
    for j in range(p.shape[0]):
        h[j] *= 2.0 * t[j]
    out[a, i] += inner(p, h)


@compiled()
def _turned(shift: float, dG: Any, p: Any, t: Any, h: Any, bend: Any) -> None:
    """`bend` becomes A, and `h` becomes B."""
    for j in range(p.shape[0]):
        slope = 2.0 * h[j]
        h[j] = p[j] * slope
        bend[j] = h[j] * (shift + dG[j] - slope * t[j]) + 4.0 * p[j] * bend[j] * t[j]


@visiting
def _turn(a: int, i: int, b: int, z: Any, work: Any, tiles: Any, state: Any) -> None:
    u, w, dF, dG, out = state
    h, bend, p, t = work[0], work[1], work[2], z
    _bends(tiles[10], tiles[11], z, h, bend)
    entries(a, i, b, z, p, tiles)
    _along(tiles[0][a], u[a], i, tiles[3][b], w[b], t)
    _turned(dF[a, i], dG[b], p, t, h, bend)
    sums, y, d = out[a, i], tiles[3][b], w.shape[1]
    sums[0] += add_up(bend)
    sums[1] += add_up(h)
    for e in range(d):
        sums[2 + e] += inner(bend, y[e])
        sums[2 + d + e] += inner(h, w[b, e])


#: state (u, w, out): out_i += sum_j P W, with the moves u `(A, d, W)` and w `(B, d, V)`.
pushes = over_blocks(_push)
#: state (u, w, dF, dG, out): out `(A, W, 2 + 2 d)` += sums of A, B, A y and B eta.
turns = over_blocks(_turn)


class _Scaled:
    """The moves of the tiles of a named cost."""

    def __init__(self, tiles: Tiles, F: np.ndarray, G: np.ndarray, moves: Sequence[np.ndarray]) -> None:
        self.tiles, self.factor = tiles, tiles.ground.factor
        self.exponents = tiles.padded(0, F, G)
        self.points = [tiles.coordinates(side) for side in (0, 1)]
        self.moves = [_laid_out(c, v * self.factor, x) for c, v, x in zip(tiles.cells, moves, self.points, strict=True)]

    def _pass(self, kernel: Any, side: int, *state: np.ndarray) -> np.ndarray:
        """What the pass has written to the last of its arrays."""
        tiling = self.tiles.tiling(side, self.exponents[side], self.exponents[1 - side])
        self.tiles.each(kernel, side, tiling, (self.moves[side], self.moves[1 - side], *state))
        return self.tiles.cells[side].taken(state[-1])

    def pushed(self, side: int) -> np.ndarray:
        """sum P W over the other side, in units of epsilon."""
        return self._pass(pushes, side, np.zeros(self.exponents[side].shape))

    def slopes(self, side: int, dF: np.ndarray, dG: np.ndarray) -> np.ndarray:
        """The move of the gradient of the value over epsilon, in the points of a side."""
        cells, (count, d, width) = self.tiles.cells, self.points[side].shape
        shifts = cells[side].padded(dF, 0.0), cells[1 - side].padded(dG, 0.0)
        sums = self._pass(turns, side, *shifts, np.zeros((count, width, 2 + 2 * d)))
        points, moves = (cells[side].taken(x[side].transpose(0, 2, 1)) for x in (self.points, self.moves))
        moved = sums[:, :1] * points - sums[:, 2 : 2 + d] + sums[:, 1:2] * moves - sums[:, 2 + d :]
        return self.factor * moved[:, : cells[side].points.shape[1]]


def _laid_out(cells: Any, moves: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Moves `(n, d)` where the points of the cells are."""
    out = np.zeros_like(like)
    for e, column in enumerate(moves.T):
        out[:, e] = cells.padded(column, 0.0)
    return out


class _Called:
    """The moves of a cost that is a callable, by its own derivatives, a block at a time."""

    def __init__(self, tiles: CallableTiles, F: np.ndarray, G: np.ndarray, moves: Sequence[np.ndarray]) -> None:
        self.tiles, self.exponents = tiles, (torch.from_numpy(F), torch.from_numpy(G))
        self.moves = [torch.from_numpy(v).to(z) for v, z in zip(moves, tiles.points, strict=True)]

    def _block(self, i: slice, j: slice) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Points, costs, and how these move, with a graph."""
        x, y = (z[k].clone().requires_grad_() for z, k in zip(self.tiles.points, (i, j), strict=True))
        cost = self.tiles.cost(x, y)
        probe = torch.zeros_like(cost, requires_grad=True)
        slopes = torch.autograd.grad(cost, (x, y), probe, create_graph=True, materialize_grads=True)
        along = (slopes[0] * self.moves[0][i]).sum() + (slopes[1] * self.moves[1][j]).sum()
        (moved,) = torch.autograd.grad(along, probe, create_graph=True, materialize_grads=True)
        return x, y, cost, moved, self.tiles._plan(i, j, *self.exponents)[0]

    def pushed(self, side: int) -> np.ndarray:
        out = torch.zeros(self.tiles.shape[side], dtype=torch.float64)
        with torch.enable_grad():
            for i, j in product(*self.tiles.blocks):
                *_, moved, P = self._block(i, j)
                terms = torch.where(P > 0, P * moved.detach().double(), 0.0)
                out[(i, j)[side]] += terms.sum(1 - side)
        return out.numpy() / self.tiles.epsilon

    def slopes(self, side: int, dF: np.ndarray, dG: np.ndarray) -> np.ndarray:
        own, other = torch.from_numpy(dF), torch.from_numpy(dG)
        first, second = (own, other) if side == 0 else (other, own)
        out = torch.zeros(self.tiles.points[side].shape, dtype=torch.float64)
        with torch.enable_grad():
            for i, j in product(*self.tiles.blocks):
                x, y, cost, moved, P = self._block(i, j)
                dP = P * (first[i, None] + second[None, j] - moved.detach().double() / self.tiles.epsilon)
                paid = torch.where(P > 0, dP * cost + P * moved, 0.0).sum()
                (slope,) = torch.autograd.grad(paid, (x, y)[side], materialize_grads=True)
                out[(i, j)[side]] += slope
        return out.numpy() / self.tiles.epsilon


@dataclass(frozen=True)
class SampleCurvature:
    """The Hessian of the values of a batch in (x, y, a, b), by its products."""

    solved: list[Solved]

    def refusal(self, k: int) -> str | None:
        reasons = (refusal(s.problem, in_weights=k > 1) for s in self.solved)
        return next((why for why in reasons if why is not None), None)

    def product(self, direction: Sequence[Tensor | None]) -> list[Tensor]:
        """Of moves `(B, n, d)`, `(B, m, d)`, `(B, n)`, `(B, m)`, None where there is none; likewise in all four."""
        parts = [
            _product(s, [None if move is None else move[k] for move in direction]) for k, s in enumerate(self.solved)
        ]
        return [torch.stack(part) for part in zip(*parts, strict=True)]


def _product(solved: Solved, direction: Sequence[Tensor | None]) -> list[Tensor]:
    problem, stream, plan = solved.problem, solved.stream, solved.proof.plan
    epsilon, shape = problem.epsilon, (len(solved.points[0]), len(solved.points[1]))

    def times(side: int) -> Any:
        def apply(v: Tensor) -> Tensor:
            found = stream.products(side, plan.F, plan.G, v[0].numpy()[:, None])
            return torch.from_numpy(found[:, 0])[None]

        return apply

    forward, back = times(0), times(1)
    ones = [torch.ones(1, k, dtype=torch.float64) for k in shape]
    system = System(problem, forward, back, forward(ones[1]), back(ones[0]), solved.f, solved.g)
    moves = [
        np.zeros(z.shape) if move is None else move.double().numpy()
        for z, move in zip(solved.points, direction[:2], strict=True)
    ]
    kind: Any = _Called if isinstance(stream, CallableTiles) else _Scaled
    moved = kind(stream, plan.F, plan.G, moves)
    pushed = [epsilon * torch.from_numpy(moved.pushed(side))[None] for side in (0, 1)]
    weights = [None if move is None else move[None] for move in direction[2:]]
    shifts, slopes = system.solved((pushed[0], pushed[1]), weights)
    dF, dG = (x[0].numpy() / epsilon for x in shifts)
    found = [moved.slopes(0, dF, dG), moved.slopes(1, dG, dF)]
    return [*(torch.from_numpy(epsilon * x) for x in found), *(x[0] for x in slopes)]
