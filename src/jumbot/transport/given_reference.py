"""A reference matrix R of one's own: the problem for the all-ones reference whose cost is C - epsilon log R.

    epsilon KL(P | R) = epsilon KL(P | 1) - epsilon <P, log R> + epsilon (sum R - n m)

What is paid is still C: `linear`, the scale of the gap and gradients in the cost are those of C, and the constant is
epsilon sum(R).  Pairs of reference zero are never matched.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from jumbot.errors import ArgumentError, UnsupportedError
from jumbot.transport.outcome import AnyOutcome, Outcome
from jumbot.transport.problem import Problem, make_problem


def make_tilted(cost: Tensor, a: Tensor | None, b: Tensor | None, reference: Tensor, **settings: Any) -> Problem:
    """The checked problem for a reference matrix."""
    epsilon = settings["epsilon"]
    R = _checked(reference, cost, epsilon)
    tilt = epsilon * torch.log(torch.where(R > 0, R, 1.0))
    tilted = (cost.detach().double() - tilt).masked_fill(R == 0, math.inf)
    problem = make_problem(tilted, a, b, reference="ones", **settings)
    if problem.blocked is not None and problem.source.hard and problem.target.hard:
        raise ArgumentError("reference must be > 0 where both marginals are constrained, got zeros.")
    n, m = cost.shape[-2:]
    return replace(problem, tilt=tilt.reshape(-1, n, m), reference_mass=R.reshape(-1, n * m).sum(-1))


def _checked(reference: Tensor, cost: Tensor, epsilon: float) -> Tensor:
    if epsilon == 0:
        raise ArgumentError("reference must be left out at epsilon = 0, where it has no effect, got an array.")
    if reference.requires_grad:
        raise UnsupportedError("reference: gradients in it are not supported; pass reference.detach().")
    if reference.ndim < 2:  # a row or a column? with as many of both nobody knows
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
        raise ArgumentError("reference must hold finite numbers >= 0, not all zero; got others.")
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
