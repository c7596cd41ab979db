"""Pairs of cost +inf: no plan of any engine has mass there, whatever it costs to go elsewhere."""

import math
import time

import numpy as np
import pytest
import torch

import jumbot
from jumbot.transport._entropic import compiled_sweeps, large_sweeps
from tests.refusals import refused

from ..generators import posed, weights
from ..oracles import ENTROPIES
from .test_truth import assert_true

ONE_SIDED = [
    ("kl", (math.inf, 1.0)),
    ("tv", (math.inf, 1.0)),
    ("chi2", (math.inf, 1.0)),
    ("chi2", (math.inf, 30.0)),
    ("power(3)", (math.inf, 1.0)),
    ("power(0.5)", (math.inf, 1.0)),
    ("power(1.5)", (math.inf, 0.01)),
]


def engines(monkeypatch, engine):
    """Only this engine sweeps."""
    if engine != "compiled":
        monkeypatch.setattr(compiled_sweeps, "fits", lambda problem: False)
    if engine == "torch":
        monkeypatch.setattr(large_sweeps, "fits", lambda problem: False)


def phi(name, x):
    if name in ENTROPIES:
        return float(ENTROPIES[name].phi(np.float64(x)))
    p = float(name[6:-1])
    return (x**p - p * (x - 1) - 1) / (p * (p - 1))


@pytest.mark.parametrize("engine", ["compiled", "large", "torch"])
@pytest.mark.parametrize(("name", "tau"), ONE_SIDED, ids=str)
@pytest.mark.parametrize("w", [0.5, 4e-4, 1e-5, 1e-9])
@pytest.mark.parametrize("turned", [False, True])
def test_all_mass_must_go_to_a_light_point(engine, name, tau, w, turned, monkeypatch):
    """C = (0, inf), a = 1, b = (w, 1 - w), rows exact: P = (1, 0), at tau (w phi(1/w) + (1 - w) phi(0))."""
    engines(monkeypatch, engine)
    cost, b, epsilon = np.array([[0.0, np.inf]]), np.array([w, 1 - w]), 0.01
    truth = epsilon * math.log(1 / w) + tau[1] * (w * phi(name, 1 / w) + (1 - w) * phi(name, 0.0))
    setting = {"epsilon": epsilon, "divergence": name}
    if turned:
        solution = jumbot.solve(cost.T, b, np.ones(1), tau=tau[::-1], **setting)
    else:
        solution = jumbot.solve(cost, np.ones(1), b, tau=tau, **setting)
    assert solution.converged
    np.testing.assert_allclose(solution.plan.ravel(), [1, 0], rtol=1e-12, atol=0)
    assert solution.value == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("name", ["chi2", "power(3)"])
def test_it_takes_no_time(name):
    problem = {"epsilon": 0.01, "tau": (math.inf, 1.0), "divergence": name}
    cost, a = np.array([[0.0, np.inf]]), np.ones(1)
    jumbot.solve(cost, a, np.array([0.5, 0.5]), **problem)  # compiles
    began = time.process_time()
    jumbot.solve(cost, a, np.array([4e-4, 1 - 4e-4]), **problem)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("engine", ["compiled", "large", "torch"])
@pytest.mark.parametrize("reference", ["product", "ones"])
@pytest.mark.parametrize(
    ("name", "tau"),
    [*ONE_SIDED, *[(name, (0.4, 2.0)) for name in ("kl", "tv", "chi2", "power(3)", "power(-1)")]],
    ids=str,
)
def test_groups_that_never_meet_are_problems_of_their_own(engine, reference, name, tau, rng, monkeypatch):
    """Blocks of finite cost: the plans of the blocks, side by side, and the values with epsilon R of the rest."""
    engines(monkeypatch, engine)
    setting = {"epsilon": 0.05, "tau": tau, "divergence": name, "reference": reference, "tol": 1e-7}
    a, b = weights(rng, 6, 1.0), weights(rng, 7, 1.3)
    b[5] = 1e-6
    cost = np.full((6, 7), np.inf)
    blocks = [np.ix_([0, 1, 4], [0, 3, 4]), np.ix_([2, 3, 5], [1, 2, 5, 6])]
    for block in blocks:
        cost[block] = rng.random(cost[block].shape)
    whole = jumbot.solve(cost, a, b, **setting)
    parts = [jumbot.solve(cost[block], a[block[0][:, 0]], b[block[1][0]], **setting) for block in blocks]
    R = np.outer(a, b) if reference == "product" else np.ones(cost.shape)
    assert whole.converged
    assert (whole.plan[np.isinf(cost)] == 0).all()
    truth = sum(part.value for part in parts) + 0.05 * R[np.isinf(cost)].sum()
    assert whole.value == pytest.approx(truth, rel=1e-6)
    for block, part in zip(blocks, parts, strict=True):
        np.testing.assert_allclose(whole.plan[block], part.plan, rtol=1e-2, atol=1e-4 * part.plan.max())


def test_groups_that_never_meet_above_a_million_entries():
    rng = np.random.default_rng(0)
    n, m, setting = 1100, 1000, {"epsilon": 0.1, "tau": (math.inf, 0.5), "divergence": "chi2"}
    a, b = weights(rng, n), weights(rng, m)
    cost = ((rng.normal(size=(n, 1, 2)) - rng.normal(size=(1, m, 2))) ** 2).sum(-1)
    cost[:600, 450:], cost[600:, :450] = np.inf, np.inf
    whole = jumbot.solve(cost, a, b, **setting)
    parts = [
        jumbot.solve(cost[:600, :450], a[:600], b[:450], **setting),
        jumbot.solve(cost[600:, 450:], a[600:], b[450:], **setting),
    ]
    assert whole.converged
    assert (whole.plan[np.isinf(cost)] == 0).all()
    truth = sum(part.value for part in parts) + 0.1 * np.outer(a, b)[np.isinf(cost)].sum()
    assert whole.value == pytest.approx(truth, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("epsilon", [0.0, 0.05])
@pytest.mark.parametrize("name", ["kl", "tv", "chi2"])
@pytest.mark.parametrize("tau", [(math.inf, 0.5), (0.5, math.inf), 0.5], ids=str)
def test_random_masks(dtype, epsilon, name, tau, rng):
    if epsilon == 0 and name == "chi2":
        pytest.skip("not offered")
    problem = posed(rng, 6, 5, epsilon=epsilon, divergence=name, tau=tau)
    mask = rng.random((6, 5)) < 0.5
    mask[np.arange(6), rng.integers(5, size=6)] = mask[rng.integers(6, size=5), np.arange(5)] = False
    problem = problem.but(cost=np.where(mask, np.inf, problem.cost))
    assert_true(problem)
    solution = jumbot.solve(
        *(torch.tensor(x, dtype=dtype) for x in (problem.cost, problem.a, problem.b)),
        epsilon=epsilon,
        tau=tau,
        divergence=name,
    )
    assert solution.converged
    assert (solution.plan.numpy()[mask] == 0).all()


def test_a_row_left_with_columns_of_no_weight():
    """Under R = a b' such a row is as blocked as one of infinite costs: refused where it must be matched."""
    cost, b = np.array([[0.0, np.inf], [1.0, 1.0]]), np.array([0.0, 1.0])
    with refused("row"):
        jumbot.solve(cost, None, b, epsilon=0.1, tau=(math.inf, 1.0))
    solution = jumbot.solve(cost, None, b, epsilon=0.1, tau=1.0)
    assert solution.converged
    np.testing.assert_array_equal(solution.plan[0], 0)
    truth, _ = (
        posed(np.random.default_rng(0), 2, 2, epsilon=0.1, tau=1.0).but(cost=cost, a=np.full(2, 0.5), b=b).truth()
    )
    assert solution.value == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("mass", [None, 0.5])
def test_both_sides_constrained_is_refused(mass):
    with refused("cost"):
        jumbot.solve(np.array([[0.0, np.inf], [1.0, 1.0]]), epsilon=0.1, mass=mass)


@pytest.mark.parametrize("reference", ["product", "ones"])
@pytest.mark.parametrize(("divergence", "left"), [("kl", 1.0), ("tv", 1.0), ("chi2", 1.0), ("power(0.5)", 2.0)])
def test_nothing_may_be_matched(divergence, left, reference):
    """The zero plan, certified, however few sweeps are allowed: `left` is phi(0)."""
    solution = jumbot.solve(
        np.full((2, 3), np.inf),
        epsilon=0.5,
        tau=(2.0, 3.0),
        divergence=divergence,
        reference=reference,
        max_iterations=2,
    )
    assert solution.converged
    assert solution.mass == 0
    assert solution.value == pytest.approx(5 * left + 0.5 * (1 if reference == "product" else 6))


@pytest.mark.parametrize("seed", range(1, 5))
def test_an_exact_marginal_next_to_a_row_that_is_closed(seed):
    """epsilon = 0: what the interior point leaves on blocked pairs is more than light points have."""
    rng = np.random.default_rng(seed)
    cost, b = 0.3 * rng.random((3, 15)), np.full(15, 1e-6)
    cost[0], b[0] = np.inf, 1.0
    solution = jumbot.solve(cost, np.array([2.0, 0.05, 0.3]), b, epsilon=0.0, tau=(1e-3, math.inf))
    assert solution.converged
    np.testing.assert_array_equal(solution.plan[0], 0)
    np.testing.assert_allclose(solution.plan.sum(0), b, rtol=1e-12)


@pytest.mark.parametrize("engine", ["compiled", "large", "torch"])
@pytest.mark.parametrize("divergence", ["kl", "tv", "chi2", "power(0.5)"])
@pytest.mark.parametrize("tau", [1.0, (1.0, 3.0), 10.0, (1.0, math.inf), (math.inf, 1.0)])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("far", [-1e6, -2e3, 1e6])
def test_what_a_point_without_weight_costs_plays_no_part(engine, divergence, tau, side, far, rng, monkeypatch):
    """Under R = a b' it has no mass: the problem is that of the others."""
    engines(monkeypatch, engine)
    cost, setting = rng.random((7, 5)), {"epsilon": 0.1, "tau": tau, "divergence": divergence}
    alone = jumbot.solve(cost, np.full(7, 1 / 7), np.full(5, 1 / 5), **setting)
    margins = [np.full(7, 1 / 7), np.full(5, 1 / 5)]
    margins[side] = np.append(margins[side], 0.0)
    padded = jumbot.solve(np.pad(cost, [(0, 1 - side), (0, side)], constant_values=far), *margins, **setting)
    assert padded.converged
    assert padded.value == pytest.approx(float(alone.value), rel=2e-6)
    assert padded.iterations <= 2 * alone.iterations + 100


@pytest.mark.parametrize("seed", range(20))
def test_a_point_without_weight_next_to_prices_and_masses_far_apart(seed):
    rng = np.random.default_rng(seed)
    cost, a, b = rng.normal(size=(17, 4)) * 1e5, rng.random(17) * 10 ** rng.uniform(-6, 6), rng.random(4)
    pair = (1e4, float(10 ** rng.uniform(-1, 1)))
    setting = {"epsilon": 1.0, "tau": pair if seed % 2 else pair[::-1]}
    alone = jumbot.solve(cost, a, b, **setting)
    solution = jumbot.solve(np.c_[cost, rng.normal(size=17) * 1e5], a, np.append(b, 0.0), **setting)
    assert solution.converged == alone.converged
    assert np.isfinite(solution.plan).all()
    assert not solution.plan[:, 4].any()
    assert solution.value == pytest.approx(float(alone.value), rel=2e-6)
