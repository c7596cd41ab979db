"""Costs of minibatches beside exact fractions, whatever the number of coordinates."""

from fractions import Fraction

import numpy as np
import pytest
import torch

import jumbot
from jumbot.minibatch._costs import Minibatches, squared_distances
from jumbot.minibatch._sampling import Points, draw_subsets

SIZES = (1, 2, 3, 4, 7, 63, 64, 65, 66, 128, 131, 300)


def cost(x, y):
    return ((x[:, None] - y[None]) ** 2).sum(-1)


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize(("m", "p"), [(1, 1), (4, 4), (5, 5), (5, 8), (8, 3)])
def test_every_part_of_the_coordinates_counts_once(rng, d, m, p):
    x, y = rng.normal(size=(30, d)), rng.normal(size=(20, d)) + 1
    I, J = rng.integers(30, size=(3, m)), rng.integers(20, size=(3, p))
    expected = ((x[I][:, :, None] - y[J][:, None]) ** 2).sum(-1)
    out = np.full((3, m, p), np.nan)
    squared_distances(x, y, I, J, False, out, 0, 3)
    np.testing.assert_allclose(out, expected, rtol=1e-13)
    squared_distances(x, y, I, J, True, out, 0, 3)
    np.testing.assert_allclose(out, np.sqrt(expected), rtol=1e-13)


@pytest.mark.parametrize("ground", ["sqeuclidean", "euclidean"])
@pytest.mark.parametrize("d", [2, 64, 256])
def test_points_that_nearly_coincide_keep_their_digits(rng, d, ground):
    """A million away from the origin and a millionth apart: |x|^2 + |y|^2 - 2 <x, y> has no digit left."""
    x = 1e6 + rng.normal(size=(6, d))
    y = x + 1e-6 * rng.normal(size=(6, d))
    exact = np.array(
        [[float(sum((Fraction(u) - Fraction(v)) ** 2 for u, v in zip(a, b, strict=True))) for b in y] for a in x]
    )
    every = np.arange(6)[None]
    found = Minibatches(Points.of("x", x), Points.of("y", y), every, every, ground).cost("x", "y")[0].numpy()
    np.testing.assert_allclose(found, exact if ground == "sqeuclidean" else np.sqrt(exact), rtol=1e-12)


@pytest.mark.parametrize("settings", [{"tau": 60.0}, {}, {"tau": 60.0, "loss": "sinkhorn_divergence"}])
def test_many_coordinates_are_estimated_as_solved_one_by_one(rng, settings):
    x, y = rng.normal(size=(40, 150)), rng.normal(size=(30, 150)) + 0.3
    found = jumbot.estimate(x, y, m=9, k=4, seed=2, epsilon=20.0, tol=1e-9, **settings).values
    I, J = draw_subsets(2, 0, 4, 0, 40, 9), draw_subsets(2, 0, 4, 1, 30, 9)
    same = {"epsilon": 20.0, "tol": 1e-9, "tau": settings.get("tau", np.inf)}
    pairs = [(x[i], y[j]) for i, j in zip(I, J, strict=True)]
    if "loss" in settings:
        expected = [jumbot.sinkhorn_divergence(a, b, **same) for a, b in pairs]
    else:
        expected = [jumbot.solve(cost(a, b), **same).value for a, b in pairs]
    np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("loss", ["transport", "sinkhorn_divergence"])
def test_flows_in_many_coordinates_follow_autograd(rng, loss):
    x, y = rng.normal(size=(12, 100)), rng.normal(size=(15, 100)) + 0.3
    settings = {"m": 8, "steps": 3, "learning_rate": 0.1, "epsilon": 20.0, "tau": 60.0, "loss": loss, "tol": 1e-11}
    named = jumbot.gradient_flow(x, y, **settings)
    by_hand = jumbot.gradient_flow(x, y, cost=lambda u, v: torch.cdist(u, v).square(), **settings)
    assert not np.allclose(named.points, x)
    np.testing.assert_allclose(named.points, by_hand.points, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(named.losses, by_hand.losses, rtol=1e-6)
