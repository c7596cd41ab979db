"""GeomLoss's loss by our solvers: its units, its formulas, the gradients of the optimum."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from jumbot.compat.geomloss import SamplesLoss
from jumbot.errors import ArgumentError, MissingPackageError
from tests.refusals import refused

SETTINGS = [
    {"p": 2, "blur": 0.1},
    {"p": 1, "blur": 0.1},
    {"p": 2, "blur": 0.1, "reach": 0.5},
    {"p": 1, "blur": 0.1, "reach": 0.5},
    {"p": 2, "blur": 0.1, "debias": False},
    {"p": 1, "blur": 0.1, "reach": 0.5, "debias": False},
]


@pytest.fixture
def clouds(rng):
    x, y = (torch.from_numpy(rng.random((n, 2)) + s) for n, s in ((30, 0.0), (20, 0.3)))
    return torch.from_numpy(rng.dirichlet(np.ones(30))), x, torch.from_numpy(rng.dirichlet(np.ones(20))), y


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("mass", [1.0, 2.0])
def test_values_and_potentials(settings, mass, clouds):
    """GeomLoss's descent ends near the optimum, also at scaling .99: 1e-4 of the value, 1e-2 of the potentials."""
    geomloss = pytest.importorskip("geomloss")
    a, x, b, y = clouds
    a, b = mass * a, (b if "reach" in settings else mass * b)
    theirs = geomloss.SamplesLoss("sinkhorn", scaling=0.99, **settings)(a, x, b, y)
    ours = SamplesLoss("sinkhorn", **settings)(a, x, b, y)
    assert ours.shape == theirs.shape == ()
    assert float(ours) == pytest.approx(float(theirs), rel=5e-4)
    pairs = [
        loss(a, x, b, y)
        for loss in (
            geomloss.SamplesLoss("sinkhorn", scaling=0.99, potentials=True, **settings),
            SamplesLoss("sinkhorn", potentials=True, **settings),
        )
    ]
    for theirs, ours in zip(*pairs, strict=True):
        assert ours.shape == theirs.shape[-1:]  # "the same shape as the input weights": GeomLoss adds an axis
        difference = ours - theirs[0]
        assert float((difference - difference.mean()).abs().max()) < 3e-2


@pytest.mark.parametrize("settings", SETTINGS)
def test_gradients_are_slopes(settings, clouds, rng):
    a, x, b, y = clouds
    loss = SamplesLoss("sinkhorn", **settings)
    leaf, weights = x.clone().requires_grad_(), a.clone().requires_grad_()
    loss(weights, leaf, b, y).backward()
    direction = torch.from_numpy(rng.normal(size=x.shape))
    up, down = (float(loss(a, x + s * direction, b, y)) for s in (1e-5, -1e-5))
    assert float((leaf.grad * direction).sum()) == pytest.approx((up - down) / 2e-5, rel=1e-3, abs=1e-7)
    change = torch.from_numpy(rng.normal(size=a.shape)) * a
    change -= a * change.sum()  # the mass stays, as balanced transport needs
    up, down = (float(loss(a + s * change, x, b, y)) for s in (1e-5, -1e-5))
    assert float((weights.grad * change).sum()) == pytest.approx((up - down) / 2e-5, rel=1e-3, abs=1e-7)


def test_batches_weights_and_costs(clouds):
    a, x, b, y = clouds
    loss = SamplesLoss(blur=0.1)
    batch = loss(torch.stack([x, x + 1]), torch.stack([y, y]))
    assert batch.shape == (2,)
    assert float(batch[0]) == pytest.approx(float(loss(x, y)), rel=1e-9)
    assert float(loss(a[:, None], x, b[:, None], y)) == pytest.approx(float(loss(a, x, b, y)), rel=1e-12)
    own = SamplesLoss(blur=0.1, cost=lambda u, v: torch.cdist(u, v) ** 2 / 2)
    assert float(own(x, y)) == pytest.approx(float(loss(x, y)), rel=1e-6)
    assert loss(x.float(), y.float()).dtype == torch.float32


def test_other_losses_are_geomlosss(clouds):
    geomloss = pytest.importorskip("geomloss")
    _, x, _, y = clouds
    assert float(SamplesLoss("energy")(x, y)) == float(geomloss.SamplesLoss("energy")(x, y))
    from jumbot.compat import geomloss as compat

    assert compat.ImagesLoss is geomloss.ImagesLoss if hasattr(geomloss, "ImagesLoss") else True


def test_ours_needs_no_geomloss(clouds, monkeypatch):
    monkeypatch.setitem(sys.modules, "geomloss", None)
    _, x, _, y = clouds
    assert float(SamplesLoss()(x, y)) > 0
    with pytest.raises(MissingPackageError, match="energy"):
        SamplesLoss("energy")


@pytest.mark.parametrize(
    ("argument", "settings"),
    [
        ("loss", {"loss": "sinkhron"}),
        ("p", {"p": 3}),
        ("blur", {"blur": 0}),
        ("reach", {"reach": -1}),
        ("backend", {"backend": "x"}),
        ("debias", {"debias": 1}),
    ],
)
def test_bad_settings(argument, settings):
    with refused(rf"^{argument}\b"):
        SamplesLoss(**settings)


def test_bad_clouds(clouds):
    a, x, b, y = clouds
    loss = SamplesLoss()
    for wrong in ((x,), (x[0], y), (x[None], y), (a, x, 2 * b, y), (x * np.nan, y)):
        with pytest.raises(ArgumentError):
            loss(*wrong)
