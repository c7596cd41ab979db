"""Where the sweeps of a large problem start: cells of points stand for the points, at ever finer cells.

A problem with an eighth of the points on either side takes a 64th of the time.  Its potentials are those of the finer
one but for what happens within a cell: one pass against the coarse points of the other side extends them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from jumbot.transport._points.grounds import Ground
from jumbot.transport._points.kd_cells import Cells
from jumbot.transport._points.point_tiles import Tiles
from jumbot.transport._points.rounding import exponents
from jumbot.transport._points.sample_sweeps import Sweeps
from jumbot.transport._points.tile_math import PRODUCT, ROOT, SQUARED, WFR
from jumbot.transport.problem import Problem
from jumbot.transport.solve import find_outcome

#: Points of a side that need no coarser ones, and points that one coarse point stands for.
FEWEST = 2048
_EACH = 8
_WIDE = 1.0  # mean squared distance from the centre, in units of epsilon, up to which a mean stands for its cell
_TOL, _SWEEPS = 1e-4, 60
_BUDGET = 1e-4


@dataclass(frozen=True)
class Side:
    """Scaled points of one side, their weights, and their weights in the reference."""

    points: np.ndarray
    weights: np.ndarray
    reference: np.ndarray
    cell: np.ndarray | None = None  # of each finer point, where these are coarse


def start_dense(
    problem: Problem, x: np.ndarray, y: np.ndarray, ground: Ground, tol: float, limit: int
) -> tuple[Tensor, Tensor, int]:  # fmt: skip
    """Potentials of a small problem from its matrix, and the sweeps that they took: small epsilon is annealed there."""
    sides = Side(x, problem.a[0].numpy(), np.empty(0)), Side(y, problem.b[0].numpy(), np.empty(0))
    outcome = find_outcome(replace_cost(problem, sides, ground), None, tol, limit)
    return outcome.f, outcome.g, int(outcome.taken)


class Open:
    """For coarse problems, in which no point is closed: infinite costs are large ones there."""

    closed = (None, None)


def start(
    problem: Problem, x: np.ndarray, y: np.ndarray, ground: Ground, fewest: int = FEWEST
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    """Potentials from a problem between fewer points; None where no side has more than `fewest`."""
    reference = [r[0].numpy() for r in problem.reference_weights]
    sides = Side(x, problem.a[0].numpy(), reference[0]), Side(y, problem.b[0].numpy(), reference[1])
    return _start(problem, sides, ground, fewest)


def _start(
    problem: Problem, sides: tuple[Side, Side], ground: Ground, fewest: int
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    if max(len(side.points) for side in sides) <= fewest:
        return None
    coarse = coarsened(sides[0], ground, fewest), coarsened(sides[1], ground, fewest)
    small = _problem(problem, *coarse)
    begun = _start(small, coarse, ground, fewest)
    if begun is None:
        outcome = find_outcome(replace_cost(small, coarse, ground), None, _TOL, 1000)
        f, g = outcome.f, outcome.g
    else:
        tiles = Tiles(coarse[0].points, coarse[1].points, ground)
        found = Sweeps(small, tiles, _TOL).run(*begun, _SWEEPS, prove_it=False)
        f, g = found.f, found.g
    return extended(problem, sides, small, coarse, ground, f, g)


def coarsened(side: Side, ground: Ground, fewest: int) -> Side:
    """A point for every few: their mean where they are close, else one of them, with the weight of all."""
    if len(side.points) <= fewest:
        return replace(side, cell=None)
    cells = Cells.of(side.points, _EACH)
    mean, mass, scatter = cells.means(side.weights)
    cell = cells.at // cells.width
    reference = np.bincount(cell, side.reference, cells.count)
    wide = (
        scatter
        if ground.kind in (SQUARED, PRODUCT)
        else math.sqrt(scatter) * (ground.scale if ground.kind == WFR else 1)
    )
    if wide <= _WIDE:
        return Side(mean, mass, reference, cell)
    order = np.random.default_rng(0).permutation(len(cell))
    chosen = np.empty(cells.count, dtype=np.int64)
    order = order[np.argsort(side.weights[order] > 0, kind="stable")]  # one that has weight, where there is one
    chosen[cell[order]] = order
    return Side(side.points[chosen], mass, reference, cell)


def _problem(like: Problem, a: Side, b: Side) -> Problem:
    weights = [torch.from_numpy(side.weights)[None] for side in (a, b)]
    cost = torch.zeros(1, 1, 1, dtype=torch.float64).expand(1, len(a.points), len(b.points))
    small = replace(like, cost=cost, a=weights[0], b=weights[1])
    # under "ones" a coarse point counts as often as the points that it stands for
    small.__dict__["reference_weights"] = tuple(torch.from_numpy(side.reference)[None] for side in (a, b))
    return small


def replace_cost(problem: Problem, sides: tuple[Side, Side], ground: Ground) -> Problem:
    """The problem with its matrix of costs."""
    x, y = (torch.from_numpy(side.points) for side in sides)
    z = torch.cdist(x, y)
    if ground.kind in (SQUARED, PRODUCT):
        z = z.square_()
    elif ground.kind != ROOT:
        z = -2 * ground.scale * torch.log(torch.cos(z.clamp_max(math.pi / 2 * (1 - 1e-6))))
    full = replace(problem, cost=problem.epsilon * z[None])
    full.__dict__["reference_weights"] = problem.reference_weights
    return full


def extended(
    problem: Problem, sides: tuple[Side, Side], small: Problem, coarse: tuple[Side, Side], ground: Ground,
    f: Tensor, g: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The potentials of all points: soft minima over the coarse points of the other side."""
    F, G = exponents(small, Open(), f, g)
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
        shifted = torch.from_numpy(np.minimum(soft, 1e11 * problem.epsilon))[None] + problem.offsets[k]
        out.append(side.step(shifted, weights, problem.epsilon))
    return out[0], out[1]
