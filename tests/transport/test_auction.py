"""The best permutation against scipy, the network simplex and brute force."""

import itertools

import numpy as np
import ot
import pytest
from scipy.optimize import linear_sum_assignment

from jumbot.transport.exact.auction import permutation


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
@pytest.mark.parametrize("n", [2, 17, 130])
def test_optimal(rng, kind, n):
    cost = COSTS[kind](rng, n)
    found, best = total(cost, permutation(cost)), cost[linear_sum_assignment(cost)].sum()
    assert found == pytest.approx(best, rel=1e-12, abs=1e-12 * np.abs(cost).max())


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
