"""CDAN-E: the two maps, and weights that are weights and not an entropy to be minimised."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from jumbot.methods import make_method
from tests.methods.method_case import Toy, build


def test_outer_map_is_the_outer_product() -> None:
    method: Any = make_method("cdan-e", {"discriminator_width": 8}, features=4, classes=3)
    z, p = torch.randn(5, 4), torch.randn(5, 3).softmax(-1)
    truth = np.stack([np.outer(p[i], z[i]).ravel() for i in range(5)])
    np.testing.assert_allclose(method.joined(z, p), truth, rtol=1e-6)


def test_random_map_keeps_inner_products() -> None:
    """<T(z, p), T(z', p')> is <z, z'> <p, p'> on average over the random matrices, as for the outer product."""
    torch.manual_seed(0)
    options = {"discriminator_width": 8, "map": "random", "random_features": 20_000}
    method: Any = make_method("cdan-e", options, features=4, classes=3)
    z, p = torch.randn(5, 4), torch.randn(5, 3).softmax(-1)
    joined = method.joined(z, p)
    torch.testing.assert_close(joined @ joined.mT, (z @ z.mT) * (p @ p.mT), rtol=0.1, atol=0.1)
    assert {"random_z", "random_p"} <= method.state_dict().keys()
    assert make_method("cdan-e", {"map": "random"}, features=4, classes=3).discriminator[0].in_features == 1024


@pytest.mark.parametrize("flows", [False, True])
def test_gradient_through_the_entropies(flows: bool) -> None:
    """The classifier feels the adversary only where the published variant lets gradients through the weights."""
    network, method = build("cdan-e")
    method.options = dataclasses.replace(method.options, entropy_gradient=flows)
    method.terms(network, Toy().batch(0, 0.5)).losses["adversarial"].backward()
    felt = network.classifier.weight.grad
    assert (felt is not None and bool(felt.abs().sum() > 0)) == flows
    assert network.backbone[0].weight.grad.abs().sum() > 0


@pytest.mark.parametrize("map_", ["outer", "random"])
def test_loss_against_a_loop(map_: str) -> None:
    torch.manual_seed(0)
    network, _ = build("cdan-e")
    method: Any = make_method("cdan-e", {"discriminator_width": 8, "map": map_}, features=8, classes=3).eval()
    batch = Toy().batch(0, 0.3, 6, 4)
    total = 0.0
    for samples, label in ((batch.source, 1.0), (batch.target, 0.0)):
        weights, losses = [], []
        for x in samples:
            z, logits = network(x[None])
            p = logits.softmax(-1)
            weights.append(1 + torch.exp((p * p.log()).sum()).item())
            score = method.discriminator(method.joined(z, p))
            losses.append(F.binary_cross_entropy_with_logits(score, torch.full((1, 1), label)).item())
        total += np.average(losses, weights=weights) / 2
    assert method.terms(network, batch).losses["adversarial"].item() == pytest.approx(total, rel=1e-4)
