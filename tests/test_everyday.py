"""What judges the everyday calls of the benchmark."""

import numpy as np
import pytest

import jumbot
from benchmarks import certify, everyday


def test_partial_plans_are_judged_by_a_bound_and_by_their_constraints(rng):
    cost, epsilon, mass = rng.random((12, 9)), 0.05, 0.6
    solution = jumbot.solve(cost, epsilon=epsilon, mass=mass)
    bound = certify.partial_dual(cost, solution.potentials, epsilon=epsilon, mass=mass)
    value = jumbot.solve(cost, epsilon=epsilon, mass=mass).value - epsilon
    assert bound == pytest.approx(value, abs=1e-9)

    def error(plan):
        return certify.partial_error(cost, plan, bound, epsilon=epsilon, mass=mass)

    assert error(solution.plan) < 1e-9
    assert error(np.full((12, 9), mass / 108)) > 1e-2  # feasible, and far from the best
    assert error(1.1 * solution.plan) > 0.05
    tall = np.zeros((12, 9))
    tall[0, 0] = mass
    assert error(tall) > 0.5


def test_the_table_names_who_breaks_down_and_who_wins():
    def solver(name, seconds, error):
        return {"name": name, "seconds": seconds, "error": error, "calls": 3}

    row = {"group": "g", "problem": "p", "threads": 2}
    rows = [
        row
        | {"solvers": [solver("jumbot", 1e-3, 1e-11), solver("POT", 5e-4, 1e-9), solver("jumbot, other", 1e-9, None)]},
        row | {"solvers": [solver("jumbot", 1e-3, 1e-11), solver("POT", 1e-6, float("nan"))]},
    ]
    head, lines = everyday.table(rows)
    assert len(head) == len(lines[0])
    assert lines[0][1:3] == ("p, 2 threads", "1 (1e-11)")
    assert lines[0][-1] == "0.5x"
    assert "breaks down" in lines[1][3]
    assert lines[1][-1] == "-"
