"""A batch is a loop of singles: same answers, the batch shape on every field."""

import math

import numpy as np
import pytest
import torch

import jumbot

from ..generators import posed, weights
from ..oracles import cases

SCALARS = ("value", "linear", "dual", "gap", "relative_gap", "mass")
BATCH = (2, 3)


def batch_of(rng, case):
    """Six problems of one setting, stacked as (2, 3): (problems, cost, a, b)."""
    problems = [posed(rng, 6, 5, **case) for _ in range(6)]
    stack = (np.stack([getattr(p, name) for p in problems]) for name in ("cost", "a", "b"))
    return problems, *(x.reshape(*BATCH, *x.shape[1:]) for x in stack)


@pytest.mark.parametrize("case", cases(0, 0.05))
def test_batch_is_a_loop(case, rng):
    problems, cost, a, b = batch_of(rng, case)
    batch = jumbot.solve(cost, a, b, **problems[0].arguments, tol=1e-9)
    assert batch.plan.shape == (*BATCH, 6, 5)
    assert [x.shape for x in batch.potentials] == [x.shape for x in batch.marginals] == [(*BATCH, 6), (*BATCH, 5)]
    for name in (*SCALARS, "iterations", "status", "converged"):
        assert np.shape(getattr(batch, name)) == BATCH, name
    assert np.all(batch.converged)
    for at, problem in zip(np.ndindex(BATCH), problems, strict=True):
        single = problem.solve(tol=1e-9)
        for name in ("value", "linear", "mass"):
            assert getattr(batch, name)[at] == pytest.approx(getattr(single, name), rel=1e-6), name
        np.testing.assert_allclose(batch.plan[at], single.plan, atol=1e-4 * single.plan.max())
        assert batch.dual[at] <= single.value + 1e-12
        assert batch.status[at] == single.status


def test_single_is_squeezed(rng):
    problem = posed(rng, 6, 5, tau=0.5)
    single = problem.solve()
    assert single.plan.shape == (6, 5)
    assert all(np.shape(getattr(single, name)) == () for name in (*SCALARS, "iterations", "converged"))
    one = jumbot.solve(problem.cost[None], problem.a, problem.b, epsilon=0.1, tau=0.5)
    assert one.plan.shape == (1, 6, 5)
    assert one.value.shape == one.status.shape == (1,)
    np.testing.assert_allclose(one.plan[0], single.plan, rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0, 0.1])
def test_weights_broadcast(epsilon, rng):
    cost = rng.random((*BATCH, 6, 5))
    a, b = weights(rng, 6), weights(rng, 5)
    full = jumbot.solve(
        cost, np.broadcast_to(a, (*BATCH, 6)), np.broadcast_to(b, (*BATCH, 5)), epsilon=epsilon, tau=1.0
    )
    for a_, b_ in ((a, b), (a[None], b), (a, b[None, None])):
        np.testing.assert_allclose(jumbot.solve(cost, a_, b_, epsilon=epsilon, tau=1.0).plan, full.plan, rtol=1e-12)
    rows = np.stack([weights(rng, 6) for _ in range(3)])
    mixed = jumbot.solve(cost, rows, b, epsilon=epsilon, tau=1.0)
    alone = jumbot.solve(cost[1, 2], rows[2], b, epsilon=epsilon, tau=1.0)
    np.testing.assert_allclose(mixed.plan[1, 2], alone.plan, atol=1e-6)


@pytest.mark.parametrize("case", cases(0, 0.1))
def test_weights_shared_by_a_batch(case, rng):
    """Given once, or not at all, or for each problem."""
    problem = posed(rng, 6, 5, **case)
    cost = rng.random((3, 6, 5))
    shared = jumbot.solve(cost, problem.a, problem.b, **problem.arguments, tol=1e-9)
    for k in range(3):
        alone = jumbot.solve(cost[k], problem.a, problem.b, **problem.arguments, tol=1e-9)
        assert shared.value[k] == pytest.approx(alone.value, rel=1e-7)
        np.testing.assert_allclose(shared.plan[k], alone.plan, atol=1e-4 * alone.plan.max())
    leaves = [torch.tensor(x, requires_grad=True) for x in (cost, problem.a, problem.b)]
    together = jumbot.solve(*leaves, **problem.arguments, tol=1e-9).value.sum()
    gradient = torch.autograd.grad(together, leaves)
    assert [x.shape for x in gradient] == [x.shape for x in leaves]
    assert jumbot.solve(cost, **problem.arguments).converged.all()


def test_default_weights_are_uniform(rng):
    cost = rng.random((3, 4, 7))
    default = jumbot.solve(cost, epsilon=0.1)
    given = jumbot.solve(cost, np.full(4, 1 / 4), np.full(7, 1 / 7), epsilon=0.1)
    np.testing.assert_allclose(default.plan, given.plan, rtol=1e-12)


def test_easy_and_hard_problems_share_a_batch(rng):
    """Problems that are done leave the batch; those that are not go on, and only they are reported."""
    cost = rng.random((4, 12, 12))
    cost[2] *= 1e-3
    cost[3] *= 50
    batch = jumbot.solve(cost, epsilon=0.01, tau=5.0)
    assert batch.converged.all()
    assert batch.iterations.min() < batch.iterations.max()
    limit = int(batch.iterations.min())
    with pytest.warns(jumbot.NotConvergedWarning) as warned:
        short = jumbot.solve(cost, epsilon=0.01, tau=5.0, max_iterations=limit)
    assert len(warned) == 1
    assert not short.converged.all()
    assert set(short.status[short.converged]) <= set(batch.status.ravel())
    assert not set(short.status[~short.converged]) & set(batch.status.ravel())


def test_gradients_of_a_batch_are_those_of_singles(rng):
    cost = torch.tensor(rng.random((*BATCH, 5, 4)), requires_grad=True)
    a = torch.tensor(weights(rng, 5), requires_grad=True)
    b = torch.tensor(np.stack([weights(rng, 4) for _ in range(3)]), requires_grad=True)
    factors = torch.tensor(rng.random(BATCH))
    together = (jumbot.solve(cost, a, b, epsilon=0.1, tau=0.7, tol=1e-12).value * factors).sum()
    singles = sum(
        factors[i, j] * jumbot.solve(cost[i, j], a, b[j], epsilon=0.1, tau=0.7, tol=1e-12).value
        for i, j in np.ndindex(BATCH)
    )
    for one, other in zip(*(torch.autograd.grad(v, (cost, a, b)) for v in (together, singles)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tau": 0.5, "divergence": "chi2"},
        {"tau": (0.5, math.inf), "divergence": "tv"},
        {"tau": 0.5, "divergence": "power(0.5)"},
        {"divergence": "range(0.5,2)"},
    ],
    ids=str,
)
def test_a_problem_goes_the_same_way_alone_and_in_company(settings, rng):
    """Costs whose spread calls for larger epsilons first, beside costs whose spread does not."""
    cost = rng.random((6, 7, 8)) * np.array([0.3, 5, 30, 1, 200, 0.01])[:, None, None]
    together = jumbot.solve(cost, epsilon=0.01, **settings)
    for k, c in enumerate(cost):
        alone = jumbot.solve(c, epsilon=0.01, **settings)
        for name in ("value", "gap", "plan"):
            found, expected = getattr(together, name)[k], getattr(alone, name)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14 * float(alone.value), err_msg=name)
