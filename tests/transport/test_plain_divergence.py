"""Small clouds take a path of their own: the same values and gradients as the general one, problem by problem."""

import math

import numpy as np
import pytest
import torch

import jumbot
from jumbot.transport import _debiased as plain_divergence
from jumbot.transport._kernels.symmetric import is_symmetric

CASES = [
    pytest.param({}, {"epsilon": 0.05, "tau": 0.5}, id="kl, both self terms in one batch"),
    pytest.param({"m": 9}, {"epsilon": 0.05, "tau": 0.5}, id="kl, sizes that differ"),
    pytest.param({"weights": True}, {"epsilon": 0.05, "tau": 0.5}, id="kl, weights"),
    pytest.param({"weights": True, "m": 9}, {"epsilon": 0.05, "tau": 2.0}, id="kl, weights, sizes that differ"),
    pytest.param({"batch": (2, 3)}, {"epsilon": 0.05, "tau": 0.5}, id="kl, batch"),
    pytest.param({"batch": (2,), "weights": True}, {"epsilon": 0.05, "tau": 0.5}, id="kl, batch, weights of all"),
    pytest.param({"batch": (2,), "m": 9, "weights": True}, {"epsilon": 0.1}, id="balanced, batch, weights"),
    pytest.param({}, {"epsilon": 0.05}, id="balanced"),
    pytest.param({"weights": True}, {"epsilon": 0.1, "tau": 0.5, "divergence": "chi2"}, id="chi2"),
    pytest.param({"d": 1}, {"epsilon": 0.1, "tau": 0.5, "divergence": "tv"}, id="tv, on a line"),
    pytest.param({"dtype": torch.float32}, {"epsilon": 0.05, "tau": 0.5}, id="kl, float32"),
    pytest.param({"d": 8}, {"epsilon": 0.0, "tau": 0.5}, id="kl, exact"),
]


def clouds(rng, batch=(), n=7, m=7, d=2, weights=False, dtype=torch.float64, balanced=False):
    x, y = rng.random((*batch, n, d)), rng.random((*batch, m, d)) + 0.3
    a, b = rng.random(n) + 0.1, rng.random(m) + 0.1
    if balanced:
        a, b = a / a.sum(), b / b.sum()
    arrays = (x, y, a, b) if weights else (x, y)
    return [torch.tensor(z, dtype=dtype, requires_grad=True) for z in arrays]


def value_and_gradients(inputs, settings):
    value = jumbot.sinkhorn_divergence(*inputs, **settings)
    factors = torch.arange(1, 1 + value.numel(), dtype=value.dtype).reshape(value.shape)
    return value.detach(), torch.autograd.grad((factors * value).sum(), inputs)


@pytest.mark.parametrize(("shape", "settings"), CASES)
def test_the_same_as_the_general_path(shape, settings, rng, monkeypatch):
    inputs = clouds(rng, **shape, balanced="tau" not in settings)
    assert plain_divergence.fits(jumbot.cost.squared_euclidean, *inputs[:2])
    value, gradients = value_and_gradients(inputs, settings)
    monkeypatch.setattr(plain_divergence, "fits", lambda *_: False)
    expected, others = value_and_gradients(inputs, settings)
    rough = inputs[0].dtype == torch.float32
    torch.testing.assert_close(value, expected, rtol=1e-5 if rough else 1e-7, atol=1e-6 if rough else 1e-9)
    for gradient, other in zip(gradients, others, strict=True):
        assert gradient.shape == other.shape
        assert gradient.dtype == other.dtype
        torch.testing.assert_close(gradient, other, rtol=1e-3, atol=1e-5 if rough else 1e-6)


@pytest.mark.parametrize("weights", [False, True])
def test_gradients_are_those_of_finite_differences(weights, rng):
    inputs = clouds(rng, n=4, m=5, weights=weights)
    torch.autograd.gradcheck(
        lambda *z: jumbot.sinkhorn_divergence(*z, epsilon=0.1, tau=0.5, tol=1e-9), inputs, eps=1e-5, atol=1e-5
    )


def test_points_written_to_before_the_gradient_are_refused(rng):
    x, y = clouds(rng)
    value = jumbot.sinkhorn_divergence(x * 1.0, moved := y * 1.0, epsilon=0.1, tau=0.5)
    with torch.no_grad():
        moved += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_only_what_needs_a_gradient_gets_one(rng):
    x, y, a, b = clouds(rng, weights=True)
    y.requires_grad_(False)
    b.requires_grad_(False)
    jumbot.sinkhorn_divergence(x, y, a, b, epsilon=0.1, tau=0.5).backward()
    assert x.grad is not None
    assert a.grad is not None
    assert y.grad is None
    assert b.grad is None
    with torch.no_grad():
        assert not jumbot.sinkhorn_divergence(x, y, epsilon=0.1, tau=0.5).requires_grad


def test_what_does_not_fit(rng):
    x, y = (torch.from_numpy(rng.random((3, 2))) for _ in range(2))
    squared = jumbot.cost.squared_euclidean
    assert plain_divergence.fits(squared, x, y)
    assert not plain_divergence.fits(jumbot.cost.euclidean, x, y)
    assert not plain_divergence.fits(squared, x[None].expand(2, -1, -1), y)  # y for both: gradients are summed
    assert not plain_divergence.fits(squared, x.repeat(1, 5), y.repeat(1, 5))
    assert not plain_divergence.fits(squared, x.repeat(100, 1), y)


def test_equal_clouds_are_at_no_distance(rng):
    x = rng.random((6, 2))
    assert 0 <= float(jumbot.sinkhorn_divergence(x, x, epsilon=0.1, tau=0.5)) < 1e-8
    assert math.isclose(float(np.asarray(jumbot.sinkhorn_divergence(x, x + 3, epsilon=0.1))), 18.0, rel_tol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_squared_distances_of_any_layout(batch, dtype, rng):
    x, y = rng.normal(size=(*batch, 2, 9)).astype(dtype), rng.normal(size=(*batch, 7, 4)).astype(dtype)[..., ::2]
    x = x.swapaxes(-1, -2)  # neither is in one piece
    difference = x[..., :, None, :].astype(np.float64) - y[..., None, :, :]
    np.testing.assert_allclose(plain_divergence.squared(x, y), (difference**2).sum(-1), rtol=1e-14)
    assert not np.diagonal(plain_divergence.squared(x, x), axis1=-2, axis2=-1).any()


@pytest.mark.parametrize("spoil", ["diagonal", "negative", "one side"])
def test_symmetry_is_seen_and_its_lack_too(spoil, rng):
    x = rng.normal(size=(6, 2))
    cost = plain_divergence.squared(x, x)
    assert is_symmetric(cost)
    if spoil == "diagonal":
        cost[5, 5] = 1e-300
    elif spoil == "one side":
        cost[5, 4] = np.nextafter(cost[4, 5], 9)
    else:
        cost[4, 5] = cost[5, 4] = -1.0
    assert not is_symmetric(cost)


def test_weights_in_float32_are_as_equal_as_float32_can_say():
    x, a = torch.randn(7, 2, generator=torch.Generator().manual_seed(0)), torch.full((7,), 1 / 7)
    assert float(jumbot.sinkhorn_divergence(x, x + 1, a, a * (1 + 4e-6), epsilon=0.1)) == pytest.approx(2.0, rel=1e-4)


def test_what_float32_cannot_hold_is_reported():
    x = 1e19 * torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    with pytest.warns(jumbot.NotConvergedWarning):
        jumbot.sinkhorn_divergence(x, x + 1e20, epsilon=1e38, tau=1e39)
