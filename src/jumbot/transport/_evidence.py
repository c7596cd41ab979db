"""What a plan and a pair of potentials prove together, in blocks of rows.

For P = R e^{(f+g-C)/epsilon} and any feasible plan Q,

    primal(Q) - dual(f, g) = epsilon KL(Q | P) + the Fenchel-Young terms of both marginals of Q,

and at epsilon = 0, where f + g <= C,

    primal(Q) - dual(f, g) = <Q, C - f - g> + the Fenchel-Young terms of both marginals of Q.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jumbot.transport._certificate import Certificate, Rounding, rounding
from jumbot.transport._given import Given
from jumbot.transport._marginal import Marginal

_SINGLE, _DOUBLE = 1e-6, 1e-9  # of the mass: what negative entries may sum to by rounding
_ROUNDING = 1e-15


@dataclass(frozen=True)
class Evidence:
    """All `(B,)` in float64; `objective` and `dual` leave out epsilon sum(R)."""

    objective: Tensor
    dual: Tensor
    gap: Tensor
    relative_gap: Tensor
    errors: tuple[Tensor, Tensor]
    mass: Tensor  # of the plan as given
    mass_error: Tensor  # |mass - prescribed| / prescribed, of partial transport
    negative: Tensor  # the smallest entry where negative ones are more than rounding, else zero
    undefined: Tensor  # whether plan or potentials contain NaN or infinities
    allowed: Tensor  # whether all mass lies on pairs that may be matched


@dataclass(frozen=True)
class _Plan:
    """The plan in blocks: given, or that of the potentials."""

    given: Given
    matrix: Tensor | None
    f: Tensor
    g: Tensor

    def log_gibbs(self, cost: Tensor, rows: slice) -> Tensor:
        """log(R e^{(f+g-C)/epsilon})."""
        r_a, r_b = self.given.log_reference
        out = (self.f[:, rows, None] + self.g[:, None, :] - cost) / self.given.epsilon
        out += r_a[:, rows, None] + r_b[:, None, :]
        return out.masked_fill_(cost.isposinf() | out.isnan(), -torch.inf)

    def block(self, rows: slice) -> Tensor:
        if self.matrix is not None:
            return self.matrix[:, rows].double().clamp_min(0)
        return self.log_gibbs(self.given.cost(rows), rows).exp()

    def sums(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        of_rows, of_columns = torch.empty_like(u), torch.zeros_like(v)
        for rows in self.given.blocks():
            block = self.block(rows)
            of_rows[:, rows] = u[:, rows] * (block @ v[:, :, None])[:, :, 0]
            of_columns += (u[:, None, rows] @ block)[:, 0]
        return of_rows, of_columns * v


def evidence(given: Given, matrix: Tensor | None, f: Tensor, g: Tensor) -> Evidence:
    """Of the plan `(B, n, m)`, or that of the potentials where it is None, and the lower bound of (f, g)."""
    negative, undefined = _look(given, matrix, f, g)
    if matrix is not None and bool(undefined.any()):
        matrix = matrix.masked_fill(undefined[:, None, None], 0.0)
    f, g = (torch.where(undefined[:, None], 0.0, x) for x in (f, g))
    if given.epsilon == 0:
        f = torch.minimum(f, _least_slack(given, g))
    plan = _Plan(given, matrix, f, g)
    rows, columns = plan.sums(torch.ones_like(given.a), torch.ones_like(given.b))
    errors = marginal_error(given.source, rows, given.a), marginal_error(given.target, columns, given.b)
    mass = rows.sum(-1)
    wanted = getattr(given.source, "mass", None)
    factors = rounding(given.source, given.target, given.a, given.b, plan.sums)
    proof, dual = _proof(plan, factors)
    bad = undefined | (negative < 0)
    return Evidence(
        objective=torch.where(bad, torch.nan, proof.objective),
        dual=dual,
        gap=torch.where(bad, torch.inf, proof.gap),
        relative_gap=torch.where(bad, torch.inf, proof.relative_gap),
        errors=errors,
        mass=mass,
        mass_error=torch.zeros_like(mass) if wanted is None else (mass - wanted).abs() / wanted,
        negative=negative,
        undefined=undefined,
        allowed=proof.objective.isfinite(),
    )


def _look(given: Given, matrix: Tensor | None, f: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest negative entry that is more than rounding, and whether something is not a number."""
    undefined = f.isnan().any(-1) | g.isnan().any(-1) | f.isposinf().any(-1) | g.isposinf().any(-1)
    if matrix is None:
        return f.new_zeros(len(f), dtype=torch.float64), undefined
    undefined = undefined | ~matrix.isfinite().all(-1).all(-1)
    below = (-matrix).clamp_min(0).double().sum((-2, -1))
    rounding = _SINGLE if matrix.dtype == torch.float32 else _DOUBLE
    most = rounding * torch.maximum(matrix.abs().double().sum((-2, -1)), given.a.sum(-1))
    return torch.where(below > most, matrix.double().amin((-2, -1)), 0.0), undefined


def _least_slack(given: Given, g: Tensor) -> Tensor:
    """min_j C_ij - g_j, above which f would not be feasible at epsilon = 0."""
    out = torch.empty_like(given.a)
    for rows in given.blocks():
        out[:, rows] = (given.cost(rows) - g[:, None, :]).amin(-1)
    return out


def marginal_error(side: Marginal, sums: Tensor, weights: Tensor) -> Tensor:
    """How far the marginal lies outside what is prescribed, in L1, relative to the mass."""
    if not side.hard:
        return torch.zeros_like(sums[:, 0])
    outside = (sums - torch.clamp(sums, *side.bounds(weights))).abs().sum(-1)
    return outside / getattr(side, "mass", weights.sum(-1))


def _proof(plan: _Plan, factors: Rounding | None) -> tuple[Certificate, Tensor]:
    """Objective and gap of the plan, rounded by `factors`, and the lower bound."""
    given = plan.given
    epsilon, (r_a, r_b) = given.epsilon, given.log_reference
    of_rows, of_columns = torch.empty_like(given.a), torch.zeros_like(given.b)
    linear, size, entropy, gap, gibbs = torch.zeros(5, len(given.a), dtype=torch.float64, device=given.a.device)
    most, open_columns = torch.zeros_like(linear), torch.zeros_like(given.b, dtype=torch.bool)
    open_rows = torch.zeros_like(given.a, dtype=torch.bool)
    for rows in given.blocks():
        cost = given.cost(rows)
        free = cost.isfinite()
        Q = plan.block(rows) if factors is None else factors.block(plan.block(rows), rows)
        paid = torch.where(Q > 0, cost, 0.0) * Q
        linear, size = linear + paid.sum((-2, -1)), size + paid.abs().sum((-2, -1))
        of_rows[:, rows], of_columns = Q.sum(-1), of_columns + Q.sum(-2)
        most = torch.maximum(most, torch.where(free, cost, 0.0).abs().amax((-2, -1)))
        if epsilon > 0:  # there is no mass where R is zero
            free = free & (r_a[:, rows, None] > -torch.inf) & (r_b[:, None, :] > -torch.inf)
        open_rows[:, rows], open_columns = free.any(-1), open_columns | free.any(-2)
        if epsilon == 0:
            slack = torch.where(Q > 0, cost - plan.f[:, rows, None] - plan.g[:, None, :], 0.0)
            gap = gap + (Q * slack.clamp_min(0)).sum((-2, -1))
            continue
        log_ratio = torch.where(Q > 0, Q.log() - r_a[:, rows, None] - r_b[:, None, :], 0.0)
        entropy = entropy + (torch.where(Q > 0, Q * log_ratio, 0.0) - Q).sum((-2, -1))
        log_P = plan.log_gibbs(cost, rows)
        gap, gibbs = gap + epsilon * _divergence(Q, log_P).sum((-2, -1)), gibbs + log_P.exp().sum((-2, -1))
    penalty, dual = torch.zeros_like(linear), -epsilon * gibbs
    marginals = (of_rows, plan.f, open_rows), (of_columns, plan.g, open_columns)
    for (side, weights), (sums, potential, is_open) in zip(given.sides, marginals, strict=True):
        # of a point without a pair nothing is moved, whatever its potential is: its term of the dual is its penalty
        kept = weights if side.hard else torch.where(is_open, weights, 0.0)
        term = side.fenchel_young(sums, potential, kept)
        gap = torch.where(side.violated(sums, weights), torch.inf, gap + term)
        penalty = penalty + side.penalty(sums, weights)
        dual = dual + side.dual(potential, kept) + side.penalty(torch.zeros_like(sums), weights - kept)
    objective = linear + epsilon * entropy + penalty
    gap = torch.where(objective.isfinite() & ~gap.isnan(), gap, torch.inf)
    scale = size + penalty + epsilon * of_rows.sum(-1)
    # where the optimum is zero, both gap and scale are rounding of what any plan costs
    nothing = _ROUNDING * torch.maximum(given.a.sum(-1), given.b.sum(-1)) * most
    none = (gap <= _ROUNDING * scale) | (torch.maximum(gap, scale) <= nothing)
    gap = torch.where(none & objective.isfinite(), 0.0, gap)
    proof = Certificate(of_rows, of_rows, of_columns, linear, objective, gap, scale)
    # by the identity, which does not cancel, unless the plan is one that no number can be put on
    return proof, torch.where(gap.isfinite(), objective - gap, dual)


def _divergence(Q: Tensor, log_P: Tensor) -> Tensor:
    """Q log(Q/P) - Q + P, with log P exact where P underflows."""
    P = log_P.exp()
    ratio = torch.where(Q > 0, Q.log() - log_P, 0.0)
    terms = torch.where(Q > 0, Q * ratio - Q, 0.0) + P
    near = (ratio.abs() < 1e-4) & (Q > 0)
    return torch.where(near, P * ratio**2 * (0.5 + ratio / 3), terms).clamp_min(0)
