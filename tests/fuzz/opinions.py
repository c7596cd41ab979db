"""What other solvers say of a problem: a conic one, a linear one, and POT where it is right."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .entropies import Array
from .problem import Problem, Side

LARGEST = 64  # entries: beyond, a conic model takes longer than all the rest


def second(problem: Problem) -> tuple[str, float] | None:
    """(who, value) from the solver that fits; None where none is to be trusted."""
    if problem.cost.size > LARGEST or not problem.free.any():
        return None
    return highs(problem) if _linear(problem) else clarabel(problem)


def _linear(problem: Problem) -> bool:
    return problem.epsilon == 0 and all(side.hard for side in problem.sides)


def clarabel(problem: Problem) -> tuple[str, float] | None:
    """The formula in cvxpy, in units of its own costs and weights."""
    import cvxpy

    rows, columns = np.nonzero(problem.free)
    costs = problem.cost[rows, columns]
    prices = [problem.epsilon, *(t for t in problem.taus if math.isfinite(t)), np.abs(costs).max()]
    unit, mass = max(prices), problem.mass or float(max(problem.a.sum(), problem.b.sum()))
    entries = cvxpy.Variable(len(rows), nonneg=True)  # the plan over `mass`
    objective, constraints = (costs / unit) @ entries, []
    if problem.epsilon > 0:
        # without sum(R), beside which the rest may be nothing
        log_R = np.log(problem.R[rows, columns] / mass).astype(float)
        objective += problem.epsilon / unit * (-cvxpy.sum(cvxpy.entr(entries)) - (log_R + 1) @ entries)
    for side, index in zip(problem.sides, (rows, columns), strict=True):
        weights = np.asarray(side.weights, dtype=float) / mass
        p = (np.arange(len(weights))[:, None] == index).astype(float) @ entries
        penalty, limits = _model(side, p, weights, mass)
        objective, constraints = objective + penalty * (side.tau / unit if not side.hard else 0), constraints + limits
    model = cvxpy.Problem(cvxpy.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        except cvxpy.SolverError:
            return None
    if model.status != "optimal":
        return None
    rest = problem.epsilon * float(problem.R.sum()) if problem.epsilon > 0 else 0.0
    return "Clarabel", float(model.value) * unit * mass + rest


def _model(side: Side, p: Any, weights: Array, mass: float) -> tuple[Any, list[Any]]:
    import cvxpy

    if side.mass is not None:
        return 0, [p <= weights, cvxpy.sum(p) == side.mass / mass]
    if side.exact:
        return 0, [p == weights]
    if side.hard:
        limits = [p >= side.entropy.lower * weights]
        return 0, limits + ([p <= side.entropy.upper * weights] if side.entropy.upper < math.inf else [])
    inside, outside = np.flatnonzero(weights > 0), np.flatnonzero(weights == 0)
    penalty = side.entropy.model(p[inside], weights[inside])
    if len(outside) and math.isfinite(side.entropy.recession):
        penalty += side.entropy.recession * cvxpy.sum(p[outside])
    return penalty, []


def highs(problem: Problem) -> tuple[str, float] | None:
    """epsilon = 0 with hard constraints on both sides is a linear programme."""
    from scipy.optimize import linprog

    rows, columns = np.nonzero(problem.free)
    costs, unit = problem.cost[rows, columns], float(np.abs(problem.cost[problem.free]).max()) or 1.0
    mass = float(problem.a.sum())
    blocks = [
        (np.arange(len(side.weights))[:, None] == index).astype(float)
        for side, index in zip(problem.sides, (rows, columns), strict=True)
    ]
    weights = np.concatenate([np.asarray(side.weights, dtype=float) for side in problem.sides]) / mass
    if problem.mass is None:
        limits: dict[str, Any] = {"A_eq": np.vstack(blocks)[:-1], "b_eq": weights[:-1]}  # the last row is implied
    else:
        total = np.ones((1, len(rows))), [problem.mass / mass]
        limits = {"A_ub": np.vstack(blocks), "b_ub": weights, "A_eq": total[0], "b_eq": total[1]}
    found = linprog(costs / unit, **limits, method="highs")
    return ("HiGHS", float(found.fun) * unit * mass) if found.status == 0 else None


def pot(problem: Problem) -> Array | None:
    """POT's plan where it is right: float64, KL, the whole matrix allowed, epsilon that its plain sweeps can bear."""
    import ot

    weights = np.concatenate([problem.a, problem.b])
    spread = float(np.ptp(problem.cost)) if np.isfinite(problem.cost).all() else math.inf
    if problem.divergence != "kl" or problem.mass is not None or not problem.epsilon > 0.05 * spread:
        return None
    if weights.min() <= 0 or problem.cost.size > 1 << 14 or math.isinf(max(problem.taus)):
        return None
    mass = float(max(problem.a.sum(), problem.b.sum()))
    R = np.asarray(problem.R, dtype=float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ot.solve(
            problem.cost,
            problem.a,
            problem.b,
            reg=problem.epsilon,
            c=R,
            reg_type="KL",
            unbalanced=problem.taus,
            max_iter=5000,
            tol=1e-12 * mass,
        )
    plan = np.asarray(found.plan)
    return plan if np.isfinite(plan).all() else None
