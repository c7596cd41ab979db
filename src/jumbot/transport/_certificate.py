"""What a pair of potentials proves: a feasible plan, its objective, and a bound on its distance from the optimum.

For P = R e^{(f+g-C)/epsilon} and any feasible plan Q,

    primal(Q) - dual(f, g) = epsilon KL(Q | P) + the Fenchel-Young terms of both marginals of Q,

a sum of non-negative terms, so rounding errors cannot invalidate it.  Q = P unless a marginal is constrained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from jumbot.transport._marginal import Marginal
from jumbot.transport._problem import Problem

ROUNDING = 1e-15
_OVERFLOWN = 1e200  # a scale above which a gap is meaningless


def solved(gap: Any, scale: Any, tol: Any) -> Any:
    """Whether a gap is within `tol`: the one definition, of numbers, arrays and tensors, compiled or not.

    Over-relaxation may produce plans that overflow on the way: those prove nothing, and neither does NaN.

    >>> solved(1e-8, 1.0, 1e-6), solved(0.0, float("inf"), 1e-6), solved(float("nan"), 1.0, 1e-6), solved(0.0, -1.0, 1)
    (True, False, False, False)
    """
    return (gap <= tol * scale) & (scale >= 0.0) & (scale < _OVERFLOWN)


def reachable(tol: float, epsilon: float) -> float:
    """`tol`, but not below what float64 can prove."""
    return max(tol, 1e-14 if epsilon > 0 else 1e-12)


@dataclass(frozen=True)
class Certificate:
    """A feasible `plan` with its objective; scalars are `(B,)` in float64 and leave out epsilon sum(R)."""

    plan: Tensor
    rows: Tensor
    columns: Tensor
    linear: Tensor
    objective: Tensor
    gap: Tensor
    scale: Tensor

    @property
    def largest(self) -> Tensor:
        """The largest number of each problem."""
        return torch.stack([self.objective.abs(), self.linear.abs(), self.gap, self.rows.sum(-1)]).amax(0)

    def put(self, at: Tensor, by: Certificate, which: Tensor | slice = slice(None)) -> None:
        """Take over the problems `at` from `which` of another certificate."""
        for name in self.__dataclass_fields__:
            getattr(self, name)[at] = getattr(by, name)[which]

    @property
    def relative_gap(self) -> Tensor:
        """gap / scale; for an optimal zero plan both are zero; an overflown plan proves nothing."""
        relative = torch.where(self.gap > 0, self.gap / self.scale.clamp_min(1e-300), self.gap)
        sound = (self.scale >= 0) & (self.scale < _OVERFLOWN) & (self.gap < _OVERFLOWN)
        return torch.where(sound, relative, torch.inf)


def certify(problem: Problem, f: Tensor, g: Tensor, near: Tensor | None = None) -> Certificate:
    """The certificate of the potentials `(B, n)`, `(B, m)` for the problem as given, in float64.

    `near` is a plan that is nearly feasible, to be rounded instead of that of the potentials.
    """
    epsilon, cost = problem.epsilon, problem.cost.double()
    r_a, r_b = problem.reference_weights
    log_plan = (f[..., :, None] + g[..., None, :] - cost) / epsilon
    log_plan += torch.log(r_a)[..., :, None] + torch.log(r_b)[..., None, :]
    if problem.blocked is not None:
        log_plan = log_plan.masked_fill_(problem.blocked, -torch.inf)
    plan = torch.exp(log_plan)
    gap = torch.zeros_like(plan[:, 0, 0])
    if problem.source.hard or problem.target.hard:
        rounded = round_to_marginals(problem, plan if near is None else near)
        gap = epsilon * kl_terms(rounded, plan, log_plan).sum((-2, -1))
        log_plan = torch.where(rounded > 0, torch.log(rounded), log_plan)
        plan = rounded
    rows, columns = plan.sum(-1), plan.sum(-2)
    mass = rows.sum(-1)
    linear, size = (cost * plan).sum((-2, -1)), (cost.abs() * plan).sum((-2, -1))
    log_plan -= torch.log(r_a)[..., :, None] + torch.log(r_b)[..., None, :]
    entropy = torch.where(plan > 0, plan * log_plan, 0.0).sum((-2, -1)) - mass
    penalty = torch.zeros_like(mass)
    for (side, weights), potential, p in zip(problem.sides, (f, g), (rows, columns), strict=True):
        gap = torch.where(side.violated(p, weights), torch.inf, gap + side.fenchel_young(p, potential, weights))
        penalty = penalty + side.penalty(p, weights)
    objective = linear + epsilon * entropy + penalty
    gap = torch.where(torch.isfinite(objective) & ~gap.isnan(), gap, torch.inf)
    return Certificate(plan, rows, columns, linear, objective, gap, size + penalty + epsilon * mass)


def kl_terms(Q: Tensor, P: Tensor, log_P: Tensor) -> Tensor:
    """Q log(Q/P) - Q + P, with log P exact where P underflows."""
    ratio = torch.where(Q > 0, torch.log(Q) - log_P, 0.0)
    terms = torch.where(Q > 0, Q * ratio - Q, 0.0) + P
    near = (ratio.abs() < 1e-4) & (Q > 0)
    return torch.where(near, P * ratio**2 * (0.5 + ratio / 3), terms).clamp_min(0)


def without_rounding(gap: Tensor, scale: Tensor, a: Tensor, b: Tensor, most: Tensor) -> Tensor:
    """Zero where the optimum is zero, and both gap and scale are rounding of what any plan costs, `most` a unit."""
    nothing = ROUNDING * torch.maximum(a.sum(-1), b.sum(-1)) * most
    return torch.where((gap <= ROUNDING * scale) | (torch.maximum(gap, scale) <= nothing), 0.0, gap)


def round_to_marginals(problem: Problem, plan: Tensor) -> Tensor:
    """A plan near `plan` whose marginals lie within their bounds."""

    def sums(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        scaled = plan * u[:, :, None] * v[:, None, :]  # no product of matrices: its bits depend on the batch
        return scaled.sum(-1), scaled.sum(-2)

    factors = rounding(problem.source, problem.target, problem.a, problem.b, sums)
    return plan if factors is None else factors.block(plan, slice(None))


#: The marginals `(B, n)`, `(B, m)` of diag(u) P diag(v).
Sums = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
_LEAST = 1e-300


@dataclass(frozen=True)
class Rounding:
    """The factors of Q: u `(B, n)`, v `(B, m)`, and pairs (l, r) of the same shapes."""

    u: Tensor
    v: Tensor
    terms: tuple[tuple[Tensor, Tensor], ...] = ()

    def block(self, plan: Tensor, rows: slice) -> Tensor:
        """The rows of Q, from those of P."""
        out = plan * self.u[:, rows, None] * self.v[:, None, :]
        for left, right in self.terms:
            out += left[:, rows, None] * right[:, None, :]
        return out


def rounding(source: Marginal, target: Marginal, a: Tensor, b: Tensor, sums: Sums) -> Rounding | None:
    """The factors that bring the marginals of the plan behind `sums` within their bounds; None if it has none.

    With one constrained side its rows are rescaled.  With two, rows and columns are scaled down to their upper
    bounds and what is missing is filled in by a rank-one term (Altschuler, Weed & Rigollet, 2017).
    """
    u, v = torch.ones_like(a), torch.ones_like(b)
    if not (source.hard or target.hard):
        return None
    if not target.hard:
        u, fill = _rescaled(sums(u, v)[0], *source.bounds(a))
        return Rounding(u, v, ((fill, _shares(b)),))
    if not source.hard:
        v, fill = _rescaled(sums(u, v)[1], *target.bounds(b))
        return Rounding(u, v, ((_shares(a), fill),))
    (low_a, high_a), (low_b, high_b) = source.bounds(a), target.bounds(b)
    mass = getattr(source, "mass", None)
    rows, _ = sums(u, v)
    if mass is not None:
        u = u * (mass / rows.sum(-1, keepdim=True).clamp_min(_LEAST)).clamp_max(1.0)
    u = u * _rescaled(u * rows, torch.zeros_like(low_a), high_a)[0]
    v = _rescaled(sums(u, v)[1], torch.zeros_like(low_b), high_b)[0]
    rows, columns = sums(u, v)
    lack_a, lack_b = (low_a - rows).clamp_min(0), (low_b - columns).clamp_min(0)
    total = torch.maximum(lack_a.sum(-1), lack_b.sum(-1))
    if mass is not None:
        total = (mass - rows.sum(-1)).clamp_min(0)
    left = spread(lack_a, (high_a - rows).clamp_min(0), total)
    right = spread(lack_b, (high_b - columns).clamp_min(0), total) / total.clamp_min(_LEAST)[:, None]
    if source.exact or mass is not None:
        return Rounding(u, v, ((left, right),))
    rows, columns = rows + left * right.sum(-1, keepdim=True), columns + left.sum(-1, keepdim=True) * right
    return _mixed(Rounding(u, v, ((left, right),)), (rows, a, low_a, high_a), (columns, b, low_b, high_b))


_Side = tuple[Tensor, Tensor, Tensor, Tensor]


def _mixed(near: Rounding, source: _Side, target: _Side) -> Rounding:
    """Moved towards a multiple of a b' that is well within all bounds, as far as the worst violation requires."""
    (_, a, low_a, high_a), (_, b, low_b, high_b) = source, target
    low_a, high_a, low_b, high_b = (x.sum(-1, keepdim=True) for x in (low_a, high_a, low_b, high_b))
    middle = (torch.maximum(low_a, low_b) + torch.minimum(high_a, high_b).clamp_max(1e200)) / 2
    share = torch.zeros_like(middle)
    for marginal, weights, low, high in (source, target):
        inside = weights * middle / weights.sum(-1, keepdim=True)
        excess = torch.maximum(marginal - high, low - marginal)
        distance = (marginal - inside).abs().clamp_min(_LEAST)
        share = torch.maximum(share, torch.where(excess > 0, excess / distance, 0.0).amax(-1, keepdim=True))
    share = torch.where(share > 0, share * (1 + 1e-12), 0.0).clamp_max(1.0)
    terms = tuple(((1 - share) * left, right) for left, right in near.terms)
    return Rounding((1 - share) * near.u, near.v, (*terms, (share * middle * _shares(a), _shares(b))))


def _rescaled(sums: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The factor that brings each sum within its bounds, and what is missing if there is nothing to scale."""
    bounded = torch.clamp(sums, low, high)
    return torch.where(sums > 0, bounded / torch.where(sums > 0, sums, 1.0), 1.0), torch.where(sums > 0, 0.0, bounded)


def _shares(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)


def spread(lack: Tensor, room: Tensor, total: Tensor) -> Tensor:
    """Amounts that sum to `total`: all of `lack`, and the rest in proportion to the room that remains."""
    rest = (total - lack.sum(-1)).clamp_min(0)
    room = (room - lack).clamp(0, 1e200)
    return lack + rest[..., None] * (room / room.sum(-1, keepdim=True).clamp_min(1e-300))
