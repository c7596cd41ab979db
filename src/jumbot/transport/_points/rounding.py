"""What potentials prove about a problem whose plan is a stream: a feasible plan, its objective, and the gap.

As `certificate.py`, with the plan Q = e^(F + G - C/epsilon) + alpha beta' held by its four vectors.  Blocks that are
left out hold at most `left_out` of the plan of the potentials: the dual is lower by epsilon times that, no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.transport._certificate import _OVERFLOWN, spread
from jumbot.transport._points.tile_math import NOTHING
from jumbot.transport._problem import Problem


@dataclass(frozen=True)
class StreamedPlan:
    """Q = e^(F + G - C/epsilon) + alpha beta'; F and G hold the logarithms of the reference weights."""

    F: np.ndarray
    G: np.ndarray
    alpha: np.ndarray | None = None
    beta: np.ndarray | None = None


@dataclass(frozen=True)
class Proof:
    """A feasible plan with its marginals and what it proves; scalars leave out epsilon sum(R)."""

    plan: StreamedPlan
    rows: np.ndarray
    columns: np.ndarray
    linear: float
    objective: float
    gap: float
    scale: float

    @property
    def relative_gap(self) -> float:
        if not self.scale < _OVERFLOWN:
            return float("inf")
        return self.gap / max(self.scale, 1e-300) if self.gap > 0 else self.gap


def exponents(
    problem: Problem, closed: Sequence[np.ndarray | None], f: Tensor, g: Tensor
) -> tuple[np.ndarray, np.ndarray]:
    """Potentials over epsilon plus the logarithms of the reference weights; nothing at points that are closed."""
    out = []
    for potential, r, out_of_reach in zip((f, g), problem.reference_weights, closed, strict=True):
        x = torch.where(r <= 0, NOTHING, potential / problem.epsilon + torch.log(r))[0].numpy()
        out.append(x if out_of_reach is None else np.where(out_of_reach, NOTHING, x))
    return out[0], out[1]


def prove(problem: Problem, stream: Any, f: Tensor, g: Tensor) -> Proof:
    """In float64, at the blocks that `stream` keeps."""
    F, G = exponents(problem, stream.closed, f, g)
    hard = problem.source.hard, problem.target.hard
    if all(hard):
        return _prove_two(problem, stream, f, g, F, G)
    more = 0.0  # KL(Q | P)
    if any(hard):
        F, G, more = _fit(problem, stream, F, G, 0 if hard[0] else 1)
    rows, columns, linear, size = stream.plan_sums(F, G)
    mass = float(rows.sum())
    gap, penalty = problem.epsilon * (more + stream.left_out), 0.0
    paid = 0.0
    for (side, weights), potential, p in zip(problem.sides, (f, g), (rows, columns), strict=True):
        p = torch.from_numpy(p)[None]
        gap += np.inf if bool(side.violated(p, weights)) else float(side.fenchel_young(p, potential, weights))
        penalty += float(side.penalty(p, weights))
        paid += float(torch.where(p > 0, potential * p, 0.0).sum())
    # sum Q log(Q/R) = KL(Q | P) + mass(Q) - mass(P) + <F + G - C/epsilon, Q>, where P and Q differ by a row factor
    objective = paid + problem.epsilon * (_factor(problem, stream, F, G, f, g, rows, columns) - mass) + penalty
    epsilon = problem.epsilon
    scale = epsilon * size + penalty + epsilon * mass
    gap = gap if np.isfinite(objective) and not np.isnan(gap) else np.inf
    return Proof(StreamedPlan(F, G), rows, columns, epsilon * linear, objective, gap, scale)


def _factor(
    problem: Problem,
    stream: Any,
    F: np.ndarray,
    G: np.ndarray,
    f: Tensor,
    g: Tensor,
    rows: np.ndarray,
    columns: np.ndarray,
) -> float:
    """sum Q log(Q/P) where exact marginals have scaled rows or columns."""
    if not (problem.source.hard or problem.target.hard):
        return 0.0
    before = exponents(problem, stream.closed, f, g)
    return float(np.sum(rows * np.where(rows > 0, F - before[0], 0.0))) + float(
        np.sum(columns * np.where(columns > 0, G - before[1], 0.0))
    )


def _fit(problem: Problem, stream: Any, F: np.ndarray, G: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Scale the rows (k = 0) or columns of P into their bounds; KL(Q | P)."""
    side, weights = problem.sides[k]
    own, other = (F, G) if k == 0 else (G, F)
    low, high = (x[0].numpy() for x in side.bounds(weights))
    logs = stream.log_sums(k, other, None, np.float64)
    p = np.exp(np.minimum(own + logs, 600.0))
    q = np.clip(p, low, high)
    moved = np.where((q > 0) & (p > 0), np.log(np.maximum(q, 1e-300)) - (own + logs), 0.0)
    near = p * moved**2 * (0.5 + moved / 3)
    divergence = float(np.where(np.abs(moved) < 1e-4, near, np.maximum(q * moved - q + p, 0.0)).sum())
    own = own + moved
    return (own, other, divergence) if k == 0 else (other, own, divergence)


def _prove_two(problem: Problem, stream: Any, f: Tensor, g: Tensor, F: np.ndarray, G: np.ndarray) -> Proof:
    """Rows and columns scaled down to their upper bounds, and what is missing filled in by a rank-one term."""
    (source, a), (target, b) = problem.sides
    (low_a, high_a), (low_b, high_b) = source.bounds(a), target.bounds(b)
    rows = np.exp(np.minimum(F + stream.log_sums(0, G, None, np.float64), 600.0))
    mass = float(rows.sum())
    log_u = _down(rows, high_a)
    sums = np.exp(np.minimum(G + stream.log_sums(1, F + log_u, None, np.float64), 600.0))
    log_v = _down(sums, high_b)
    rows, columns, _, _ = stream.plan_sums(F + log_u, G + log_v)
    p, q = (torch.from_numpy(x)[None] for x in (rows, columns))
    lack_a, lack_b = (low_a - p).clamp_min(0), (low_b - q).clamp_min(0)
    total = torch.maximum(lack_a.sum(-1), lack_b.sum(-1))
    alpha = spread(lack_a, (high_a - p).clamp_min(0), total)[0].numpy()
    beta = (spread(lack_b, (high_b - q).clamp_min(0), total) / total.clamp_min(1e-300)[:, None])[0].numpy()
    divergence, linear, rest = stream.mixture(F, G, log_u, log_v, alpha, beta)
    rows, columns = rows + alpha * beta.sum(), columns + alpha.sum() * beta
    gap = problem.epsilon * (divergence + rest[2] - rest[0] + stream.left_out)
    paid = 0.0
    for (side, weights), potential, x in zip(problem.sides, (f, g), (rows, columns), strict=True):
        marginal = torch.from_numpy(x)[None]
        violated = bool(side.violated(marginal, weights))
        gap += np.inf if violated else float(side.fenchel_young(marginal, potential, weights))
        paid += float((potential * marginal).sum())
    epsilon = problem.epsilon
    objective = paid + epsilon * (divergence - mass + rest[2] - rest[0])
    linear = epsilon * (linear + rest[1])
    scale = linear + epsilon * float(rows.sum())
    gap = gap if np.isfinite(objective) and not np.isnan(gap) else np.inf
    return Proof(StreamedPlan(F + log_u, G + log_v, alpha, beta), rows, columns, linear, objective, gap, scale)


def _down(sums: np.ndarray, high: Tensor) -> np.ndarray:
    """The logarithm of what brings sums down to their upper bounds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.minimum(high[0].numpy() / sums, 1.0)
    return np.log(np.where((sums > 0) & (factor > 0), factor, 1.0))


@dataclass(frozen=True)
class Solved:
    """A problem, its stream of tiles, its potentials `(1, n)`, `(1, m)`, and what they prove."""

    problem: Problem
    stream: Any
    f: Tensor
    g: Tensor
    taken: int
    proof: Proof
    kept: float
    interrupted: bool
    points: tuple[np.ndarray, np.ndarray]  # as given
    directions: bool = False  # whether the points are compared by their directions alone

    @property
    def value(self) -> float:
        """The full objective at the plan."""
        return self.proof.objective + float(self.problem.constant)
