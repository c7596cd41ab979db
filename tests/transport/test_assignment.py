"""The best assignment and its potentials against scipy, the network simplex and brute force."""

import itertools

import numpy as np
import ot
import pytest
from scipy.optimize import linear_sum_assignment

import jumbot
from jumbot.transport._exact.assignment import assignment, permutation


def total(cost, partner):
    assert sorted(partner) == list(range(len(cost)))
    return cost[np.arange(len(cost)), partner].sum()


def test_brute_force(rng):
    for n in range(1, 6):
        cost = rng.normal(size=(n, n))
        best = min(sum(cost[i, s[i]] for i in range(n)) for s in itertools.permutations(range(n)))
        assert total(cost, permutation(cost)) == pytest.approx(best, abs=1e-12)


COSTS = {
    "plane": lambda rng, n: ((rng.normal(size=(n, 1, 2)) - rng.normal(size=(1, n, 2))) ** 2).sum(-1),
    "images": lambda rng, n: ((rng.random((n, 1, 300)) - rng.random((1, n, 300))) ** 2).sum(-1),
    "negative": lambda rng, n: rng.normal(size=(n, n)) - 5,
    "ties": lambda rng, n: rng.integers(0, 3, (n, n)).astype(float),
    "constant": lambda rng, n: np.full((n, n), 2.0),
    "one dear row": lambda rng, n: rng.random((n, n)) + 1e6 * (np.arange(n)[:, None] == 0),
    "one dear cell": lambda rng, n: rng.random((n, n)) + 1e9 * np.eye(n)[:, :1] * np.eye(n)[:1],
    "many scales": lambda rng, n: 10.0 ** rng.uniform(-8, 8, (n, n)),
    "two far clusters": lambda rng, n: np.abs(
        rng.random((n, 1)) + 100 * (np.arange(n)[:, None] % 2) - rng.random((1, n)) - 100 * (np.arange(n) % 2)
    ),
    "a rank-one table": lambda rng, n: np.outer(np.arange(n), np.arange(n)).astype(float),
}


@pytest.mark.parametrize("kind", COSTS)
@pytest.mark.parametrize("n", [2, 17, 130, 300])
def test_optimal(rng, kind, n):
    cost = COSTS[kind](rng, n)
    best, size = cost[linear_sum_assignment(cost)].sum(), np.abs(cost).max()
    assert total(cost, permutation(cost)) == pytest.approx(best, rel=1e-12, abs=1e-12 * size)
    plan, f, g = assignment(cost, 0.5)
    assert np.vdot(plan, cost) == pytest.approx(0.5 * best, rel=1e-12, abs=1e-12 * size)
    assert f.sum() + g.sum() == pytest.approx(best, rel=1e-12, abs=1e-12 * n * size)
    assert (cost - f[:, None] - g).min() >= -1e-14 * n * size


def avoiding(rng, n, dear, share):
    """Costs of [0, 1], and `dear` for that share of the pairs, none of which has to be taken."""
    cost = rng.random((n, n))
    cost[rng.random((n, n)) < share] = dear
    cost[np.arange(n), rng.permutation(n)] = rng.random(n)
    return cost


@pytest.mark.parametrize("dear", [1e10, 1e14, 1e16, 1e60, 1e200, 1e300, 1e307])
@pytest.mark.parametrize(("n", "share"), [(20, 0.3), (20, 0.9), (300, 0.3), (300, 0.95)])
def test_pairs_to_be_avoided_at_any_price(rng, n, dear, share):
    """They neither hide the costs that matter nor come near the largest float."""
    cost = avoiding(rng, n, dear, share)
    best = cost[linear_sum_assignment(cost)].sum()
    assert total(cost, permutation(cost)) == pytest.approx(best, rel=1e-12)
    solution = jumbot.solve(cost, epsilon=0.0)
    assert solution.value == pytest.approx(best / n, rel=1e-9)
    assert solution.converged
    f, g = solution.potentials
    assert f.sum() + g.sum() == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("tau", [5e9, 5e13])
def test_high_prices_hide_no_cost(rng, tau):
    cost = avoiding(rng, 300, 1e14, 0.3)
    best = cost[linear_sum_assignment(np.minimum(cost, 2 * tau))].mean()
    solution = jumbot.solve(cost, epsilon=0.0, tau=tau, divergence="tv")
    assert solution.value == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("cost", [[[0, 1e307], [0, 1e307]], [[-1e307, 1e307], [-1e307, 1e307]], [[1e308]]], ids=str)
def test_pairs_that_cannot_be_avoided(cost):
    cost = np.array(cost, dtype=float)
    partner = permutation(cost)
    assert sorted(partner) == list(range(len(cost)))
    assert cost[np.arange(len(cost)), partner].sum() == cost[linear_sum_assignment(cost)].sum()


def test_views_and_other_dtypes(rng):
    cost = rng.random((9, 18)).astype(np.float32)[:, ::2].T
    assert total(cost, permutation(cost)) == pytest.approx(cost[linear_sum_assignment(cost)].sum())


def test_network_simplex(rng):
    cost = COSTS["plane"](rng, 200)
    weights = np.full(200, 1 / 200)
    partner = permutation(cost)
    assert (ot.emd(weights, weights, cost)[np.arange(200), partner] > 0).all()


def test_the_cost_is_not_changed(rng):
    cost = rng.random((9, 9))
    kept = cost.copy()
    permutation(cost)
    permutation(cost.T)
    assert (cost == kept).all()


def test_a_price_beyond_all_costs_does_not_round_them_off():
    cost = 1e-150 * np.random.default_rng(3).random((5, 5))
    rows, columns = linear_sum_assignment(cost)
    value = jumbot.solve(cost, epsilon=0, tau=1e291, divergence="tv").value
    assert value == pytest.approx(cost[rows, columns].mean(), rel=1e-9, abs=0)
