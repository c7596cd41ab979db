"""Other libraries, where they are right: POT's plans and exact values, geomloss.ot.solve."""

import cvxpy
import numpy as np
import pytest

from ..generators import rectangular
from ..oracles import Problem


@pytest.fixture
def ot():
    return pytest.importorskip("ot", reason="POT is not installed")


@pytest.fixture
def geomloss():
    return pytest.importorskip("geomloss.ot", reason="geomloss is not installed")


@pytest.mark.parametrize("epsilon", [0.05, 0.5])
@pytest.mark.parametrize("reference", ["product", "ones"])
def test_pot_unbalanced_plan(ot, reference, epsilon, rng):
    """POT's `c` is the reference; its value leaves out the mass terms, so the plan is compared."""
    problem = rectangular(rng, 12, 9, (1.2, 0.8), epsilon=epsilon, tau=0.5, reference=reference)
    theirs = ot.unbalanced.sinkhorn_unbalanced(
        problem.a,
        problem.b,
        problem.cost,
        epsilon,
        0.5,
        reg_type="kl",
        c=problem.R,
        numItermax=100_000,
        stopThr=1e-13,
    )
    np.testing.assert_allclose(problem.solve(tol=1e-11).plan, theirs, rtol=1e-4)


def test_pot_one_sided_plan(ot, rng):
    problem = rectangular(rng, 8, 6, epsilon=0.1, tau=(1e9, 0.5))
    theirs = ot.unbalanced.sinkhorn_unbalanced(
        problem.a,
        problem.b,
        problem.cost,
        0.1,
        (np.inf, 0.5),
        reg_type="kl",
        c=problem.R,
        numItermax=100_000,
        stopThr=1e-13,
    )
    np.testing.assert_allclose(problem.but(tau=(np.inf, 0.5)).solve(tol=1e-11).plan, theirs, rtol=1e-4)


def test_pot_balanced_plan(ot, rng):
    problem = rectangular(rng, 12, 9, epsilon=0.05)
    theirs = ot.sinkhorn(problem.a, problem.b, problem.cost, 0.05, numItermax=100_000, stopThr=1e-13)
    np.testing.assert_allclose(problem.solve(tol=1e-11).plan, theirs, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("mass", [1.0, 2.5])
def test_pot_exact(ot, mass, rng):
    problem = rectangular(rng, 30, 20, (mass, mass), epsilon=0)
    solution = problem.solve()
    assert solution.value == pytest.approx(ot.emd2(problem.a, problem.b, problem.cost), rel=1e-10)
    np.testing.assert_allclose(solution.plan, ot.emd(problem.a, problem.b, problem.cost), atol=1e-10)


def test_pot_exact_kl(ot, rng):
    """Majorisation-minimisation, run long: its plan is primal feasible, so ours may not be dearer."""
    problem = rectangular(rng, 10, 8, (1.2, 0.8), epsilon=0, tau=0.7)
    theirs = ot.unbalanced.mm_unbalanced(
        problem.a, problem.b, problem.cost, 0.7, div="kl", numItermax=200_000, stopThr=1e-14
    )
    solution = problem.solve(tol=1e-9)
    np.testing.assert_allclose(solution.plan, theirs, atol=1e-4)
    assert solution.dual <= problem.objective(theirs)
    assert solution.value <= problem.objective(theirs) * (1 + 1e-9)


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_pot_partial(ot, share, rng):
    problem = rectangular(rng, 12, 9, (1.0, 0.8), epsilon=0, mass=0.8 * share)
    theirs = ot.partial.partial_wasserstein(problem.a, problem.b, problem.cost, m=0.8 * share)
    assert problem.solve().value == pytest.approx((theirs * problem.cost).sum(), rel=1e-7)


def test_pot_partial_entropic(ot, rng):
    """POT's entropy is to ones; for a given mass the plan of R = 1 is the same."""
    problem = rectangular(rng, 9, 8, (1.0, 0.8), epsilon=0.1, mass=0.5, reference="ones")
    theirs = ot.partial.entropic_partial_wasserstein(
        problem.a, problem.b, problem.cost, reg=0.1, m=0.5, numItermax=100_000, stopThr=1e-14
    )
    np.testing.assert_allclose(problem.solve(tol=1e-11).plan, theirs, atol=1e-6)


@pytest.mark.filterwarnings("ignore:scipy.optimize:DeprecationWarning")  # POT asks SciPy for an old option
@pytest.mark.parametrize("masses", [(1.0, 1.0), (1.0, 0.4)])
def test_pot_l2_through_chi2(ot, masses, rng):
    """Half of the squared miss is chi-square at tau = reg_m a / 2 for equal weights; a convex solver agrees."""
    reg_m, epsilon, (n, m) = 3.0, 0.1, (9, 7)
    a, b = np.full(n, masses[0] / n), np.full(m, masses[1] / m)
    taus = reg_m * a[0] / 2, reg_m * b[0] / 2
    problem = Problem(rng.random((n, m)), a, b, epsilon=epsilon, tau=taus, divergence="chi2")
    plan = problem.solve().plan
    theirs = ot.unbalanced.lbfgsb_unbalanced(
        a, b, problem.cost, epsilon, reg_m, reg_div="kl", regm_div="l2", numItermax=20_000, stopThr=1e-15
    )
    np.testing.assert_allclose(plan, theirs, atol=1e-5)
    entries = cvxpy.Variable((n, m), nonneg=True)
    missed = cvxpy.sum_squares(cvxpy.sum(entries, 1) - a) + cvxpy.sum_squares(cvxpy.sum(entries, 0) - b)
    entropy = cvxpy.sum(cvxpy.kl_div(entries, np.outer(a, b)))
    objective = cvxpy.sum(cvxpy.multiply(problem.cost, entries)) + epsilon * entropy + reg_m / 2 * missed
    cvxpy.Problem(cvxpy.Minimize(objective)).solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10)
    np.testing.assert_allclose(plan, entries.value, atol=1e-5)


def test_pot_tv_through_lagrange(ot, rng):
    """TV with tau: transport pays up to 2 tau, which POT calls reg_m of a partial Lagrangian."""
    problem = rectangular(rng, 10, 10, epsilon=0, tau=0.2, divergence="tv")
    theirs = ot.partial.partial_wasserstein_lagrange(problem.a, problem.b, problem.cost, reg_m=0.4)
    assert problem.solve().value == pytest.approx(problem.objective(theirs), rel=1e-9)


@pytest.mark.parametrize("tau", [0.5, 5.0, np.inf])
def test_geomloss(geomloss, tau, rng):
    problem = rectangular(rng, 12, 9, (1.0, 1.0 if tau == np.inf else 0.7), epsilon=0.1, tau=tau)
    theirs = geomloss.solve(
        problem.cost,
        reg=0.1,
        a=problem.a,
        b=problem.b,
        unbalanced=None if tau == np.inf else tau,
        max_iter=3000,
    )
    solution = problem.solve(tol=1e-10)
    assert solution.value == pytest.approx(float(theirs.value), rel=1e-4)
    # its annealing leaves an error of about one over the iterations
    np.testing.assert_allclose(solution.plan, theirs.plan, atol=2e-3 * solution.plan.max())
