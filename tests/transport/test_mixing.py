"""Anderson mixing in the compiled sweeps: its algebra, and what it saves."""

import math

import numba
import numpy as np
import pytest

import jumbot
from jumbot.transport._kernels import gibbs, policy, row_blocks
from jumbot.transport._kernels.policy import log_tilted_mass

from ..generators import rectangular


@numba.njit
def remember(x, image, shift, w, log_mass, count, ring):
    return policy.remember(x, image, shift, w, log_mass, count, ring)


@numba.njit
def scale_to_plan(K, times, u, v, C, rows, columns):
    return gibbs.scale_to_plan(K, times, u, v, C, rows, columns)


class Mixing:
    """The calls that the sweeps make: each image is remembered, then mixed with up to `known` images."""

    def __init__(self, weights, known):
        self.weights, self.known, self.count = weights, known, 0
        self.memory = [np.full(shape, np.nan) for shape in policy.shapes(len(weights))]

    def next(self, x, image):
        ring, changes, system = self.memory
        out, held = np.empty_like(image), min(self.count + 1, self.known)
        remember(x, image, 0.0, self.weights, 0.0, self.count, ring)
        policy.mix(ring, self.weights, self.count, held, changes, system, out)
        self.count += 1
        return out


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize("known", [1, 2, 3, 4, 6, 9])
def test_mix_is_the_least_squares_combination(known, size, rng):
    points, images, weights = rng.normal(size=(8, size)), rng.normal(size=(8, size)), rng.random(size)
    mixed = Mixing(weights, known)
    for x, image in zip(points, images, strict=True):
        out = mixed.next(x, image)

    residuals, older = images - points, range(6, 6 - min(known - 1, policy.DEPTH), -1)
    slopes = np.array([residuals[7] - residuals[k] for k in older]).reshape(-1, size)
    moves = np.array([images[7] - images[k] for k in older]).reshape(-1, size)
    root = np.sqrt(weights)
    if len(slopes) <= size:
        share = np.linalg.lstsq((root * slopes).T, root * residuals[7], rcond=None)[0]
        np.testing.assert_allclose(out, images[7] - share @ moves, rtol=1e-4, atol=1e-4)  # the ridge is 1e-8
    assert np.isfinite(out).all()


@pytest.mark.parametrize("size", [1, 2, 12])
def test_a_linear_map_with_few_slow_directions_is_solved_in_as_many_steps(size, rng):
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    slow = basis @ np.diag(np.r_[0.95, 0.9, 0.5, np.zeros(9)][:size]) @ basis.T
    fixed, x, mixed = rng.normal(size=size), np.zeros(size), Mixing(np.ones(size), 99)
    for _ in range(6):
        x = mixed.next(x, fixed + slow @ (x - fixed))
    assert np.abs(x - fixed).max() < 1e-2 * np.abs(fixed).max()  # six plain steps leave .95^6 = 74 %


def test_the_norm_of_the_residual_is_twice_the_gap_over_tau(rng):
    """With rows at their optimum, tau/2 |residual|^2 / kappa^2 is the gap to first order."""
    tau, problem = 30.0, rectangular(rng, 20, 15, epsilon=1.0, tau=30.0)
    solution, b = problem.solve(tol=1e-12), problem.b
    kappa = tau / (tau + 1)
    G = solution.potentials[1] + 1e-3 * rng.normal(size=15)
    F = -kappa * np.log(np.exp(G - problem.cost) @ b)
    image = -kappa * np.log(np.exp(F[:, None] - problem.cost).T @ problem.a)
    w = np.empty(15)
    log_mass = log_tilted_mass(1 / tau, b, image, w)
    assert log_mass == pytest.approx(np.log((b * np.exp(-image / tau)).sum()))
    norm = remember(G, image, 0.7, w, log_mass, 0, np.empty(policy.shapes(15)[0]))
    plan = problem.a[:, None] * b * np.exp(F[:, None] + G - problem.cost)
    gap = problem.objective(plan) - problem.dual(F, G)
    assert 0.5 * tau * norm / kappa**2 == pytest.approx(gap, rel=0.02)


def test_clustered_problems_need_few_sweeps(rng):
    """Six clusters: over-relaxation alone takes 17 sweeps or more."""
    labels = np.repeat(np.arange(6), 12)
    cost = 0.05 * rng.random((72, 72)) + 0.8 * (labels[:, None] != labels)
    solution = jumbot.solve(cost, epsilon=0.01, tau=0.3)
    assert solution.converged
    assert solution.iterations <= 12


def test_what_mixing_does_not_finish_over_relaxation_does(rng):
    x, y = rng.random((2, 65, 2))
    cost = ((x[:, None] - y) ** 2).sum(-1)
    fine = jumbot.solve(cost, epsilon=0.01, tau=1.0, tol=1e-13)
    assert fine.iterations > policy.SWEEPS
    assert fine.converged
    assert float(fine.value) == pytest.approx(float(jumbot.solve(cost, epsilon=0.01, tau=1.0).value), rel=1e-5)


def test_a_plan_scaled_from_the_kernel_is_the_plan(rng):
    n, m, epsilon = 13, 10, 0.1
    cost, F, G = rng.random((n, m)), rng.normal(size=n), rng.normal(size=m)
    r_a, r_b = rng.random(n), rng.random(m)
    r_a[3] = r_b[4] = 0.0
    log_a, log_b = (np.log(r, where=r > 0, out=np.full(len(r), -1e200)) for r in (r_a, r_b))
    written, scaled = np.empty((n, m)), np.exp(-cost / epsilon)
    marginals = [np.empty(n), np.empty(m), np.empty(n), np.empty(m)]
    expected = row_blocks.write_plan(cost, 1 / epsilon, F + log_a, G + log_b, written, *marginals[:2])
    marginals[3][:] = 0.0
    found = scale_to_plan(scaled, 2.0, r_a * np.exp(F) / 2, r_b * np.exp(G), cost, *marginals[2:])
    np.testing.assert_allclose(scaled, written, rtol=1e-12)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    for one, other in zip(marginals[:2], marginals[2:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert math.isclose(found[0], float((written * cost).sum()), rel_tol=1e-12)


@pytest.mark.parametrize("weight", [1e-200, 1e-8, 1.0, 1e8, 1e150])
@pytest.mark.parametrize("size", [1.0, 1e12, 1e20, 1e21])
def test_costs_and_masses_of_any_size_need_few_sweeps(size, weight, rng):
    """The mass of the rows, of which the translation is made, is lost in the product of the scalings there."""
    for _ in range(10):
        cost, a, b = size * rng.random((6, 5)), np.full(6, weight), np.full(5, weight)
        solution = jumbot.solve(cost, a, b, epsilon=0.1, tau=1.0, max_iterations=60)
        assert solution.converged, solution
