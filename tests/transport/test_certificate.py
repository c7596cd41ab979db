"""value, dual, gap and status mean what they say, on hard problems and on runs that stop short."""

import math
import warnings

import numpy as np
import ot
import pytest
import torch

import jumbot
from jumbot.transport import _outcome as kinds
from jumbot.transport._certificate import certify, solved
from jumbot.transport._kernels import sides, sweeps
from jumbot.transport._problem import Terms, make_problem

from ..generators import posed, rectangular, weights
from ..oracles import SETTINGS, Problem, cases


def assert_certified(problem, solution, precision=1e-9):
    """Recompute every claim of `solution` from its plan and potentials, in float64."""
    plan = np.asarray(solution.plan, float)
    f, g = (np.asarray(potential, float) for potential in solution.potentials)
    value, dual, gap = float(solution.value), float(solution.dual), float(solution.gap)
    scale = problem.scale(plan)
    slack = precision * (scale + problem.epsilon * problem.R.sum())
    assert np.isfinite(plan).all()
    assert (plan >= 0).all()
    assert value == pytest.approx(problem.objective(plan), abs=slack)
    assert dual == pytest.approx(problem.dual(f, g), abs=slack)
    assert gap >= 0
    assert gap == pytest.approx(value - dual, abs=slack)
    assert float(solution.relative_gap) == pytest.approx(gap / scale if gap else 0, rel=1e-5)
    assert float(solution.linear) == pytest.approx(problem.linear(plan), abs=slack)
    assert float(solution.mass) == pytest.approx(plan.sum(), rel=max(precision, 1e-12))
    for marginal, axis in zip(solution.marginals, (1, 0), strict=True):
        np.testing.assert_allclose(marginal, plan.sum(axis), rtol=1e-6, atol=precision * plan.sum())


@pytest.mark.parametrize("zeros", [0, 2])
@pytest.mark.parametrize("case", cases(0, 0.01, 0.3, references=("product", "ones")))
def test_claims(case, zeros, rng):
    problem = posed(rng, 12, 9, zeros, **case)
    solution = problem.solve()
    assert_certified(problem, solution)
    assert solution.converged
    assert solution.relative_gap <= 1e-6
    if problem.epsilon:
        # a plan that had to be rounded onto hard constraints has moved by the little that it missed them
        tolerance = 1e-3 * solution.plan.max() if problem.constrained else 1e-12
        np.testing.assert_allclose(solution.plan, problem.gibbs(*solution.potentials), rtol=1e-9, atol=tolerance)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-10])
@pytest.mark.parametrize("case", cases(0, 0.05))
def test_tol_bounds_the_relative_gap(case, tol, rng):
    problem = posed(rng, 8, 8, **case)
    solution = problem.solve(tol=tol)
    assert_certified(problem, solution)
    assert solution.relative_gap <= tol


HARD = {
    "costs of 1e4 epsilon": {"epsilon": 1e-2, "scale": 1e2, "tau": 10.0},
    "costs of 1e4 epsilon, small tau": {"epsilon": 1e-2, "scale": 1e2, "tau": 0.5},
    "epsilon = 1e-4 max cost": {"epsilon": 1e-4, "scale": 1.0, "tau": 0.5},
    "tau = 1e3": {"epsilon": 1e-2, "scale": 1.0, "tau": 1e3},
    "tau = 1e3, ones": {"epsilon": 1e-2, "scale": 1.0, "tau": 1e3, "reference": "ones"},
    "a lopsided pair": {"epsilon": 1e-2, "scale": 1.0, "tau": (1e-2, 1e2)},
    "tv": {"epsilon": 1e-3, "scale": 1.0, "tau": 0.2, "divergence": "tv"},
    "chi2": {"epsilon": 1e-3, "scale": 1.0, "tau": 5.0, "divergence": "chi2"},
    "balanced": {"epsilon": 1e-3, "scale": 1.0, "tau": math.inf},
    "tv, tau = 1e3": {"epsilon": 1e-2, "scale": 1.0, "tau": 1e3, "divergence": "tv"},
    "chi2, tau = 1e3": {"epsilon": 1e-2, "scale": 1.0, "tau": 1e3, "divergence": "chi2"},
    "one side exact, kl, tau = 1e3": {"epsilon": 1e-2, "scale": 1.0, "tau": (math.inf, 1e3)},
    "one side exact, tv, tau = 1e3": {"epsilon": 1e-2, "scale": 1.0, "tau": (math.inf, 1e3), "divergence": "tv"},
    "digits, ones": {"epsilon": 0.1, "scale": 30.0, "tau": 1.0, "reference": "ones"},
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", HARD)
def test_hard_problems(case, dtype, rng):
    """No silent zero plan: got certified to 1e-6 in either dtype, for the problem as it."""
    arguments = dict(HARD[case])
    cost = (arguments.pop("scale") * rng.random((20, 24))).astype(dtype)
    mass = 1.0 if arguments["tau"] == math.inf else 0.8  # of b; that of a is one
    a, b = np.full(20, 1 / 20, dtype), np.full(24, mass / 24, dtype)
    solution = jumbot.solve(cost, a, b, **arguments)
    problem = Problem(*(x.astype(float) for x in (cost, a, b)), **arguments)
    assert solution.plan.dtype == dtype
    assert solution.plan.sum() > 0
    assert solution.converged
    if dtype == np.float64:
        assert_certified(problem, solution)
    else:  # the result is rounded to float32, so what can be recomputed is the interval around the truth
        exact = problem.solve()
        scale = problem.scale(exact.plan) + problem.epsilon * problem.R.sum()
        assert float(solution.value) == pytest.approx(exact.value, abs=2e-6 * scale)
        assert float(solution.value) - float(solution.gap) <= exact.value + 2e-7 * scale
        np.testing.assert_allclose(solution.plan, exact.plan, atol=5e-3 * exact.plan.max())


@pytest.mark.parametrize("reference", ["product", "ones"])
@pytest.mark.parametrize("tau", [1e3, (math.inf, 1e3), (1e3, math.inf)], ids=str)
@pytest.mark.parametrize("name", ["kl", "tv", "chi2"])
def test_large_tau_with_zero_weights(name, tau, reference, rng):
    problem = rectangular(rng, 5, 4, (1.0, 0.8), zeros=1, epsilon=1e-2, tau=tau, divergence=name, reference=reference)
    solution = problem.solve(max_iterations=10_000)
    assert_certified(problem, solution)
    assert solution.converged


@pytest.mark.parametrize(
    "setting",
    [{"tau": 150.0}, {"tau": (0.5, math.inf), "divergence": "tv"}, {"tau": 20.0, "divergence": "chi2"}],
    ids=str,
)
def test_ties(setting, rng):
    """Costs of a few integers, epsilon small: many plans are nearly as good."""
    for _ in range(25):
        n, m = rng.integers(2, 9, 2)
        problem = rectangular(rng, n, m, (0.4, 0.9), epsilon=1e-3, **setting)
        problem = problem.but(cost=rng.integers(0, 4, (n, m)).astype(float))
        solution = problem.solve()
        assert solution.converged
        assert_certified(problem, solution)


def test_rounding_does_not_make_the_gap_negative():
    """A problem whose gap is zero in exact arithmetic."""
    third = np.full(3, 1 / 3)
    cost = np.array([[2.0, 1.0, 0.0], [3.0, 2.0, 3.0], [2.0, 1.0, 1.0]])
    solution = Problem(cost, third, third, epsilon=1e-3, tau=(0.44941761947848924, math.inf), divergence="tv").solve()
    assert solution.gap >= 0
    assert solution.relative_gap >= 0


@pytest.mark.parametrize("reference", ["product", "ones"])
@pytest.mark.parametrize("setting", ["range", "balanced", "partial", "kl, one side exact", "tv, one side exact"])
def test_hard_constraints_are_met(setting, reference, rng):
    """To rounding, on every problem: elsewhere the objective at `plan` is infinite."""
    for _ in range(60):
        n, m = rng.integers(1, 8, 2)
        problem = posed(rng, n, m, epsilon=rng.choice([1.0, 0.1]), reference=reference, **SETTINGS[setting])
        assert math.isfinite(problem.objective(problem.solve().plan))


@pytest.mark.parametrize("reference", ["product", "ones"])
@pytest.mark.parametrize("epsilon", [0, 1e-3])
@pytest.mark.parametrize("name", ["kl", "tv"])
def test_zero_plan_where_it_is_optimal(name, epsilon, reference, rng):
    """A tiny tau gives up all mass; that answer is certified like any other."""
    problem = rectangular(rng, 6, 5, epsilon=epsilon, tau=1e-4, divergence=name, reference=reference)
    problem = problem.but(cost=problem.cost + 2)
    solution = problem.solve()
    assert_certified(problem, solution)
    assert solution.converged
    assert solution.mass == pytest.approx(0, abs=1e-100)
    assert solution.value == pytest.approx(2e-4 + epsilon * problem.R.sum(), rel=1e-9)


def test_a_plan_that_overflows_is_not_called_converged(rng):
    """Costs far below -tau ask for more mass than a float can hold."""
    with pytest.warns(jumbot.NotConvergedWarning):
        solution = jumbot.solve(100 * (rng.random((20, 15)) - 0.5), epsilon=1e-4, tau=1e-9)
    assert not solution.converged


@pytest.mark.parametrize("case", cases(0, 0.05, settings=["kl", "tv", "chi2"]))
@pytest.mark.parametrize("blocked", [np.s_[::2, ::3], np.s_[1], np.s_[:, 2], np.s_[:]], ids=str)
def test_infinite_costs(blocked, case, rng):
    problem = posed(rng, 6, 5, **case)
    cost = problem.cost.copy()
    cost[blocked] = np.inf
    problem = problem.but(cost=cost)
    solution = problem.solve()
    assert_certified(problem, solution)
    assert solution.converged
    assert (solution.plan[np.isinf(cost)] == 0).all()


@pytest.mark.parametrize("case", cases(0.01) + cases(0, settings=["kl", "kl, a pair"]))
@pytest.mark.parametrize("max_iterations", [1, 3])
def test_stopping_short_says_so_and_stays_true(max_iterations, case, rng):
    problem = posed(rng, 20, 15, **case)
    with pytest.warns(jumbot.NotConvergedWarning) as warned:
        solution = problem.solve(tol=1e-12, max_iterations=max_iterations)
    assert len(warned) == 1
    assert not solution.converged
    assert solution.status != problem.solve().status
    assert "max_iterations" in str(solution.status.value)
    assert_certified(problem, solution)
    truth = problem.solve(tol=1e-9)
    assert solution.dual <= truth.value
    assert truth.dual <= solution.value


def test_converged_status_explains_itself(rng):
    solution = posed(rng, epsilon=0.1, tau=1.0).solve()
    assert solution.converged is True
    assert solution.iterations >= 1
    assert "tol" in str(solution.status.value) or "converged" in str(solution.status.value).lower()


def test_ones_constant_stays_out_of_the_scale(rng):
    """epsilon sum(R) = 1600 x the rest: a gap relative to it would stop at a wrong plan."""
    uniform = np.full(40, 1 / 40)
    problem = Problem(rng.random((40, 40)), uniform, uniform, epsilon=1.0, tau=1.0, reference="ones")
    solution, product = problem.solve(), problem.but(reference="product").solve(tol=1e-12)
    assert_certified(problem, solution)
    np.testing.assert_allclose(solution.plan, 1600 ** (1 / 3) * product.plan, rtol=5e-3)


def test_far_outlier_at_epsilon_zero_is_certified():
    """Its potential is 700 tau away, where e^{-f/tau} underflows."""
    solution = jumbot.solve(np.array([[0.0, 1], [1, 0], [700, 701]]), np.array([0.4, 0.4, 0.2]), epsilon=0, tau=0.5)
    assert solution.converged
    assert solution.value == pytest.approx(0.2 * 0.5 + 0.5 * 2 * (0.9 - math.sqrt(0.8)), rel=1e-6)


@pytest.mark.parametrize("tau", [math.inf, (math.inf, 1.0), (1.0, math.inf)])
def test_a_plan_that_cannot_be_rounded_proves_nothing(tau, rng):
    """Rows that underflow stay empty, whatever they are multiplied by: an exact marginal is then not met."""
    problem = posed(rng, 3, 3, epsilon=0.1).but(tau=tau)
    checked = make_problem(
        torch.from_numpy(problem.cost),
        torch.from_numpy(problem.a),
        torch.from_numpy(problem.b),
        Terms(0.1, tau),
    )
    far = torch.full((1, 3), -1e6, dtype=torch.float64)
    certificate = certify(checked, far, far)
    met = [np.allclose(p[0], w) for p, w in ((certificate.rows, problem.a), (certificate.columns, problem.b))]
    needed = [math.isinf(t) for t in problem.taus]
    assert bool(torch.isinf(certificate.gap)) or all(m for m, n in zip(met, needed, strict=True) if n)


@pytest.mark.parametrize("gap", [0.0, 1e-7, 1e-5, math.nan, math.inf])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e250, math.inf, math.nan])
def test_solved_means_the_same_everywhere(gap, scale):
    expected = gap <= 1e-6 * scale and scale < 1e200
    assert bool(solved(gap, scale, 1e-6)) == expected
    assert bool(solved(np.array([gap]), np.array([scale]), 1e-6)[0]) == expected
    assert bool(solved(torch.tensor([gap]).double(), torch.tensor([scale]).double(), 1e-6)[0]) == expected
    if math.isfinite(gap) and math.isfinite(scale):  # compiled code has neither
        assert sweeps.solved(gap, scale, 1e-6) == expected


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param({"epsilon": 0.0, "divergence": "tv"}, id="tv, exact"),
        pytest.param({"epsilon": 0.0}, id="kl, exact"),
        pytest.param({"epsilon": 300.0}, id="kl"),
        pytest.param({"epsilon": 300.0, "divergence": "tv"}, id="tv"),
        pytest.param({"epsilon": 300.0, "divergence": "chi2"}, id="chi2"),
    ],
)
@pytest.mark.filterwarnings("ignore::jumbot.NotConvergedWarning")  # epsilon is 1e-10 of the cost
def test_value_is_the_objective_where_potentials_are_huge(setting, rng):
    """log(p/a) as a difference of potentials is known to four digits only where they are 1e12."""
    cost, a, b = 3e12 * rng.random((6, 5)), weights(rng, 6, 0.7), weights(rng, 5, 1.3)
    problem = Problem(cost, a, b, tau=1e12, **setting)
    solution = problem.solve()
    assert solution.value == pytest.approx(problem.objective(solution.plan), rel=1e-9)
    assert solution.converged or setting["epsilon"] > 0


@pytest.mark.parametrize("p", [-1.0, 0.5, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("log_x", [-190.0, -30.0, 2.0, 190.0])
def test_penalties_of_powers_at_marginals_far_from_their_weights(p, log_x):
    """x^p reaches 1e247: the sweeps may not take it for less."""
    work, sums = np.empty((4, 1)), np.zeros(5)
    a, log_ratio, tau = np.array([0.7]), np.array([log_x]), 1.3
    sides.SIDES[kinds.POWER](tau, p, 1e300, a, np.zeros(1), log_ratio, work, sums)
    x = np.exp(np.longdouble(log_x))
    phi = (x**p - p * (x - 1) - 1) / (p * (p - 1))
    assert sums[1] == pytest.approx(float(0.7 * tau * phi), rel=1e-9)
    assert sums[0] == pytest.approx(float(0.7 * tau * phi), rel=1e-9)  # phi(x) + phi*(0) - 0


def test_potentials_at_the_recession_price_prove_nothing():
    """phi*(2) is infinite for p = 1/2."""
    work, sums, tau = np.empty((4, 2)), np.zeros(5), 1.3
    F = np.array([-2 * tau, -2 * tau])
    sides.SIDES[kinds.POWER](tau, 0.5, 1e300, np.array([0.7, 0.0]), F, np.zeros(2), work, sums)
    assert sums[0] == math.inf


def _large_tau(seed, near):
    """Weights of equal mass up to rounding, and costs of one, or of near copies of the same points."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(4, 12, 2)
    x = rng.random(n)
    cost = (x[:, None] - x - 1e-3) ** 2 if near else rng.random((n, m))
    a, b = (rng.random(size) for size in cost.shape)
    return cost, a, b * (a.sum() / b.sum())


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tau", [1e6, 1e9, 1e12])
def test_total_variation_at_a_price_beyond_all_costs_says_what_rounding_costs(tau, seed, near):
    cost, a, b = _large_tau(seed, near)
    # the heavier side pays tau for what it has more, to the last bit; the rest is balanced transport
    surplus = math.fsum((*b, *-a))
    moved = float(ot.emd2(a, b * (a.sum() / b.sum()), cost))
    truth = moved + tau * abs(surplus)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jumbot.NotConvergedWarning)
        solution = jumbot.solve(cost, a, b, epsilon=0.0, tau=tau, divergence="tv")
    plan = solution.plan.astype(np.longdouble)
    missed = abs(plan.sum(1) - a).sum() + abs(plan.sum(0) - b).sum()
    assert float((cost * plan).sum() + tau * missed) == pytest.approx(float(solution.value), rel=1e-12)
    assert solution.value - solution.gap <= truth + 1e-12 * moved
    assert truth <= solution.value + 1e-12 * moved
    assert solution.relative_gap < 1e-14 * tau


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tau", [1e6, 1e9, 1e12])
def test_kl_at_a_price_beyond_all_costs_says_what_rounding_costs(tau, seed, near):
    cost, a, b = (x.astype(np.longdouble) for x in _large_tau(seed, near))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jumbot.NotConvergedWarning)
        solution = jumbot.solve(*(x.astype(float) for x in (cost, a, b)), epsilon=0.0, tau=tau)
    plan, (f, g) = solution.plan.astype(np.longdouble), (x.astype(np.longdouble) for x in solution.potentials)

    def kl(p, w):
        return (p * np.log1p((p - w) / w) - (p - w)).sum()

    primal = (cost * plan).sum() + tau * (kl(plan.sum(1), a) + kl(plan.sum(0), b))
    f = f - max((f[:, None] + g - cost).max(), 0)
    dual = -tau * ((a * np.expm1(-f / tau)).sum() + (b * np.expm1(-g / tau)).sum())
    scale = float(primal)
    assert float(solution.value) == pytest.approx(float(primal), rel=1e-12)
    assert float(solution.gap) == pytest.approx(float(primal - dual), rel=1e-6, abs=1e-12 * scale)
    assert solution.relative_gap <= 1e-6 or tau > 1e9


def test_the_price_of_kl_is_right_at_a_tau_of_1e12_epsilon():
    cost, a, b = _large_tau(0, near=False)
    solution = jumbot.solve(cost, a, b, epsilon=1.0, tau=1e12)
    exact = jumbot.solve(cost, a, b, epsilon=1.0, tol=1e-10)
    assert float(solution.value) == pytest.approx(float(exact.value), rel=2e-6)


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize("tau", [1e-5, 1e-4, 1e-3])
def test_exact_kl_at_a_price_far_below_the_costs_proves_what_is_true(tau, tol):
    """e^{-f/tau} is too small to be a number there, and the mass that should not be counts all the same."""
    cost = np.array([[0.6], [0.9]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jumbot.NotConvergedWarning)
        found = jumbot.solve(cost, epsilon=0.0, tau=(tau, 1.0), tol=tol)
        best = jumbot.solve(cost, epsilon=0.0, tau=(tau, 1.0), tol=1e-13)
    assert found.value - found.gap <= best.value * (1 + 1e-9)
    assert not found.converged or found.value <= best.value * (1 + 2 * tol) + tol


@pytest.mark.parametrize("divergence", ["kl", "tv"])
@pytest.mark.parametrize("tau", [1.0, (0.3, 2.0), (math.inf, 0.5)], ids=str)
def test_costs_of_zero_are_solved_exactly(divergence, tau, rng):
    for n, m in ((5, 5), (2, 3), (1, 4)):
        a, b = weights(rng, n), weights(rng, m)
        a, b = a / a.sum(), b / b.sum()
        for cost in (np.zeros((n, m)), np.stack([rng.random((n, m)), np.zeros((n, m))])):
            solution = jumbot.solve(cost, a, b, epsilon=0.0, tau=tau, divergence=divergence)
            assert np.all(solution.converged)
            assert abs(np.atleast_1d(solution.value)[-1]) <= 1e-15


@pytest.mark.parametrize("tol", [1e-10, 1e-5])
@pytest.mark.parametrize("epsilon", [0.5, 0.05, 0.02, 0.005])
@pytest.mark.parametrize("size", [(40, 40), (130, 90)])
def test_a_bound_stands_for_the_gap_only_where_it_is_next_to_nothing(size, epsilon, tol, rng):
    """The gap of a balanced plan is epsilon KL(Q | P), and where a bound replaces it, larger by 5e-12 at most."""
    x, y = rng.normal(size=(size[0], 2)), rng.normal(size=(size[1], 2)) + 0.5
    cost = ((x[:, None] - y) ** 2).sum(-1)
    cost /= cost.max()
    a, b = rng.random(size[0]) + 0.1, rng.random(size[1]) + 0.1
    a, b = a / a.sum(), b / b.sum()
    solution = jumbot.solve(cost, a, b, epsilon=epsilon, tol=tol)
    f, g = solution.potentials
    log_P = (f[:, None] + g - cost) / epsilon + np.log(a)[:, None] + np.log(b)
    P, Q = np.exp(log_P), solution.plan
    z = np.log(Q) - log_P
    terms = np.where(np.abs(z) < 1e-4, P * z**2 * (0.5 + z / 3), Q * z - Q + P)
    exact, scale = epsilon * terms.sum(), (cost * Q).sum() + epsilon
    assert exact * (1 - 1e-3) - 1e-15 * scale <= solution.gap <= exact + 6e-12 * scale
    assert solution.relative_gap <= tol
