"""The unit of the costs plays no part, up to the ends of float64; beyond, what cannot be is refused or told."""

import math
import warnings

import numpy as np
import pytest
import torch

import jumbot
from tests.refusals import refused

SETTINGS = {
    "kl": {"tau": 0.5},
    "kl, a pair": {"tau": (0.3, 2.0)},
    "kl, one side exact": {"tau": (math.inf, 0.5)},
    "tv": {"tau": 0.5, "divergence": "tv"},
    "chi2": {"tau": 0.5, "divergence": "chi2"},
    "range": {"divergence": "range(0.5,2)"},
    "balanced": {},
    "partial": {"mass": 0.5},
}


def in_unit(setting, unit):
    tau = setting.get("tau", math.inf)
    return setting | ({"tau": tuple(t * unit for t in tau) if isinstance(tau, tuple) else tau * unit})


@pytest.mark.parametrize("unit", [2.0**-1000, 2.0**-300, 2.0**300, 2.0**700, 2.0**1000])
@pytest.mark.parametrize("epsilon", [0.0, 0.05])
@pytest.mark.parametrize("name", SETTINGS)
def test_costs_near_the_ends_of_float64(name, epsilon, unit, rng):
    if epsilon == 0 and name in ("chi2", "range"):
        pytest.skip("not offered")
    setting, cost = SETTINGS[name], torch.from_numpy(rng.random((6, 5)))
    plain = jumbot.solve(cost, epsilon=epsilon, **setting)
    x = (cost * unit).requires_grad_()
    a = torch.full((6,), 1 / 6, dtype=torch.float64, requires_grad=True)
    solution = jumbot.solve(x, a, epsilon=epsilon * unit, **in_unit(setting, unit))
    assert solution.converged
    assert float(solution.relative_gap) <= 1e-6
    assert float(solution.value.detach()) / unit == pytest.approx(float(plain.value), rel=2e-6)
    assert float(solution.dual) <= float(solution.value.detach())
    torch.testing.assert_close(solution.plan, plain.plan, rtol=1e-2, atol=1e-3)
    solution.value.backward()
    torch.testing.assert_close(x.grad, solution.plan)
    assert bool(a.grad.isfinite().all())
    again = jumbot.solve(x.detach(), a.detach(), epsilon=epsilon * unit, init=solution, **in_unit(setting, unit))
    assert float(again.value) / unit == pytest.approx(float(plain.value), rel=2e-6)


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("name", ["kl", "tv"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_costs_beyond_all_prices_are_never_paid(epsilon, name, blocked, rng):
    cost = rng.random((5, 4))
    far = np.full((5, 1), np.inf if blocked else 1e300)
    setting = {"epsilon": epsilon, "tau": 1.0, "divergence": name}
    solution = jumbot.solve(np.c_[cost, far], None, np.full(5, 0.2), **setting) if epsilon or not blocked else None
    if solution is None:
        return
    assert solution.converged
    assert not solution.plan[:, 4].any()
    left = jumbot.solve(cost, None, np.full(4, 0.2), **setting)
    lost = 0.2 + epsilon * 0.2  # the column is destroyed, and R has mass there
    assert solution.value == pytest.approx(float(left.value) + lost, rel=1e-6)


def test_all_costs_beyond_all_prices():
    solution = jumbot.solve(np.full((3, 2), 1e300), epsilon=0.1, tau=1.0)
    assert solution.converged
    assert solution.value == pytest.approx(2.1)


@pytest.mark.parametrize("setting", [{}, {"tau": (math.inf, 1.0)}, {"mass": 0.5}, {"divergence": "range(0.5,2)"}])
def test_an_epsilon_that_is_negligible_against_the_costs_is_refused_where_they_must_be_paid(setting, rng):
    with refused("raise epsilon"):
        jumbot.solve(rng.random((3, 2)) * 1e300, epsilon=0.1, **setting)


def test_a_constant_beyond_float64_is_reported():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.warns(jumbot.NotConvergedWarning):
            solution = jumbot.solve(np.full((6, 5), 1e308), epsilon=1e307, tau=1e307, reference="ones")
    assert solution.status is jumbot.Status.OVERFLOW
    assert not solution.converged


@pytest.mark.parametrize("size", [1e100, 1e150, 1e153])
def test_points_whose_squares_are_near_the_end_of_float64(size, rng):
    x = rng.normal(size=(6, 2))
    plain = jumbot.sinkhorn_divergence(x, x + 1, epsilon=0.1, tau=1.0)
    far = jumbot.sinkhorn_divergence(x * size, (x + 1) * size, epsilon=0.1 * size**2, tau=size**2)
    assert float(far) / size**2 == pytest.approx(float(plain), rel=1e-5)
    assert jumbot.estimate(x * size, (x + 1) * size, m=3, k=4, epsilon=0.1, tau=1.0).value == pytest.approx(2.1)


@pytest.mark.parametrize("divergence", ["kl", "tv", "chi2"])
@pytest.mark.parametrize("unit", [2.0**100, 2.0**220])
def test_derivatives_in_weights_next_to_blocked_pairs(unit, divergence):
    def gradient(unit):
        cost = torch.tensor(np.random.default_rng(0).random((4, 5))) * unit
        cost[1, 2] = cost[0, 0] = torch.inf
        a = torch.tensor([0.0, 0.3, 0.3, 0.4], dtype=torch.float64, requires_grad=True)
        b = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.0], dtype=torch.float64)
        setting = {"epsilon": 0.1 * unit, "tau": unit, "divergence": divergence, "tol": 1e-9}
        jumbot.solve(cost, a, b, **setting).value.backward()
        return a.grad / unit

    torch.testing.assert_close(gradient(unit), gradient(1.0), rtol=1e-6, atol=1e-9)
