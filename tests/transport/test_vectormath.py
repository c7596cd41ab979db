"""Our own exp and log, against NumPy's."""

import numpy as np
import pytest

from jumbot.transport.compiled import row_blocks
from jumbot.transport.compiled.vectormath import exp, exp_single, log


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
