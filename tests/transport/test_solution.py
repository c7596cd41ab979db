"""A `Solution` as an object: what it shows, how long it lives, and when its gradients are made."""

import gc
import math
import weakref

import numpy as np
import pytest
import torch

import jumbot

from ..generators import posed

PUBLIC = {
    "plan",
    "value",
    "linear",
    "dual",
    "gap",
    "relative_gap",
    "mass",
    "marginals",
    "potentials",
    "iterations",
    "status",
    "converged",
    "sample",
}
MODES = [torch.no_grad, torch.inference_mode, torch.enable_grad]


def solved(rng, **options):
    problem = posed(rng, 6, 5, epsilon=0.1, tau=0.7)
    leaves = [torch.tensor(x, requires_grad=True) for x in (problem.cost, problem.a, problem.b)]
    return jumbot.solve(*leaves, epsilon=0.1, tau=0.7, **options), leaves


def test_all_that_is_public_is_in_the_contract(rng):
    assert {name for name in dir(solved(rng)[0]) if not name.startswith("_")} == PUBLIC


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("field", ["value", "linear"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_wherever_it_is_read_first(mode, field, dtype):
    cost = torch.rand(4, 5, dtype=dtype, generator=torch.Generator().manual_seed(0)).requires_grad_()
    solution = jumbot.solve(cost, epsilon=0.1, tau=1.0)
    with mode():
        read = float(getattr(solution, field).detach())
    value = getattr(solution, field)
    assert float(value.detach()) == read
    (gradient,) = torch.autograd.grad(2 * value, cost)
    torch.testing.assert_close(gradient, 2 * solution.plan)


def test_solved_without_gradients_it_has_none():
    cost = torch.rand(4, 5, requires_grad=True)
    with torch.no_grad():
        solution = jumbot.solve(cost, epsilon=0.1, tau=1.0)
    assert not solution.value.requires_grad
    assert not solution.linear.requires_grad


@pytest.mark.parametrize("read", ["nothing", "all", "backward"])
@pytest.mark.parametrize("n", [5, 1100])
def test_freed_with_its_last_name(read, n):
    """By counting references: the garbage collector may come long after the memory of a large plan is needed."""
    cost = torch.rand(n, n - 1, dtype=torch.float64, requires_grad=True)
    gc.disable()
    try:
        solution = jumbot.solve(cost, epsilon=0.5, tau=1.0)
        if read != "nothing":
            kept = [getattr(solution, name) for name in PUBLIC - {"sample"}]
            kept.append(repr(solution))
            if read == "backward":
                (solution.value + solution.linear).backward()
            del kept
        gone = weakref.ref(solution), weakref.ref(solution._outcome), weakref.ref(solution.plan)
        del solution
        assert [ref() for ref in gone] == [None, None, None]
    finally:
        gc.enable()


def test_the_value_outlives_the_solution(rng):
    solution, leaves = solved(rng)
    value, plan = solution.value, solution.plan.clone()
    del solution
    torch.testing.assert_close(torch.autograd.grad(value, leaves[0])[0], plan)


def test_a_cost_that_moves_on_changes_nothing(rng):
    """An optimiser steps in place before the losses are logged."""
    solution, (cost, *_) = solved(rng)
    expected = float((cost.detach() * solution.plan).sum())
    with torch.no_grad():
        cost += 1.0
    assert float(solution.linear.detach()) == pytest.approx(expected, rel=1e-12)
    torch.testing.assert_close(torch.autograd.grad(solution.linear, cost)[0], solution.plan)


def test_a_plan_that_was_changed_gives_no_wrong_gradient(rng):
    solution, (cost, *_) = solved(rng)
    value = solution.value
    solution.plan.mul_(2)
    with pytest.raises(RuntimeError, match="inplace"):
        torch.autograd.grad(value, cost)


def test_potentials_and_marginals_are_copies(rng):
    solution, leaves = solved(rng)
    expected = torch.autograd.grad(solution.value, leaves, retain_graph=True)
    for array in (*solution.potentials, *solution.marginals):
        array.zero_()
    for before, after in zip(expected, torch.autograd.grad(solution.value, leaves), strict=True):
        torch.testing.assert_close(before, after)


@pytest.mark.parametrize("name", ["epsilon", "tau", "mass"])
def test_a_number_held_in_a_tensor_may_change(name):
    """A learned parameter has the same identity and another value at every step."""
    cost = np.random.default_rng(0).random((4, 4))
    number = torch.tensor(0.5)
    options = {"epsilon": 0.1, "tau": math.inf if name == "mass" else 1.0} | {name: number}
    jumbot.solve(cost, **options)
    number.fill_(0.25)
    after = jumbot.solve(cost, **options)
    np.testing.assert_array_equal(after.plan, jumbot.solve(cost, **options | {name: 0.25}).plan)


def test_a_float32_answer_that_overflows_says_so():
    cost = torch.tensor([[3e38, 1e38], [2e38, 3e38]], requires_grad=True)
    weights = torch.full((2,), 10.0)
    with pytest.warns(jumbot.NotConvergedWarning):
        solution = jumbot.solve(cost, weights, weights, epsilon=1e36)
    assert solution.status is jumbot.Status.OVERFLOW
    assert not solution.converged
    double = jumbot.solve(cost.detach().double(), weights.double(), weights.double(), epsilon=1e36)
    assert double.converged
    assert math.isfinite(double.value)


def test_only_the_problem_that_overflows(rng):
    cost = torch.tensor(rng.random((3, 4, 4)), dtype=torch.float32)
    cost[1] *= 3e38
    weights = torch.full((4,), 10.0)
    for epsilon in (0.0, 1e30):
        with pytest.warns(jumbot.NotConvergedWarning):
            solution = jumbot.solve(cost, weights, weights, epsilon=epsilon)
        assert solution.converged.tolist() == [True, False, True]
        assert solution.status[1] is jumbot.Status.OVERFLOW
