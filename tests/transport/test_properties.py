"""Invariances, limits, monotonicity, and the lemmas of the paper as inequalities, on random problems."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ..generators import rectangular, weights
from ..oracles import Problem

sizes = st.integers(1, 7)
names = st.sampled_from(["kl", "tv", "chi2"])
references = st.sampled_from(["product", "ones"])
taus = st.floats(0.05, 5.0)
epsilons = st.floats(0.02, 2.0)
generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)
masses = st.floats(0.3, 3.0)


@st.composite
def problems(draw, **fixed):
    """A random unbalanced entropic problem; `fixed` holds arguments down."""
    setting = {
        "epsilon": draw(epsilons),
        "tau": (draw(taus), draw(taus)),
        "divergence": draw(names),
        "reference": draw(references),
    } | fixed
    return rectangular(draw(generators), draw(sizes), draw(sizes), (draw(masses), draw(masses)), **setting)


def close(x, y, tolerance=1e-4):
    """To `tolerance` of the largest entry: the error of a plan is the root of its gap, and larger for little mass."""
    return np.abs(x - y).max() <= tolerance * max(np.abs(x).max(), 1e-12)


@given(problems(), generators)
def test_permuting_points_permutes_the_plan(problem, rng):
    rows, columns = (rng.permutation(k) for k in problem.cost.shape)
    moved = problem.but(cost=problem.cost[np.ix_(rows, columns)], a=problem.a[rows], b=problem.b[columns])
    one, other = problem.solve(tol=1e-12), moved.solve(tol=1e-12)
    assert close(one.plan[np.ix_(rows, columns)], other.plan)
    assert other.value == pytest.approx(one.value, rel=1e-8)


@given(problems())
def test_transposing_exchanges_the_sides(problem):
    swapped = problem.but(cost=problem.cost.T, a=problem.b, b=problem.a, tau=problem.tau[::-1])
    one, other = problem.solve(tol=1e-12), swapped.solve(tol=1e-12)
    assert close(one.plan.T, other.plan)
    assert other.value == pytest.approx(one.value, rel=1e-8)


@given(problems(), st.floats(1e-3, 1e3))
def test_scaling_cost_epsilon_and_tau(problem, s):
    scaled = problem.but(cost=s * problem.cost, epsilon=s * problem.epsilon, tau=tuple(s * t for t in problem.tau))
    one, other = problem.solve(tol=1e-12), scaled.solve(tol=1e-12)
    assert close(one.plan, other.plan)
    assert other.value == pytest.approx(s * one.value, rel=1e-8)


@given(problems(reference="ones"), st.floats(0.1, 10))
def test_scaling_both_weights(problem, s):
    """With "ones", (a, b) -> s (a, b) adds epsilon log s to the cost: P is s times that plan."""
    scaled = problem.but(a=s * problem.a, b=s * problem.b)
    dearer = problem.but(cost=problem.cost + problem.epsilon * math.log(s))
    assert close(scaled.solve(tol=1e-12).plan, s * dearer.solve(tol=1e-12).plan)


@given(problems())
def test_splitting_a_point_splits_its_row(problem):
    """R = a b' does not see whether a point is listed once or as two halves."""
    problem = problem.but(reference="product")
    halves = problem.but(
        cost=np.vstack([problem.cost, problem.cost[:1]]),
        a=np.concatenate([problem.a[:1] / 2, problem.a[1:], problem.a[:1] / 2]),
    )
    one, other = problem.solve(tol=1e-12), halves.solve(tol=1e-12)
    joined = other.plan[:-1].copy()
    joined[0] += other.plan[-1]
    assert close(one.plan, joined)
    assert other.value == pytest.approx(one.value, rel=1e-8)


@given(problems(), st.floats(0, 1))
def test_value_grows_with_tau(problem, share):
    """The minimum of functions that grow with tau grows with tau, on either side."""
    less = problem.but(tau=(share * problem.tau[0] + 0.01, problem.tau[1]))
    assume(less.tau[0] < problem.tau[0])
    one, other = less.solve(), problem.solve()
    assert one.value - one.gap <= other.value


@given(problems(divergence="kl", reference="product"))
def test_kappa_identity_between_references(problem):
    """Uniform weights, KL: P_ones = (n m / (m_a m_b))^(epsilon / (tau_a + tau_b + epsilon)) P_product."""
    (n, m), m_a, m_b = problem.cost.shape, problem.a.sum(), problem.b.sum()
    uniform = problem.but(a=np.full(n, m_a / n), b=np.full(m, m_b / m))
    factor = (n * m / (m_a * m_b)) ** (problem.epsilon / (sum(problem.tau) + problem.epsilon))
    assert close(uniform.but(reference="ones").solve(tol=1e-12).plan, factor * uniform.solve(tol=1e-12).plan)


@given(generators, epsilons, references)
def test_balanced_plan_does_not_depend_on_the_reference(rng, epsilon, reference):
    """Between given marginals neither the reference nor a cost of rows + columns changes the plan."""
    problem = rectangular(rng, 4, 5, epsilon=epsilon)
    row, column = rng.normal(size=4), rng.normal(size=5)
    other = problem.but(reference=reference, cost=problem.cost + row[:, None] + column)
    one, shifted = problem.solve(tol=1e-12), other.solve(tol=1e-12)
    assert close(one.plan, shifted.plan, 3e-4)
    assert shifted.value == pytest.approx(other.objective(shifted.plan), rel=1e-8)


@given(generators, st.sampled_from([0.0, 0.2]), st.sampled_from(["kl", "tv"]))
def test_large_tau_is_balanced(rng, epsilon, name):
    problem = rectangular(rng, 4, 5, epsilon=epsilon)
    exact = problem.solve(tol=1e-9)
    relaxed = [problem.but(tau=tau, divergence=name).solve(tol=1e-9) for tau in (1e1, 1e2, 1e3)]
    errors = [np.abs(solution.plan - exact.plan).max() for solution in relaxed]
    assert errors[-1] <= 1e-3
    assert errors[-1] <= errors[0] + 1e-6
    assert all(solution.dual <= exact.value + 1e-12 for solution in relaxed)


@given(
    generators,
    st.sampled_from([{"tau": 0.5}, {"tau": 0.3, "divergence": "tv"}, {}, {"mass": 0.5}, {"tau": (math.inf, 0.7)}]),
)
def test_small_epsilon_is_exact(rng, setting):
    """0 <= OT_epsilon - OT_0 <= epsilon KL(P_0 | R) for R = a b'."""
    problem = rectangular(rng, 5, 4, epsilon=0, **setting)
    exact = problem.solve(tol=1e-9)
    entropy = problem.but(epsilon=1.0).objective(exact.plan) - problem.objective(exact.plan)
    for epsilon in (0.1, 0.01, 1e-3):
        solution = problem.but(epsilon=epsilon).solve(tol=1e-8)
        assert exact.dual <= solution.value
        assert solution.dual <= exact.value + epsilon * entropy + 1e-12


@given(problems(), generators)
def test_concave_in_the_cost(problem, rng):
    """<P_1, C_1 - C_2> <= h(C_1) - h(C_2) <= <P_2, C_1 - C_2>, hence Lemma 4: Lipschitz, constant max |P|."""
    other = problem.but(cost=np.maximum(problem.cost + 0.3 * rng.normal(size=problem.cost.shape), 0))
    change = problem.cost - other.cost
    one, two = problem.solve(tol=1e-9), other.solve(tol=1e-9)
    slack = one.gap + two.gap
    difference = one.value - two.value
    assert (one.plan * change).sum() - slack <= difference <= (two.plan * change).sum() + slack
    norms = [np.linalg.norm(solution.plan) for solution in (one, two)]
    assert abs(difference) <= max(norms) * np.linalg.norm(change) + slack


def phi(name, x):
    return {"kl": x * math.log(x) - x + 1, "tv": abs(x - 1), "chi2": (x - 1) ** 2}[name]


@given(problems(reference="product"), st.sampled_from([None, 0.0]))
def test_lemma_2_1_upper_bound(problem, epsilon):
    """0 <= h <= M m_a m_b + tau_a m_a phi(m_b) + tau_b m_b phi(m_a) for R = a b' and 0 <= C <= M."""
    if epsilon == 0:
        problem = problem.but(epsilon=0, divergence="tv" if problem.divergence == "tv" else "kl")
    m_a, m_b = problem.a.sum(), problem.b.sum()
    bound = problem.cost.max() * m_a * m_b + problem.tau[0] * m_a * phi(problem.divergence, m_b)
    bound += problem.tau[1] * m_b * phi(problem.divergence, m_a)
    solution = problem.solve()
    assert 0 <= solution.value <= bound + solution.gap


@st.composite
def outliers(draw, **setting):
    """(the clean problem, the problem with an outlier z as its last row, zeta, C(z, .)), all of mass one."""
    rng, n, m, zeta = (
        draw(generators),
        draw(st.integers(1, 6)),
        draw(st.integers(1, 6)),
        draw(st.floats(0.05, 0.95)),
    )
    x, y, z = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)), draw(st.floats(1, 30)) * np.array([1.0, 0.5])
    far = ((z - y) ** 2).sum(-1)
    clean = Problem(((x[:, None] - y) ** 2).sum(-1), weights(rng, n), weights(rng, m), epsilon=0, **setting)
    tainted = clean.but(cost=np.vstack([clean.cost, far]), a=np.append(zeta * clean.a, 1 - zeta))
    return clean, tainted, zeta, far


@given(outliers(), st.floats(0.1, 5))
def test_lemma_1_1_an_outlier_saturates(case, tau):
    """OT(tainted) <= zeta OT(clean) + 2 tau (1 - zeta) (1 - e^{-m(z)/2 tau}), KL, epsilon = 0."""
    clean, tainted, zeta, far = case
    one, other = clean.but(tau=tau).solve(), tainted.but(tau=tau).solve()
    bound = zeta * one.value + 2 * tau * (1 - zeta) * -math.expm1(-(far @ clean.b) / (2 * tau))
    assert other.dual <= bound + 1e-12
    assert other.value <= bound + other.gap + 1e-12


@given(outliers())
def test_lemma_1_2_corrected_balanced_does_not(case):
    """W(tainted) >= zeta W(clean) + (1 - zeta) (C(z, y*) - g(y*) + <g, b>), y* = argmin C(z, y) - g(y)."""
    clean, tainted, zeta, far = case
    one, other = clean.solve(), tainted.solve()
    g = one.potentials[1]
    bound = zeta * one.value + (1 - zeta) * ((far - g).min() + g @ clean.b)
    assert other.value >= bound - 1e-9 * abs(bound)
