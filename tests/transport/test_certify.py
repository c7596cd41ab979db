"""`certify` catches what is wrong, whoever made it, and passes what is right."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import jumbot
from jumbot.cost import parse_cost
from tests.refusals import refused

from ..generators import posed, rectangular

ot = pytest.importorskip("ot")

SETTINGS: list[dict[str, Any]] = [
    {"epsilon": 0.1},
    {"epsilon": 0.1, "tau": 0.5},
    {"epsilon": 0.1, "tau": (0.5, math.inf)},
    {"epsilon": 0.1, "tau": (math.inf, 0.5)},
    {"epsilon": 0.1, "tau": 0.5, "reference": "ones"},
    {"epsilon": 0.1, "tau": 0.3, "divergence": "tv"},
    {"epsilon": 0.1, "tau": 0.3, "divergence": "chi2"},
    {"epsilon": 0.1, "tau": 0.3, "divergence": "power(0.5)"},
    {"epsilon": 0.1, "divergence": "range(0.5,2)"},
    {"epsilon": 0.1, "mass": 0.6},
    {"epsilon": 0.0},
    {"epsilon": 0.0, "tau": 0.5},
    {"epsilon": 0.0, "tau": (0.5, math.inf)},
    {"epsilon": 0.0, "tau": 0.3, "divergence": "tv"},
    {"epsilon": 0.0, "mass": 0.6},
]


def name(setting: dict[str, Any]) -> str:
    return ",".join(f"{key}={value}" for key, value in setting.items())


@pytest.mark.parametrize("setting", SETTINGS, ids=name)
@pytest.mark.parametrize("zeros", [0, 1])
def test_what_solve_finds_is_certified_by_any_of_its_parts(setting, zeros, rng):
    problem = posed(rng, 9, 7, zeros, **setting)
    solution = problem.solve(tol=1e-10)
    for parts in (
        {"plan": solution.plan},
        {"potentials": solution.potentials},
        {"plan": solution.plan, "potentials": solution.potentials},
    ):
        found = jumbot.certify(problem.cost, problem.a, problem.b, **parts, **setting)
        assert found.verdict.startswith("within 1e-1")
        assert float(found.value) == pytest.approx(float(solution.value), rel=1e-9)
        assert 0 <= found.gap <= 1e-9
        assert found.dual <= found.value
        # a gap is of second order in the marginals of what potentials give, by Pinsker's inequality
        assert max(found.marginal_error) < (1e-9 if "plan" in parts else 1e-5)


@pytest.mark.parametrize("setting", SETTINGS, ids=name)
def test_the_interval_holds_the_optimum_of_wrong_plans_and_potentials(setting, rng):
    """Against the objective written from the formula, and the optimum."""
    problem = posed(rng, 6, 5, **setting)
    best = problem.solve(tol=1e-11)
    plan = rng.random((6, 5)) * problem.a.sum() / 15
    wrong = [p + 0.05 * rng.normal(size=p.shape) for p in best.potentials]
    for parts in ({"plan": plan}, {"potentials": wrong}, {"plan": plan, "potentials": wrong}):
        found = jumbot.certify(problem.cost, problem.a, problem.b, **parts, **setting)
        assert found.dual <= best.value + 1e-9
        assert best.value - 1e-9 <= found.value
        assert found.gap == pytest.approx(found.value - found.dual, rel=1e-9, abs=1e-12)
        assert not found.verdict.startswith("within")
    soft = not any(side.hard for side in (best._problem.source, best._problem.target))
    if soft:
        found = jumbot.certify(problem.cost, problem.a, problem.b, plan=plan, **setting)
        assert found.value == pytest.approx(problem.objective(plan), rel=1e-12)
        assert found.dual == pytest.approx(best.value, abs=1e-9)


def test_the_lower_bound_of_potentials_is_the_dual_written_by_hand(rng):
    problem = rectangular(rng, 6, 5, (1.2, 0.8), epsilon=0.1, tau=0.5)
    f, g = rng.normal(size=6) / 5, rng.normal(size=5) / 5
    a, b, tau, epsilon = problem.a, problem.b, 0.5, 0.1
    dual = -tau * (a * np.expm1(-f / tau)).sum() - tau * (b * np.expm1(-g / tau)).sum()
    dual -= epsilon * (np.outer(a, b) * np.expm1((f[:, None] + g - problem.cost) / epsilon)).sum()
    found = jumbot.certify(problem.cost, a, b, potentials=(f, g), epsilon=epsilon, tau=tau)
    assert found.dual == pytest.approx(dual, rel=1e-12)


@pytest.fixture
def clouds(rng):
    x, y = rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 1
    cost = ot.dist(x, y)
    return cost / cost.max(), rng.dirichlet(np.ones(60)), rng.dirichlet(np.ones(60))


def quietly(call, *arguments, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*arguments, **settings)


def test_a_zero_plan_from_float32_underflow_is_caught(clouds):
    cost, a, b = (x.astype(np.float32) for x in clouds)
    plan = quietly(ot.unbalanced.sinkhorn_knopp_unbalanced, a, b, 100 * cost, 0.01, 1.0, reg_type="kl")
    assert plan.dtype == np.float32
    found = jumbot.certify(100 * cost, a, b, plan=plan, epsilon=0.01, tau=1.0)
    assert found.relative_gap > 0.4
    assert found.verdict.startswith("not optimal")
    found = jumbot.certify(100 * cost, a, b, plan=0 * plan, epsilon=0.01, tau=1.0)
    assert found.verdict == "the plan is empty: its mass is 0, and the optimum moves more"


def test_a_zero_plan_is_right_where_it_is_optimal():
    cost = np.full((3, 3), 1e4)
    assert jumbot.certify(cost, plan=np.zeros((3, 3)), epsilon=0.1, tau=0.1).verdict.startswith("within")


def test_the_stabilised_unbalanced_plan_of_pot_is_caught(clouds):
    """POT issue 711."""
    cost, a, b = clouds
    settings = {"reg_type": "kl", "numItermax": 100_000, "stopThr": 1e-10}
    right = ot.unbalanced.sinkhorn_unbalanced(a, b, cost, 0.01, 10.0, method="sinkhorn", **settings)
    wrong = quietly(ot.unbalanced.sinkhorn_unbalanced, a, b, cost, 0.01, 10.0, method="sinkhorn_stabilized", **settings)
    assert jumbot.certify(cost, a, b, plan=right, epsilon=0.01, tau=10.0).relative_gap < 1e-9
    found = jumbot.certify(cost, a, b, plan=wrong, epsilon=0.01, tau=10.0)
    assert found.relative_gap > 0.9
    assert found.verdict.startswith("not optimal: a relative gap of 9")


@pytest.mark.parametrize(("own", "other"), [("product", "ones"), ("ones", "product")])
def test_a_plan_of_the_other_reference_is_caught(clouds, own, other):
    cost, a, b = clouds
    plan = jumbot.solve(cost, a, b, epsilon=0.05, tau=1.0, reference=other).plan
    assert jumbot.certify(cost, a, b, plan=plan, epsilon=0.05, tau=1.0, reference=other).relative_gap < 1e-6
    found = jumbot.certify(cost, a, b, plan=plan, epsilon=0.05, tau=1.0, reference=own)
    assert found.relative_gap > 0.1
    assert found.verdict.startswith("not optimal: a relative gap of")


@pytest.mark.parametrize("tau", [math.inf, 1.0])
def test_a_plan_stopped_early_is_caught(clouds, tau):
    cost, a, b = clouds
    if tau == math.inf:
        plan = quietly(ot.sinkhorn, a, b, cost, 0.01, numItermax=10)
    else:
        plan = quietly(ot.unbalanced.sinkhorn_unbalanced, a, b, cost, 0.01, tau, reg_type="kl", numItermax=3)
    found = jumbot.certify(cost, a, b, plan=plan, epsilon=0.01, tau=tau)
    assert found.relative_gap > 1e-3
    assert not found.verdict.startswith("within")
    assert found.verdict.startswith("a marginal is off by" if tau == math.inf else "not optimal")


@pytest.mark.parametrize(("epsilon", "tau"), [(0.0, math.inf), (0.05, math.inf), (0.05, 1.0), (0.0, 1.0)])
def test_swapped_marginals_a_transposed_cost_and_a_scaled_plan_are_caught(clouds, epsilon, tau):
    cost, a, b = clouds
    setting = {"epsilon": epsilon, "tau": tau}
    plan = jumbot.solve(cost, a, b, **setting).plan
    assert jumbot.certify(cost, a, b, plan=plan, **setting).verdict.startswith("within")
    for wrong in (
        jumbot.certify(cost, b, a, plan=plan, **setting),
        jumbot.certify(cost.T, a, b, plan=plan, **setting),
        jumbot.certify(cost, a, b, plan=1.1 * plan, **setting),
        jumbot.certify(cost, a, b, plan=plan.T, **setting),
    ):
        assert not wrong.verdict.startswith("within")


def test_marginals_that_are_off_are_measured(clouds):
    cost, a, b = clouds
    plan = ot.emd(a, b, cost)
    found = jumbot.certify(cost, a, b, plan=1.03 * plan, epsilon=0.0)
    assert found.verdict == "a marginal is off by 3 % (source and target)"
    assert found.marginal_error == (pytest.approx(0.03), pytest.approx(0.03))
    found = jumbot.certify(cost, a, b, plan=1.03 * plan, epsilon=0.0, tau=(1.0, math.inf))
    assert found.marginal_error == (0.0, pytest.approx(0.03))
    found = jumbot.certify(cost, a, b, plan=0.5 * plan, epsilon=0.0, mass=0.6)
    assert found.verdict == "the mass is off by 17 %"


@pytest.mark.parametrize(("entry", "wanted"), [(-0.1, "negative entries"), (math.nan, "NaN"), (math.inf, "infinite")])
def test_what_is_no_plan_is_reported_and_not_raised(entry, wanted, rng):
    cost = rng.random((2, 4, 3))
    plan = np.stack([jumbot.solve(c, epsilon=0.1).plan for c in cost])
    plan[1, 2, 1] = entry
    found = jumbot.certify(cost, plan=plan, epsilon=0.1)
    assert found.verdict[0].startswith("within")
    assert found.verdict[1].startswith("not a plan:")
    assert wanted in found.verdict[1]
    assert found.gap[1] == math.inf
    assert math.isnan(found.value[1])
    assert math.isfinite(found.dual[1])


def test_negative_entries_of_rounding_are_none(rng):
    cost = rng.random((4, 3))
    plan = jumbot.solve(cost, epsilon=0.0).plan - 1e-15
    assert jumbot.certify(cost, plan=plan, epsilon=0.0).verdict.startswith("within")


def test_mass_on_a_forbidden_pair_is_not_optimal(rng):
    cost = rng.random((4, 3))
    cost[0, 0] = math.inf
    plan = jumbot.solve(cost, epsilon=0.1, tau=1.0).plan
    assert jumbot.certify(cost, plan=plan, epsilon=0.1, tau=1.0).verdict.startswith("within")
    plan[0, 0] = 0.01
    found = jumbot.certify(cost, plan=plan, epsilon=0.1, tau=1.0)
    assert found.verdict == "not optimal: mass where the cost or the penalty is infinite"
    assert found.value == found.gap == math.inf
    assert found.dual == pytest.approx(jumbot.solve(cost, epsilon=0.1, tau=1.0).dual, abs=1e-6)


def test_a_row_without_a_pair_is_not_held_against_the_plan(rng):
    cost = rng.random((4, 3))
    cost[1] = math.inf
    for epsilon in (0.1, 0.0):
        solution = jumbot.solve(cost, epsilon=epsilon, tau=1.0)
        for parts in ({"plan": solution.plan}, {"potentials": solution.potentials}):
            found = jumbot.certify(cost, **parts, epsilon=epsilon, tau=1.0)
            assert found.relative_gap < 1e-6
            assert found.value == pytest.approx(solution.value)


class TestPeers:
    """What other libraries solve right passes."""

    def test_pot(self, clouds):
        cost, a, b = clouds
        plans = {
            ot.emd(a, b, cost).tobytes(): {"epsilon": 0.0},
            ot.sinkhorn(a, b, cost, 0.05).tobytes(): {"epsilon": 0.05},
            ot.sinkhorn(a, b, cost, 0.05, method="sinkhorn_log").tobytes(): {"epsilon": 0.05, "reference": "ones"},
            ot.solve(cost, a, b, reg=0.05, unbalanced=1.0).plan.tobytes(): {"epsilon": 0.05, "tau": 1.0},
            ot.partial.partial_wasserstein(a, b, cost, m=0.6).tobytes(): {"epsilon": 0.0, "mass": 0.6},
        }
        for plan, setting in plans.items():
            found = jumbot.certify(cost, a, b, plan=np.frombuffer(plan).reshape(60, 60), **setting)
            assert found.relative_gap < 1e-6, setting
            assert found.verdict.startswith("within"), setting

    def test_pot_in_float32(self, clouds):
        cost, a, b = (torch.from_numpy(x).float() for x in clouds)
        plan = ot.solve(cost, a, b, reg=0.05, unbalanced=1.0, reg_type="kl").plan
        assert jumbot.certify(cost, a, b, plan=plan, epsilon=0.05, tau=1.0).relative_gap < 1e-5

    @pytest.mark.parametrize("tau", [None, 1.0])
    def test_geomloss(self, clouds, tau):
        geomloss = pytest.importorskip("geomloss.ot")
        cost, a, b = (torch.from_numpy(x) for x in clouds)
        theirs = geomloss.solve(cost, a=a, b=b, reg=0.05, unbalanced=tau, max_iter=1000)
        found = jumbot.certify(cost, a, b, plan=theirs.plan, epsilon=0.05, tau=tau or math.inf)
        assert found.relative_gap < 1e-4
        assert found.verdict.startswith("within")

    def test_ott(self, clouds):
        jax = pytest.importorskip("jax")
        pytest.importorskip("ott")
        from ott.geometry import geometry
        from ott.problems.linear import linear_problem
        from ott.solvers.linear import sinkhorn

        cost, a, b = clouds
        with jax.enable_x64(True):
            geom = geometry.Geometry(cost_matrix=jax.numpy.asarray(cost), epsilon=0.05)
            problem = linear_problem.LinearProblem(geom, a=jax.numpy.asarray(a), b=jax.numpy.asarray(b))
            out = sinkhorn.Sinkhorn(threshold=1e-9, max_iterations=10_000)(problem)
            # OTT's potentials are those of the reference "ones"
            plan, potentials = np.asarray(out.matrix), (np.asarray(out.f), np.asarray(out.g))
        assert jumbot.certify(cost, a, b, plan=plan, epsilon=0.05).relative_gap < 1e-6
        found = jumbot.certify(cost, a, b, potentials=potentials, epsilon=0.05, reference="ones")
        assert found.relative_gap < 1e-6


def test_batches_and_kinds(rng):
    cost, a = rng.random((2, 3, 5, 4)), rng.random((3, 5))
    solution = jumbot.solve(cost, np.broadcast_to(a, (2, 3, 5)).copy(), epsilon=0.1, tau=0.5)
    found = jumbot.certify(cost, a, plan=solution.plan, epsilon=0.1, tau=0.5)
    for field in (found.value, found.dual, found.gap, found.relative_gap, *found.marginal_error):
        assert isinstance(field, np.ndarray)
        assert field.shape == (2, 3)
        assert field.dtype == np.float64
    assert found.verdict.shape == (2, 3)
    np.testing.assert_allclose(found.value, solution.value)
    one = jumbot.certify(cost[1, 2], a[2], plan=solution.plan[1, 2], epsilon=0.1, tau=0.5)
    assert one.value == pytest.approx(found.value[1, 2], rel=1e-13)
    assert isinstance(one.verdict, str)
    tensors = jumbot.certify(
        torch.from_numpy(cost).requires_grad_(),
        torch.from_numpy(a),
        plan=torch.from_numpy(solution.plan),
        epsilon=0.1,
        tau=0.5,
    )
    assert isinstance(tensors.gap, torch.Tensor)
    assert not tensors.value.requires_grad
    np.testing.assert_allclose(tensors.gap.numpy(), found.gap)
    assert "batch=(2, 3)" in repr(found)
    assert one.verdict in repr(one)


@pytest.mark.parametrize("cost", [None, "sqeuclidean", "euclidean", "wfr"])
def test_points(cost, rng):
    x, y, a = rng.normal(size=(2, 7, 3)), rng.normal(size=(5, 3)), rng.random((2, 7))
    matrix = ((x[:, :, None] - y) ** 2).sum(-1)
    if cost == "euclidean":
        matrix = np.sqrt(matrix)
    if cost == "wfr":
        matrix = parse_cost("wfr")(torch.from_numpy(x), torch.from_numpy(y)).numpy()
        assert np.isinf(matrix).any()
    solution = jumbot.solve(matrix, a, epsilon=0.5, tau=1.0)
    for parts in ({"plan": solution.plan}, {"potentials": solution.potentials}):
        by_matrix = jumbot.certify(matrix, a, **parts, epsilon=0.5, tau=1.0)
        by_points = jumbot.certify(cost, a, x=x, y=y, **parts, epsilon=0.5, tau=1.0)
        np.testing.assert_allclose(by_points.value, by_matrix.value, rtol=1e-13)
        np.testing.assert_allclose(by_points.gap, by_matrix.gap, rtol=1e-6, atol=1e-13)


def test_a_callable_cost_sees_all_points_at_once(rng, monkeypatch):
    """One that divides by the largest distance would mean something else in each block."""
    monkeypatch.setattr("jumbot.transport._evidence._AT_ONCE", 10)
    x, y = rng.normal(size=(20, 2)), rng.normal(size=(10, 2))

    def scaled(u, v):
        distance = torch.cdist(u, v)
        return distance / distance.max()

    matrix = scaled(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    potentials = jumbot.solve(matrix, epsilon=0.1).potentials
    found = jumbot.certify(scaled, x=x, y=y, potentials=potentials, epsilon=0.1)
    assert found.verdict.startswith("within")


@pytest.mark.parametrize("setting", SETTINGS, ids=name)
def test_blocks_change_nothing(setting, rng, monkeypatch):
    problem = posed(rng, 9, 7, **setting)
    solution = problem.solve(tol=1e-4)
    parts = {"plan": solution.plan * 1.01, "potentials": [p + 0.01 for p in solution.potentials]}
    whole = jumbot.certify(problem.cost, problem.a, problem.b, **parts, **setting)
    monkeypatch.setattr("jumbot.transport._evidence._AT_ONCE", 14)
    blocks = jumbot.certify(problem.cost, problem.a, problem.b, **parts, **setting)
    assert blocks.value == pytest.approx(whole.value, rel=1e-13)
    assert blocks.gap == pytest.approx(whole.gap, rel=1e-9)


def test_potentials_of_many_points_take_no_matrix(rng, monkeypatch):
    """Costs are asked for in blocks, and each is small."""
    asked, named = [], parse_cost("sqeuclidean")

    def watched(u, v):
        asked.append(u.shape[-2] * v.shape[-2])
        return named(u, v)

    monkeypatch.setattr("jumbot.transport._evidence.parse_cost", lambda cost: watched)
    x, y = rng.normal(size=(8000, 2)), rng.normal(size=(3000, 2))
    found = jumbot.certify(x=x, y=y, potentials=(np.zeros(8000), np.zeros(3000)), epsilon=1.0, tau=1.0)
    assert found.gap > 0
    assert max(asked) <= 1 << 21


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        ("plan, potentials", {"plan": None}),
        ("plan", {"plan": np.ones((3, 2))}),
        ("plan", {"plan": torch.ones(2, 3)}),
        ("plan", {"plan": np.ones((2, 3)) * 1j}),
        ("potentials", {"potentials": np.zeros(2)}),
        ("potentials", {"potentials": (np.zeros(3), np.zeros(2))}),
        ("cost", {"cost": None}),
        ("cost", {"cost": "sqeuclidean"}),
        ("cost", {"cost": np.full((2, 3), math.nan)}),
        ("cost", {"cost": np.full((2, 3), -math.inf)}),
        ("cost", {"cost": np.ones(3)}),
        ("x, y", {"x": np.ones((2, 1))}),
        ("cost", {"x": np.ones((2, 1)), "y": np.ones((3, 1))}),
        ("cost", {"x": np.ones((2, 1)), "y": np.ones((3, 1)), "cost": "sqeuclid"}),
        ("x", {"x": np.full((2, 1), math.nan), "y": np.ones((3, 1)), "cost": None}),
        ("x, y", {"x": np.ones((2, 2)), "y": np.ones((3, 1)), "cost": None}),
        ("cost", {"x": np.ones((2, 1)), "y": np.ones((3, 1)), "cost": lambda u, v: u}),
        ("a", {"a": np.ones(3)}),
        ("b", {"b": -np.ones(3)}),
        ("a, b", {"a": np.ones(2), "b": np.ones(3)}),
        ("epsilon", {"epsilon": -1}),
        ("tau", {"tau": 0}),
        ("divergence", {"divergence": "kll"}),
        ("reference", {"reference": "one"}),
        ("mass", {"mass": 2}),
    ],
)
def test_bad_input_is_refused_by_name(argument, given):
    good: dict[str, Any] = {"cost": np.ones((2, 3)), "plan": np.ones((2, 3)) / 6, "epsilon": 0.1}
    with refused(rf"^{argument}\b"):
        jumbot.certify(**(good | given))
