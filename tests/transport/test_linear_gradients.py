"""Gradients of <C, P> in the weights, through the plan that moves, beside finite differences."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import jumbot

N, M = 5, 7
SETTINGS: dict[str, dict[str, Any]] = {
    "kl": {"tau": 0.5},
    "two taus": {"tau": (0.5, 3.0)},
    "ones": {"tau": 0.5, "reference": "ones"},
    "one side exact": {"tau": (0.5, math.inf)},
    "the other exact": {"tau": (math.inf, 0.5)},
    "balanced": {},
    "chi2": {"tau": 0.5, "divergence": "chi2"},
    "tv": {"tau": 0.3, "divergence": "tv"},
    "power": {"tau": 0.3, "divergence": "power(0.5)"},
    "range": {"divergence": "range(0.5,1.5)"},
    "partial": {"mass": 1.0},
    "partial, ones": {"mass": 1.0, "reference": "ones"},
}


def problem(balanced: bool, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    cost, a, b = (torch.rand(*shape, generator=generator, dtype=torch.float64) for shape in ((N, M), (N,), (M,)))
    a, b = a + 0.3, b + 0.3
    return tuple(x.to(dtype) for x in ((cost, a / a.sum(), b / b.sum()) if balanced else (cost, a, b)))


def linear(cost: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **settings: Any) -> torch.Tensor:
    return jumbot.solve(cost, a, b, tol=1e-13, **settings).linear


@pytest.mark.filterwarnings("ignore::jumbot.NotConvergedWarning")
@pytest.mark.parametrize("name", SETTINGS)
def test_against_finite_differences(name: str) -> None:
    settings = {"epsilon": 0.1, **SETTINGS[name]}
    cost, *weights = problem(name == "balanced")
    given = [w.clone().requires_grad_() for w in weights]
    linear(cost, *given, **settings).backward()
    generator = torch.Generator().manual_seed(1)
    for k in (0, 1):
        direction = torch.randn(len(weights[k]), generator=generator, dtype=torch.float64)
        if name == "balanced":  # the masses stay equal
            direction -= direction.mean()
        ends = []
        for step in (1e-5, -1e-5):
            moved = list(weights)
            moved[k] = weights[k] + step * direction
            ends.append(linear(cost, *moved, **settings))
        assert given[k].grad @ direction == pytest.approx(float(ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("settings", [{}, {"mass": 0.6}], ids=str)
def test_without_entropy_it_is_the_value(settings: dict[str, Any]) -> None:
    cost, *weights = problem(balanced=True)
    grads = []
    for name in ("linear", "value"):
        given = [w.clone().requires_grad_() for w in weights]
        getattr(jumbot.solve(cost, *given, epsilon=0.0, **settings), name).backward()
        grads.append([w.grad for w in given])
    torch.testing.assert_close(*grads)


def test_a_weight_of_zero_and_blocked_pairs() -> None:
    cost, a, b = problem(balanced=False)
    a[0], cost[1], cost[2, 3] = 0.0, math.inf, math.inf
    a.requires_grad_()
    linear(cost, a, b, epsilon=0.1, tau=0.5).backward()
    grad = a.grad
    with torch.no_grad():
        for i, expected in ((0, None), (1, 0.0), (2, None)):
            ends = [linear(cost, a + step * torch.eye(N).double()[i], b, epsilon=0.1, tau=0.5) for step in (0, 1e-6)]
            slope = float(ends[1] - ends[0]) / 1e-6 if expected is None else expected
            assert float(grad[i]) == pytest.approx(slope, rel=1e-3, abs=1e-9)


def test_batches_broadcasting_and_float32() -> None:
    cost, a, b = problem(balanced=False, dtype=torch.float32)
    costs = torch.stack([cost, 2 * cost])
    a.requires_grad_()
    jumbot.solve(costs, a, b, epsilon=0.1, tau=0.5).linear.sum().backward()
    assert a.grad is not None
    assert a.grad.shape == (N,)
    expected = torch.zeros(N)
    for each in costs:
        own = a.detach().clone().requires_grad_()
        jumbot.solve(each, own, b, epsilon=0.1, tau=0.5).linear.backward()
        assert own.grad is not None
        expected += own.grad
    torch.testing.assert_close(a.grad, expected, rtol=1e-4, atol=1e-5)


def test_the_gradient_in_the_cost_is_the_plan() -> None:
    cost, a, b = problem(balanced=False)
    cost.requires_grad_()
    a.requires_grad_()
    solution = jumbot.solve(cost, a, b, epsilon=0.1, tau=0.5)
    solution.linear.backward()
    torch.testing.assert_close(cost.grad, solution.plan)


@pytest.mark.parametrize("name", ["kl", "tv"])
def test_at_epsilon_zero_with_a_finite_tau_it_is_refused(name: str) -> None:
    cost, a, b = problem(balanced=False)
    a.requires_grad_()
    solution = jumbot.solve(cost, a, b, epsilon=0.0, tau=0.5, divergence=name)
    assert solution.linear.item() > 0, "reading it is no trouble"
    with pytest.raises(jumbot.UnsupportedError):
        solution.linear.backward()
    solution.value.backward()
    assert a.grad is not None


@pytest.mark.parametrize("name", ["kl", "tv"])
def test_where_it_is_refused_the_one_in_the_cost_is_the_plan(name: str) -> None:
    cost, a, b = (x.requires_grad_() for x in problem(balanced=False))
    solution = jumbot.solve(cost, a, b, epsilon=0.0, tau=0.5, divergence=name)
    (grad,) = torch.autograd.grad(solution.linear, cost)
    torch.testing.assert_close(grad, solution.plan)


def test_a_second_derivative_is_refused() -> None:
    cost, a, b = problem(balanced=False)
    a.requires_grad_()
    total = jumbot.solve(cost, a, b, epsilon=0.1, tau=0.5).linear
    (grad,) = torch.autograd.grad(total, a, create_graph=True)
    with pytest.raises(jumbot.UnsupportedError):
        grad.sum().backward()
