"""`init`, from a Solution or from potentials, changes the way and not the answer."""

import numpy as np
import ot
import pytest
import torch

import jumbot

from ..generators import posed
from ..oracles import cases


@pytest.mark.parametrize("how", ["solution", "potentials"])
@pytest.mark.parametrize("case", cases(0.02, references=("product", "ones")))
def test_from_the_answer(case, how, rng):
    problem = posed(rng, 20, 15, **case)
    cold = problem.solve(tol=1e-8)
    warm = problem.solve(tol=1e-8, init=cold if how == "solution" else cold.potentials)
    assert warm.converged
    assert warm.iterations < cold.iterations
    assert warm.value == pytest.approx(cold.value, rel=1e-7)
    np.testing.assert_allclose(warm.plan, cold.plan, atol=1e-3 * cold.plan.max())


def test_from_a_neighbour(rng):
    """The use it is made for: the cost has moved a little since."""
    problem = posed(rng, 30, 30, epsilon=0.02, tau=2.0)
    before = problem.solve()
    moved = problem.but(cost=problem.cost + 1e-4 * rng.random((30, 30)))
    warm, cold = moved.solve(init=before), moved.solve()
    assert warm.iterations < cold.iterations
    assert warm.value == pytest.approx(cold.value, rel=2e-6)


@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize("case", cases(0.1))
def test_a_bad_start_does_no_harm(case, scale, rng):
    """Potentials of another problem altogether: slower, but certified and the same."""
    problem = posed(rng, 8, 6, **case)
    far = problem.solve(init=(scale * rng.normal(size=8), scale * rng.normal(size=6)))
    assert far.converged
    assert far.value == pytest.approx(problem.solve().value, rel=1e-5)


@pytest.mark.parametrize("tau", [0.06, 0.5, 1.0])
@pytest.mark.parametrize("height", [-1e3, -1.0, 1e3])
def test_a_start_that_is_too_low_or_too_high_costs_a_few_sweeps(height, tau, rng):
    problem = posed(rng, 20, 15, epsilon=0.01, tau=tau)
    far = problem.solve(init=(np.full(20, height), np.full(15, height)))
    assert far.converged
    assert far.iterations < 100  # Newton steps, the way out of a broken sweep, would add to thousands


def test_batched_and_torch(rng):
    cost = torch.tensor(rng.random((3, 10, 12)))
    cold = jumbot.solve(cost, epsilon=0.05, tau=1.0)
    for init in (cold, cold.potentials):
        warm = jumbot.solve(cost, epsilon=0.05, tau=1.0, init=init)
        assert (warm.iterations < cold.iterations).all()
        torch.testing.assert_close(warm.plan, cold.plan, rtol=0, atol=1e-3 * float(cold.plan.max()))


@pytest.mark.parametrize("zeros", [0, 2])
@pytest.mark.parametrize("how", ["answer", "neighbour", "far"])
@pytest.mark.parametrize("case", cases(0))
def test_without_entropy(case, how, zeros, rng):
    for n, m in ((8, 6), (6, 8), (7, 7)):
        problem = posed(rng, n, m, zeros, **case)
        if case["epsilon"] == 0 and n == m and not zeros:
            problem = problem.but(a=np.full(n, 1 / n), b=np.full(m, 1 / m))
        cold = problem.solve()
        near = problem.but(cost=problem.cost + 0.01 * rng.random((n, m))).solve()
        far = 1e6 * rng.normal(size=n), 1e6 * rng.normal(size=m)
        warm = problem.solve(init={"answer": cold, "neighbour": near, "far": far}[how])
        assert warm.converged
        assert warm.value == pytest.approx(cold.value, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("setting", [{}, {"mass": 0.7}, {"divergence": "tv", "tau": 0.3}], ids=str)
def test_the_start_reaches_the_network_simplex(setting, rng, monkeypatch):
    """The simplex is given costs that are zero where the plan will be."""
    problem = posed(rng, 40, 30, epsilon=0, **setting)
    cold, seen = problem.solve(), []
    emd = ot.lp.emd
    monkeypatch.setattr(ot.lp, "emd", lambda a, b, cost, **options: seen.append(cost) or emd(a, b, cost, **options))
    warm = problem.solve(init=cold)
    slack = seen[0] if len(seen[0]) >= 40 else seen[0].T
    assert slack[:40, :30][cold.plan > 0].max() < 1e-9
    np.testing.assert_allclose(warm.plan, cold.plan, atol=1e-9)


def test_fewer_steps_of_the_interior_point(rng):
    problem = posed(rng, 40, 30, epsilon=0, tau=5.0)
    cold = problem.solve()
    assert problem.solve(init=cold).iterations < cold.iterations
