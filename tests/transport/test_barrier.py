"""Small epsilon beside the costs, exact marginals or a fixed mass: by the interior point, judged from outside."""

import math

import numpy as np
import pytest

import jumbot
from jumbot.transport._entropic import barrier
from tests.oracles import Problem


def plane(rng, n, m):
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + 1
    return ((x[:, None] - y) ** 2).sum(-1)


def clusters(rng, n, m):
    x = 0.1 * rng.normal(size=(n, 2)) + rng.integers(0, 3, size=(n, 1))
    y = 0.1 * rng.normal(size=(m, 2)) + 1.5 * rng.integers(0, 2, size=(m, 1))
    return ((x[:, None] - y) ** 2).sum(-1)


def noise(rng, n, m):
    return 50 * rng.random((n, m)) - 20


def whole(rng, n, m):
    """Ties everywhere."""
    return rng.integers(0, 4, size=(n, m)).astype(float)


FAMILIES = [plane, clusters, noise, whole]


def weights(rng, size, kind):
    if kind == "even":
        return np.full(size, 1 / size)
    drawn = rng.random(size) + 0.05 if kind == "drawn" else rng.random(size) ** 8 + 1e-6
    if kind == "absent":
        drawn[0] = 0.0
    return drawn / drawn.sum()


@pytest.mark.parametrize("make", FAMILIES)
@pytest.mark.parametrize("kind", ["even", "drawn", "uneven", "absent"])
@pytest.mark.parametrize("mass", [None, 0.05, 0.6, 0.97])
def test_gap_is_true(make, kind, mass, rng):
    """Value and dual by other code are as near to each other as the solution says."""
    n, m = (17, 23) if kind == "drawn" else (24, 15)
    cost = make(rng, n, m)
    problem = Problem(cost, weights(rng, n, kind), weights(rng, m, kind), mass=mass, reference="product")
    for share in (0.1, 1e-3, 1e-4):
        posed = problem.but(epsilon=share * np.ptp(cost))
        solution = posed.solve()
        assert solution.converged
        plan, scale = solution.plan, posed.scale(solution.plan)
        assert posed.objective(plan) - posed.dual(*solution.potentials) <= 1e-9 * scale
        assert posed.objective(plan) == pytest.approx(solution.value, abs=1e-9 * scale)


@pytest.mark.parametrize("reference", ["product", "ones"])
@pytest.mark.parametrize("mass", [None, 0.6])
def test_next_to_a_convex_solver(reference, mass, rng):
    problem = Problem(
        plane(rng, 7, 9),
        weights(rng, 7, "drawn"),
        weights(rng, 9, "drawn"),
        epsilon=0.05,
        mass=mass,
        reference=reference,
    )
    solution, (value, plan) = problem.solve(), problem.truth()
    assert solution.value == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(solution.plan, plan, atol=1e-5)


@pytest.mark.parametrize("mass", [2.0, 2.0 - 1e-12, 1.999])
def test_nearly_all_of_the_smaller_side(mass, rng):
    """With all of it the rows are exact and the columns have room; with all of both, all is balanced."""
    problem = Problem(plane(rng, 12, 10), np.full(12, 2 / 12), np.full(10, 0.3), epsilon=0.01, mass=mass)
    solution = problem.solve()
    assert solution.converged
    assert posed_gap(problem, solution) <= 1e-8 * problem.scale(solution.plan)
    even = problem.but(b=np.full(10, 0.2))
    solution = even.solve()
    assert solution.converged
    if mass == 2.0:
        np.testing.assert_allclose(solution.plan, even.but(mass=None).solve().plan, atol=1e-6)


def posed_gap(problem, solution):
    return problem.objective(solution.plan) - problem.dual(*solution.potentials)


def test_takes_twenty_iterations_where_sweeps_take_thousands(rng):
    cost = noise(rng, 60, 60)
    solution = jumbot.solve(cost, epsilon=1e-3, mass=0.6)
    assert solution.converged
    assert solution.iterations <= 40


def test_after_sweeps(rng, monkeypatch):
    """Balanced problems are swept first; with no patience at all the answer is the same."""
    cost = clusters(rng, 30, 30)
    expected = jumbot.solve(cost, epsilon=0.05)
    monkeypatch.setattr("jumbot.transport._entropic.solver._patience", lambda *_: 1)
    seen, found = [], barrier.solve_all
    monkeypatch.setattr(barrier, "solve_all", lambda *given: seen.append(1) or found(*given))
    solution = jumbot.solve(cost, epsilon=0.05)
    assert seen
    np.testing.assert_allclose(solution.plan, expected.plan, atol=1e-8)


def test_a_solution_as_a_start_is_taken(rng):
    cost = plane(rng, 20, 20)
    first = jumbot.solve(cost, epsilon=0.1, mass=0.5)
    again = jumbot.solve(cost, epsilon=0.1, mass=0.5, init=first, tol=1e-8)
    assert again.converged
    assert again.iterations == 0
    moved = jumbot.solve(1.01 * cost, epsilon=0.1, mass=0.5, init=first)
    assert moved.converged


def test_few_iterations_are_reported(rng):
    with pytest.warns(jumbot.NotConvergedWarning):
        solution = jumbot.solve(noise(rng, 20, 20), epsilon=1e-3, mass=0.5, max_iterations=3)
    assert not solution.converged
    assert solution.gap > 0


def test_batches_are_solved_one_by_one(rng):
    cost = np.stack([noise(rng, 14, 11), whole(rng, 14, 11), plane(rng, 14, 11)])
    a, b = (np.stack([weights(rng, size, "drawn") for _ in range(3)]) for size in (14, 11))
    for mass in (None, 0.4):
        together = jumbot.solve(cost, a, b, epsilon=1e-3, mass=mass)
        assert together.converged.all()
        for k in range(3):
            alone = jumbot.solve(cost[k], a[k], b[k], epsilon=1e-3, mass=mass)
            np.testing.assert_allclose(together.plan[k], alone.plan, atol=1e-9)


@pytest.mark.parametrize("times", [1e-8, 1e8])
def test_units_change_nothing(times, rng):
    cost = plane(rng, 15, 18)
    a, b = weights(rng, 15, "drawn"), weights(rng, 18, "drawn")
    plain = jumbot.solve(cost, a, b, epsilon=0.01, mass=0.5)
    scaled = jumbot.solve(times * cost, times * a, times * b, epsilon=times * 0.01, mass=times * 0.5)
    # KL to a b' is not homogeneous in the weights, but for a constant and where the mass is fixed
    np.testing.assert_allclose(scaled.plan / times, plain.plan, atol=1e-6)
    assert math.isfinite(scaled.value)
