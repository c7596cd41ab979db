"""What a plan and a pair of potentials prove together, in blocks of rows.

For P = R e^{(f+g-C)/epsilon} and any feasible plan Q,

    primal(Q) - dual(f, g) = epsilon KL(Q | P) + the Fenchel-Young terms of both marginals of Q,

and at epsilon = 0, where f + g <= C,

    primal(Q) - dual(f, g) = <Q, C - f - g> + the Fenchel-Young terms of both marginals of Q.

`Given` is what `certify` was called with, checked: a problem by its matrix or by its points, a plan, potentials.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from jumbot._base.options import check_non_negative, check_word
from jumbot.cost import Cost, parse_cost
from jumbot.errors import ArgumentError
from jumbot.transport._certificate import Certificate, Rounding, kl_terms, rounding, without_rounding
from jumbot.transport._checks import Array, as_tensor, called, read_clouds
from jumbot.transport._marginal import Marginal, marginals
from jumbot.transport._problem import REFERENCES, Terms, weights_between

_SINGLE, _DOUBLE = 1e-6, 1e-9  # of the mass: what negative entries may sum to by rounding


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
        P = log_P.exp()
        gap, gibbs = gap + epsilon * kl_terms(Q, P, log_P).sum((-2, -1)), gibbs + P.sum((-2, -1))
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
    gap = torch.where(objective.isfinite(), without_rounding(gap, scale, given.a, given.b, most), gap)
    proof = Certificate(of_rows, of_rows, of_columns, linear, objective, gap, scale)
    # by the identity, which does not cancel, unless the plan is one that no number can be put on
    return proof, torch.where(gap.isfinite(), objective - gap, dual)


_AT_ONCE = 1 << 21  # entries of a block of rows


@dataclass(frozen=True)
class Given:
    """A problem whose cost is read in blocks of rows; a `(B, n)` and b `(B, m)` in float64, all on the CPU."""

    costs: Tensor | None  # (B, n, m); None where they come from points
    points: tuple[Tensor, Tensor, Cost] | None
    a: Tensor
    b: Tensor
    epsilon: float
    source: Marginal
    target: Marginal
    reference: str
    batch: torch.Size
    numpy: bool
    device: torch.device

    @property
    def sides(self) -> tuple[tuple[Marginal, Tensor], tuple[Marginal, Tensor]]:
        return (self.source, self.a), (self.target, self.b)

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.a), self.a.shape[-1], self.b.shape[-1]

    @cached_property
    def matrix(self) -> Tensor:
        """The whole cost, `(..., n, m)`."""
        costs = self.cost(slice(None)) if self.costs is None else self.costs
        return costs.reshape(*self.batch, *self.shape[1:])

    @cached_property
    def constant(self) -> float | Tensor:
        """epsilon sum(R)."""
        _, n, m = self.shape
        return self.epsilon * (n * m if self.reference == "ones" else self.a.sum(-1) * self.b.sum(-1))

    @cached_property
    def log_reference(self) -> tuple[Tensor, Tensor]:
        """log r_a and log r_b with R = r_a r_b'."""
        weights = (self.a, self.b)
        if self.reference == "ones":
            return torch.zeros_like(self.a), torch.zeros_like(self.b)
        return weights[0].log(), weights[1].log()

    def blocks(self) -> Iterator[slice]:
        batch, n, m = self.shape
        step = max(1, _AT_ONCE // (batch * m))
        return (slice(first, min(first + step, n)) for first in range(0, n, step))

    def cost(self, rows: slice) -> Tensor:
        """Rows of the cost, `(B, r, m)`; +inf means never matched."""
        if self.costs is not None:
            return self.costs[:, rows].double()
        assert self.points is not None
        x, y, ground = self.points
        return check_costs(ground(x[:, rows], y))


def check_costs(costs: Tensor) -> Tensor:
    """`costs` unless it contains NaN or -inf."""
    if bool(costs.isnan().any()):
        raise ArgumentError("cost must not contain NaN; clean the points that it was made from.")
    if bool(costs.isneginf().any()):
        raise ArgumentError("cost must not contain -inf; +inf means never matched.")
    return costs


def read_problem(
    cost: Array | str | Cost | None,
    a: Array | None,
    b: Array | None,
    x: Array | None,
    y: Array | None,
    terms: Terms,
) -> Given:
    """Check everything, without looking at the cost between points."""
    epsilon, tau, divergence, reference, mass = terms
    epsilon = check_non_negative("epsilon", epsilon)
    source, target = marginals(divergence, tau, mass)
    check_word("reference", reference, REFERENCES)
    if (x is None) != (y is None):
        raise ArgumentError("x, y must be given together, or neither of them.")
    if x is None:
        if cost is None or isinstance(cost, str) or callable(cost):
            raise ArgumentError(f"cost must be a matrix where x and y are not given, got {cost!r}.")
        numpy = not isinstance(cost, Tensor)
        like = as_tensor(cost, "cost", numpy=numpy).detach()
        if like.ndim < 2 or 0 in like.shape:
            raise ArgumentError(f"cost must have the shape (..., n, m) and not be empty, got {tuple(like.shape)}.")
        batch, (n, m), points = like.shape[:-2], like.shape[-2:], None
        costs: Tensor | None = check_costs(like.cpu().reshape(-1, n, m))
    else:
        numpy = not isinstance(x, Tensor)
        like, points, batch = _read_points(cost, x, y)
        costs, n, m = None, points[0].shape[-2], points[1].shape[-2]
    a = None if a is None else as_tensor(a, "a", like, numpy)
    b = None if b is None else as_tensor(b, "b", like, numpy)
    a, b = weights_between(a, b, (n, m), batch, source, target, like.dtype)
    out = Given(costs, points, a, b, epsilon, source, target, reference, batch, numpy, like.device)
    return out if points is None or cost is None or isinstance(cost, str) else _at_once(out)


def _at_once(given: Given) -> Given:
    """Call a callable once for all pairs, because its result for a block may depend on the other rows."""
    assert given.points is not None
    x, y, ground = given.points
    return replace(given, costs=check_costs(called(ground, x, y).detach().double()), points=None)


def _read_points(cost: Any, x: Any, y: Any) -> tuple[Tensor, tuple[Tensor, Tensor, Cost], torch.Size]:
    """x as given, then both as `(B, n, d)` and `(B, m, d)` in float64, and the batch shape."""
    if not (cost is None or isinstance(cost, str) or callable(cost)):
        raise ArgumentError("cost must be a name or a callable where x and y are given, got a matrix.")
    ground = parse_cost("sqeuclidean" if cost is None else cost)
    x, y, batch = read_clouds(x, y)
    flat = [z.detach().cpu().double().expand(*batch, *z.shape[-2:]).reshape(-1, *z.shape[-2:]) for z in (x, y)]
    return x, (flat[0], flat[1], ground), batch


def read_plan(plan: Array, given: Given) -> Tensor:
    """`(B, n, m)`, in the precision given."""
    shape = (*given.batch, *given.shape[1:])
    tensor = as_tensor(plan, "plan", numpy=given.numpy).detach().cpu()
    if tensor.shape != shape:
        raise ArgumentError(f"plan must have the shape of the cost, {tuple(shape)}, got {tuple(tensor.shape)}.")
    return tensor.reshape(given.shape)
