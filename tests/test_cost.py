"""Ground costs against their formulas in numpy."""

import numpy as np
import pytest
import torch

from jumbot.cost import COSTS


@pytest.mark.parametrize("d", [1, 8, 9, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", COSTS)
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
