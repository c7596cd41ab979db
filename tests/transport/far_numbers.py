"""Small problems whose numbers lie far apart, and what is wrong with an answer to them, in 60 digits.

The judge knows nothing of the package: the objective of the plan is computed anew, the optimum is bounded from below by
weak duality at the potentials, and where these are too coarse to prove anything, found by bisection.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from mpmath import mpf

_CLOSE = mpf("1e-6")  # of the scale of the gap
_ROUNDED = mpf("1e-11")  # of the value, which may hold a constant far larger than all that a plan changes
_REACH = 800  # of log p: floats end at 745
_BISECTIONS = 130


def _xlog(x: Any, y: Any) -> Any:
    """x log(x / y)."""
    return x * mpmath.log(x / y) if x > 0 else mpf(0)


@dataclass(frozen=True)
class Phi:
    """A divergence: phi, its slope, its conjugate (None where a problem is exact), and its bounds."""

    phi: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    conjugate: Callable[[Any], Any]
    lower: float = 0.0
    upper: float = math.inf


def _power(p: float) -> Phi:
    q = mpf(p) - 1

    def conjugate(s: Any) -> Any:
        y = 1 + q * s
        if y <= 0:
            return -1 / mpf(p) if p > 1 else mpmath.inf
        return (y ** (p / q) - 1) / p

    return Phi(lambda x: (x**p - p * (x - 1) - 1) / (p * q), lambda x: (x**q - 1) / q, conjugate)


def _range(low: float, high: float) -> Phi:
    return Phi(lambda x: mpf(0), lambda x: mpf(0), lambda s: max(low * s, high * s), low, high)


PHIS = {
    "kl": Phi(lambda x: _xlog(x, mpf(1)) - x + 1, mpmath.log, lambda s: mpmath.exp(s) - 1),
    "tv": Phi(lambda x: abs(x - 1), lambda x: mpmath.sign(x - 1), lambda s: max(s, mpf(-1)) if s <= 1 else mpmath.inf),
    "chi2": Phi(lambda x: (x - 1) ** 2, lambda x: 2 * (x - 1), lambda s: s + s * s / 4 if s > -2 else mpf(-1)),
    "power(3)": _power(3),
    "power(1.5)": _power(1.5),
    "power(0.5)": _power(0.5),
    "range(0.5,2)": _range(0.5, 2.0),
}
_EXACT = Phi(lambda x: mpf(0), lambda x: mpf(0), lambda s: s, 1.0, 1.0)


@dataclass(frozen=True)
class Far:
    """One problem, as `jumbot.solve` takes it."""

    cost: list[list[float]]
    a: list[float]
    b: list[float]
    epsilon: float
    tau: tuple[float, float] = (math.inf, math.inf)
    divergence: str = "kl"
    reference: str = "product"
    mass: float | None = None

    @property
    def given(self) -> dict[str, Any]:
        names = ("epsilon", "tau", "divergence", "reference", "mass")
        described = {name: getattr(self, name) for name in names}
        if self.tau == (math.inf, math.inf):
            del described["tau"]
        return described

    @property
    def sides(self) -> list[tuple[Phi, Any, list[Any]]]:
        """(phi, tau, weights) of rows and columns."""
        phi = PHIS[self.divergence]
        out = []
        for tau, w in zip(self.tau, (self.a, self.b), strict=True):
            if self.mass is not None:
                own, price = _range(0.0, 1.0), 1.0
            elif phi.upper < math.inf:
                own, price = phi, 1.0
            else:
                own, price = (_EXACT, 1.0) if math.isinf(tau) else (phi, tau)
            out.append((own, mpf(price), [mpf(x) for x in w]))
        return out

    @property
    def R(self) -> Any:
        if self.reference == "ones":
            return [[mpf(1)] * len(self.b) for _ in self.a]
        return [[mpf(x) * mpf(y) for y in self.b] for x in self.a]

    def primal(self, plan: Any) -> tuple[Any, Any]:
        """The objective at `plan` and the scale of a gap; infinite where a constraint is missed by more than 1e-9."""
        rows, columns = [sum(row) for row in plan], [sum(column) for column in zip(*plan, strict=True)]
        pairs = list(zip(itertools.chain(*plan), itertools.chain(*self.cost), itertools.chain(*self.R), strict=True))
        linear, size = (sum(p * f(mpf(c)) for p, c, _ in pairs) for f in (mpf, abs))
        penalty = mpf(0)
        for (phi, tau, w), marginal in zip(self.sides, (rows, columns), strict=True):
            room = mpf("1e-9") * sum(w)
            for p, x in zip(marginal, w, strict=True):
                if p < phi.lower * x - room or p > phi.upper * x + room:
                    return mpmath.inf, mpf(0)
                penalty += 0 if phi.upper < math.inf else tau * x * phi.phi(p / x)
        if self.mass is not None and abs(sum(rows) - self.mass) > mpf("1e-9") * self.mass:
            return mpmath.inf, mpf(0)
        entropy = sum(_xlog(p, r) - p + r for p, _, r in pairs) if self.epsilon > 0 else 0
        epsilon = mpf(self.epsilon)
        return linear + epsilon * entropy + penalty, size + penalty + epsilon * sum(rows)

    def is_free(self) -> bool:
        """Whether every plan is feasible, so that an optimum above one of them was not found."""
        return self.mass is None and all(phi.upper == math.inf for phi, _, _ in self.sides)

    def dual(self, f: Any, g: Any) -> Any:
        """A bound from below, by weak duality; -inf where the potentials prove nothing."""
        if self.mass is not None:
            return -mpmath.inf
        epsilon, f, g = mpf(self.epsilon), [mpf(x) for x in f], [mpf(x) for x in g]
        slack = [[f[i] + g[j] - mpf(c) for j, c in enumerate(row)] for i, row in enumerate(self.cost)]
        bound = mpf(0)
        if epsilon > 0:
            for s, r in zip(itertools.chain(*slack), itertools.chain(*self.R), strict=True):
                if s / epsilon > 2000:
                    return -mpmath.inf
                bound -= epsilon * r * mpmath.expm1(s / epsilon)
        else:
            f = [x - max(0, *row) for x, row in zip(f, slack, strict=True)]
        for (phi, tau, w), h in zip(self.sides, (f, g), strict=True):
            bound -= sum(tau * x * phi.conjugate(-y / tau) for x, y in zip(w, h, strict=True))
        return bound

    def optimum(self) -> Any:
        """Of one row, by bisection; None where it is not known how."""
        if len(self.a) > 1 and len(self.b) > 1:
            return None
        if len(self.a) > 1:
            turned = [[row[0] for row in self.cost]]
            return Far(
                turned, self.b, self.a, self.epsilon, self.tau[::-1], self.divergence, self.reference, self.mass
            ).optimum()
        if self.mass is not None and self.epsilon > 0:
            return self._partial()
        if self.mass is not None or PHIS[self.divergence].upper < math.inf:
            return self._filled() if len(self.b) == 1 else None
        columns, (phi, tau, (a,)) = [self._column(j) for j in range(len(self.b))], self.sides[0]
        if phi.upper < math.inf:
            return self._split(columns, a)

        def missing(log_mass: Any) -> bool:
            total = mpmath.exp(log_mass)
            return sum(column(-tau * phi.slope(total / a)) for column in columns) > total

        low, high = mpf(-_REACH), mpf(_REACH)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if missing(middle) else (low, middle)
        if self.divergence == "tv" and abs(low - mpmath.log(a)) < mpf("1e-20"):
            return self._split(columns, a, (-tau, tau))
        plan = [column(-tau * phi.slope(mpmath.exp(low) / a)) for column in columns]
        if self.divergence == "tv" or self.epsilon == 0:  # slopes jump, masses of the columns with them
            plan = [p * mpmath.exp(low) / sum(plan) for p in plan] if sum(plan) > 0 else plan
        return self.primal([plan])[0]

    def _filled(self) -> Any:
        """Of one pair whose mass is known but for a range."""
        if self.mass is not None:
            return self.primal([[mpf(self.mass)]])[0]
        low = max(phi.lower * w[0] for phi, _, w in self.sides)
        high = min(phi.upper * w[0] for phi, _, w in self.sides)
        best = self.R[0][0] * mpmath.exp(-mpf(self.cost[0][0]) / self.epsilon)
        return self.primal([[min(max(best, low), high)]])[0]

    def _partial(self) -> Any:
        """p_j = min(b_j, r_j e^{(f - c_j)/epsilon}), of the mass asked for."""
        pairs = [
            (mpf(b), mpmath.log(r) - mpf(c) / self.epsilon)
            for b, c, r in zip(self.b, self.cost[0], self.R[0], strict=True)
        ]
        goals = [mpmath.log(mpf(self.mass)) - log for _, log in pairs]
        low, high = min(goals) - 5, max(goals) + 5
        if high - low > mpf(10) ** 40:
            return None
        for _ in range(2 * _BISECTIONS):
            middle = (low + high) / 2
            total = sum(min(b, mpmath.exp(min(middle + log, mpf(_REACH)))) for b, log in pairs)
            low, high = (middle, high) if total < self.mass else (low, middle)
        plan = [min(b, mpmath.exp(min(low + log, mpf(_REACH)))) for b, log in pairs]
        return self.primal([[p * self.mass / sum(plan) for p in plan]])[0]

    def _column(self, j: int) -> Callable[[Any], Any]:
        """The mass of a pair at the price that its row pays."""
        c, r, epsilon = mpf(self.cost[0][j]), self.R[0][j], mpf(self.epsilon)
        phi, tau, w = self.sides[1]
        b = w[j]
        if phi.upper < math.inf:
            return lambda f: b

        def mass(f: Any) -> Any:
            low, high = mpf(-_REACH), mpf(_REACH)
            for _ in range(_BISECTIONS):
                middle = (low + high) / 2
                p = mpmath.exp(middle)
                entropy = epsilon * mpmath.log(p / r) if epsilon > 0 else 0
                low, high = (low, middle) if c + entropy + tau * phi.slope(p / b) > f else (middle, high)
            return mpmath.exp(low)

        return mass

    def _split(self, columns: list[Callable[[Any], Any]], a: Any, bounds: Any = None) -> Any:
        """Where the row has the mass a, by bisection on its price."""
        if len(columns) == 1:
            return self.primal([[a]])[0]
        if PHIS[self.divergence].upper == math.inf and math.isinf(self.tau[1]):
            return self.primal([[mpf(x) for x in self.b]])[0]
        if self.epsilon == 0:
            return None
        most = max(abs(mpf(x)) for x in (*self.cost[0], self.epsilon, *(t for t in self.tau if math.isfinite(t))))
        low, high = bounds or (-(mpf(10) ** 4) * most, mpf(10) ** 4 * most)
        if (high - low) / self.epsilon > mpf(10) ** 40:
            return None
        for _ in range(2 * _BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if sum(column(middle) for column in columns) < a else (low, middle)
        plan = [column(low) for column in columns]
        return self.primal([[p * a / sum(plan) for p in plan]])[0] if sum(plan) > 0 else None


def wrong(problem: Far, solution: Any) -> str | None:
    """What is wrong with an answer that calls itself converged, None if nothing; "?" where nobody knows."""
    with mpmath.workdps(60):
        plan = [[mpf(float(p)) for p in row] for row in solution.plan]
        if not all(mpmath.isfinite(p) for p in itertools.chain(*plan)):
            return f"CONVERGED with the plan {solution.plan}"
        primal, scale = problem.primal(plan)
        room = _CLOSE * scale + mpf("1e-300")
        value = mpf(float(solution.value))
        if not abs(value - primal) <= room + _ROUNDED * abs(primal):
            return f"value {mpmath.nstr(value, 8)}, the plan's {mpmath.nstr(primal, 8)}, scale {mpmath.nstr(scale, 3)}"
        f, g = (np.asarray(x, dtype=float) for x in solution.potentials)
        bound = problem.dual(f, g) if np.isfinite(f).all() and np.isfinite(g).all() else -mpmath.inf
        if primal - bound <= room:
            return None
        optimum = problem.optimum()
        # the optimum of a bisection lies above the true one, by as much as its own steps leave
        if optimum is None or (problem.is_free() and optimum - primal > room):
            return "?"
        return None if abs(primal - optimum) <= room else f"{mpmath.nstr(primal, 8)} for {mpmath.nstr(optimum, 8)}"


def chi2_grid() -> Iterator[Far]:
    """980 problems whose cost, epsilon and tau lie up to 24 orders of magnitude apart."""
    costs, epsilons = [100.0, -100.0, 1e-6, 1e6, -1e12, 1e12, 3.7], [1e-12, 1e-6, 0.1, 2e5, 1e9]
    taus = [1e-9, 1e-3, 1.0, 1e3, 1e9, 1e12, 3e14]
    for cost, a, epsilon, tau, ratio in itertools.product(costs, [1.0, 71.3], epsilons, taus, [1.0, 0.2]):
        yield Far([[cost]], [a], [1.0], epsilon, (tau, ratio * tau), "chi2")


def far_problems(count: int, seed: int = 0, most: float = 300.0) -> Iterator[Far]:
    """Over all divergences, exact and entropic, both sides at a price, one, or none, and partial transport."""
    rng = np.random.default_rng(seed)

    def size() -> float:
        return float(10 ** (rng.uniform(-most, most) if rng.random() < 0.6 else rng.uniform(-3, 3)))

    for at in range(count):
        name = list(PHIS)[at % len(PHIS)]
        epsilon = 0.0 if rng.random() < 0.35 and name in ("kl", "tv") else size()
        n, m = ((1, 1), (1, 1), (1, 2), (2, 1), (2, 2))[int(rng.integers(5))]
        cost = [[size() * (-1 if rng.random() < 0.3 else 1) for _ in range(m)] for _ in range(n)]
        a, b = [size() for _ in range(n)], [size() for _ in range(m)]
        kind = rng.choice(["soft", "equal", "one", "balanced", "mass"], p=[0.35, 0.3, 0.2, 0.08, 0.07])
        reference = "ones" if rng.random() < 0.25 else "product"
        tau = size()
        pair = {"soft": (tau, size()), "equal": (tau, tau), "one": (tau, math.inf)}.get(str(kind), (math.inf,) * 2)
        if kind == "mass":
            yield Far(cost, a, b, epsilon, reference=reference, mass=min(sum(a), sum(b)) * float(rng.uniform(0.01, 1)))
            continue
        if PHIS[name].upper < math.inf or pair == (math.inf, math.inf):
            b = [x * (sum(a) / sum(b)) for x in b]
            pair = (math.inf, math.inf)
        yield Far(cost, a, b, epsilon, pair[::-1] if rng.random() < 0.5 else pair, name, reference)
