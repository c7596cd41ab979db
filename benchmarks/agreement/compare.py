"""Judge every library's answer to every problem, and find out what the run shows about those that are off."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from benchmarks import certify
from benchmarks.agreement.problems import Problem
from benchmarks.agreement.solvers import SOLVERS, Answer, answer

OFF = 1e-3  # a value or a plan that is off by more than this, relative, is marked


@dataclass(frozen=True)
class Row:
    """One library on one problem: the value that it reports, and the objective at its plan."""

    solver: str
    answer: Answer
    mass: float
    objective: float
    relative_gap: float
    value_error: float
    warnings: tuple[str, ...] = ()

    @property
    def remark(self) -> str:
        """What is wrong with it, in a few words; empty if nothing is."""
        words = []
        if not self.relative_gap <= OFF:
            words.append("plan off")
        elif not self.value_error <= OFF:
            words.append("value is not the objective at its plan")
        return ", ".join(words) + (f" (warns: {self.warnings[0]})" if words and self.warnings else "")


def installed() -> list[str]:
    """Solvers whose package is there."""
    return [name for name, (module, _) in SOLVERS.items() if importlib.util.find_spec(module)]


def compare(problem: Problem) -> list[Row]:
    """All solvers on one problem; gaps are against the largest dual bound that any of them proves."""
    found = {}
    for name in installed():
        result, warned = answer(name, problem)
        if result is not None:
            found[name] = (result, judge(problem, result), warned)
    dual = max(c.dual for _, c, _ in found.values() if np.isfinite(c.dual))
    rows = []
    for name, (result, c, warned) in found.items():
        gap = max(c.primal - dual, 0.0) / c.scale
        error = abs(result.value - c.primal) / c.scale
        rows.append(Row(name, result, result.plan.sum(), c.primal, gap, error, tuple(warned)))
    return rows


def judge(problem: Problem, result: Answer) -> certify.Certificate:
    """The independent certificate; without potentials its dual bound is poor, its primal still right."""
    n, m = problem.cost.shape
    potentials = result.potentials or (np.zeros(n), np.zeros(m))
    return certify.entropic_kl(
        problem.cost,
        result.plan,
        potentials,
        epsilon=problem.epsilon,
        tau=problem.tau,
        a=problem.a,
        b=problem.b,
        reference=problem.reference,
    )


def value_without_mass_terms(p: Problem, plan: np.ndarray) -> float:
    """The objective with every KL(x | y) replaced by sum x log(x / y)."""
    total = (p.cost * plan).sum() + p.epsilon * xlogy(plan, plan / p.matrix).sum()
    for tau, x, y in ((p.tau[0], plan.sum(1), p.a), (p.tau[1], plan.sum(0), p.b)):
        if np.isfinite(tau):
            total += tau * xlogy(x, x / y).sum()
    return float(total)


def product_dual_at_shifted_potentials(p: Problem, result: Answer) -> float:
    """Product-reference dual for the cost given to OTT-JAX, at (f - epsilon log a, g - epsilon log b)."""
    cost = p.cost - p.epsilon * np.log(p.matrix)
    f, g = (v - p.epsilon * np.log(w) for v, w in zip(result.potentials, (p.a, p.b), strict=True))
    total = 0.0
    for tau, h, w in ((p.tau[0], f, p.a), (p.tau[1], g, p.b)):
        total += -tau * (w @ np.expm1(-h / tau)) if np.isfinite(tau) else w @ h
    product = np.outer(p.a, p.b)
    return float(total - p.epsilon * (product * np.expm1((f[:, None] + g[None, :] - cost) / p.epsilon)).sum())
