"""One problem between points: which tiles, which start, how much memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.cost import Cost, parse_cost
from jumbot.errors import ArgumentError
from jumbot.transport._points import coarse
from jumbot.transport._points._team import ALONE, team_of
from jumbot.transport._points.callable_tiles import CallableTiles
from jumbot.transport._points.grounds import Ground, ground_of, scaled
from jumbot.transport._points.point_tiles import Tiles
from jumbot.transport._points.sample_sweeps import Sweeps
from jumbot.transport._points.solved import Solved
from jumbot.transport._points.tile_math import WFR
from jumbot.transport.problem import Problem

_VECTORS = 45  # float64 numbers for each point, beside its coordinates: potentials, mixing, marginals, padding
_COPIES = 5  # of the coordinates in float64
_BLOCK, _LEAST_BLOCK = 1 << 20, 1 << 10  # entries of a block of a callable cost
_ENTRY = 64  # bytes for each, with all temporaries
_BESIDE = 24 << 20  # bytes that do not grow with the points
_LARGE = 1e9  # pairs from which on progress is shown


@dataclass(frozen=True)
class Call:
    """What of a call is the same for each problem of a batch."""

    cost: str | Cost
    tol: float
    limit: int
    memory: int | None


def needed(n: int, m: int, d: int) -> int:
    """Bytes that a problem needs beside its points, but for blocks and coarse problems."""
    return _BESIDE + 8 * (n + m) * (_VECTORS + _COPIES * (d if d <= 3 else -(-d // 4) * 4))


def solve_one(problem: Problem, x: Tensor, y: Tensor, call: Call, begin: tuple[Tensor, Tensor] | None) -> Solved:
    """`x` and `y` on the CPU, checked."""
    n, m, d = len(x), len(y), x.shape[1]
    spare = None if call.memory is None else call.memory - needed(n, m, d)
    if spare is not None and spare < _LEAST_BLOCK * _ENTRY:
        least = needed(n, m, d) + _LEAST_BLOCK * _ENTRY
        raise ArgumentError(f"memory: must be at least {least:,} bytes for {n:,} x {m:,} points, got {call.memory:,}.")
    points = x.numpy(), y.numpy()
    if not isinstance(call.cost, str):
        entries = _BLOCK if spare is None else min(_BLOCK, spare // _ENTRY)
        tiles: Any = CallableTiles(x, y, parse_cost(call.cost), problem.epsilon, entries)
        return _swept(problem, tiles, call, begin, points, 0)
    ground = ground_of(call.cost, problem.epsilon, d)
    clouds = scaled(ground, *points)
    _check_reach(problem, ground, *clouds)
    taken = 0
    if begin is None:
        most = coarse.FEWEST if spare is None else min(coarse.FEWEST, int(math.sqrt(spare / _ENTRY)))
        if max(n, m) > most:
            begin = coarse.start(problem, *clouds, ground, most)
        else:
            *pair, taken = coarse.start_dense(problem, *clouds, ground, call.tol / 2, call.limit)
            begin = pair[0], pair[1]
    tiles = Tiles(*clouds, ground)
    first, second = problem.reference_weights
    tiles.close((first[0].numpy(), second[0].numpy()))
    return _swept(problem, tiles, call, begin, points, taken)


def _check_reach(problem: Problem, ground: Ground, x: np.ndarray, y: np.ndarray) -> None:
    """Infinite costs need a price on some side."""
    if ground.kind == WFR and problem.source.hard and problem.target.hard:
        reach = np.maximum(x.max(0) - y.min(0), y.max(0) - x.min(0))
        if float((reach**2).sum()) >= math.pi**2 / 4:
            raise ArgumentError(
                "cost: 'wfr' is infinite from a distance of pi/2 on, so that exact marginals may have no plan; give a "
                "finite tau, or divide the points by a larger length."
            )


def _swept(
    problem: Problem, tiles: Any, call: Call, begin: tuple[Tensor, Tensor] | None, points: Any, taken: int
) -> Solved:  # fmt: skip
    from jumbot.minibatch.progress import progress

    f, g = (None, torch.zeros_like(problem.b)) if begin is None else begin
    weights = problem.a[0].numpy(), problem.b[0].numpy()
    cost = call.cost if isinstance(call.cost, str) else "a callable"
    settings = cost, call.tol, call.limit, problem.epsilon, problem.source, problem.target, problem.reference
    tiles.team = team_of((*points, *weights), settings)
    if f is not None:
        first, second = tiles.team.agreed(f.numpy(), g.numpy())
        f, g = torch.from_numpy(first), torch.from_numpy(second)
    sweeps = Sweeps(problem, tiles, call.tol)
    pairs = math.prod(tiles.shape)
    large = pairs >= _LARGE
    with progress(None, f"{tiles.shape[0]:,} x {tiles.shape[1]:,} points", bar=large, slow=large) as stretch:
        found = sweeps.run(f, g, max(1, call.limit - taken), tell=_teller(stretch, tiles))
    assert found.proof is not None
    tiles.team = ALONE  # what is asked of the solution later, one process may ask alone
    return Solved(
        problem, tiles, found.f, found.g, taken + found.taken, found.proof, found.kept, found.interrupted, points,
        call.cost == "cosine",
    )  # fmt: skip


def _teller(stretch: Any, tiles: Any) -> Callable[[int, float], None]:
    def tell(count: int, gap: float) -> None:
        stretch(1, f"sweep {count}, {100 * tiles.kept:.2g} % of the pairs, relative gap about {gap:.1e}")

    return tell
