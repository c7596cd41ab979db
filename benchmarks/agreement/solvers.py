"""Each library on one `Problem`: its plan, its potentials in our convention, and the value that it reports.

The conversions are the point: every function holds those of one library, in the few lines before its call.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.agreement.problems import Problem
from benchmarks.certify import Potentials


@dataclass(frozen=True)
class Answer:
    """What a library returned; `potentials` follow P = R exp((f + g - C) / epsilon)."""

    plan: np.ndarray
    potentials: Potentials | None
    value: float


def solve_jumbot(p: Problem, **options: float) -> Answer:
    """No conversion: the page is written in its conventions."""
    import torch

    import jumbot

    cost, a, b = (torch.tensor(v, dtype=getattr(torch, p.dtype)) for v in (p.cost, p.a, p.b))
    s = jumbot.solve(cost, a, b, epsilon=p.epsilon, tau=p.tau, reference=p.reference, **options)
    return Answer(_numpy(s.plan), tuple(map(_numpy, s.potentials)), float(s.value))


def solve_pot(p: Problem, **options: float) -> Answer:
    """`ot.solve`: scalings to potentials; a balanced problem's scalings contain the weights."""
    import ot

    cost, a, b = (v.astype(p.dtype) for v in (p.cost, p.a, p.b))
    reference = None if p.reference == "product" else np.ones_like(cost)
    tau = None if p.balanced else p.tau
    s = ot.solve(cost, a, b, reg=p.epsilon, c=reference, reg_type="KL", unbalanced=tau, **options)
    u, v = s.potentials
    if p.balanced:
        u, v = u - np.log(a), v - np.log(b)
    return Answer(_numpy(s.plan), (_numpy(p.epsilon * u), _numpy(p.epsilon * v)), float(s.value))


def solve_pot_stabilized(p: Problem) -> Answer | None:
    """`method="sinkhorn_stabilized"`, meant for small epsilon; its value is `log["total_cost"]`."""
    import ot

    if p.balanced:
        return None
    cost, a, b = (v.astype(p.dtype) for v in (p.cost, p.a, p.b))
    reference = None if p.reference == "product" else np.ones_like(cost)
    options = {"method": "sinkhorn_stabilized", "reg_type": "kl", "c": reference, "numItermax": 100_000}
    plan, log = ot.unbalanced.sinkhorn_unbalanced(a, b, cost, p.epsilon, p.tau, **options, log=True)
    potentials = (_numpy(p.epsilon * log["logu"]), _numpy(p.epsilon * log["logv"]))
    return Answer(_numpy(plan), potentials, float(log["total_cost"]))


def solve_ott(p: Problem, **options: float) -> Answer:
    """Reference of ones unless balanced, so C - epsilon log(a b') for the product; tau/(tau + epsilon)."""
    import jax
    import jax.numpy as jnp
    from ott.geometry import geometry
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn

    with jax.enable_x64(p.dtype == "float64"):
        cost = p.cost if p.balanced else p.cost - p.epsilon * np.log(p.matrix)
        tau_a, tau_b = (1.0 if math.isinf(t) else t / (t + p.epsilon) for t in p.tau)
        cost, a, b = (jnp.asarray(v, dtype=p.dtype) for v in (cost, p.a, p.b))
        geom = geometry.Geometry(cost_matrix=cost, epsilon=p.epsilon)
        out = sinkhorn.Sinkhorn(**options)(linear_problem.LinearProblem(geom, a, b, tau_a=tau_a, tau_b=tau_b))
        f, g = _numpy(out.f), _numpy(out.g)
        if p.balanced:
            f, g = f - p.epsilon * np.log(p.a), g - p.epsilon * np.log(p.b)
        return Answer(_numpy(out.matrix), (f, g), float(out.reg_ot_cost))


def solve_geomloss(p: Problem, **options: int) -> Answer | None:
    """Product reference in `geomloss.ot.solve`: C + epsilon log(a b') for ones; one tau for both sides."""
    import geomloss.ot
    import torch

    if p.tau[0] != p.tau[1]:
        return None
    ones = p.reference == "ones"
    cost = p.cost + p.epsilon * np.log(np.outer(p.a, p.b)) if ones else p.cost
    constant = p.epsilon * (p.cost.size - p.a.sum() * p.b.sum()) if ones else 0.0
    cost, a, b = (torch.tensor(v, dtype=getattr(torch, p.dtype)) for v in (cost, p.a, p.b))
    s = geomloss.ot.solve(cost, a=a, b=b, reg=p.epsilon, unbalanced=None if p.balanced else p.tau[0], **options)
    return Answer(_numpy(s.plan), (_numpy(s.potential_a), _numpy(s.potential_b)), float(s.value) + float(constant))


def solve_cvxpy(p: Problem) -> Answer:
    """The objective as it is written, by an interior-point method for exponential cones."""
    import cvxpy as cp

    plan = cp.Variable(p.cost.shape, nonneg=True)
    rows, columns = cp.sum(plan, axis=1), cp.sum(plan, axis=0)
    objective = cp.sum(cp.multiply(p.cost, plan)) + p.epsilon * cp.sum(cp.kl_div(plan, p.matrix))
    constraints = []
    for tau, marginal, weights in ((p.tau[0], rows, p.a), (p.tau[1], columns, p.b)):
        if math.isinf(tau):
            constraints.append(marginal == weights)
        else:
            objective += tau * cp.sum(cp.kl_div(marginal, weights))
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL)
    return Answer(np.maximum(plan.value, 0), None, float(problem.value))


def _numpy(value: object) -> np.ndarray:
    return np.asarray(value, dtype=np.float64)


SOLVERS: dict[str, tuple[str, Callable[[Problem], Answer | None]]] = {
    "jumbot": ("jumbot", solve_jumbot),
    "jumbot, tol=1e-12": ("jumbot", partial(solve_jumbot, tol=1e-12)),
    "POT": ("ot", solve_pot),
    "POT, tighter tolerance": ("ot", partial(solve_pot, max_iter=200_000, tol=1e-13)),
    "POT, stabilized": ("ot", solve_pot_stabilized),
    "OTT-JAX": ("ott", solve_ott),
    "OTT-JAX, tighter tolerance": ("ott", partial(solve_ott, threshold=1e-8, max_iterations=200_000)),
    "GeomLoss, 100 steps": ("geomloss", partial(solve_geomloss, max_iter=100)),
    "GeomLoss, 10,000 steps": ("geomloss", partial(solve_geomloss, max_iter=10_000)),
    "Clarabel": ("cvxpy", solve_cvxpy),
}


def answer(name: str, problem: Problem) -> tuple[Answer | None, list[str]]:
    """Run one solver; what it warns about is part of the answer."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = SOLVERS[name][1](problem)
    return found, [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
