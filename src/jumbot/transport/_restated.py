"""Problems restated so that they can be solved: in other units, or with a given reference."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from jumbot.errors import ArgumentError, UnsupportedError
from jumbot.transport._certificate import Certificate
from jumbot.transport._marginal import Marginal
from jumbot.transport._outcome import AnyOutcome, Outcome
from jumbot.transport._problem import FORBIDDEN, Problem, Terms, make_problem
from jumbot.transport.divergences import TV

_FARTHEST = 1e290  # how far apart numbers may be
_HIGHEST_PRICE = 1e200  # times all costs: prices up to it leave the costs in float64
_EXPONENT = 100  # to which the largest number of a problem is brought, up or down: well below `FORBIDDEN`


def unit(problem: Problem) -> float:
    """The power of two to divide by; one for nearly all problems."""
    if problem.well_scaled:
        return 1.0
    cost = problem.cost if problem.blocked is None else problem.cost.masked_fill(problem.blocked, 0.0)
    taus = [side.tau for side in (problem.source, problem.target) if not side.hard]
    largest = max(float(cost.abs().max()), problem.epsilon, *taus, 0.0)
    exponent = math.frexp(largest)[1] if largest > 0 else 0
    by = math.ldexp(1.0, exponent - max(-_EXPONENT, min(exponent, _EXPONENT)))
    _check_span(problem, cost, taus, by, largest)
    return by


def _check_span(problem: Problem, cost: Tensor, taus: list[float], by: float, largest: float) -> None:
    """An error where float64 cannot represent both the smallest and the largest number of a problem."""
    least = 1 / _FARTHEST
    small = [("tau", tau, tau / by < least) for tau in taus]
    if (epsilon := problem.epsilon) > 0:
        small += [("epsilon", epsilon, min(epsilon / by, epsilon / max(taus, default=epsilon)) < least)]
    elif by > 1:  # without an entropy the smallest cost may be all that is paid
        size = cost.abs().double()
        cheapest = float(torch.where(size > 0, size, largest).min())
        small += [("cost", cheapest, cheapest / by < least)]
    for name, number, lost in small:
        if lost:
            raise ArgumentError(
                f"{name} must be within a factor of {_FARTHEST:g} of the other numbers of the problem, got {number:g} "
                f"and {largest:g}: float64 cannot represent both. Leave the smaller term out, or rescale it."
            )


def capped(problem: Problem) -> Problem | None:
    """At epsilon = 0, total variation at penalties so large that costs would be lost to rounding: the same at smaller
    ones.

    Where its plan misses no weight it is that of every higher price too, and `unmissed` says whether it does.
    """
    sides = problem.source, problem.target
    if problem.epsilon > 0 or not all(side.hard or isinstance(side.divergence, TV) for side in sides):
        return None
    cost = problem.cost if problem.blocked is None else problem.cost.masked_fill(problem.blocked, 0.0)
    most = _HIGHEST_PRICE * float(cost.abs().max())
    if most == 0 or all(side.hard or side.tau <= most for side in sides):
        return None
    source, target = (side if side.hard else replace(side, tau=min(side.tau, most)) for side in sides)
    return replace(problem, source=source, target=target)


def unmissed(outcome: AnyOutcome) -> bool:
    """Whether the plan pays nothing but costs."""
    return bool((outcome.certificate.objective == outcome.certificate.linear).all())


def divided(problem: Problem, by: float) -> Problem:
    """The same problem in that unit."""

    def side(marginal: Marginal) -> Marginal:
        return marginal if marginal.hard else replace(marginal, tau=marginal.tau / by)

    cost = problem.cost.double() / by
    if problem.blocked is not None and problem.epsilon > 0:
        cost = cost.masked_fill(problem.blocked, FORBIDDEN)
    tilt = None if problem.tilt is None else problem.tilt / by
    return replace(
        problem,
        tilt=tilt,
        cost=cost,
        epsilon=problem.epsilon / by,
        source=side(problem.source),
        target=side(problem.target),
        well_scaled=True,
    )


@dataclass(frozen=True)
class _Certificate(Certificate):
    """One whose gap and scale are too large to be compared."""

    relative: Tensor

    @property
    def relative_gap(self) -> Tensor:
        return self.relative


@dataclass(frozen=True)
class _Outcome(Outcome):
    found: AnyOutcome

    def all_within(self, tol: float) -> bool:
        return self.found.all_within(tol)


def multiplied(outcome: AnyOutcome, by: float) -> Outcome:
    """What was found in that unit, in ours."""
    c = outcome.certificate
    certificate = _Certificate(
        c.plan, c.rows, c.columns, by * c.linear, by * c.objective, by * c.gap, by * c.scale, c.relative_gap
    )
    return _Outcome(by * outcome.f, by * outcome.g, outcome.taken, certificate, outcome)


def start_in(start: tuple[Tensor, Tensor] | None, by: float) -> tuple[Tensor, Tensor] | None:
    return start and (torch.div(start[0], by), torch.div(start[1], by))


def make_tilted(cost: Tensor, a: Tensor | None, b: Tensor | None, terms: Terms) -> Problem:
    """The checked problem for a reference matrix."""
    epsilon = terms.epsilon
    R = _checked(terms.reference, cost, epsilon)
    tilt = epsilon * torch.log(torch.where(R > 0, R, 1.0))
    tilted = (cost.detach().double() - tilt).masked_fill(R == 0, math.inf)
    problem = make_problem(tilted, a, b, terms._replace(reference="ones"))
    if problem.blocked is not None and problem.source.hard and problem.target.hard:
        raise ArgumentError("reference must be > 0 if both marginals are constrained, got zeros.")
    n, m = cost.shape[-2:]
    return replace(problem, tilt=tilt.reshape(-1, n, m), reference_mass=R.reshape(-1, n * m).sum(-1))


def _checked(reference: Tensor, cost: Tensor, epsilon: float) -> Tensor:
    if epsilon == 0:
        raise ArgumentError("reference must be left out at epsilon = 0, where it has no effect, got an array.")
    if reference.requires_grad:
        raise UnsupportedError("reference: its gradients are not supported; pass reference.detach().")
    if reference.ndim < 2:  # a row or a column? ambiguous if both have the same length
        raise ArgumentError(
            f"reference must be 'product', 'ones' or a matrix (..., n, m), got the shape {tuple(reference.shape)}."
        )
    try:
        R = reference.double().expand(cost.shape)
    except RuntimeError:
        raise ArgumentError(
            f"reference must have a shape that broadcasts to the cost's {tuple(cost.shape)}, "
            f"got {tuple(reference.shape)}."
        ) from None
    if not bool(torch.isfinite(R).all()) or bool((R < 0).any()) or not bool((R.amax((-2, -1)) > 0).all()):
        raise ArgumentError("reference must contain finite numbers >= 0 that are not all zero.")
    return R


def inner_tol(problem: Problem, tol: float) -> float:
    """What to ask of the tilted problem: |C - epsilon log R| may exceed |C| by epsilon times the largest log."""
    if problem.tilt is None:
        return tol
    return tol / (1.0 + float(problem.tilt.abs().max()) / problem.epsilon)


def untilted(problem: Problem, outcome: AnyOutcome) -> AnyOutcome:
    """The outcome with <C, P> and the scale of the gap for the cost as given."""
    if problem.tilt is None:
        return outcome
    by = outcome.certificate
    cost = problem.cost.double() if problem.blocked is None else problem.cost.double().masked_fill(problem.blocked, 0.0)
    paid = cost + problem.tilt
    linear = (paid * by.plan).sum((-2, -1))
    scale = by.scale + ((paid.abs() - cost.abs()) * by.plan).sum((-2, -1))
    return Outcome(outcome.f, outcome.g, outcome.taken, replace(by, linear=linear, scale=scale))
