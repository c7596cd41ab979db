"""Problems whose answer is a formula or the root of a scalar equation."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from ..generators import clouds, diracs, gaussian_grid, permutation, weights
from ..oracles import EXACT_SETTINGS, SETTINGS, Problem

SCALAR = [name for name in SETTINGS if name not in ("balanced", "partial")]


@pytest.mark.parametrize("epsilon", [0.02, 5.0])
@pytest.mark.parametrize("cost", [-0.4, 0.0, 0.3, 2.0])
@pytest.mark.parametrize("reference", ["product", "ones"])
@pytest.mark.parametrize("setting", SCALAR)
def test_diracs(setting, reference, cost, epsilon):
    """1 x 1: cost + epsilon log(p/r) + tau_a phi'(p/a) + tau_b phi'(p/b) = 0."""
    problem = diracs(cost, (0.9, 1.05), epsilon=epsilon, reference=reference, **SETTINGS[setting])
    p = problem.scalar_plan()
    solution = problem.solve(tol=1e-12)
    assert solution.mass == pytest.approx(p, rel=1e-5, abs=1e-15)
    if solution.mass > 0 and "exact" not in setting and setting != "range":
        assert solution.value == pytest.approx(problem.objective(np.array([[p]])), rel=1e-10, abs=1e-11)


@pytest.mark.parametrize("cost", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("setting", [name for name in EXACT_SETTINGS if name in SCALAR])
def test_diracs_without_entropy(setting, cost):
    problem = diracs(cost, (0.9, 1.05), epsilon=0, **SETTINGS[setting])
    solution, p = problem.solve(tol=1e-10), problem.scalar_plan()
    p = 0.0 if p < 1e-80 else p
    assert problem.objective(solution.plan) == pytest.approx(problem.objective(np.array([[p]])), rel=1e-8)
    if setting.startswith("kl"):  # TV leaves an interval of plans where cost = tau_a - tau_b
        assert solution.mass == pytest.approx(p, rel=1e-4)


@pytest.mark.parametrize("reference", ["product", "ones"])
def test_diracs_kl_formula(reference):
    """log p = (epsilon log r + tau_a log a + tau_b log b - cost) / (epsilon + tau_a + tau_b)."""
    cost, a, b, epsilon, tau = 1.7, 2.0, 0.3, 0.2, (0.5, 1.5)
    r = a * b if reference == "product" else 1.0
    logs = (epsilon * math.log(r) + tau[0] * math.log(a) + tau[1] * math.log(b) - cost) / (epsilon + sum(tau))
    solution = diracs(cost, (a, b), epsilon=epsilon, tau=tau, reference=reference).solve(tol=1e-12)
    assert solution.mass == pytest.approx(math.exp(logs), rel=1e-6)
    # at the optimum <C,P> and the logarithms cancel against minus the mass
    value = epsilon * r + tau[0] * a + tau[1] * b - (epsilon + sum(tau)) * math.exp(logs)
    assert solution.value == pytest.approx(value, rel=1e-10)


def test_balanced_diracs_cost_their_distance():
    for reference, entropy in (
        ("product", 2.0 * math.log(2 / 4) - 2 + 4),
        ("ones", 2.0 * math.log(2) - 2 + 1),
    ):
        solution = diracs(3.0, (2.0, 2.0), epsilon=0.25, reference=reference).solve()
        assert solution.value == pytest.approx(6.0 + 0.25 * entropy, rel=1e-12)
        assert solution.linear == pytest.approx(6.0, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_two_points_balanced(epsilon):
    """Symmetric 2 x 2: what stays is the logistic function of the cost difference over epsilon."""
    cost, half = np.array([[0.1, 0.9], [0.9, 0.1]]), np.array([0.5, 0.5])
    solution = Problem(cost, half, half, epsilon=epsilon).solve(tol=1e-12)
    stay = 0.5 / (1 + math.exp(-0.8 / epsilon))
    np.testing.assert_allclose(solution.plan, [[stay, 0.5 - stay], [0.5 - stay, stay]], atol=1e-7)


@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_two_points_kl(epsilon):
    """Symmetric 2 x 2, KL: P = k R e^{-C/epsilon} with epsilon log k = -2 tau log(P1/a)."""
    cost, half, tau = np.array([[0.1, 0.9], [0.9, 0.1]]), np.array([0.5, 0.5]), 0.4
    kernel = np.exp(-cost / epsilon) / 4
    ratio = kernel.sum(1)[0] / 0.5
    k = ratio ** (-2 * tau / (epsilon + 2 * tau))
    solution = Problem(cost, half, half, epsilon=epsilon, tau=tau).solve(tol=1e-12)
    np.testing.assert_allclose(solution.plan, k * kernel, rtol=1e-5)


def test_dirac_to_many_balanced(rng):
    """One source point: the plan is b whatever the cost, and the value <C, b>."""
    b = weights(rng, 7)
    cost = rng.random((1, 7))
    for epsilon in (0, 0.3):
        solution = Problem(cost, np.ones(1), b, epsilon=epsilon).solve()
        np.testing.assert_allclose(solution.plan[0], b, atol=1e-9)
        assert solution.value == pytest.approx(cost[0] @ b, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0, 0.01])
def test_permutations(epsilon, rng):
    """Far points and the same points shuffled: the plan is the permutation over n."""
    cost, match = permutation(rng, 25)
    uniform = np.full(25, 1 / 25)
    expected = np.zeros_like(cost)
    expected[np.arange(25), match] = 1 / 25
    solution = Problem(cost, uniform, uniform, epsilon=epsilon).solve(tol=1e-9)
    np.testing.assert_allclose(solution.plan, expected, atol=1e-8)
    assert solution.linear == pytest.approx((cost * expected).sum(), rel=1e-6)


@pytest.mark.parametrize("name", ["kl", "tv"])
def test_permutations_unbalanced(name, rng):
    """The same with tau far above the matched costs: matched points keep their own 1 x 1 problem."""
    cost, match = permutation(rng, 16)
    uniform = np.full(16, 1 / 16)
    solution = Problem(cost, uniform, uniform, epsilon=0, tau=0.3, divergence=name).solve(tol=1e-9)
    near = cost[np.arange(16), match]
    expected = np.zeros_like(cost)
    expected[np.arange(16), match] = uniform * (np.exp(-near / 0.6) if name == "kl" else 1)
    np.testing.assert_allclose(solution.plan, expected, atol=1e-5 / 16)


def test_one_dimensional_samples_sort(rng):
    """Balanced, epsilon = 0, on the line: sorted points meet."""
    x, y = np.sort(rng.normal(size=40)), np.sort(2 * rng.normal(size=40) + 1)
    uniform = np.full(40, 1 / 40)
    solution = Problem((x[:, None] - y) ** 2, uniform, uniform, epsilon=0).solve()
    assert solution.value == pytest.approx(((x - y) ** 2).mean(), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_balanced_gaussians(epsilon):
    """The covariance c of the optimal Gaussian plan solves 2 = epsilon c / (s^2 t^2 - c^2)."""
    (x, a), (y, b), s, t = gaussian_grid(0.0, 1.0), gaussian_grid(0.7, 1.5), 1.0, 1.5
    c = (math.sqrt(epsilon**2 + 16 * (s * t) ** 2) - epsilon) / 4
    value = 0.7**2 + s**2 + t**2 - 2 * c - epsilon / 2 * math.log(1 - (c / (s * t)) ** 2)
    solution = Problem((x[:, None] - y) ** 2, a, b, epsilon=epsilon).solve(tol=1e-9)
    assert solution.value == pytest.approx(value, rel=1e-6)
    assert np.einsum("ij,i,j", solution.plan, x, y - 0.7) == pytest.approx(c, rel=1e-4)


def gaussian_kl(mass, mean, covariance, mass_, mean_, covariance_):
    """KL between two Gaussians that carry a mass."""
    inverse, shift = np.linalg.inv(covariance_), mean_ - mean
    log_det = np.linalg.slogdet(covariance_)[1] - np.linalg.slogdet(covariance)[1]
    shape = 0.5 * (np.trace(inverse @ covariance) + shift @ inverse @ shift - len(mean) + log_det)
    return mass * (shape + math.log(mass / mass_)) - mass + mass_


@pytest.mark.parametrize("tau", [0.5, 5.0])
def test_unbalanced_gaussians(tau):
    """KL: the optimal plan is a Gaussian with mass, so six numbers are minimised over."""
    epsilon, masses, means, deviations = 0.5, (1.2, 0.8), np.array([0.0, 0.7]), np.array([1.0, 1.5])

    def objective(z):
        root = np.array([[math.exp(z[3]), 0], [z[4], math.exp(z[5])]])
        mass, mean, covariance = math.exp(z[0]), z[1:3], root @ root.T
        total = mass * ((mean[0] - mean[1]) ** 2 + covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
        total += epsilon * gaussian_kl(mass, mean, covariance, math.prod(masses), means, np.diag(deviations**2))
        for i in (0, 1):
            side = np.ix_([i], [i])
            total += tau * gaussian_kl(
                mass, mean[[i]], covariance[side], masses[i], means[[i]], np.diag(deviations**2)[side]
            )
        return total

    best = minimize(objective, np.zeros(6), tol=1e-9).fun
    (x, a), (y, b) = (gaussian_grid(means[i], deviations[i], mass=masses[i]) for i in (0, 1))
    solution = Problem((x[:, None] - y) ** 2, a, b, epsilon=epsilon, tau=tau).solve(tol=1e-9)
    assert solution.value == pytest.approx(best, rel=1e-6)


def test_large_epsilon_gives_the_product_plan(rng):
    x, y = clouds(rng)
    cost = ((x[:, None] - y) ** 2).sum(-1)
    a, b = weights(rng, 6), weights(rng, 5)
    solution = Problem(cost, a, b, epsilon=1e6).solve()
    np.testing.assert_allclose(solution.plan, np.outer(a, b), rtol=1e-4)


@pytest.mark.parametrize("epsilon", [0, 1e-2])
def test_partial_moves_the_cheapest(epsilon):
    """Two near pairs and one far pair of points, two thirds of the mass: the far pair stays."""
    x, y, third = np.array([0.0, 5.0, 10.0]), np.array([0.1, 5.1, 20.0]), np.full(3, 1 / 3)
    solution = Problem((x[:, None] - y) ** 2, third, third, epsilon=epsilon, mass=2 / 3).solve(tol=1e-9)
    np.testing.assert_allclose(solution.plan, np.diag([1 / 3, 1 / 3, 0]), atol=1e-6)
    assert solution.linear == pytest.approx(0.01 * 2 / 3, rel=1e-6)


def test_zero_where_nothing_costs():
    """Identical Diracs at epsilon = 0: everything is zero, and certified although the scale is zero too."""
    solution = diracs(0.0, epsilon=0).solve()
    assert (solution.value, solution.gap, solution.relative_gap) == (0, 0, 0)
    assert solution.converged
