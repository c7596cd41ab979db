"""The solvers for epsilon = 0 against HiGHS, Clarabel, closed forms and their own certificate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import kl_div

from jumbot.errors import UnboundedError
from jumbot.transport._exact.balanced import balanced, partial, total_variation
from jumbot.transport._exact.kl import _EMPTY, _lower_bounds, _none_empty, kl

INF = math.inf


def problem(seed: int, size: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cost and weights: rectangular, of any mass, every third with negative costs, every second with zero weights."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(2, size, 2)
    cost, a, b = 3 * rng.random((n, m)), rng.random(n) + 0.05, rng.random(m) + 0.05
    if seed % 3 == 0:
        cost -= 0.5
    if seed % 2:
        a[0] = b[-1] = 0
    if seed % 5 == 0:
        b *= a.sum() / b.sum()
    return cost, a, b


def marginal_matrix(n: int, m: int) -> np.ndarray:
    return np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])


def lp(c: np.ndarray, **constraints: object) -> float:
    result = linprog(c, method="highs", **constraints)
    assert result.status == 0, result.message
    return float(result.fun)


def check_feasible(cost: np.ndarray, plan: np.ndarray, f: np.ndarray, g: np.ndarray) -> None:
    assert np.isfinite(plan).all()
    assert (plan >= 0).all()
    assert (f[:, None] + g <= cost + 1e-13 * (1 + np.abs(cost).max() + np.abs(f).max())).all()


def kl_certificate(cost: np.ndarray, a: np.ndarray, b: np.ndarray, tau: tuple[float, float], solved: tuple) -> tuple:
    """Value and relative gap of a plan with potentials, from weak duality alone."""
    plan, f, g, _ = solved
    check_feasible(cost, plan, f, g)
    gap, value, scale = (plan * (cost - f[:, None] - g)).sum(), (cost * plan).sum(), (np.abs(cost) * plan).sum()
    for p, weights, potential, t in ((plan.sum(1), a, f, tau[0]), (plan.sum(0), b, g, tau[1])):
        if t == INF:
            np.testing.assert_allclose(p, weights, rtol=1e-14, atol=1e-15)
            continue
        assert (p[weights == 0] == 0).all()
        gap += t * kl_div(p, weights * np.exp(-potential / t)).sum()
        value, scale = value + t * kl_div(p, weights).sum(), scale + t * kl_div(p, weights).sum()
    return value, gap / scale


@pytest.mark.parametrize("seed", range(40))
def test_balanced_is_the_linear_program(seed: int) -> None:
    cost, a, b = problem(seed)
    b *= a.sum() / b.sum()
    plan, f, g = balanced(cost, a, b)
    check_feasible(cost, plan, f, g)
    np.testing.assert_allclose(np.r_[plan.sum(1), plan.sum(0)], np.r_[a, b], atol=1e-14)
    truth = lp(cost.ravel(), A_eq=marginal_matrix(*cost.shape)[:-1], b_eq=np.r_[a, b][:-1])
    assert (cost * plan).sum() == pytest.approx(truth, rel=1e-9, abs=1e-12)
    assert a @ f + b @ g == pytest.approx(truth, rel=1e-9, abs=1e-12)


def test_balanced_is_accurate_next_to_forbidden_pairs() -> None:
    rng = np.random.default_rng(0)
    cost = np.where(rng.random((65, 65)) < 0.7, 1e7, rng.random((65, 65)))
    np.fill_diagonal(cost, rng.random(65))
    plan, f, g = balanced(cost, np.ones(65), np.ones(65))
    assert (plan * (cost - f[:, None] - g)).sum() < 1e-10 * (plan * cost).sum()


@pytest.mark.parametrize("tau", [(0.4, 0.4), (0.3, 1.2), (5.0, 5.0), (INF, 0.6), (0.6, INF)])
@pytest.mark.parametrize("seed", range(12))
def test_total_variation_is_the_linear_program(tau: tuple[float, float], seed: int) -> None:
    cost, a, b = problem(seed)
    n, m = cost.shape
    plan, f, g, t = total_variation(cost, a, b, *tau)
    f, g = f + sum(t), g - sum(t)
    check_feasible(cost, plan, f, g)
    assert (np.abs(np.r_[f, g]) <= np.repeat(tau, [n, m]) + 1e-15).all()
    # destroyed and created mass are variables of their own, dear enough to stay 0 where tau is infinite
    price = np.repeat(np.minimum(tau, 1e3), [n, m])
    A = np.hstack([marginal_matrix(n, m), np.eye(n + m), -np.eye(n + m)])
    truth = lp(np.r_[cost.ravel(), price, price], A_eq=A, b_eq=np.r_[a, b])
    distances = np.abs(plan.sum(1) - a).sum(), np.abs(plan.sum(0) - b).sum()
    penalty = sum(t * d for t, d in zip(tau, distances, strict=True) if t < INF)
    assert all(d < 1e-13 for t, d in zip(tau, distances, strict=True) if t == INF)
    assert (cost * plan).sum() + penalty == pytest.approx(truth, rel=1e-9, abs=1e-12)
    assert a @ f + b @ g == pytest.approx(truth, rel=1e-9, abs=1e-12)


def test_total_variation_sends_mass_to_a_point_without_weight() -> None:
    plan, f, _, t = total_variation(np.array([[1.0], [-0.5]]), np.array([1.0, 0.0]), np.array([2.0]), 0.4, 3.0)
    np.testing.assert_allclose(plan, [[0.0], [2.0]])  # creating at the second source, 0.4, is worth 0.5
    assert f[1] + sum(t) == pytest.approx(-0.4)


def test_total_variation_says_when_it_is_unbounded() -> None:
    with pytest.raises(UnboundedError, match="-2"):
        total_variation(np.array([[-2.0]]), np.ones(1), np.ones(1), 0.9, 1.0)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("seed", range(12))
def test_partial_is_the_linear_program(share: float, seed: int) -> None:
    cost, a, b = problem(seed)
    mass = share * min(a.sum(), b.sum())
    plan, f, g = partial(cost, a, b, mass)
    check_feasible(cost, plan, f, g)
    assert plan.sum() == pytest.approx(mass, abs=1e-14)
    assert (np.r_[plan.sum(1), plan.sum(0)] <= np.r_[a, b] + 1e-14).all()
    total = {"A_eq": np.ones((1, cost.size)), "b_eq": [mass]}
    truth = lp(cost.ravel(), A_ub=marginal_matrix(*cost.shape), b_ub=np.r_[a, b], **total)
    assert (cost * plan).sum() == pytest.approx(truth, rel=1e-9, abs=1e-12)
    filled = 0.0
    for potential, weights in ((f, a), (g, b)):
        order = np.argsort(potential)
        before = np.r_[0.0, np.cumsum(weights[order])[:-1]]
        filled += potential[order] @ np.clip(mass - before, 0, weights[order])
    assert filled == pytest.approx(truth, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("tau", [(0.02, 0.02), (0.5, 0.5), (0.1, 8.0), (1e3, 1e3), (0.05, INF), (INF, 2.0)])
@pytest.mark.parametrize("tol", [1e-6, 1e-10])
def test_kl_reaches_its_tolerance(tau: tuple[float, float], tol: float) -> None:
    for seed in range(15):
        cost, a, b = problem(seed, size=70)
        cost = np.maximum(cost, -2 * min(tau))
        assert kl_certificate(cost, a, b, tau, kl(cost, a, b, *tau, tol, 200))[1] <= tol


@pytest.mark.parametrize("tau", [(0.3, 0.3), (0.4, 3.0), (INF, 0.5), (0.7, INF)])
def test_kl_is_the_convex_program(tau: tuple[float, float]) -> None:
    cp = pytest.importorskip("cvxpy")
    for seed in range(4):
        cost, a, b = problem(seed, size=6)
        value, _ = kl_certificate(cost, a, b, tau, kl(cost, a, b, *tau, 1e-9, 200))
        rows, columns = a > 0, b > 0
        P = cp.Variable((rows.sum(), columns.sum()), nonneg=True)
        objective, constraints = cp.sum(cp.multiply(cost[np.ix_(rows, columns)], P)), []
        for p, weights, t in ((cp.sum(P, axis=1), a[rows], tau[0]), (cp.sum(P, axis=0), b[columns], tau[1])):
            if t == INF:
                constraints.append(p == weights)
            else:
                objective = objective + t * cp.sum(cp.kl_div(p, weights))
        truth = cp.Problem(cp.Minimize(objective), constraints).solve(solver=cp.CLARABEL)
        assert value == pytest.approx(truth, rel=1e-5, abs=1e-6)


def test_kl_of_two_points_is_a_geometric_mean() -> None:
    plan, *_ = kl(np.array([[0.7]]), np.array([2.0]), np.array([3.0]), 0.5, 1.5, 1e-12, 100)
    assert plan[0, 0] == pytest.approx((2**0.5 * 3**1.5 * math.exp(-0.7)) ** 0.5, rel=1e-5)


def test_kl_looks_for_empty_points_wherever_there_are_some() -> None:
    tau, seen = 0.03, set()
    for seed in range(0, 60, 2):  # those without zero weights
        cost, a, b = problem(seed)
        lower_a, lower_b = _lower_bounds((cost, a, b, tau, 0.5 * tau))
        some = bool((lower_a >= _EMPTY * tau).any() or (lower_b >= _EMPTY * 0.5 * tau).any())
        seen.add((_none_empty((cost, a, b, tau, 0.5 * tau)), some))
    assert seen == {(True, False), (False, True), (False, False)}


@pytest.mark.parametrize(("tau", "cost"), [(1e-6, 1.0), (0.1, 1e7), (1e-3, 50.0)])
def test_kl_certifies_that_no_mass_is_left(tau: float, cost: float) -> None:
    costs, weights = cost * (1 + np.random.default_rng(0).random((20, 30))), np.full(30, 1 / 30)
    solved = kl(costs, weights[:20], weights, tau, tau, 1e-12, 100)
    assert kl_certificate(costs, weights[:20], weights, (tau, tau), solved)[1] <= 1e-12
    assert solved[0].sum() < 1e-15


@pytest.mark.parametrize("tau", [(0.5, 0.5), (10.0, 10.0), (0.5, INF)])
def test_kl_avoids_forbidden_pairs(tau: tuple[float, float]) -> None:
    rng = np.random.default_rng(1)
    forbidden = (rng.random((30, 40)) < 0.6) & (rng.integers(2, size=(30, 1)) == 1)
    cost, a, b = np.where(forbidden, 1e7, rng.random((30, 40))), np.full(30, 1 / 30), np.full(40, 1 / 40)
    solved = kl(cost, a, b, *tau, 1e-8, 200)
    assert kl_certificate(cost, a, b, tau, solved)[1] <= 1e-8
    assert solved[0][forbidden].max() < 1e-16


@pytest.mark.parametrize("solver", ["kl", "tv"])
def test_potentials_of_points_without_weight_are_derivatives(solver: str) -> None:
    cost, a, b = problem(1)
    tau, step = 0.8, 1e-6

    def value(a: np.ndarray) -> tuple[float, np.ndarray]:
        if solver == "tv":
            _, f, g, t = total_variation(cost, a, b, tau, tau)
            f, g = f + sum(t), g - sum(t)
            return a @ f + b @ g, f
        _, f, g, _ = kl(cost, a, b, tau, tau, 1e-13, 200)
        return tau * (a @ -np.expm1(-f / tau) + b @ -np.expm1(-g / tau)), f

    start, f = value(a)
    slope = (value(np.r_[step, a[1:]])[0] - start) / step
    assert slope == pytest.approx(f[0] if solver == "tv" else -tau * math.expm1(-f[0] / tau), abs=1e-5)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
@pytest.mark.parametrize("seed", range(6))
def test_units_of_the_cost_play_no_part(seed, unit):
    """The network simplex takes differences of 1e-12 for rounding."""
    rng = np.random.default_rng(seed)
    cost, a, b = rng.random((52, 63)) - 0.5, rng.random(52), rng.random(63)
    b *= a.sum() / b.sum()
    for solve in (balanced, lambda c, a, b: partial(c, a, b, 0.4 * a.sum())):
        expected, found = (np.vdot(solve(u * cost, a, b)[0], cost) for u in (1.0, unit))
        assert found == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("taus", [(0.05, 0.05), (1.0, INF)])
@pytest.mark.parametrize("size", [7, 12])
def test_slacks_that_are_all_the_same(size: int, taus: tuple[float, float]) -> None:
    """A mean of equal numbers may be rounded below each of them; warnings are errors here."""
    weights = np.full(size, 1 / size)
    plan, *_ = kl(0.1 * (1 - np.eye(size)), weights, weights, *taus, 1e-9, 200)
    np.testing.assert_allclose(plan, np.diag(weights), atol=1e-6)
