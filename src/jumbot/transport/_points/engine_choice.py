"""One problem between points: which tiles, which start, how much memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.cost import Cost, parse_cost, squared_euclidean
from jumbot.errors import ArgumentError
from jumbot.transport._kernels.memory import acquire, release
from jumbot.transport._outcome import AnyOutcome
from jumbot.transport._placement import bytes_per_entry, free_memory
from jumbot.transport._points._team import ALONE, team_of
from jumbot.transport._points.callable_tiles import CallableTiles
from jumbot.transport._points.kd_cells import Cells
from jumbot.transport._points.point_tiles import Tiles
from jumbot.transport._points.rounding import Proof, Solved, StreamedPlan, exponents
from jumbot.transport._points.sample_sweeps import Sweeps
from jumbot.transport._points.tile_math import FEW, PRODUCT, SQUARED, WFR, Ground, ground_of, scaled
from jumbot.transport._problem import Problem
from jumbot.transport._solve import find_outcome

#: Points of a side that need no coarser ones, and points that one coarse point represents.
FEWEST = 2048
_EACH = 8
_MATRIX = 1 << 25  # pairs up to which a matrix is made where no pair can be left out
_WIDE = 1.0  # mean squared distance from the centre, in units of epsilon, up to which a mean represents its cell
_TOL, _SWEEPS = 1e-4, 60
_COOLER, _WARM_TOL = 3.0, 1e-3  # from one larger epsilon to the next, and the gap at each
_REACH = 20  # the largest cost over the largest epsilon
_FARTHEST = 4.0  # cost over epsilon between a point and the one that represents it, where marginals are exact
_BUDGET = 1e-4
_UNREACHED = 1e11  # a soft minimum, in units of epsilon, of a point with no other within reach


@dataclass(frozen=True)
class Side:
    """Scaled points of one side, their weights, and their weights in the reference."""

    points: np.ndarray
    weights: np.ndarray
    reference: np.ndarray
    cell: np.ndarray | None = None  # of each finer point, where these are coarse


Sides = tuple[Side, Side]


def _whole(problem: Problem, ground: Ground, n: int, m: int, spare: float) -> bool:
    """Whether the matrix is the quicker way for all of the problem: no pair can be left out, and it fits with ease."""
    if ground.kind != PRODUCT or problem.source.hard or problem.target.hard or n * m > _MATRIX:
        return False
    return n * m * bytes_per_entry(problem.epsilon, False, False) <= min(spare, free_memory() / 4)


def _read_off(problem: Problem, outcome: AnyOutcome, tiles: Tiles, points: Any, call: Call) -> Solved:
    """From the solution by the matrix, whose plan is that of the potentials where no marginal is exact."""
    by = outcome.certificate
    linear, objective, gap, scale = (float(v) for v in (by.linear, by.objective, by.gap, by.scale))
    plan = StreamedPlan(*exponents(problem, tiles.closed, outcome.f, outcome.g))
    proof = Proof(plan, by.rows[0].numpy(), by.columns[0].numpy(), linear, objective, gap, scale)
    return Solved(
        problem,
        tiles,
        outcome.f,
        outcome.g,
        int(outcome.taken),
        proof,
        kept=1.0,
        interrupted=False,
        points=points,
        directions=call.cost == "cosine",
    )


def start(
    problem: Problem, x: np.ndarray, y: np.ndarray, ground: Ground, fewest: int = FEWEST
) -> tuple[Tensor, Tensor] | None:
    """Potentials from a problem between fewer points; None where no side has more than `fewest`."""
    reference = [r[0].numpy() for r in problem.reference_weights]
    sides = Side(x, problem.a[0].numpy(), reference[0]), Side(y, problem.b[0].numpy(), reference[1])
    return _start(problem, sides, ground, fewest)


def _start(problem: Problem, sides: Sides, ground: Ground, fewest: int) -> tuple[Tensor, Tensor] | None:
    if max(len(side.points) for side in sides) <= fewest:
        return None
    (first, spread), (second, other) = (coarsened(side, ground, fewest) for side in sides)
    if max(spread, other) > _FARTHEST and (problem.source.hard or problem.target.hard):
        return _annealed(problem, sides, ground, fewest, max(spread, other) / _FARTHEST)
    coarse = first, second
    small = _problem(problem, *coarse)
    begun = _start(small, coarse, ground, fewest)
    if begun is None:
        outcome = find_outcome(with_costs(small, first.points, second.points, ground), None, _TOL, 1000)
        f, g = outcome.f, outcome.g
        del outcome
        release()  # the matrix and the plan: no other of this problem has their size
    else:
        tiles = Tiles(coarse[0].points, coarse[1].points, ground)
        if not (problem.source.hard or problem.target.hard):  # where they may lose all of their mass
            tiles.close((first.reference, second.reference))
        found = Sweeps(small, tiles, _TOL).run(*begun, _SWEEPS, prove_it=False)
        # a coarse point that nothing can reach may represent points that something can
        f, g = (
            x if out is None else x.masked_fill(torch.from_numpy(out)[None], 0.0)
            for x, out in zip((found.f, found.g), tiles.closed, strict=True)
        )
    return extended(problem, sides, small, coarse, ground, f, g)


def _annealed(problem: Problem, sides: Sides, ground: Ground, fewest: int, times: float) -> tuple[Tensor, Tensor]:
    """Potentials from epsilon `times` as large, at which coarse points can represent others, and those between.

    Where marginals are exact the mass of far points must go somewhere.  From potentials that are off by many epsilons,
    as random points in the place of such cells give them, that takes thousands of sweeps.
    """
    both = np.concatenate([side.points for side in sides])
    most = _cost(ground, float((np.ptp(both, axis=0) ** 2).sum())) / _REACH
    level = max(1, math.ceil(math.log(max(min(times, most), 1.0)) / math.log(_COOLER)))
    begun: tuple[Tensor | None, Tensor] | None = None
    while level > 0:
        warm, warm_sides, warm_ground = _warmed(problem, sides, ground, _COOLER**level)
        if begun is None:
            begun = _start(warm, warm_sides, warm_ground, fewest) if times < most else (None, torch.zeros_like(warm.b))
        assert begun is not None
        tiles = Tiles(warm_sides[0].points, warm_sides[1].points, warm_ground)
        found = Sweeps(warm, tiles, _WARM_TOL).run(*begun, _SWEEPS, prove_it=False)
        begun, level = (found.f, found.g), level - 1
    return found.f, found.g


def _warmed(problem: Problem, sides: Sides, ground: Ground, times: float) -> tuple[Problem, Sides, Ground]:
    """The same problem at a larger epsilon, and what its tiles take."""
    warm = replace(problem, epsilon=times * problem.epsilon)
    units = ground_of(ground.name, warm.epsilon, sides[0].points.shape[1])
    first, second = (replace(side, points=side.points * (units.factor / ground.factor)) for side in sides)
    return warm, (first, second), units


def coarsened(side: Side, ground: Ground, fewest: int) -> tuple[Side, float]:
    """A point for every few, with the weight of all: their mean where they are close, else one of them.

    With the cost between a point and its mean, over epsilon, at most.
    """
    if len(side.points) <= fewest:
        return replace(side, cell=None), 0.0
    cells = Cells.of(side.points, _EACH)
    mean, mass, scatter = cells.means(side.weights)
    cell = cells.at // cells.width
    reference = np.bincount(cell, side.reference, cells.count)
    usual, largest = (_cost(ground, z) for z in (scatter @ side.weights / mass.sum(), scatter[side.weights > 0].max()))
    if usual <= _WIDE:
        return Side(mean, mass, reference, cell), largest
    order = np.random.default_rng(0).permutation(len(cell))
    chosen = np.empty(cells.count, dtype=np.int64)
    order = order[np.argsort(side.weights[order] > 0, kind="stable")]  # one that has weight, where there is one
    chosen[cell[order]] = order
    return Side(side.points[chosen], mass, reference, cell), largest


def _cost(ground: Ground, squared: float) -> float:
    """Over epsilon, at a squared distance in scaled units that is small."""
    if ground.kind in (SQUARED, PRODUCT):
        return squared
    return math.sqrt(squared) * (ground.scale if ground.kind == WFR else 1)


def _problem(like: Problem, a: Side, b: Side) -> Problem:
    weights = [torch.from_numpy(side.weights)[None] for side in (a, b)]
    cost = torch.zeros(1, 1, 1, dtype=torch.float64).expand(1, len(a.points), len(b.points))
    # under "ones" a coarse point counts as often as the points that it represents
    counted = torch.from_numpy(a.reference)[None], torch.from_numpy(b.reference)[None]
    return replace(like, cost=cost, a=weights[0], b=weights[1], counted=counted)


def with_costs(problem: Problem, points: np.ndarray, others: np.ndarray, ground: Ground) -> Problem:
    """The problem with its matrix of costs."""
    x, y = torch.from_numpy(points), torch.from_numpy(others)
    if ground.kind in (SQUARED, PRODUCT):
        unit = math.sqrt(problem.epsilon)
        z = _squared(unit * x, unit * y)
    else:
        z = torch.cdist(x, y)
        if ground.kind == WFR:
            z = -2 * ground.scale * torch.log(torch.cos(z.clamp_max(math.pi / 2 * (1 - 1e-6))))
        z *= problem.epsilon
    return replace(problem, cost=z[None])


def _squared(x: Tensor, y: Tensor) -> Tensor:
    """|x - y|^2 of points around a common centre.  Memory that is new takes longer to write than the product."""
    if x.shape[1] <= FEW:
        return squared_euclidean(x, y)
    out = torch.from_numpy(acquire(len(x), len(y)))
    torch.add(x.square().sum(1)[:, None], y.square().sum(1), out=out)
    return out.addmm_(x, y.mT, alpha=-2).clamp_min_(0)


def extended(
    problem: Problem,
    sides: Sides,
    small: Problem,
    coarse: tuple[Side, Side],
    ground: Ground,
    f: Tensor,
    g: Tensor,
) -> tuple[Tensor, Tensor]:
    """The potentials of all points: soft minima over the coarse points of the other side."""
    F, G = exponents(small, (None, None), f, g)  # infinite costs are large ones here
    out = []
    for k, (exponent, potential) in enumerate(((G, f), (F, g))):
        own, other, cell = sides[k], coarse[1 - k], coarse[k].cell
        if cell is None:
            out.append(potential)
            continue
        tiles = Tiles(own.points, other.points, ground)
        guess = potential[0].numpy()[cell] / problem.epsilon
        with np.errstate(divide="ignore"):
            first = np.where(own.reference > 0, guess + np.log(own.reference), -np.inf)
        tiles.choose(first, exponent, _BUDGET * float(own.weights.sum()))
        soft = -tiles.log_sums(0, exponent, None, np.float32) * problem.epsilon
        side, weights = problem.sides[k]
        far = torch.from_numpy(soft >= _UNREACHED * problem.epsilon)[None]
        shifted = torch.from_numpy(np.minimum(soft, _UNREACHED * problem.epsilon))[None] + problem.offsets[k]
        potential = side.step(shifted, weights, problem.epsilon)
        # where costs may be infinite, a point that no coarse point reaches may still be within reach of a fine one
        out.append(potential.masked_fill(far, 0.0) if ground.kind == WFR else potential)
    return out[0], out[1]


_VECTORS = 45  # float64 numbers for each point, in addition to its coordinates: potentials, mixing, marginals, padding
_COPIES = 5  # of the coordinates in float64
_BLOCK, _LEAST_BLOCK = 1 << 20, 1 << 10  # entries of a block of a callable cost
_ENTRY = 64  # bytes for each, with all temporaries
_FIXED = 24 << 20  # bytes that do not grow with the points
_LARGE = 1e9  # pairs from which on progress is shown


@dataclass(frozen=True)
class Call:
    """What of a call is the same for each problem of a batch."""

    cost: str | Cost
    tol: float
    limit: int
    memory: int | None


def needed(n: int, m: int, d: int) -> int:
    """Bytes that a problem needs besides its points, without blocks and coarse problems."""
    return _FIXED + 8 * (n + m) * (_VECTORS + _COPIES * (d if d <= 3 else -(-d // 4) * 4))


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
    room, taken, stopped = math.inf if spare is None else spare, 0, False
    most = int(min(FEWEST, math.sqrt(min(room, 1e18) / _ENTRY)))
    whole = begin is None and _whole(problem, ground, n, m, room)
    try:
        if whole or (begin is None and max(n, m) <= most):
            tol = call.tol if whole else call.tol / 2
            outcome = find_outcome(with_costs(problem, *clouds, ground), None, tol, call.limit)
            begin, taken = (outcome.f, outcome.g), int(outcome.taken)
            if whole and outcome.all_within(call.tol):
                return _read_off(problem, outcome, Tiles(*clouds, ground), points, call)
        elif begin is None:
            begin = start(problem, *clouds, ground, most)
    except KeyboardInterrupt:  # there is no result yet, but it has a valid gap
        begin, stopped = (torch.zeros_like(problem.a), torch.zeros_like(problem.b)), True
    tiles = Tiles(*clouds, ground)
    first, second = problem.reference_weights
    tiles.close((first[0].numpy(), second[0].numpy()))
    return _swept(problem, tiles, call, begin, points, taken, stopped)


def _check_reach(problem: Problem, ground: Ground, x: np.ndarray, y: np.ndarray) -> None:
    """Infinite costs need a finite penalty on some side."""
    if ground.kind == WFR and problem.source.hard and problem.target.hard:
        reach = np.maximum(x.max(0) - y.min(0), y.max(0) - x.min(0))
        if float((reach**2).sum()) >= math.pi**2 / 4:
            raise ArgumentError(
                "cost: 'wfr' is infinite for distances of pi/2 and more, so exact marginals may have no plan; pass a "
                "finite tau, or divide the points by a larger length."
            )


def _swept(
    problem: Problem,
    tiles: Any,
    call: Call,
    begin: tuple[Tensor, Tensor] | None,
    points: Any,
    taken: int,
    stopped: bool = False,
) -> Solved:
    from jumbot._base.progress import progress

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
        found = sweeps.run(f, g, max(1, call.limit - taken), True, _reporter(stretch, tiles), stopped)
    assert found.proof is not None
    tiles.team = ALONE  # later calls on the solution may come from one process alone
    return Solved(
        problem,
        tiles,
        found.f,
        found.g,
        taken + found.taken,
        found.proof,
        found.kept,
        found.interrupted,
        points,
        call.cost == "cosine",
    )


def _reporter(stretch: Any, tiles: Any) -> Callable[[int, float], None]:
    def tell(count: int, gap: float) -> None:
        stretch(1, f"sweep {count}, {100 * tiles.kept:.2g} % of the pairs, relative gap about {gap:.1e}")

    return tell
