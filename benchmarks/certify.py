"""Primal value, dual bound and relative gap of anybody's plan, in float64 numpy, without a line of jumbot.

    primal(P)  = <C, P> + epsilon KL(P | R) + tau_a D(P 1 | a) + tau_b D(P' 1 | b)
    dual(f, g) <= optimum <= primal(P)
    relative gap = (primal - dual) / (<|C|, P> + tau_a D_a + tau_b D_b + epsilon mass(P))

Every solver of the benchmark, ours included, is judged by these functions. Potentials follow one
convention: ``P = R exp((f + g - C) / epsilon)``, and with the KL penalty ``P 1 = a exp(-f / tau)`` at the
optimum. The constant ``epsilon sum(R)`` stands in primal and dual; it is left out of the difference and
added to both at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import kl_div, logsumexp, xlogy

Pair = tuple[float, float]
Potentials = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Certificate:
    """What is known about one plan: its value, a lower bound on the optimum, and their difference."""

    primal: float
    dual: float
    gap: float
    relative_gap: float
    mass: float
    scale: float

    @property
    def ok(self) -> bool:
        """A gap that is a number; nan and infinity mean that the peer's plan or potentials broke down."""
        return math.isfinite(self.relative_gap)


FAILED = Certificate(math.nan, math.nan, math.inf, math.inf, math.nan, math.nan)


def pair(tau: float | Pair) -> Pair:
    """One tau for both sides, or one per side."""
    return tau if isinstance(tau, tuple) else (float(tau), float(tau))


def entropic_kl(
    cost: np.ndarray,
    plan: np.ndarray,
    potentials: Potentials,
    *,
    epsilon: float,
    tau: float | Pair = math.inf,
    a: np.ndarray | None = None,
    b: np.ndarray | None = None,
    reference: str = "product",
) -> Certificate:
    """Certificate of an entropic plan with KL (finite tau) or exact (infinite tau) marginals.

    The dual is evaluated at ``(f + t, g - t)`` for the best ``t``: a shift leaves the plan as it is, so no
    solver is charged for it. With exact marginals a plan is first rounded onto them, to be feasible.
    """
    cost, plan, f, g = (np.asarray(v, dtype=np.float64) for v in (cost, plan, *potentials))
    n, m = cost.shape
    a = np.full(n, 1 / n) if a is None else np.asarray(a, dtype=np.float64)
    b = np.full(m, 1 / m) if b is None else np.asarray(b, dtype=np.float64)
    tau_a, tau_b = pair(tau)
    if not all(np.isfinite(v).all() for v in (plan, f, g)):
        return FAILED
    ratio = np.outer(a, b) if reference == "product" else np.ones_like(cost)
    constant = epsilon * ratio.sum()
    plan = round_to_marginals(plan, a if math.isinf(tau_a) else None, b if math.isinf(tau_b) else None)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
        entropy = (xlogy(plan, plan / ratio) - plan).sum()
        rows, columns = plan.sum(1), plan.sum(0)
        penalty = sum(t * kl_div(p, w).sum() for t, p, w in ((tau_a, rows, a), (tau_b, columns, b)) if t < math.inf)
        linear, mass = (cost * plan).sum(), plan.sum()
        f, g = _translate(f, g, a, b, tau_a, tau_b)
        transported = (ratio * np.exp((f[:, None] + g[None, :] - cost) / epsilon)).sum()
        dual = _conjugate(f, a, tau_a) + _conjugate(g, b, tau_b) - epsilon * transported
        primal = linear + epsilon * entropy + penalty
        scale = (np.abs(cost) * plan).sum() + penalty + epsilon * mass
        return _certificate(primal + constant, dual + constant, primal - dual, scale, mass)


def partial_dual(cost: np.ndarray, potentials: Potentials, *, epsilon: float, mass: float) -> float:
    """A lower bound of entropic partial transport with uniform weights, the constant epsilon sum(R) left out.

    Each potential is supported by the cheapest way to fill that mass.
    """
    f, g = (np.asarray(v, dtype=np.float64) for v in potentials)
    filled = 0.0
    for potential in (f, g):
        weights = np.full(len(potential), 1 / len(potential))
        order = np.argsort(potential)
        filled += potential[order] @ np.diff(np.minimum(np.cumsum(weights[order]), mass), prepend=0)
    return float(filled - epsilon * np.exp((f[:, None] + g - cost) / epsilon).mean())


def partial_error(cost: np.ndarray, plan: np.ndarray, bound: float, *, epsilon: float, mass: float) -> float:
    """The relative gap of a plan to such a bound, or the share of the mass by which it breaks the constraints."""
    plan = np.asarray(plan, dtype=np.float64)
    n, m = plan.shape
    violation = np.maximum(plan.sum(1) - 1 / n, 0).sum() + np.maximum(plan.sum(0) - 1 / m, 0).sum()
    violation += abs(plan.sum() - mass)
    linear = (cost * plan).sum()
    primal = linear + epsilon * (xlogy(plan, plan * n * m) - plan).sum()
    return float(max((primal - bound) / (linear + epsilon * mass), violation / mass))


def exact_kl(
    cost: np.ndarray,
    plan: np.ndarray,
    potentials: Sequence[Potentials],
    *,
    tau: float,
    a: np.ndarray | None = None,
    b: np.ndarray | None = None,
) -> Certificate:
    """Certificate at epsilon = 0, KL marginals, from the best of several potentials, each made feasible."""
    cost, plan, a, b = _prepare(cost, plan, a, b)
    if not np.isfinite(plan).all():
        return FAILED
    penalty = tau * (kl_div(plan.sum(1), a).sum() + kl_div(plan.sum(0), b).sum())
    linear = (cost * plan).sum()
    duals = []
    for f, g in (p for start in potentials for p in _feasible(cost, *start)):
        f, g = _translate(f, g, a, b, tau, tau)
        duals.append(_conjugate(f, a, tau) + _conjugate(g, b, tau))
    primal, dual = linear + penalty, max(duals)
    return _certificate(primal, dual, primal - dual, (np.abs(cost) * plan).sum() + penalty, plan.sum())


def exact_tv(
    cost: np.ndarray,
    plan: np.ndarray,
    potentials: Sequence[Potentials],
    *,
    tau: float,
    a: np.ndarray | None = None,
    b: np.ndarray | None = None,
) -> Certificate:
    """Certificate at epsilon = 0, TV marginals: dual = <a, min(f, tau)> + <b, min(g, tau)>, f, g >= -tau."""
    cost, plan, a, b = _prepare(cost, plan, a, b)
    if not np.isfinite(plan).all():
        return FAILED
    penalty = tau * (np.abs(plan.sum(1) - a).sum() + np.abs(plan.sum(0) - b).sum())
    linear = (cost * plan).sum()
    duals = []
    for f, g in (p for start in potentials for p in _feasible(cost, *(np.clip(v, -tau, tau) for v in start))):
        f, g = np.minimum(f, tau), np.minimum(g, tau)
        duals.append(a @ f + b @ g if min(f.min(), g.min()) >= -tau * (1 + 1e-12) else -math.inf)
    primal, dual = linear + penalty, max(duals)
    return _certificate(primal, dual, primal - dual, (np.abs(cost) * plan).sum() + penalty, plan.sum())


def kl_potentials(plan: np.ndarray, tau: float, a: np.ndarray, b: np.ndarray) -> Potentials:
    """Potentials that a plan's marginals imply, ``f = -tau log(P 1 / a)``, for peers that return none."""
    with np.errstate(divide="ignore"):
        f, g = -tau * np.log(plan.sum(1) / a), -tau * np.log(plan.sum(0) / b)
    return np.minimum(f, 1e3 * tau), np.minimum(g, 1e3 * tau)


def round_to_marginals(plan: np.ndarray, a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
    """The plan with marginals made exact (Altschuler, Weed and Rigollet 2017); None leaves a side free."""
    if a is None and b is None:
        return plan
    if a is None:
        return plan * (b / np.maximum(plan.sum(0), 1e-300))[None, :]
    if b is None:
        return plan * (a / np.maximum(plan.sum(1), 1e-300))[:, None]
    plan = plan * np.minimum(1, a / np.maximum(plan.sum(1), 1e-300))[:, None]
    plan = plan * np.minimum(1, b / np.maximum(plan.sum(0), 1e-300))[None, :]
    missing_a, missing_b = np.maximum(a - plan.sum(1), 0), np.maximum(b - plan.sum(0), 0)
    return plan + np.outer(missing_a, missing_b) / max(missing_a.sum(), missing_b.sum(), 1e-300)


def _prepare(cost, plan, a, b) -> tuple[np.ndarray, ...]:
    cost, plan = np.asarray(cost, dtype=np.float64), np.asarray(plan, dtype=np.float64)
    n, m = cost.shape
    a = np.full(n, 1 / n) if a is None else np.asarray(a, dtype=np.float64)
    b = np.full(m, 1 / m) if b is None else np.asarray(b, dtype=np.float64)
    return cost, plan, a, b


def _feasible(cost, f, g) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs with f + g <= C that stay close to the given one: two c-transforms, from either side."""
    f, g = np.asarray(f, dtype=np.float64), np.asarray(g, dtype=np.float64)
    from_g = (cost - g[None, :]).min(1)
    from_f = (cost - f[:, None]).min(0)
    return [
        (from_g, (cost - from_g[:, None]).min(0)),
        ((cost - from_f[None, :]).min(1), from_f),
    ]


def _translate(f, g, a, b, tau_a, tau_b) -> Potentials:
    """The shift (f + t, g - t) with the largest dual; with exact marginals of equal mass all are as good."""
    if math.isinf(tau_a) or math.isinf(tau_b):
        return f, g
    la, lb = logsumexp(-f / tau_a, b=a), logsumexp(-g / tau_b, b=b)
    t = (la - lb) * tau_a * tau_b / (tau_a + tau_b)
    return f + t, g - t


def _conjugate(f, a, tau) -> float:
    """-tau <a, phi*(-f / tau)> for KL, and its limit <a, f> for an exact marginal."""
    return a @ f if math.isinf(tau) else -tau * (a @ np.expm1(-f / tau))


def _certificate(primal, dual, gap, scale, mass) -> Certificate:
    relative = gap / scale if scale > 0 else (0.0 if gap <= 0 else math.inf)
    return Certificate(float(primal), float(dual), float(gap), float(abs(relative)), float(mass), float(scale))
