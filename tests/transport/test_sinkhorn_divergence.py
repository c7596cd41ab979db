"""S = OT(a, b) - OT(a, a)/2 - OT(b, b)/2 + epsilon/2 (m_a - m_b)^2: definition, shape, gradients."""

import math

import numpy as np
import pytest
import torch

import jumbot

from ..generators import clouds, weights
from ..oracles import Problem

TOL = 1e-11
SETTINGS = {
    "balanced": {},
    "kl": {"tau": 1.0},
    "tv": {"tau": 0.8, "divergence": "tv"},
    "chi2": {"tau": 0.5, "divergence": "chi2"},
    "range": {"divergence": "range(0.7,1.2)"},
}


def squared(x, y):
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def measures(rng, setting, n=6, m=5):
    """Two weighted clouds; of different mass wherever the setting lets them."""
    x, y = clouds(rng, n, m)
    masses = (1.0, 1.0) if setting == "balanced" else (1.1, 0.9)
    return x, y, weights(rng, n, masses[0]), weights(rng, m, masses[1])


@pytest.mark.parametrize("epsilon", [0.1, 2.0])
@pytest.mark.parametrize("setting", SETTINGS)
def test_definition(setting, epsilon, rng):
    x, y, a, b = measures(rng, setting)
    pairs = (((x, a), (y, b)), ((x, a), (x, a)), ((y, b), (y, b)))
    ab, aa, bb = (
        Problem(squared(p, q), u, v, epsilon=epsilon, **SETTINGS[setting]).solve(tol=TOL).value
        for (p, u), (q, v) in pairs
    )
    expected = ab - aa / 2 - bb / 2 + epsilon / 2 * (a.sum() - b.sum()) ** 2
    found = jumbot.sinkhorn_divergence(x, y, a, b, epsilon=epsilon, tol=TOL, **SETTINGS[setting])
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("setting", SETTINGS)
def test_zero_at_itself_positive_elsewhere_symmetric(setting, rng):
    x, y, a, b = measures(rng, setting)
    options = {"epsilon": 0.3, "tol": TOL, **SETTINGS[setting]}
    shuffle = rng.permutation(6)
    assert jumbot.sinkhorn_divergence(x, x[shuffle], a, a[shuffle], **options) == pytest.approx(0, abs=1e-9)
    there, back = (jumbot.sinkhorn_divergence(*m, **options) for m in ((x, y, a, b), (y, x, b, a)))
    assert there > 1e-3
    assert there == pytest.approx(back, rel=1e-8)


@pytest.mark.parametrize("setting", ["kl", "tv", "chi2", "range"])
def test_mass_alone_is_seen(setting, rng):
    """The same points with more mass: positive, which it would not be without the mass term."""
    x, _, a, _ = measures(rng, setting)
    assert jumbot.sinkhorn_divergence(x, x, a, 1.1 * a, epsilon=5.0, tol=TOL, **SETTINGS[setting]) > 1e-5


def test_diracs():
    """Balanced Diracs: the entropy terms cancel and the cost is left; both named costs."""
    x, y = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])
    assert jumbot.sinkhorn_divergence(x, y, epsilon=0.7) == pytest.approx(25)
    assert jumbot.sinkhorn_divergence(x, y, epsilon=0.7, cost="euclidean") == pytest.approx(5)


def test_converges_to_half_the_energy_of_means():
    """epsilon -> infinity, balanced, squared distances: S -> |mean x - mean y|^2."""
    rng = np.random.default_rng(3)
    x, y = clouds(rng, 9, 8)
    found = jumbot.sinkhorn_divergence(x, y, epsilon=1e5, tol=1e-12)
    assert found == pytest.approx(((x.mean(0) - y.mean(0)) ** 2).sum(), rel=1e-3)


@pytest.mark.parametrize("setting", SETTINGS)
def test_gradients_against_finite_differences(setting, rng):
    arrays = dict(zip("xyab", measures(rng, setting, 4, 3), strict=True))

    def divergence(x, y, a, b):
        return jumbot.sinkhorn_divergence(x, y, a, b, epsilon=0.4, tol=1e-12, **SETTINGS[setting])

    leaves = {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}
    gradients = torch.autograd.grad(divergence(**leaves), list(leaves.values()))
    step = 1e-4
    for (name, array), gradient in zip(arrays.items(), gradients, strict=True):
        direction = rng.normal(size=array.shape)
        if setting == "balanced" and name in "ab":
            direction -= direction.mean()
        direction /= np.linalg.norm(direction)
        at = [divergence(**arrays | {name: array + t * step * direction}) for t in (-2, -1, 1, 2)]
        expected = (8 * (at[2] - at[1]) - (at[3] - at[0])) / (12 * step)
        assert (gradient.numpy() * direction).sum() == pytest.approx(expected, rel=1e-6, abs=1e-6), name


@pytest.mark.parametrize("cost", ["sqeuclidean", "euclidean"])
def test_gradient_vanishes_at_equality(cost, rng):
    """x = y is the minimum, and the distance from a point to itself has no NaN in its gradient."""
    x = torch.tensor(rng.normal(size=(6, 2)), requires_grad=True)
    y = x.detach().clone()
    value = jumbot.sinkhorn_divergence(x, y, epsilon=0.2, tau=1.0, cost=cost, tol=1e-12)
    (gradient,) = torch.autograd.grad(value, x)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-5)


def test_batches(rng):
    x, y = rng.normal(size=(2, 3, 6, 2)), rng.normal(size=(2, 3, 5, 2))
    a = np.stack([weights(rng, 6) for _ in range(3)])
    batch = jumbot.sinkhorn_divergence(x, y, a, epsilon=0.3, tau=1.0, tol=1e-9)
    assert batch.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        single = jumbot.sinkhorn_divergence(x[i, j], y[i, j], a[j], epsilon=0.3, tau=1.0, tol=1e-9)
        assert batch[i, j] == pytest.approx(single, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numpy_and_torch(dtype, rng):
    x, y = (torch.tensor(p, dtype=dtype) for p in clouds(rng))
    in_torch = jumbot.sinkhorn_divergence(x, y, epsilon=0.3, tau=1.0)
    in_numpy = jumbot.sinkhorn_divergence(x.numpy(), y.numpy(), epsilon=0.3, tau=1.0)
    assert isinstance(in_torch, torch.Tensor)
    assert isinstance(in_numpy, np.ndarray | np.generic)
    assert in_torch.dtype == dtype
    assert in_numpy.dtype == x.numpy().dtype
    assert in_torch.shape == in_numpy.shape == ()
    assert float(in_torch) == float(in_numpy)


def test_float32_far_from_the_origin(rng):
    """Points of norm 1e3 a distance 1 apart: squares of norms cancel in float32 unless handled."""
    x, y = clouds(rng, 20, 20)
    far = [(p + 1e3).astype(np.float32) for p in (x, y)]
    expected = jumbot.sinkhorn_divergence(*(p.astype(float) for p in far), epsilon=0.5, tau=2.0)
    assert jumbot.sinkhorn_divergence(*far, epsilon=0.5, tau=2.0) == pytest.approx(expected, rel=1e-3)


def test_stopping_short_warns_once(rng):
    x, y = clouds(rng, 20, 20)
    with pytest.warns(jumbot.NotConvergedWarning) as warned:
        value = jumbot.sinkhorn_divergence(x, y, epsilon=0.01, tau=10.0, max_iterations=2, tol=1e-12)
    assert len(warned) == 1
    assert math.isfinite(value)
