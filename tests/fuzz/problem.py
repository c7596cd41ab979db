"""One problem in float64, its primal and its dual written from the formula, in extended precision.

min_{P >= 0} <C, P> + epsilon KL(P | R) + F_a(P 1) + F_b(P' 1),    F(p) = tau D_phi(p | a), or a constraint
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .entropies import Array, Entropy, Extended, entropy, xlogx


@dataclass(frozen=True)
class Side:
    """One marginal: its weights and what it costs to miss them; `mass` makes it p <= weights, sum p = mass."""

    weights: Array
    tau: float
    entropy: Entropy
    mass: float | None = None

    @property
    def hard(self) -> bool:
        return self.mass is not None or self.entropy.hard

    @property
    def exact(self) -> bool:
        return self.mass is None and self.entropy.lower == self.entropy.upper

    @property
    def inside(self) -> Array:
        return self.weights > 0

    def penalty(self, p: Array) -> Extended:
        """F(p); zero for constraints, which `violation` measures."""
        if self.hard:
            return Extended(0)
        w, inside = self.weights, self.inside
        total = (w[inside] * self.entropy.phi(p[inside] / w[inside])).sum()
        stray = p[~inside].sum()
        return self.tau * (total + (self.entropy.recession * stray if stray > 0 else 0))

    def violation(self, p: Array) -> float:
        """By how much a hard constraint is missed, relative to the total weight."""
        w = self.weights
        if self.mass is not None:
            missed = max(float((p - w).max()), abs(float(p.sum() - self.mass)))
        elif self.hard:
            high = self.entropy.upper * w if self.entropy.upper < math.inf else np.inf
            missed = float(np.maximum(p - high, self.entropy.lower * w - p).max())
        else:
            return 0.0
        return max(missed, 0.0) / float(w.sum())

    def support(self, f: Array, slack: float) -> Extended:
        """min_p <f, p> + F(p), a part of the dual; `slack` is how far rounding may lead out of its domain."""
        w, inside = self.weights, self.inside
        if self.mass is not None:
            order = np.argsort(f[inside])
            filled = np.minimum(np.cumsum(w[inside][order]), self.mass)
            return f[inside][order] @ np.diff(filled, prepend=Extended(0))
        if self.exact:
            return f[inside] @ w[inside]
        scale = 1 if self.hard else self.tau
        limit, s = self.entropy.recession, -f / scale
        if np.any(s > limit + slack * max(limit, 1)):
            return Extended(-math.inf)
        s = np.minimum(s, limit)
        return -scale * (w[inside] * self.entropy.conjugate(s[inside])).sum()


@dataclass(frozen=True)
class Problem:
    """`cost` `(n, m)`, +inf where nothing may be matched; the settings as `jumbot.solve` takes them."""

    cost: Array
    a: Array
    b: Array
    epsilon: float
    tau: Any = math.inf
    divergence: str = "kl"
    reference: str = "product"
    mass: float | None = None

    @property
    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("epsilon", "tau", "divergence", "reference", "mass")}

    def but(self, **changes: Any) -> Problem:
        return replace(self, **changes)

    @property
    def taus(self) -> tuple[float, float]:
        return self.tau if isinstance(self.tau, tuple) else (self.tau, self.tau)

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        named = entropy(self.divergence)
        a, b = (w.astype(Extended) for w in (self.a, self.b))
        kinds = [
            named if named.hard or math.isfinite(tau) or self.mass is not None else entropy("balanced")
            for tau in self.taus
        ]
        if self.mass is None and all(kind.lower == kind.upper for kind in kinds):
            b = b * (a.sum() / b.sum())  # masses that differ by rounding count as equal
        return Side(a, self.taus[0], kinds[0], self.mass), Side(b, self.taus[1], kinds[1], self.mass)

    @cached_property
    def R(self) -> Array:
        if self.reference == "ones":
            return np.ones(self.cost.shape, Extended)
        return np.multiply.outer(self.sides[0].weights, self.sides[1].weights)

    @cached_property
    def free(self) -> Array:
        """Where a plan of finite objective may be positive."""
        free = np.isfinite(self.cost) & (self.R > 0 if self.epsilon > 0 else True)
        for side, axis in zip(self.sides, (1, 0), strict=True):
            if side.mass is not None or math.isinf(side.entropy.recession):
                free &= np.expand_dims(side.inside, axis)
        return free

    @cached_property
    def feasible(self) -> bool:
        """Whether every point that must be matched can be, as far as single points tell."""
        return all(
            self.free.any(axis)[side.inside].all()
            for side, axis in zip(self.sides, (1, 0), strict=True)
            if side.mass is None and side.entropy.must_match
        )

    def linear(self, plan: Array, cost: Array | None = None) -> Extended:
        used = plan > 0
        return (plan[used] * (self.cost if cost is None else cost)[used]).sum()

    def primal(self, plan: Array) -> Extended:
        """The full objective, of a plan within the hard constraints."""
        total = self.linear(plan) + sum(s.penalty(p) for s, p in zip(self.sides, marginals(plan), strict=True))
        if self.epsilon > 0:
            if np.any((plan > 0) & (self.R == 0)):
                return Extended(math.inf)
            R = np.where(self.R > 0, self.R, 1)
            total += self.epsilon * (R * (xlogx(plan / R) - plan / R) + self.R).sum()
        return total

    def scale(self, plan: Array) -> Extended:
        """<|C|, P> + tau_a D_a + tau_b D_b + epsilon mass(P): what errors are relative to."""
        penalties = sum(s.penalty(p) for s, p in zip(self.sides, marginals(plan), strict=True))
        return self.linear(plan, np.abs(self.cost)) + penalties + self.epsilon * plan.sum()

    def gibbs(self, f: Array, g: Array) -> Array:
        """R e^{(f + g - C)/epsilon}, zero where nothing may be matched."""
        free = np.isfinite(self.cost) & (self.R > 0)
        exponent = np.add.outer(f, g) - np.where(free, self.cost, 0)
        with np.errstate(over="ignore"):
            return np.where(free, self.R * np.exp(np.where(free, exponent, 0) / self.epsilon), 0)

    def dual(self, f: Array, g: Array, slack: float = 1e-12) -> Extended:
        """A lower bound of the optimum, for any f and g."""
        total = self.sides[0].support(f, slack) + self.sides[1].support(g, slack)
        if self.epsilon > 0:
            return total + self.epsilon * (self.R - self.gibbs(f, g)).sum()
        return total - self.excess(f, g) * min(s.weights.sum() for s in self.sides)

    def excess(self, f: Array, g: Array) -> Extended:
        """epsilon = 0: how far f + g exceeds the cost of a pair that may be matched."""
        over = np.where(self.free, np.add.outer(f, g) - np.where(self.free, self.cost, 0), 0)
        return np.maximum(over, 0).max()


def marginals(plan: Array) -> tuple[Array, Array]:
    return plan.sum(1), plan.sum(0)
