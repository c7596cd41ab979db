"""Every loss on a case small enough to be worked out by hand from the formula of its authors: the scale is in it.

The network is the identity, so that samples are embeddings and logits at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import log
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from jumbot.methods import make_method
from jumbot.methods.base import Batch, Method, TargetOutputs
from jumbot.methods.network import Network

SURE = 60.0  # a logit beside zeros whose probability is 1


def identity(classes: int) -> Network:
    network = Network(nn.Identity(), features=classes, classes=classes)
    with torch.no_grad():
        network.classifier.weight.copy_(torch.eye(classes))
        network.classifier.bias.zero_()
    return network


def method_of(name: str, classes: int, **options: Any) -> Any:
    return make_method(name, options, features=classes, classes=classes).eval()


def batch_of(source: Sequence[Sequence[float]], labels: Sequence[int], target: Sequence[Sequence[float]]) -> Batch:
    return Batch(torch.tensor(source), torch.tensor(labels), torch.tensor(target))


def answer_always(layers: nn.Module, score: float) -> None:
    """Make a discriminator, or an auxiliary classifier, say the same of everything."""
    last = list(layers.children())[-1]
    assert isinstance(last, nn.Linear)
    nn.init.zeros_(last.weight)
    nn.init.constant_(last.bias, score)


def losses_of(method: Method, batch: Batch) -> dict[str, float]:
    return {name: loss.item() for name, loss in method.terms(identity(method.classes), batch).losses.items()}


def test_source_only() -> None:
    batch = batch_of([[0.0, 0.0, 0.0], [log(2), 0.0, 0.0]], [0, 0], [[0.0, 0.0, 0.0]])
    assert losses_of(method_of("source-only", 3), batch) == pytest.approx({"source": (log(3) + log(2)) / 2})


def test_dann() -> None:
    """A discriminator that says source with probability 3/4 of everything."""
    method = method_of("dann", 2)
    answer_always(method.discriminator, log(3))
    losses = losses_of(method, batch_of([[0.0, 0.0]], [0], [[0.0, 0.0], [1.0, 1.0]]))
    assert losses == pytest.approx({"source": log(2), "adversarial": (log(4 / 3) + log(4)) / 2})


def test_cdan_weights_confident_samples() -> None:
    """u = 2 for a certain sample, 3/2 for an even one of two classes: 8/7 and 6/7 of mean 1."""
    method = method_of("cdan-e", 2)
    method.discriminator = nn.Linear(4, 1, bias=False)
    with torch.no_grad():  # sees the product of the first feature and the first probability: SURE, and 0
        method.discriminator.weight.copy_(torch.tensor([[log(3) / SURE, 0.0, 0.0, 0.0]]))
    pair = [[SURE, 0.0], [0.0, 0.0]]
    source = (8 / 7 * log(4 / 3) + 6 / 7 * log(2)) / 2
    target = (8 / 7 * log(4) + 6 / 7 * log(2)) / 2
    losses = losses_of(method, batch_of(pair, [0, 0], pair))
    assert losses["adversarial"] == pytest.approx((source + target) / 2)


def test_cdan_gradient_through_the_entropies() -> None:
    """Published: d/dH of (1 + exp(-H)) / S with S, the sum of the weights, held fixed; reversed on the way back.

    By finite differences of the weights, one logit at a time.
    """
    torch.manual_seed(0)
    method = method_of("cdan-e", 3, entropy_gradient=True, reversal_steps=1, discriminator_width=8)
    logits = torch.randn(4, 3, dtype=torch.float64)
    strength = 0.4

    def weights(x: Tensor) -> Tensor:
        p = x.softmax(-1)
        return 1 + ((p * p.log()).sum(-1)).exp()

    held = weights(logits).mean()
    x = logits.float().requires_grad_()
    scores, found = method.judged(torch.zeros(4, 3), x, strength)
    assert scores.shape == (4, 1)
    pull = torch.tensor([1.0, -2.0, 0.5, 3.0])
    (grad,) = torch.autograd.grad((pull * found).sum(), x)
    for i in range(4):
        for k in range(3):
            step = torch.zeros(4, 3, dtype=torch.float64)
            step[i, k] = 1e-5
            slope = (pull * (weights(logits + step) - weights(logits - step)) / held).sum() / 2e-5
            assert grad[i, k].item() == pytest.approx(-strength * slope.item(), rel=1e-3, abs=1e-5)


@pytest.mark.parametrize(("over_classes", "share"), [("mean", 3), ("sum", 1)])
def test_alda(over_classes: str, share: int) -> None:
    """xi = 1/2 everywhere, so a corrected label of three classes is 1/2, 1/4, 1/4 from the predicted one on.

    Published code: the adversarial term is summed over classes, the self-training is a mean over them too.
    """
    method = method_of("alda", 3, over_classes=over_classes, ramp=False, threshold=0.9)
    answer_always(method.discriminator, 0.0)
    sure = [log(48), 0.0, 0.0]  # probabilities .96, .02, .02
    losses = losses_of(method, batch_of([sure], [0], [sure, [0.0, 0.0, 0.0]]))
    source = -log(1 / 2) - 2 * log(3 / 4)  # goal 1, 0, 0
    target = -log(1 / 2) - (log(1 / 4) + log(3 / 4))  # goal 0, 1/2, 1/2; the even sample does not pass
    assert losses["adversarial"] == pytest.approx((source + target) / 2, rel=1e-5)
    assert losses["discriminator"] == pytest.approx(log(3))
    assert losses["self-training"] == pytest.approx(-(0.96 / 2 + 0.02 / 4 + 0.02 / 4) / share, rel=1e-5)


def test_rot() -> None:
    """Non-saturating: softplus(-D) on the source, softplus(D) on the target, weighted."""
    method = method_of("rot", 2, rho=0.5)
    method.critic = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        method.critic.weight.copy_(torch.tensor([[1.0, 0.0]]))
    # rho = 1/2 allows mean (w - 1)^2 = 1: with two samples all the weight may go to the one that looks like source
    losses = losses_of(method, batch_of([[log(3), 0.0]], [0], [[log(3), 0.0], [0.0, 0.0]]))
    assert losses["adversarial"] == pytest.approx(log(4 / 3) + log(4), rel=1e-5)


def test_mcc() -> None:
    """Two samples that are 3/4 sure of different classes: each class keeps 5/8 for itself."""
    source = [[0.0, 0.0]]
    for temperature in (2.5, 1.0):
        method = method_of("mcc", 2, temperature=temperature)
        logit = temperature * log(3)
        losses = losses_of(method, batch_of(source, [0], [[logit, 0.0], [0.0, logit]]))
        assert losses["confusion"] == pytest.approx(3 / 8)


def test_pada() -> None:
    """gamma = 1/2, 1/4, 1/4 and labels 0, 1: the cross-entropy by 2/3 and 1/3, the adversary by 1 and 1/2."""
    method = method_of("pada", 3)
    method.shares.copy_(torch.tensor([0.5, 0.25, 0.25]))
    answer_always(method.discriminator, log(3))
    losses = losses_of(method, batch_of([[0.0, 0.0, 0.0], [0.0, log(2), 0.0]], [0, 1], [[0.0, 0.0, 0.0]]))
    assert losses["source"] == pytest.approx(2 / 3 * log(3) + 1 / 3 * log(2))
    assert losses["adversarial"] == pytest.approx((3 / 4 * log(4 / 3) + log(4)) / 2)


def test_pada_sharpens_the_class_weights() -> None:
    """Odds of 2 to 1 are 1,024 to 1 at temperature .1."""
    method = method_of("pada", 2)
    looked = TargetOutputs(torch.zeros(2, 2), torch.tensor([[log(2), 0.0], [0.0, 0.0]]))
    for _ in range(2):
        method.refresh(looked)
    torch.testing.assert_close(method.shares[0], torch.tensor((1024 / 1025 + 1 / 2) / 2))


def test_etn() -> None:
    """Auxiliary logits of 0 and two classes: q = 1/4 each, P(source) = 1/2.

    Published code: the label term is summed over classes and averaged over samples, the domain term summed over
    both domains.
    """
    method = method_of("etn", 2)
    answer_always(method.discriminator, log(3))
    answer_always(method.auxiliary, 0.0)
    losses = losses_of(method, batch_of([[0.0, 0.0]] * 3, [0, 1, 1], [[0.0, 0.0]]))
    assert losses == pytest.approx(
        {
            "source": log(2),
            "adversarial": log(4 / 3) + log(4),
            "entropy": 0.2 * log(2),
            "auxiliary domain": 10 * (log(2) + log(2)),
            "auxiliary label": log(4) + log(4 / 3),
        }
    )


def test_etn_classifier() -> None:
    """features - 1024 - 1024 - classes with dropout 1/2, as published."""
    method = method_of("etn", 7)
    shapes = [tuple(layer.weight.shape) for layer in method.auxiliary if isinstance(layer, nn.Linear)]
    assert shapes == [(1024, 7), (1024, 1024), (7, 1024)]
    assert [layer.p for layer in method.auxiliary if isinstance(layer, nn.Dropout)] == [0.5, 0.5]


def test_ba3us() -> None:
    """gamma = .6, .3 on the source and .1 on one extra sample, half of the minibatch: rho = 1/2.

    Published: the extra sample is target to the discriminator, its weight is normalised with the source's, whose side
    counts 1 + rho; the whole is divided by the sum of all weights, 2 + rho.
    """
    method = method_of("ba3us", 3)
    method.shares.copy_(torch.tensor([0.6, 0.3, 0.1]))
    answer_always(method.discriminator, log(3))
    even = [0.0, 0.0, 0.0]
    plain = batch_of([even, [0.0, log(2), 0.0]], [0, 1], [even])
    batch = Batch(plain.source, plain.labels, plain.target, extra=(torch.tensor([even]), torch.tensor([2])))

    u = 1 + 1 / 3, 1 + math.exp(-1.5 * log(2)), 1 + 1 / 3  # entropies log 3, 3/2 log 2, log 3
    weights = [g * v / (0.6 * u[0] + 0.3 * u[1] + 0.1 * u[2]) for g, v in zip((0.6, 0.3, 0.1), u, strict=True)]
    side = (weights[0] + weights[1]) * log(4 / 3) + weights[2] * log(4)
    losses = losses_of(method, batch)
    assert losses["adversarial"] == pytest.approx((1.5 * side + log(4)) / 2.5)
    assert losses["source"] == pytest.approx((0.6 * log(3) + 0.3 * log(2)) / 0.9)
    assert losses["entropy"] == pytest.approx(0.1 * log(3))
    assert losses["complement"] == pytest.approx(-1)  # the wrong classes of each sample are even
    assert losses_of(method, plain)["adversarial"] == pytest.approx((log(4 / 3) + log(4)) / 2)


def test_ba3us_extra_samples_fall_in_ten_stairs() -> None:
    """int(36 // 4 (1 - e/10)) in the e-th tenth of the run."""
    method = method_of("ba3us", 2)
    counts = [method.extra_samples(36, step / 5000) for step in range(0, 5000, 500)]
    assert counts == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert method.extra_samples(36, 499 / 5000) == 9


@pytest.mark.parametrize("reference", ["product", "ones"])
def test_jumbot_of_one_pair(reference: str) -> None:
    """min over p of p c + epsilon KL(p | 1) + 2 tau KL(p | 1): p = exp(-c / (2 tau + epsilon))."""
    method = method_of("jumbot", 2, eta1=0.1, eta2=0.5, eta3=10.0, tau=0.3, epsilon=0.05, reference=reference)
    terms = method.terms(identity(2), batch_of([[2.0, 0.0]], [0], [[0.0, 0.0]]))
    cost = 0.1 * 4 + 0.5 * log(2)
    plan = math.exp(-cost / 0.65)
    assert terms.plan.item() == pytest.approx(plan, rel=1e-3)
    assert terms.losses["transport"].item() == pytest.approx(10 * plan * cost, rel=1e-3)


@pytest.mark.parametrize("reference", ["product", "ones"])
def test_jumbot_of_equal_costs(reference: str) -> None:
    """Four equal costs c and weights 1/2: every entry is t, with 4 c + 4 epsilon log(t / r) + 8 tau log(4 t) = 0."""
    method = method_of("jumbot", 2, eta1=0.1, eta2=0.5, tau=0.3, epsilon=0.05, reference=reference)
    terms = method.terms(identity(2), batch_of([[2.0, 0.0]] * 2, [0, 0], [[0.0, 0.0]] * 2))
    cost, r = 0.1 * 4 + 0.5 * log(2), 1 / 4 if reference == "product" else 1
    t = math.exp((-cost + 0.05 * log(r) - 0.6 * log(4)) / 0.65)
    torch.testing.assert_close(terms.plan, torch.full((2, 2), t), rtol=1e-3, atol=0)
    assert terms.losses["transport"].item() == pytest.approx(4 * t * cost, rel=1e-3)


def test_deepjdot() -> None:
    """Two samples and two partners: the cheaper of the two pairings, half of each cost."""
    method = method_of("deepjdot", 2, eta1=0.1, eta2=0.5, eta3=10.0)
    losses = losses_of(method, batch_of([[1.0, 0.0], [0.0, 1.0]], [0, 1], [[1.0, 0.0], [0.0, 1.0]]))
    cost = 0.5 * -log(math.e / (math.e + 1))  # no distance; the label of a prediction of logits 1, 0
    assert losses["transport"] == pytest.approx(10 * cost, rel=1e-5)
