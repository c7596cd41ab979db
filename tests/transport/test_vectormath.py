"""Our own exp, log, lesser and greater, against NumPy's."""

import re

import numpy as np
import pytest
from numba.core.caching import NullCache

from jumbot.transport._kernels import row_blocks
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.vectormath import exp, exp_single, greater, lesser, log


@pytest.mark.parametrize("reach", [0.3, 40.0, 700.0])
def test_exp_to_the_last_bits(reach, rng):
    x = np.r_[reach * (2 * rng.random(2000) - 1), 0.0, reach, -reach]
    np.testing.assert_allclose([exp(value) for value in x], np.exp(x), rtol=5e-16)


@pytest.mark.parametrize("reach", [0.3, 10.0, 87.0])
def test_exp_in_single_precision_to_its_last_bits(reach, rng):
    x = np.r_[reach * (2 * rng.random(2000) - 1), 0.0, reach, -reach]
    found = np.array([exp_single(value) for value in x])
    np.testing.assert_allclose(found, np.exp(x), rtol=1.5e-7)
    assert exp_single(-1e9) == pytest.approx(np.exp(-87.0), rel=1e-6)


def test_log_to_the_last_bits(rng):
    x = np.r_[np.exp(1400 * rng.random(2000) - 700), rng.random(2000), 1.0]
    np.testing.assert_allclose([log(value) for value in x], np.log(x), rtol=5e-16, atol=3e-16)


def test_the_kernel_in_single_precision(rng):
    cost, F, G = 60 * rng.random((7, 300)), rng.random(7), rng.random(300)
    K = np.empty(cost.shape, dtype=np.float32)
    row_blocks.fill_single(cost, 1.0, F, G, 50.0, K)
    x = F[:, None] + G - cost
    np.testing.assert_allclose(K, np.where(x > -50.0, np.exp(x), 0.0), rtol=1.5e-7)


@compiled()
def _extremes(x):
    low, high = x[0], x[0]
    for i in range(x.shape[0]):
        low, high = lesser(low, x[i]), greater(high, x[i])
    return low, high


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 7, 64, 1001])
def test_the_least_and_the_greatest_of_many_numbers(size, dtype, rng):
    x = rng.normal(size=size).astype(dtype)
    for turn in range(size if size < 10 else 10):  # the extremes at any place
        assert _extremes(np.roll(x, turn)) == (x.min(), x.max())


def test_such_loops_are_vectorised():
    """With `min` and `max` they would not be."""
    kernel = compiled()(_extremes.py_func)
    kernel._cache = NullCache()  # what comes from a file cannot be looked at
    kernel(np.ones(3))
    [code] = kernel.inspect_llvm().values()
    assert re.search(r"call [^@]*<\d+ x double> @llvm\.minnum", code)
