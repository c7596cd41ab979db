"""Problems of more than 2^20 entries: what a call returned stays as it was, whoever solves next."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import jumbot

N, M = 1100, 1000
SETTING = {"epsilon": 0.05, "tau": 0.5}


def cloud(seed, n, d=2):
    return np.random.default_rng(seed).normal(size=(n, d))


def cost(seed, n=N, m=M, dtype=np.float64):
    x, y = cloud(seed, n), cloud(seed + 1, m) + seed % 3
    return ((x[:, None] - y[None]) ** 2).sum(-1).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_plan_survives_the_next_solves(dtype):
    kept = [(solution := jumbot.solve(cost(seed, dtype=dtype), **SETTING), solution.plan.copy()) for seed in range(3)]
    for solution, plan in kept:
        np.testing.assert_array_equal(solution.plan, plan)
        np.testing.assert_allclose(plan.sum(), solution.mass, rtol=1e-5)


def test_the_gradient_of_an_earlier_value():
    first = torch.from_numpy(cost(0)).requires_grad_()
    value = jumbot.solve(first, **SETTING).value
    jumbot.solve(torch.from_numpy(cost(1)), **SETTING)
    (gradient,) = torch.autograd.grad(value, first)
    np.testing.assert_array_equal(gradient, jumbot.solve(cost(0), **SETTING).plan)


def test_the_divergence_against_finite_differences():
    """Its three plans are alive at once."""
    x, y = (torch.from_numpy(cloud(seed, 1100)) for seed in (0, 1))
    x.requires_grad_()
    setting = {"epsilon": 0.5, "tau": 1.0, "tol": 1e-7}
    (gradient,) = torch.autograd.grad(jumbot.sinkhorn_divergence(x, y, **setting), x)
    direction = torch.from_numpy(cloud(2, 1100)) / 30
    moved = [float(jumbot.sinkhorn_divergence(x.detach() + t * direction, y, **setting)) for t in (1e-3, -1e-3)]
    assert float((gradient * direction).sum()) == pytest.approx((moved[0] - moved[1]) / 2e-3, rel=2e-3)


def test_plans_of_eight_threads():
    costs = [cost(seed) for seed in range(12)]
    alone = [jumbot.solve(c, **SETTING).plan.copy() for c in costs]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda c: jumbot.solve(c, **SETTING), costs))
    for solution, plan in zip(together, alone, strict=True):
        np.testing.assert_allclose(solution.plan, plan, rtol=1e-9, atol=0)


def test_the_derivative_in_a_weight_too_small_for_the_plan():
    """Its row of the plan is nothing, or not all of it is left."""
    C, b = torch.from_numpy(cost(0)), torch.full((M,), 1 / M, dtype=torch.float64)
    found = []
    for weight in (1e-100, 1e-280, 1e-300):
        a = torch.full((N,), 1 / N, dtype=torch.float64)
        a[0] = weight
        a.requires_grad_()
        jumbot.solve(C, a, b, **SETTING, tol=1e-9).value.backward()
        found.append(float(a.grad[0]))
    np.testing.assert_allclose(found, found[0], rtol=1e-6)
