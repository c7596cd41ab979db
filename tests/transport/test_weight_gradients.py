"""Derivatives in the weights by finite differences: all divergences, one side exact, both references, zero weights."""

import math

import numpy as np
import pytest
import torch

import jumbot

from ..generators import rectangular
from .test_gradients import TOL, gradients

DIVERGENCES = ["kl", "tv", "chi2", "power(0.5)", "power(-1)", "power(2.5)"]
TAUS = [(0.3, math.inf), (math.inf, 0.4), (0.3, 0.5)]
STEP = 1e-5


def value(problem, name, direction, t):
    return problem.but(**{name: getattr(problem, name) + t * STEP * direction}).solve(tol=TOL).value


def forward(problem, name, direction):
    """The one-sided derivative, of second order."""
    return (
        4 * value(problem, name, direction, 1)
        - 3 * value(problem, name, direction, 0)
        - value(problem, name, direction, 2)
    ) / (2 * STEP)


def central(problem, name, direction):
    """The mean of both one-sided derivatives."""
    return (forward(problem, name, direction) - forward(problem, name, -direction)) / 2


def assert_close(got, expected, where):
    assert got == pytest.approx(expected, rel=3e-5, abs=3e-5), where


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("tau", TAUS, ids=str)
@pytest.mark.parametrize("reference", ["product", "ones"])
@pytest.mark.parametrize("masses", [(1.0, 1.0), (1.1, 0.9)], ids=str)
def test_positive_weights(name, tau, reference, masses, rng):
    """With equal masses total variation has a kink; the derivative is then the mean of both sides."""
    problem = rectangular(rng, 5, 6, masses, epsilon=0.1, divergence=name, tau=tau, reference=reference)
    for side, gradient in zip(("a", "b"), gradients(problem)[1:], strict=True):
        direction = rng.normal(size=gradient.shape)
        assert_close(gradient @ direction, central(problem, side, direction), side)


@pytest.mark.parametrize("tau", [*TAUS, 2.0], ids=str)
@pytest.mark.parametrize("reference", ["product", "ones"])
def test_the_kink_of_total_variation(tau, reference, rng):
    """Masses that are equal and that no price destroys: more or less of either costs differently."""
    problem = rectangular(rng, 5, 6, epsilon=0.1, divergence="tv", tau=tau, reference=reference)
    solution, plans = problem.solve(tol=TOL), gradients(problem)[1:]
    kink = np.allclose(solution.marginals[0], problem.a) and np.allclose(solution.marginals[1], problem.b)
    for side, gradient in zip(("a", "b"), plans, strict=True):
        more = np.full(gradient.shape, 1 / len(gradient))
        left, right = -forward(problem, side, -more), forward(problem, side, more)
        assert (right - left > 1e-3) == kink
        assert_close(gradient @ more, (left + right) / 2, side)


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("tau", TAUS, ids=str)
@pytest.mark.parametrize("masses", [(1.0, 1.0), (1.1, 0.9)], ids=str)
def test_zero_weights(name, tau, masses, rng):
    problem = rectangular(rng, 5, 6, masses, zeros=1, epsilon=0.1, divergence=name, tau=tau)
    for side, gradient in zip(("a", "b"), gradients(problem)[1:], strict=True):
        first, rest = np.eye(len(gradient))[0], rng.normal(size=gradient.shape)
        rest[0] = 0
        assert_close(gradient @ rest, central(problem, side, rest), side)
        if name == "tv" and masses[0] == masses[1]:  # a kink: the derivative lies between those of both sides
            continue
        assert_close(gradient[0], forward(problem, side, first), side)


@pytest.mark.parametrize(
    "name",
    [name if name in ("kl", "tv", "chi2") else pytest.param(name, marks=pytest.mark.slow) for name in DIVERGENCES],
)
@pytest.mark.parametrize("tau", TAUS, ids=str)
def test_zero_weights_under_ones(name, tau, rng):
    """A first grain of weight saves epsilon log(weight): a derivative of -infinity, unless phi* is bounded."""
    problem = rectangular(rng, 5, 6, (1.1, 0.9), zeros=1, epsilon=0.1, divergence=name, tau=tau, reference="ones")
    for k, (side, gradient) in enumerate(zip(("a", "b"), gradients(problem)[1:], strict=True)):
        first, rest = np.eye(len(gradient))[0], rng.normal(size=gradient.shape)
        rest[0] = 0
        assert_close(gradient[1:] @ rest[1:], central(problem, side, rest), side)
        if np.isfinite(gradient[0]):
            assert_close(gradient[0], forward(problem, side, first), side)
        else:
            assert gradient[0] == -math.inf
            assert math.isinf(tau[k]) or name in ("kl", "chi2", "power(0.5)", "power(2.5)")
            steps = [(value(problem, side, first, t) - value(problem, side, first, 0)) / (t * STEP) for t in (1, 1e-3)]
            assert steps[1] < steps[0] - 0.1


def test_zero_weights_under_ones_between_exact_marginals(rng):
    """-inf at the weight of zero, and nowhere else."""
    problem = rectangular(rng, 5, 6, (1.0, 1.0), zeros=1, epsilon=0.1, tau=(math.inf, math.inf), reference="ones")
    for side, gradient in zip(("a", "b"), gradients(problem)[1:], strict=True):
        assert gradient[0] == -math.inf
        rest = rng.normal(size=gradient.shape)
        rest[0] = 0
        rest[1:] -= rest[1:].mean()
        assert_close(gradient[1:] @ rest[1:], central(problem, side, rest), side)


@pytest.mark.parametrize("name", ["tv", "chi2", "power(2.5)", "kl"])
def test_a_first_grain_of_weight_opens_what_is_closed(name, rng):
    """The last row may be matched to the last column alone, which has no weight."""
    problem = rectangular(rng, 4, 5, (1.0, 1.2), epsilon=0.1, divergence=name, tau=(0.4, 0.5))
    cost, b = problem.cost.copy(), problem.b.copy()
    cost[-1, :-1], cost[-1, -1], b[-1] = np.inf, 0.05, 0.0
    problem = problem.but(cost=cost, b=b)
    gradient, last = gradients(problem)[2], np.eye(5)[-1]
    if name == "kl":  # of nothing, the first grain saves most
        assert gradient[-1] == -math.inf
        steps = [(value(problem, "b", last, t) - value(problem, "b", last, 0)) / (t * STEP) for t in (1, 1e-3)]
        assert steps[1] < steps[0] - 0.1
    else:
        assert_close(gradient[-1], forward(problem, "b", last), "b")
    assert np.isfinite(gradient[:-1]).all()


@pytest.mark.parametrize("epsilon", [0.17983053034516872, 0.05])
def test_a_price_at_its_bound(epsilon):
    """More is sent than is wanted: the potential is -tau, give or take its last bit."""
    cost = torch.tensor([[0.9084], [0.9930]], dtype=torch.float64)
    a = torch.tensor([0.6492, 0.4490], dtype=torch.float64)
    for price in np.linspace(0.03, 0.06, 40):
        b = torch.ones(1, dtype=torch.float64, requires_grad=True)
        setting = {"epsilon": epsilon, "tau": (2.1, float(price)), "divergence": "tv", "tol": 1e-12}
        jumbot.solve(cost, a, b, **setting).value.backward()
        assert float(b.grad) == pytest.approx(-price, rel=1e-6)
