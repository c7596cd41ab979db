"""Truth from elsewhere: formulas in float64 numpy, a convex-programming model, scalar equations.

min_{P >= 0} <C, P> + epsilon KL(P | R) + tau_a D(P 1 | a) + tau_b D(P' 1 | b),    R = a b' or all ones
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cvxpy
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import xlogy

import jumbot

Array = np.ndarray

LOW, HIGH = 0.7, 1.2
RANGE = f"range({LOW},{HIGH})"
#: how far, relative to the weights, a plan may leave a hard constraint through rounding
SLACK = 1e-9


@dataclass(frozen=True)
class Entropy:
    """phi with phi(1) = 0, its slope, its conjugate sup_{x >= 0} s x - phi(x), and lim phi(x)/x."""

    phi: Callable[[Array], Array]
    slope: Callable[[float], float]
    conjugate: Callable[[Array], Array]
    recession: float
    model: Callable[[cvxpy.Expression, Array], cvxpy.Expression]  # sum_i a_i phi(x_i / a_i) where a_i > 0


def _range_conjugate(s: Array) -> Array:
    return np.maximum(LOW * s, HIGH * s)


def _hellinger_conjugate(s: Array) -> Array:
    return np.where(s < 2, 2 * s / np.where(s < 2, 2 - s, 1), np.inf)


ENTROPIES = {
    "kl": Entropy(
        phi=lambda x: xlogy(x, x) - x + 1,
        slope=lambda x: math.log(x),
        conjugate=np.expm1,
        recession=math.inf,
        model=lambda x, a: cvxpy.sum(cvxpy.kl_div(x, a)),
    ),
    "tv": Entropy(
        phi=lambda x: np.abs(x - 1),
        slope=lambda x: math.copysign(1.0, x - 1),
        conjugate=lambda s: np.where(s <= 1 + SLACK, np.maximum(s, -1), np.inf),
        recession=1.0,
        model=lambda x, a: cvxpy.sum(cvxpy.abs(x - a)),
    ),
    "chi2": Entropy(
        phi=lambda x: (x - 1) ** 2,
        slope=lambda x: 2 * (x - 1),
        conjugate=lambda s: np.where(s > -2, s + s**2 / 4, -1),
        recession=math.inf,
        model=lambda x, a: cvxpy.sum(cvxpy.multiply(1 / a, cvxpy.square(x - a))),
    ),
    RANGE: Entropy(
        phi=lambda x: np.where((x >= LOW - SLACK) & (x <= HIGH + SLACK), 0.0, np.inf),
        slope=lambda x: -math.inf if x < LOW else math.inf if x > HIGH else 0.0,
        conjugate=_range_conjugate,
        recession=math.inf,
        model=lambda x, a: None,  # a constraint, see Problem.truth
    ),
    "power(0.5)": Entropy(
        phi=lambda x: 2 * (np.sqrt(x) - 1) ** 2,
        slope=lambda x: 2 - 2 / math.sqrt(x),
        conjugate=_hellinger_conjugate,
        recession=2.0,
        model=lambda x, a: cvxpy.sum(2 * x + 2 * a - 4 * cvxpy.multiply(np.sqrt(a), cvxpy.sqrt(x))),
    ),
}


def divergence(p: Array, a: Array, name: str) -> float:
    """D(p | a) = sum_{a_i > 0} a_i phi(p_i / a_i) + phi'_infinity sum_{a_i = 0} p_i."""
    entropy, inside = ENTROPIES[name], a > 0
    stray = p[~inside].sum()
    at_infinity = entropy.recession * stray if stray else 0.0
    return float((a[inside] * entropy.phi(p[inside] / a[inside])).sum() + at_infinity)


@dataclass(frozen=True)
class Problem:
    """One problem in float64, and the arguments of `jumbot.solve` that pose it."""

    cost: Array
    a: Array
    b: Array
    epsilon: float = 0.1
    tau: Any = math.inf
    divergence: str = "kl"
    reference: str = "product"
    mass: float | None = None

    def solve(self, **options: Any) -> jumbot.Solution:
        return jumbot.solve(self.cost, self.a, self.b, **self.arguments, **options)

    @property
    def arguments(self) -> dict[str, Any]:
        names = ("epsilon", "tau", "divergence", "reference", "mass")
        return {name: getattr(self, name) for name in names}

    def but(self, **changes: Any) -> Problem:
        return replace(self, **changes)

    @property
    def taus(self) -> tuple[float, float]:
        return self.tau if isinstance(self.tau, tuple) else (self.tau, self.tau)

    @property
    def R(self) -> Array:
        return np.outer(self.a, self.b) if self.reference == "product" else np.ones_like(self.cost)

    def _exact(self, tau: float) -> bool:
        return math.isinf(tau) and self.divergence != RANGE

    @property
    def constrained(self) -> bool:
        """Whether a plan must meet a hard constraint."""
        return math.inf in self.taus

    def penalties(self, plan: Array) -> tuple[float, float]:
        """tau D of either marginal; a hard constraint gives 0, or infinity where it is broken."""
        if self.mass is not None:
            held = abs(plan.sum() - self.mass) <= SLACK * self.mass
            rows, columns = (np.all(p <= w + SLACK * w.sum()) for p, w in self._sides(plan))
            return (0.0 if held and rows else math.inf), (0.0 if held and columns else math.inf)
        return tuple(self._penalty(p, w, tau) for (p, w), tau in zip(self._sides(plan), self.taus, strict=True))

    def _sides(self, plan: Array) -> list[tuple[Array, Array]]:
        return [(plan.sum(1), self.a), (plan.sum(0), self.b)]

    def _penalty(self, p: Array, w: Array, tau: float) -> float:
        if self._exact(tau):
            return 0.0 if np.abs(p - w).max() <= SLACK * w.sum() else math.inf
        return divergence(p, w, self.divergence) * (1 if self.divergence == RANGE else tau)

    def linear(self, plan: Array) -> float:
        return float(np.where(plan > 0, plan * np.where(plan > 0, self.cost, 0), 0).sum())

    def objective(self, plan: Array) -> float:
        """The full primal at `plan`."""
        entropy = 0.0
        if self.epsilon > 0:
            used = plan > 0
            if np.any(used & (self.R == 0)):
                return math.inf
            entropy = float((xlogy(plan, plan / np.where(used, self.R, 1)) - plan + self.R).sum())
        return self.linear(plan) + self.epsilon * entropy + sum(self.penalties(plan))

    def gibbs(self, f: Array, g: Array) -> Array:
        """R e^{(f + g - C)/epsilon}, zero where the cost is infinite."""
        allowed = np.isfinite(self.cost)
        exponent = np.add.outer(f, g) - np.where(allowed, self.cost, 0)
        return np.where(allowed & (self.R > 0), self.R * np.exp(np.where(allowed, exponent, 0) / self.epsilon), 0)

    def dual(self, f: Array, g: Array) -> float:
        """A lower bound of the minimum; -infinity where epsilon = 0 and f + g <= C is broken."""
        value = self._supported(f, self.a, self.taus[0]) + self._supported(g, self.b, self.taus[1])
        if self.epsilon == 0:
            feasible = np.all(np.add.outer(f, g) <= self.cost + SLACK * (1 + np.abs(self.cost)))
            return value if feasible else -math.inf
        return value + self.epsilon * float((self.R - self.gibbs(f, g)).sum())

    def _supported(self, f: Array, w: Array, tau: float) -> float:
        """min_p <f, p> + penalty(p): -tau sum w phi*(-f/tau); <f, w> if exact; a greedy fill for `mass`."""
        if self.mass is not None:
            order = np.argsort(f)
            filled = np.minimum(np.cumsum(w[order]), self.mass)
            return float(f[order] @ np.diff(filled, prepend=0))
        inside, scale = w > 0, 1.0 if self.divergence == RANGE else tau
        if self._exact(tau):
            return float(f[inside] @ w[inside])
        entropy = ENTROPIES[self.divergence]
        if np.any(-f[~inside] / scale > entropy.recession * (1 + SLACK)):
            return -math.inf
        return -scale * float((w[inside] * entropy.conjugate(-f[inside] / scale)).sum())

    def scale(self, plan: Array) -> float:
        """What `relative_gap` is relative to; hard constraints and epsilon sum(R) are no part of it."""
        moved = self.but(cost=np.abs(self.cost)).linear(plan)
        return moved + sum(p for p in self.penalties(plan) if math.isfinite(p)) + self.epsilon * plan.sum()

    def truth(self) -> tuple[float, Array]:
        """(value, plan) from a convex-programming solver, over the entries that need not be zero."""
        rows, columns = np.nonzero(self._allowed())
        entries = cvxpy.Variable(max(len(rows), 1), nonneg=True)
        if not len(rows):
            return self.objective(np.zeros_like(self.cost)), np.zeros_like(self.cost)
        objective, constraints = self.cost[rows, columns] @ entries, []
        if self.epsilon > 0:
            objective += self.epsilon * cvxpy.sum(cvxpy.kl_div(entries, self.R[rows, columns]))
            objective += self.epsilon * (self.R.sum() - self.R[rows, columns].sum())
        for index, weights, tau in zip((rows, columns), (self.a, self.b), self.taus, strict=True):
            used = np.unique(index)
            side = (used[:, None] == index).astype(float) @ entries
            penalty, limits = self._model(side, weights[used], tau)
            objective, constraints = objective + penalty, constraints + limits
            if not self._exact(tau) and self.divergence != RANGE:
                left = np.setdiff1d(np.arange(len(weights)), used)
                objective += tau * divergence(np.zeros(len(left)), weights[left], self.divergence)
        if self.mass is not None:
            constraints.append(cvxpy.sum(entries) == self.mass)
        problem = cvxpy.Problem(cvxpy.Minimize(objective), constraints)
        problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-10)
        assert problem.status == "optimal", problem.status
        plan = np.zeros_like(self.cost)
        plan[rows, columns] = np.maximum(entries.value, 0)
        return float(problem.value), plan

    def _allowed(self) -> Array:
        """Where a plan of finite objective may be positive."""
        allowed = np.isfinite(self.cost)
        if self.epsilon > 0:
            allowed &= self.R > 0
        for weights, tau, axis in zip((self.a, self.b), self.taus, (1, 0), strict=True):
            if self._exact(tau) or math.isinf(ENTROPIES[self.divergence].recession):
                allowed &= np.expand_dims(weights > 0, axis)
        return allowed

    def _model(self, side: cvxpy.Expression, weights: Array, tau: float) -> tuple[cvxpy.Expression, list[Any]]:
        if self.mass is not None:
            return cvxpy.Constant(0), [side <= weights]
        if self._exact(tau):
            return cvxpy.Constant(0), [side == weights]
        if self.divergence == RANGE:
            return cvxpy.Constant(0), [side >= LOW * weights, side <= HIGH * weights]
        entropy, inside = ENTROPIES[self.divergence], np.nonzero(weights > 0)[0]
        penalty = tau * entropy.model(side[inside], weights[inside])
        outside = np.nonzero(weights == 0)[0]
        return penalty + (tau * entropy.recession * cvxpy.sum(side[outside]) if len(outside) else 0), []

    def scalar_plan(self) -> float:
        """The mass that solves a 1 x 1 problem: the root of the monotone derivative of its objective."""
        (cost,), (a,), (b,), ((r,),) = self.cost[0], self.a, self.b, self.R

        def slope(log_p: float) -> float:
            p = max(math.exp(log_p), 1e-300)
            total = cost + (self.epsilon * (log_p - math.log(r)) if self.epsilon else 0)
            for weight, tau in zip((a, b), self.taus, strict=True):
                total += (1 if self.divergence == RANGE else tau) * ENTROPIES[self.divergence].slope(p / weight)
            return total

        exact = [w for w, tau in zip((a, b), self.taus, strict=True) if self._exact(tau)]
        if exact:
            return exact[0]
        return 0.0 if slope(-1e4) > 0 else math.exp(brentq(slope, -1e4, 600, xtol=1e-14, rtol=1e-15))


#: the ways to say what happens to the marginals; each with both references
SETTINGS: dict[str, dict[str, Any]] = {
    "kl": {"tau": 0.7},
    "kl, a pair": {"tau": (0.3, 2.0)},
    "kl, one side exact": {"tau": (math.inf, 0.5)},
    "tv": {"divergence": "tv", "tau": 0.3},
    "tv, a pair": {"divergence": "tv", "tau": (0.2, 0.6)},
    "tv, one side exact": {"divergence": "tv", "tau": (0.3, math.inf)},
    "chi2": {"divergence": "chi2", "tau": 0.6},
    "chi2, a pair": {"divergence": "chi2", "tau": (0.2, 1.5)},
    "chi2, one side exact": {"divergence": "chi2", "tau": (math.inf, 0.4)},
    "power": {"divergence": "power(0.5)", "tau": 0.5},
    "range": {"divergence": RANGE},
    "balanced": {},
    "partial": {"mass": 0.6},
}
#: those that epsilon = 0 offers
EXACT_SETTINGS = [name for name in SETTINGS if name.startswith(("kl", "tv", "balanced", "partial"))]


def cases(*epsilons: float, references: Sequence[str] = ("product",), settings: Iterable[str] = SETTINGS) -> list[Any]:
    """Parameters of a test: each setting with each epsilon and reference that it is offered with."""
    return [
        pytest.param(
            {"epsilon": epsilon, "reference": reference, **SETTINGS[name]},
            id=f"{name}-{epsilon:g}-{reference}",
        )
        for name in settings
        for epsilon in epsilons
        for reference in references
        if epsilon > 0 or (name in EXACT_SETTINGS and reference == "product")
    ]
