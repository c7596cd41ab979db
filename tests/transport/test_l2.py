"""The divergence "l2", half of the squared miss whatever the weights, beside a convex solver and POT."""

import math

import cvxpy
import numpy as np
import pytest
import torch

import jumbot

SHAPE = 9, 7


def unsupported(name):
    return pytest.raises(jumbot.UnsupportedError, match=rf"^{name}\b")


def drawn(rng, zeros=False):
    """A cost, and weights that lie a factor of thirty apart."""
    a, b = (np.exp(rng.uniform(-3.5, 0.0, size)) for size in SHAPE)
    if zeros:
        a[2] = b[[0, 4]] = 0.0
    return rng.random(SHAPE), a, b


def objective(plan, cost, a, b, epsilon, taus, reference):
    """What is minimised, and the constraints, of a cvxpy expression."""
    total = cvxpy.sum(cvxpy.multiply(cost, plan)) + epsilon * cvxpy.sum(cvxpy.kl_div(plan, reference))
    constraints = []
    for axis, (weights, tau) in enumerate(((a, taus[0]), (b, taus[1]))):
        marginal = cvxpy.sum(plan, axis=1 - axis)
        if math.isinf(tau):
            constraints.append(marginal == weights)
        else:
            total += tau / 2 * cvxpy.sum_squares(marginal - weights)
    return total, constraints


@pytest.mark.parametrize("reference", ["product", "ones"])
@pytest.mark.parametrize(("epsilon", "tau"), [(0.1, 3.0), (0.02, (20.0, 0.5)), (0.3, (math.inf, 2.0)), (0.05, 1e-2)])
def test_against_a_convex_solver(epsilon, tau, reference, rng):
    cost, a, b = drawn(rng)
    R = np.outer(a, b) if reference == "product" else np.ones(SHAPE)
    solution = jumbot.solve(cost, a, b, epsilon=epsilon, tau=tau, divergence="l2", reference=reference)
    entries = cvxpy.Variable(SHAPE, nonneg=True)
    total, constraints = objective(entries, cost, a, b, epsilon, tau if isinstance(tau, tuple) else (tau, tau), R)
    cvxpy.Problem(cvxpy.Minimize(total), constraints).solve(
        solver=cvxpy.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
    )
    assert solution.converged
    assert solution.value == pytest.approx(total.value, rel=1e-8)
    np.testing.assert_allclose(solution.plan, entries.value, atol=2e-5)


@pytest.mark.filterwarnings("ignore:scipy.optimize:DeprecationWarning")  # POT asks SciPy for an old option
def test_against_pot(rng):
    """tau is POT's reg_m."""
    ot = pytest.importorskip("ot")
    cost, a, b = drawn(rng)
    theirs = ot.unbalanced.lbfgsb_unbalanced(
        a, b, cost, 0.1, 3.0, reg_div="kl", regm_div="l2", numItermax=20_000, stopThr=1e-15
    )
    solution = jumbot.solve(cost, a, b, epsilon=0.1, tau=3.0, divergence="l2")
    np.testing.assert_allclose(solution.plan, theirs, atol=1e-5)


def test_the_same_as_chi2_for_equal_weights(rng):
    cost, tau = rng.random(SHAPE), 4.0
    own = jumbot.solve(cost, epsilon=0.05, tau=tau, divergence="l2")
    other = jumbot.solve(cost, epsilon=0.05, tau=tuple(tau / (2 * size) for size in SHAPE), divergence="chi2")
    assert own.value == pytest.approx(other.value, rel=1e-9)
    np.testing.assert_allclose(own.plan, other.plan, atol=1e-6)


def test_points_without_weight_keep_no_mass(rng):
    cost, a, b = drawn(rng, zeros=True)
    solution = jumbot.solve(cost, a, b, epsilon=0.1, tau=3.0, divergence="l2")
    rows, columns = a > 0, b > 0
    without = jumbot.solve(cost[rows][:, columns], a[rows], b[columns], epsilon=0.1, tau=3.0, divergence="l2")
    assert solution.converged
    assert solution.value == pytest.approx(without.value, rel=1e-9)
    assert solution.plan[~rows].sum() == solution.plan[:, ~columns].sum() == 0


@pytest.mark.parametrize("tau", [3.0, (0.4, math.inf)])
def test_gradients_by_finite_differences(tau, rng):
    inputs = [torch.tensor(x, requires_grad=True) for x in drawn(rng)]

    def value(cost, a, b):
        return jumbot.solve(cost, a, b, epsilon=0.2, tau=tau, divergence="l2", tol=1e-14).value

    assert torch.autograd.gradcheck(value, inputs, rtol=1e-4, atol=1e-6)


def test_certificate_tells_this_problem_from_chi2(rng):
    cost, a, b = drawn(rng)
    settings = {"epsilon": 0.1, "tau": 3.0}
    own = jumbot.solve(cost, a, b, divergence="l2", **settings)
    other = jumbot.solve(cost, a, b, divergence="chi2", **settings)
    assert jumbot.certify(cost, a, b, plan=own.plan, divergence="l2", **settings).relative_gap < 1e-9
    assert jumbot.certify(cost, a, b, plan=other.plan, divergence="l2", **settings).relative_gap > 1e-3


def test_closed_points_lose_their_weight(rng):
    """A row of +inf: its penalty is tau a^2/2, and its gradient tau a, on top of what the entropy adds."""
    cost, a, b = drawn(rng)
    cost[3] = math.inf
    weights = torch.tensor(a, requires_grad=True)
    solution = jumbot.solve(torch.tensor(cost), weights, torch.tensor(b), epsilon=0.1, tau=3.0, divergence="l2")
    kept = np.arange(SHAPE[0]) != 3
    without = jumbot.solve(cost[kept], a[kept], b, epsilon=0.1, tau=3.0, divergence="l2")
    assert solution.value.item() == pytest.approx(without.value + 1.5 * a[3] ** 2 + 0.1 * a[3] * b.sum(), rel=1e-9)
    (gradient,) = torch.autograd.grad(solution.value, weights)
    assert gradient[3].item() == pytest.approx(3.0 * a[3] + 0.1 * b.sum(), rel=1e-9)


def test_from_points(rng):
    x, y = rng.random((40, 2)), rng.random((30, 2))
    cost = ((x[:, None] - y[None]) ** 2).sum(-1)
    settings = {"epsilon": 0.05, "tau": 3.0, "divergence": "l2"}
    dense, points = jumbot.solve(cost, **settings), jumbot.solve_sample(x, y, tol=1e-8, **settings)
    assert points.value == pytest.approx(dense.value, rel=1e-6)


def test_what_is_refused(rng):
    cost, a, b = drawn(rng, zeros=True)
    with unsupported("divergence"):
        jumbot.solve(cost, epsilon=0.0, tau=1.0, divergence="l2")
    with unsupported("a"):
        jumbot.solve(cost, a, b, epsilon=0.1, tau=1.0, divergence="l2", reference="ones")
    with unsupported("divergence"):
        jumbot.bounds.value_bound(1.0, epsilon=0.1, tau=1.0, divergence="l2")
    weights = torch.full((SHAPE[0],), 1 / SHAPE[0], dtype=torch.float64, requires_grad=True)
    linear = jumbot.solve(torch.tensor(cost), weights, epsilon=0.1, tau=1.0, divergence="l2").linear
    with unsupported("linear"):
        torch.autograd.grad(linear, weights)
