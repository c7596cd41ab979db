"""`jumbot.solve` against a convex-programming solver: every divergence, both references, epsilon >= 0."""

import math

import numpy as np
import pytest

from ..generators import posed, rectangular
from ..oracles import cases

BOTH = ("product", "ones")


def assert_true(problem):
    """Value to 1e-5, plan to 1e-3, and the interval [value - gap, value] around the truth."""
    truth, plan = problem.truth()
    solution = problem.solve(tol=1e-8)
    scale = problem.scale(plan)
    assert solution.converged
    assert abs(solution.value - truth) <= 1e-5 * scale
    assert np.abs(solution.plan - plan).max() <= 1e-3 * plan.max()
    slack = 1e-7 * scale  # of the convex solver
    assert solution.value - solution.gap - slack <= truth <= solution.value + slack


@pytest.mark.parametrize("case", cases(0, 0.03, 0.5, references=BOTH))
def test_random_problems(case, rng):
    for _ in range(2):
        n, m = rng.integers(2, 7, 2)
        assert_true(posed(rng, n, m, **case))


@pytest.mark.parametrize("tau", [0.05, 20.0, (math.inf, 3.0), (0.1, 10.0)])
@pytest.mark.parametrize("name", ["kl", "tv", "chi2"])
def test_range_of_taus(name, tau, rng):
    assert_true(posed(rng, 4, 5, epsilon=0.1, divergence=name, tau=tau))


@pytest.mark.parametrize("epsilon", [0, 0.2])
@pytest.mark.parametrize("name", ["kl", "tv"])
@pytest.mark.parametrize("masses", [(0.2, 3.0), (5.0, 4.0)])
def test_masses_far_from_one(masses, name, epsilon, rng):
    assert_true(rectangular(rng, 4, 5, masses, epsilon=epsilon, divergence=name, tau=(0.4, 0.8)))


@pytest.mark.parametrize("case", cases(0, 0.2, references=BOTH))
def test_zero_weights(case, rng):
    """TV with "ones" or at epsilon = 0 may move mass to and from points without weight."""
    assert_true(posed(rng, 5, 4, zeros=1, **case))


@pytest.mark.parametrize("case", cases(0, 0.1))
def test_negative_costs(case, rng):
    problem = posed(rng, 4, 4, **case)
    assert_true(problem.but(cost=problem.cost - 0.5))


SOFT = ["kl", "kl, a pair", "tv", "tv, a pair", "chi2", "power"]


@pytest.mark.parametrize("case", cases(0, 0.1, references=BOTH, settings=SOFT))
@pytest.mark.parametrize("where", ["entries", "row", "column"])
def test_infinite_costs_are_never_matched(where, case, rng):
    problem = posed(rng, 5, 4, **case)
    cost = problem.cost.copy()
    cost[{"entries": np.eye(5, 4, dtype=bool), "row": np.s_[2], "column": np.s_[:, 1]}[where]] = np.inf
    problem = problem.but(cost=cost)
    assert_true(problem)
    assert (problem.solve().plan[np.isinf(cost)] == 0).all()
