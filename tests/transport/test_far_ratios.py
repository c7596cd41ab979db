"""Numbers far apart: what cannot be computed is FAILED or refused, and never called converged."""

from __future__ import annotations

import itertools
import math
import pickle
import warnings
from collections import Counter
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

import jumbot
from jumbot.transport._entropic import solver
from jumbot.transport._problem import Terms, make_problem
from tests.refusals import refused
from tests.transport.far_numbers import Far, chi2_grid, far_problems, wrong

PHI = {
    "kl": (lambda x: x * mpmath.log(x) - x + 1, mpmath.log),
    "tv": (lambda x: abs(x - 1), lambda x: mpmath.sign(x - 1)),
    "chi2": (lambda x: (x - 1) ** 2, lambda x: 2 * (x - 1)),
    "power(3)": (lambda x: (x**3 - 3 * x + 2) / 6, lambda x: (x**2 - 1) / 2),
}


def truth(cost: float, a: float, b: float, epsilon: float, taus: tuple[float, float], name: str) -> tuple[Any, Any]:
    """The optimal value of a problem of one pair and the scale of its gap, in 50 digits, by bisection on log p."""
    with mpmath.workdps(50):
        phi, slope = PHI[name]
        sides = [(mpmath.mpf(tau), mpmath.mpf(w)) for tau, w in zip(taus, (a, b), strict=True)]
        product = mpmath.mpf(a) * mpmath.mpf(b)
        low, high = mpmath.mpf(-(10**5)), mpmath.mpf(10**5)
        for _ in range(220):
            middle = (low + high) / 2
            p = mpmath.exp(middle)
            rises = cost + epsilon * (middle - mpmath.log(product)) + sum(tau * slope(p / w) for tau, w in sides) > 0
            low, high = (low, middle) if rises else (middle, high)
        p = mpmath.exp(low)
        penalty = sum(tau * w * phi(p / w) for tau, w in sides)
        entropy = p * mpmath.log(p / product) - p + product
        return cost * p + epsilon * entropy + penalty, abs(cost) * p + penalty + epsilon * p


def solved(cost: float, a: float, b: float, epsilon: float, taus: tuple[float, float], name: str, **more: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jumbot.NotConvergedWarning)
        return jumbot.solve([[cost]], [a], [b], epsilon=epsilon, tau=taus, divergence=name, **more)


@pytest.mark.parametrize("name", ["kl", "chi2", "power(3)"])
def test_what_is_called_converged_is_right(name: str) -> None:
    numbers = itertools.product([100.0, -1e12], [1.0, 71.3], [1e-12, 2e5], [1e-3, 1e9, 1e12], [1.0, 0.2])
    converged = 0
    for cost, a, epsilon, tau, ratio in numbers:
        problem = cost, a, 1.0, epsilon, (tau, ratio * tau), name
        solution = solved(*problem, max_iterations=4000)
        if solution.converged:
            value, scale = truth(*problem)
            assert abs(float(solution.value) - value) <= 1e-6 * scale + 1e-12 * abs(value), problem
            converged += 1
        else:
            assert solution.status in (jumbot.Status.FAILED, jumbot.Status.MAX_ITERATIONS, jumbot.Status.OVERFLOW)
    assert converged > 20


def test_chi2_next_to_a_tiny_epsilon() -> None:
    solution = solved(100.0, 1.0, 1.0, 1e-12, (1e9, 1e9), "chi2")
    assert solution.status != jumbot.Status.CONVERGED or float(solution.value) == pytest.approx(100.0, rel=1e-6)


def test_tv_with_masses_and_prices_far_apart() -> None:
    """It is -1; the simplex cannot hold a mass of 1 beside 1e24."""
    solution = solved(-1.0, 1.0, 1e24, 0.0, (1e3, 1e-40), "tv")
    assert solution.status != jumbot.Status.CONVERGED or float(solution.value) == pytest.approx(-1.0)


def test_a_gap_of_zero_next_to_a_negative_scale_is_not_solved() -> None:
    from jumbot.transport._certificate import solved as within

    assert not within(0.0, -1.0, 1e-6)
    assert within(0.0, 0.0, 1e-6), "a zero plan that is optimal"


@pytest.mark.parametrize(
    ("problem", "argument"),
    [
        ((1e-300, 3e-277, 6e-16, 1.6e65, (1e-300, 449.0), "chi2"), "tau"),
        ((-241.0, 1.0, 1.0, 1e-300, (1e300, 1e300), "chi2"), "epsilon"),
        ((172.0, 1.0, 1.0, 1.8e-126, (6e-235, 9e292), "power(0.5)"), "tau"),
        ((2.7e186, 1.0, 1.0, 0.0, (1e-300, 1e-300), "kl"), "tau"),
        ((2.7e-118, 1.0, 1.0, 0.0, (1.4, 2.37e248), "kl"), "cost"),
        ((1.0, 1.0, 1.0, 1e39, (1e-300, 1e-300), "chi2"), "tau"),
    ],
)
def test_what_float64_cannot_hold_is_refused_by_name(problem: Any, argument: str) -> None:
    with refused(argument):
        solved(*problem)


@pytest.mark.parametrize("name", ["kl", "tv"])
@pytest.mark.parametrize("unit", [1.0, 1e60, 1e-200])
def test_an_unbounded_problem_is_reported_in_the_units_given(name: str, unit: float) -> None:
    with pytest.raises(jumbot.UnboundedError) as caught:
        solved(-9e4 * unit, 1.0, 1.0, 0.0, (unit, 2 * unit), name)
    assert f"{-9e4 * unit:g}" in str(caught.value)
    assert f"{unit:g}" in str(caught.value) or f"{-3 * unit:g}" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


SIZES = [1e-300, 1e-150, 1e-40, 1e-12, 1.0, 1e12, 1e40, 1e150, 1e300]


@pytest.mark.parametrize(("name", "epsilon"), [("kl", 0.0), ("tv", 0.0), ("kl", 1.0), ("tv", 1.0), ("chi2", 1.0)])
def test_no_number_ends_in_a_foreign_error(name: str, epsilon: float) -> None:
    for at, (cost, a, tau, times) in enumerate(itertools.product(SIZES, SIZES[::2], SIZES, SIZES[::2])):
        if at % 23 and epsilon > 0:
            continue
        try:
            solution = solved(cost, a, 1.0, epsilon * times, (tau, SIZES[at % 9]), name)
        except jumbot.JumbotError:
            continue
        assert solution.status != jumbot.Status.CONVERGED or math.isfinite(float(solution.value))


@pytest.mark.parametrize(
    "problem",
    [
        # the cost pays more than both prices, so the plan is e^(4.4 / 1.5e-85) times its reference
        Far(
            [[-4.425715209146738]],
            [0.16718661493455775],
            [8.68756505656711e-87],
            1.5301962151403059e-85,
            (0.007102110560687926, 1.1117448794449162e-185),
            "tv",
        ),
        # epsilon KL(P | a b') alone is beyond all floats, where neither cost nor price is large
        Far([[1.357, 2.619]], [2.7e188], [2.7e188, 5.5e60], 0.0198, divergence="range(0.5,2)"),
        Far([[1.357, 2.619]], [2.7e188], [2.7e188, 5.5e60], 0.0198),
    ],
    ids=["plan", "range", "balanced"],
)
def test_an_answer_beyond_all_floats_is_not_called_converged(problem: Far) -> None:
    assert _solved(problem, 100).status == jumbot.Status.OVERFLOW


@pytest.mark.parametrize(
    "problem",
    [
        Far([[5.129732772686393]], [8.039057098531343e-235], [0.0397], 25.38467456884575, mass=7.323231488898369e-235),
        Far([[34.691130347310626]], [2.715986097946648e-62], [6.349e214], 188.85056913637544, mass=2.3768929e-62),
        Far([[0.355], [91.27]], [5.97e-100, 4.135e27], [7.8534e-291], 1.9855e-92, mass=3.52733e-291),
    ],
)
def test_masses_far_apart_raise_no_warning_of_numpys(problem: Far) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        solution = _solved(problem)
    assert not solution.converged or wrong(problem, solution) is None


def test_an_exact_marginal_that_is_missed_is_not_solved() -> None:
    """At potentials of 1e24 epsilon nothing is known of the plan, and a penalty of 1e46 hides what it misses."""
    weights = [550.442727167151, 5.161840909048229e35], [18900.480571450265]
    cost, epsilon, tau = [[2.484991252911777], [251.64884435411986]], 2.3994754963050553e-13, 134545854864.74129
    problem = Far(cost, *weights, epsilon, (tau, math.inf), "power(1.5)")
    turned = Far([[row[0] for row in cost]], *weights[::-1], epsilon, (math.inf, tau), "power(1.5)")
    for each in (problem, turned):
        solution = _solved(each)
        assert not solution.converged or wrong(each, solution) is None


def test_annealing_from_an_epsilon_that_is_beyond_all_powers_of_three() -> None:
    """3^700 is no float, but times epsilon it is."""
    seen = []

    def sweep(problem: Any, start: Any, *_: Any) -> Any:
        seen.append(problem.epsilon)
        return SimpleNamespace(f=start[0], g=start[1])

    cost = torch.tensor([[-1e40], [1e40]], dtype=torch.float64)
    settings = {"tau": 1.0, "divergence": "tv", "reference": "product", "mass": None}
    problem = make_problem(cost, None, None, Terms(1e-305, **settings))
    solver.anneal(problem, SimpleNamespace(sweep=sweep), torch.zeros(1, dtype=torch.float64))  # type: ignore[arg-type]
    assert len(seen) > 700
    assert seen[0] == pytest.approx(1e39, rel=0.9)
    assert seen[-1] == pytest.approx(3e-305)
    np.testing.assert_allclose(np.divide(seen[:-1], seen[1:]), 3.0, rtol=1e-9)


def _solved(problem: Far, limit: int = 3000) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jumbot.NotConvergedWarning)
        return jumbot.solve(problem.cost, problem.a, problem.b, **problem.given, max_iterations=limit)


def _look_at(problems: Iterable[Far], limit: int = 3000) -> Counter[str]:
    """How many are right, refused or not solved; fails where one is wrong, or ends in an error of another's."""
    found: Counter[str] = Counter()
    faults = []
    for problem in problems:
        try:
            solution = _solved(problem, limit)
        except (jumbot.ArgumentError, jumbot.UnboundedError):
            found["refused"] += 1
            continue
        if not solution.converged:
            found[solution.status.name] += 1
            continue
        fault = wrong(problem, solution)
        found["unknown" if fault == "?" else "right"] += 1
        if fault not in (None, "?"):
            faults.append(f"{problem}: {fault}")
    assert not faults, "\n".join(faults)
    return found


def test_some_of_a_chi2_grid_are_right_or_say_that_they_are_not() -> None:
    assert _look_at(itertools.islice(chi2_grid(), 0, None, 29))["right"] > 15


def test_some_problems_with_numbers_far_apart_are_right_or_say_that_they_are_not() -> None:
    found = _look_at(far_problems(35, seed=3, most=30.0), limit=500)
    assert found["right"] > 10
    assert found["unknown"] < 5


@pytest.mark.slow
def test_a_chi2_grid_is_right_or_says_that_it_is_not() -> None:
    assert _look_at(chi2_grid())["right"] > 500


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "most"), [(0, 300.0), (1, 40.0)])
def test_problems_with_numbers_far_apart_are_right_or_say_that_they_are_not(seed: int, most: float) -> None:
    found = _look_at(far_problems(618, seed, most))
    assert found["right"] > 200
    assert found["unknown"] < 20


def test_weights_near_the_end_of_float64_warn_of_nothing_but_that() -> None:
    """NumPy's own warnings are errors here."""
    given = {"epsilon": 0.0, "tau": (2e172, math.inf), "divergence": "kl", "reference": "ones"}
    with pytest.warns(jumbot.NotConvergedWarning):
        solution = jumbot.solve([[-142.6]], [1e254], [7e286], **given)
    assert not solution.converged


def test_the_judge_sees_a_wrong_plan() -> None:
    """A tenth more mass than is best, and a value that is not the plan's."""
    problem = Far([[1.0, 2.0]], [1.0], [0.5, 0.5], 0.1, (1.0, 1.0))
    solution = _solved(problem)
    assert wrong(problem, solution) is None
    for more, value in ((1.1, None), (1.0, 1.01)):
        plan = more * solution.plan
        primal = float(problem.primal(plan.tolist())[0]) if value is None else value * float(solution.value)
        assert wrong(problem, SimpleNamespace(plan=plan, value=primal, potentials=solution.potentials))
