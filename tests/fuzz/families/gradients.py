"""The gradient of `value` in the cost and in the weights, for every divergence, at kinks and at weights of zero."""

from __future__ import annotations

import numpy as np
import torch

import jumbot

from .. import draw
from ..case import random_case
from ..draw import Generator
from ..entropies import Array
from ..problem import Problem
from ..report import Report
from ..slopes import compare, compare_forward
from ..watch import Watch

TOL = 1e-12


def of_value(rng: Generator, watch: Watch, report: Report) -> None:
    case = random_case(rng, small=True)
    problem = case.problems[0]
    report.label = f"gradient of {case.label}"
    if draw.unbounded(problem) or draw.overflows(problem):
        return
    report.problems = 1
    inputs = [torch.tensor(x, requires_grad=True) for x in (problem.cost, problem.a, problem.b)]
    solution, _ = watch(jumbot.solve, *inputs, **problem.settings, tol=TOL)
    report.converged = int(solution.converged)
    gradients = [g.numpy() for g in torch.autograd.grad(solution.value, inputs)]
    used = [np.isfinite(problem.cost), problem.a > 0, problem.b > 0]  # with "ones" the slope at a weight of 0 is -inf
    if not all(np.isfinite(g[at]).all() for g, at in zip(gradients, used, strict=True)):
        report.faults.append("a gradient is not finite")
        return
    if np.abs(gradients[0] - solution.plan.numpy()).max() > 1e-12 * float(solution.mass):
        report.faults.append("the gradient in the cost is not the plan")
    moves = [_cost_move(rng, problem), *_weight_moves(rng, problem)]
    for k, move in enumerate(moves):
        if move is None:
            continue
        terms = np.where(move != 0, gradients[k], 0) * move

        def value(t: float, k: int = k, move: Array = move) -> tuple[float, float]:
            name = ("cost", "a", "b")[k]
            shifted = problem.but(**{name: getattr(problem, name) + t * move})
            found, _ = watch(jumbot.solve, shifted.cost, shifted.a, shifted.b, **problem.settings, tol=TOL)
            return float(found.value), float(found.gap) + 1e-15 * abs(float(found.value))

        forward = k > 0 and bool((move[getattr(problem, ("", "a", "b")[k]) == 0] != 0).any())
        check = compare_forward if forward else compare
        faults = check(float(terms.sum()), float(np.abs(terms).sum()), value, 1e-4)
        report.faults += [f"in {('cost', 'a', 'b')[k]}: {fault}" for fault in faults]


def _cost_move(rng: Generator, problem: Problem) -> Array:
    """By about epsilon, or the spread of the costs where that is less."""
    finite = np.isfinite(problem.cost)
    spread = float(np.ptp(problem.cost[finite])) if finite.any() else 0.0
    size = min(problem.epsilon, spread) if problem.epsilon > 0 and spread > 0 else max(problem.epsilon, spread, 1e-12)
    return np.where(finite, size * rng.normal(size=problem.cost.shape), 0)


def _weight_moves(rng: Generator, problem: Problem) -> list[Array | None]:
    """Relative to each weight; a weight of zero is raised; equal masses stay equal, hard bounds stay met."""
    exact = all(side.exact for side in problem.sides)
    moves: list[Array | None] = []
    for w, side in zip((problem.a, problem.b), problem.sides, strict=True):
        move = 0.3 * w * rng.normal(size=w.shape)
        if exact:
            move = move - w * (move.sum() / w.sum())
        elif all(s.hard for s in problem.sides):
            move = None  # a bound that the masses just meet may be broken by the step
        elif (w == 0).any() and not side.hard and problem.epsilon > 0 and problem.reference == "product":
            move = np.where(w == 0, 0.1 * w.sum() / len(w), 0.0)
        moves.append(move)
    return moves
