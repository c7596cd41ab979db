"""Gradient reversal, entropies and entropy weights, and DANN, which is made of them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.stats
import torch
from torch.nn import functional as F

from jumbot.methods import make_method
from jumbot.methods.adversarial import Adversarial, domain_losses, entropy, entropy_weights, reversal, reverse
from jumbot.methods.base import Batch
from tests.methods.method_case import Toy, build
from tests.refusals import refused


def test_reversal_over_progress() -> None:
    for p in np.linspace(0, 1, 11):
        assert reversal(p) == pytest.approx(math.tanh(5 * p), abs=1e-12)  # the same function, written otherwise


@pytest.mark.parametrize("name", ["dann", "cdan-e", "alda", "pada", "etn", "ba3us"])
def test_length_and_ceiling_of_the_ramp(name: str) -> None:
    """2 / (1 + exp(-10 p)) - 1 times the ceiling, p = step / reversal_steps, or the progress of the run."""
    defaults = make_method(name, features=4, classes=3)
    assert isinstance(defaults, Adversarial)
    assert defaults.options.reversal_steps == {"etn": 5000, "ba3us": None}.get(name, 10_000)
    assert defaults.options.reversal_ceiling == (0.5 if name == "pada" else 1.0)
    x = torch.zeros(1, 4)
    batch = Batch(x, torch.zeros(1, dtype=torch.long), x, progress=0.5, step=250)
    for steps, p in ((500, 0.5), (10_000, 0.025), (None, 0.5)):
        method = make_method(name, {"reversal_steps": steps, "reversal_ceiling": 0.3}, features=4, classes=3)
        assert isinstance(method, Adversarial)
        assert method.ramp(batch) == pytest.approx(math.tanh(5 * p))
        assert method.strength(batch) == pytest.approx(0.3 * math.tanh(5 * p))
    with refused("reversal_steps"):
        make_method(name, {"reversal_steps": 0}, features=4, classes=3)


def test_reverse_turns_the_gradient_round() -> None:
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(3, 2, dtype=torch.float64)
    out = reverse(x, 0.3)
    assert torch.equal(out, x)
    (grad,) = torch.autograd.grad((weights * out.sin()).sum(), x)
    torch.testing.assert_close(grad, -0.3 * weights * x.detach().cos())


def test_domain_losses_are_binary_cross_entropies() -> None:
    scores_s, scores_t = torch.randn(5, 1), torch.randn(3, 1)
    loss_s, loss_t = domain_losses(scores_s, scores_t)
    assert loss_s.mean() == pytest.approx(F.binary_cross_entropy(scores_s.sigmoid(), torch.ones(5, 1)).item(), rel=1e-5)
    assert loss_t.mean() == pytest.approx(
        F.binary_cross_entropy(scores_t.sigmoid(), torch.zeros(3, 1)).item(), rel=1e-5
    )


def test_entropy() -> None:
    logits = 3 * torch.randn(20, 7)
    truth = scipy.stats.entropy(logits.double().softmax(-1).numpy(), axis=1)
    np.testing.assert_allclose(entropy(logits), truth, rtol=1e-4, atol=1e-6)
    assert entropy(torch.tensor([[1e5, 0.0, -1e5]])) == 0


def test_entropy_weights_have_mean_1_and_favour_the_confident() -> None:
    entropies = torch.linspace(0, 3, 9)
    weights = entropy_weights(entropies)
    assert weights.mean() == pytest.approx(1)
    assert (weights.diff() < 0).all()
    assert weights[0] / weights[-1] == pytest.approx(2 / (1 + math.exp(-3)))


@pytest.mark.parametrize("progress", [0.0, 0.2, 1.0])
def test_dann_gradients(progress: float) -> None:
    """The discriminator descends its loss; the network gets the source gradient minus coefficient times the other."""
    network, method = build("dann")
    method.eval()  # no dropout, so that one forward can be compared with another
    batch = Toy().batch(0, progress, 12, 7)
    method.terms(network, batch).total.backward()

    twin, other = build("dann")
    other.eval()
    z_s, logits_s = twin(batch.source)
    z_t, _ = twin(batch.target)
    labels = torch.cat([torch.full((12,), 1 / 12), torch.full((7,), 1 / 7)])
    scores = other.discriminator(torch.cat([z_s, z_t])).squeeze(1)
    domain = F.binary_cross_entropy_with_logits(scores, (torch.arange(19) < 12).float(), weight=labels, reduction="sum")
    domain = domain / 2
    kwargs = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    source = torch.autograd.grad(F.cross_entropy(logits_s, batch.labels), list(twin.parameters()), **kwargs)
    against = torch.autograd.grad(domain, list(twin.parameters()), **kwargs)
    for parameter, a, b in zip(network.parameters(), source, against, strict=True):
        torch.testing.assert_close(parameter.grad, a - math.tanh(5 * progress) * b, rtol=1e-3, atol=1e-5)
    along = torch.autograd.grad(domain, list(other.parameters()))
    for parameter, a in zip(method.parameters(), along, strict=True):
        torch.testing.assert_close(parameter.grad, a, rtol=1e-3, atol=1e-6)


def test_weight_scales_the_adversarial_term() -> None:
    network, method = build("dann")
    method.eval()
    batch = Toy().batch(0)
    once = method.terms(network, batch).losses["adversarial"]
    method.options = dataclasses.replace(method.options, weight=3.0)
    assert method.terms(network, batch).losses["adversarial"].item() == pytest.approx(3 * once.item(), rel=1e-5)
