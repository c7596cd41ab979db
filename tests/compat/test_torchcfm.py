"""torchcfm's sampler by our solvers: its plans, and with the same seed its pairs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from jumbot.compat.torchcfm import OTPlanSampler
from tests.refusals import refused


@pytest.fixture
def batches():
    draw = torch.Generator().manual_seed(0)
    return torch.randn(32, 2, 3, generator=draw), torch.randn(32, 2, 3, generator=draw) + 1


METHODS = {
    "exact": {},
    "sinkhorn": {"reg": 1.0},
    "unbalanced": {"reg": 1.0, "reg_m": 2.0},
    "partial": {"reg": 1.0},
}


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_plans_and_pairs_are_torchcfms(method, normalize, batches):
    theirs = pytest.importorskip("torchcfm.optimal_transport")
    settings = METHODS[method] | {"normalize_cost": normalize}
    samplers = theirs.OTPlanSampler(method, **settings), OTPlanSampler(method, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plans = [sampler.get_map(*batches) for sampler in samplers]
    assert isinstance(plans[1], np.ndarray)
    np.testing.assert_allclose(plans[1], plans[0], atol=2e-5)
    labels = torch.arange(32), torch.arange(32) + 100
    drawn = []
    for sampler in samplers:
        np.random.seed(0)  # noqa: NPY002 - as torchcfm draws
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            drawn.append((*sampler.sample_plan(*batches), *sampler.sample_plan_with_labels(*batches, *labels)))
    same = [float((a == b).double().mean()) for a, b in zip(*drawn, strict=True)]
    assert min(same) > 0.95  # a plan that differs by 1e-6 moves a draw now and then


def test_other_ways_to_draw(batches):
    x0, x1 = batches
    sampler = OTPlanSampler("exact")
    i, j = sampler.sample_map(np.eye(32)[np.random.default_rng(0).permutation(32)], 32, replace=False)
    assert sorted(i) == sorted(j) == list(range(32))
    z0, z1 = sampler.sample_plan_with_scipy(x0, x1)
    assert z0.shape == (32, 6)
    assert torch.equal(z1.sort(0).values, x1.reshape(32, -1).sort(0).values)
    paths = sampler.sample_trajectory(torch.stack([x0, x1, x0], 1).flatten(2))
    assert paths.shape == (32, 3, 6)
    np.testing.assert_allclose(paths[:, 0], x0.flatten(1))
    np.testing.assert_allclose(paths[:, 2], paths[:, 0])  # there and back by permutations


def test_an_empty_plan_is_replaced_with_a_warning():
    far = torch.zeros(4, 1), torch.full((4, 1), 1e3)
    with pytest.warns(UserWarning, match="uniform"):
        plan = OTPlanSampler("unbalanced", reg=1.0, reg_m=1.0).get_map(*far)
    np.testing.assert_allclose(plan, 1 / 16)


@pytest.mark.parametrize(
    ("argument", "settings"),
    [("method", {"method": "exakt"}), ("reg", {"reg": 0}), ("reg_m", {"reg_m": -1}), ("warn", {"warn": 2})],
)
def test_bad_settings(argument, settings):
    with refused(rf"^{argument}\b"):
        OTPlanSampler(**{"method": "exact", **settings})
