"""Potentials in a gauge that is documented, and weights that are a batch against one cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import jumbot
from tests.refusals import refused

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_one_pair(epsilon: float) -> None:
    f, g = jumbot.solve([[3.0]], epsilon=epsilon).potentials
    assert float(f[0]) == pytest.approx(1.5)
    assert float(g[0]) == pytest.approx(1.5)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("settings", [{}, {"mass": 0.6}], ids=str)
def test_means_under_the_weights_are_equal(epsilon: float, settings: dict[str, Any]) -> None:
    cost, a, b = RNG.random((3, 5, 7)) - 0.3, RNG.random(5), RNG.random((3, 7))
    a, b = a / a.sum(), b / b.sum(-1, keepdims=True)
    a = np.where(np.arange(5) == 2, 0.0, a) if not settings else a
    a = a / a.sum()
    solution = jumbot.solve(cost, a, b, epsilon=epsilon, **settings)
    f, g = solution.potentials
    np.testing.assert_allclose((a * f).sum(-1), (b * g).sum(-1), atol=1e-12)
    again = jumbot.solve(cost, a, b, epsilon=epsilon, init=solution, **settings)
    np.testing.assert_allclose(again.value, solution.value, rtol=1e-5)


def test_where_the_shift_matters_it_is_left_alone() -> None:
    f, g = jumbot.solve([[3.0]], [1.0], [2.0], epsilon=0.0, tau=1.0).potentials
    plan = jumbot.solve([[3.0]], [1.0], [2.0], epsilon=0.0, tau=1.0).plan
    np.testing.assert_allclose([np.exp(-f[0]), 2 * np.exp(-g[0])], plan[0, 0], rtol=1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_weights_in_a_batch_against_one_cost(epsilon: float) -> None:
    cost = RNG.random((5, 7))
    a, b = RNG.random((4, 5)) + 0.1, RNG.random(7) + 0.1
    many = jumbot.solve(cost, a, b, epsilon=epsilon, tau=0.5)
    assert many.value.shape == (4,)
    assert many.plan.shape == (4, 5, 7)
    for k in range(4):
        np.testing.assert_allclose(
            many.value[k], jumbot.solve(cost, a[k], b, epsilon=epsilon, tau=0.5).value, rtol=1e-6
        )
    both = jumbot.solve(cost, a[:, None], b[None].repeat(3, 0), epsilon=epsilon, tau=0.5)
    assert both.value.shape == (4, 3)


def test_its_gradient_in_the_one_cost() -> None:
    cost = torch.rand(5, 7, dtype=torch.float64, requires_grad=True)
    solution = jumbot.solve(cost, torch.rand(4, 5, dtype=torch.float64) + 0.1, epsilon=0.1, tau=0.5)
    solution.value.sum().backward()
    torch.testing.assert_close(cost.grad, solution.plan.sum(0))


def test_batches_that_do_not_fit_are_refused_by_name() -> None:
    with refused(r"^a"):
        jumbot.solve(np.ones((3, 5, 7)), np.ones((2, 5)), epsilon=0.1, tau=0.5)
    with refused(r"^[ab]"):
        jumbot.solve(np.ones((5, 7)), np.ones((2, 5)), np.ones((3, 7)), epsilon=0.1, tau=0.5)
