"""Ground costs against their formulas in numpy."""

import numpy as np
import pytest
import torch

import jumbot
from jumbot.cost import COSTS
from tests.refusals import refused


@pytest.mark.parametrize("d", [1, 8, 9, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["sqeuclidean", "euclidean"])
def test_costs_of_points_that_coincide(name, dtype, d, rng):
    """Far from the origin, some of them the same on both sides, some very near: in batches that broadcast."""
    x = (rng.normal(size=(2, 1, 7, d)) + 30).astype(dtype)
    y = (rng.normal(size=(3, 5, d)) + 30).astype(dtype)
    y[1, 2:4] = x[0, 0, :2]
    y[1, 3, 0] += dtype(1e-3)
    squared = ((x.astype(float)[..., :, None, :] - y.astype(float)[..., None, :, :]) ** 2).sum(-1)
    expected = squared if name == "sqeuclidean" else np.sqrt(squared)
    found = COSTS[name](torch.from_numpy(x), torch.from_numpy(y))
    np.testing.assert_allclose(found, expected, atol=3e-5 * d if dtype is np.float32 else 1e-12 * d)
    if name == "euclidean":
        assert found[0, 1, 0, 2] == 0
        np.testing.assert_allclose(found[0, 1], expected[0, 1], rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_directions_and_growth(dtype, rng):
    """1 - cos keeps the digits of directions that nearly agree; -log cos^2 is infinite from pi/2 on, with gradients."""
    x, y = rng.normal(size=(6, 3)).astype(dtype), rng.normal(size=(5, 3)).astype(dtype)
    y[0] = x[0] * 3
    u, v = (z.astype(float) / np.linalg.norm(z.astype(float), axis=1, keepdims=True) for z in (x, y))
    found = COSTS["cosine"](torch.from_numpy(x), torch.from_numpy(y))
    np.testing.assert_allclose(found, ((u[:, None] - v) ** 2).sum(-1) / 2, atol=1e-6 if dtype is np.float32 else 1e-14)
    distance = np.linalg.norm(x.astype(float)[:, None] - y, axis=-1)
    with np.errstate(divide="ignore"):
        expected = np.where(distance < np.pi / 2, -2 * np.log(np.abs(np.cos(distance))), np.inf)
    points = torch.from_numpy(x).requires_grad_()
    found = COSTS["wfr"](points, torch.from_numpy(y))
    np.testing.assert_allclose(found.detach(), expected, rtol=1e-3 if dtype is np.float32 else 1e-10)
    torch.where(found.isinf(), 0.0, found).sum().backward()
    assert bool(points.grad.isfinite().all())
    with refused(r"^x"):
        COSTS["cosine"](torch.zeros(1, 3), torch.ones(1, 3))


@pytest.mark.parametrize("cost", ["cosine", "wfr"])
def test_estimate_and_couple_know_them(cost, rng):
    x, y = rng.random((20, 2)) + 0.1, rng.random((20, 2)) + 0.1
    settings = {"cost": cost, "epsilon": 0.1, "tau": 1.0}
    whole = jumbot.estimate(x, y, m=20, k=1, **settings).value
    matrix = COSTS[cost](torch.from_numpy(x), torch.from_numpy(y)).numpy()
    assert whole == pytest.approx(float(jumbot.solve(matrix, epsilon=0.1, tau=1.0).value), rel=1e-5)
    assert jumbot.couple(x, y, **settings, seed=0)[1].shape == y.shape
