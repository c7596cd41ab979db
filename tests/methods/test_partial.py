"""PADA, ETN and BA3US: source classes and samples that the target does not have lose their weight."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from jumbot.methods import make_method
from jumbot.methods.ba3us import complement
from jumbot.methods.base import TargetOutputs
from jumbot.methods.etn import leaky_softmax
from jumbot.methods.network import Network
from tests.methods.method_case import Toy, build, outputs, train


class PartialToy(Toy):
    """The last class of the source is missing in the target."""

    @property
    def target(self) -> Any:  # type: ignore[override]
        points, labels = Toy(self.classes).target
        kept = labels < self.classes - 1
        return points[kept], labels[kept]


@pytest.mark.parametrize("name", ["pada", "ba3us"])
def test_shares_of_absent_classes_go_to_zero(name: str) -> None:
    toy = PartialToy(4)
    network, method = build(name, 4)
    model: Any = method
    assert torch.equal(model.shares, torch.full((4,), 0.25))
    train(network, method, toy, steps=60)
    model.refresh(outputs(network, toy))
    assert model.shares.sum() == pytest.approx(1)
    assert model.shares[3] < 0.02
    assert model.shares[:3].min() > 0.2


@pytest.mark.parametrize("name", ["pada", "ba3us"])
def test_shares_are_mean_probabilities_from_the_second_look_on(name: str) -> None:
    _, method = build(name)
    model: Any = method
    looked = TargetOutputs(torch.zeros(6, 8), torch.randn(6, 3))
    model.refresh(looked)
    assert torch.equal(model.shares, torch.full((3,), 1 / 3))
    model.refresh(looked)
    sharpened = {"pada": 10, "ba3us": 1}[name] * looked.logits.double().numpy()
    truth = np.exp(sharpened) / np.exp(sharpened).sum(1, keepdims=True)
    np.testing.assert_allclose(model.shares, truth.mean(0), rtol=1e-4)


@pytest.mark.parametrize("name", ["pada", "ba3us", "rot"])
def test_the_users_interval_is_obeyed_and_the_published_one_shortened(name: str) -> None:
    method = make_method(name, features=4, classes=3)
    assert [method.refresh_interval(steps) for steps in (100_000, 10_000, 500, 3)] == [500, 500, 25, 1]
    given = make_method(name, {"refresh_every": 400}, features=4, classes=3)
    assert given.refresh_interval(500) == 400
    assert make_method("dann", features=4, classes=3).refresh_interval(500) is None


@pytest.mark.parametrize("name", ["pada", "ba3us"])
def test_source_samples_of_absent_classes_do_not_count(name: str) -> None:
    """With share 0, samples of that class may be anything: neither classifier nor discriminator notices."""
    network, method = build(name)
    model: Any = method
    model.eval()
    model.shares.copy_(torch.tensor([0.7, 0.3, 0.0]))
    batch = Toy().batch(0, 0.5)
    moved = batch.source.clone()
    moved[batch.labels == 2] += 10
    seen = []
    for source in (batch.source, moved):
        torch.manual_seed(0)
        seen.append(model.terms(network, dataclasses.replace(batch, source=source)).losses)
    for term in seen[0]:
        assert seen[0][term].item() == pytest.approx(seen[1][term].item(), abs=1e-5), term


def test_pada_against_a_loop() -> None:
    network, method = build("pada")
    model: Any = method
    model.eval()
    model.shares.copy_(torch.tensor([0.6, 0.3, 0.1]))
    batch = Toy().batch(0, 0.5, 9, 5)
    z_s, logits_s = network(batch.source)
    z_t, _ = network(batch.target)
    shares = [(0.6, 0.3, 0.1)[label] for label in batch.labels]
    log_p = logits_s.log_softmax(-1)
    source = np.average([-log_p[i, batch.labels[i]].item() for i in range(9)], weights=shares)
    d_s, d_t = (torch.sigmoid(model.discriminator(z)).squeeze(1) for z in (z_s, z_t))
    adversarial = -np.mean([shares[i] / max(shares) * math.log(d_s[i].item()) for i in range(9)])
    adversarial -= np.mean([math.log(1 - d) for d in d_t.tolist()])
    losses = model.terms(network, batch).losses
    assert losses["source"].item() == pytest.approx(source, rel=1e-4)
    assert losses["adversarial"].item() == pytest.approx(adversarial / 2, rel=1e-4)


def test_leaky_softmax() -> None:
    logits = torch.randn(20, 6, dtype=torch.float64)
    truth = logits.exp() / (logits.exp().sum(-1, keepdim=True) + 6)
    log_q, total = leaky_softmax(logits)
    torch.testing.assert_close(log_q.exp(), truth)
    torch.testing.assert_close(total.sigmoid(), truth.sum(-1))
    for far in (1e4, -1e4):
        log_q, total = leaky_softmax(torch.full((1, 3), far))
        assert torch.isfinite(log_q).all()
        assert torch.isfinite(total).all()


def test_etn_against_a_loop() -> None:
    network, method = build("etn")
    model: Any = method
    model.eval()
    batch = Toy().batch(0, 0.5, 6, 4)
    z_s, logits_s = network(batch.source)
    z_t, logits_t = network(batch.target)
    q_s, q_t = ((a := model.auxiliary(z).detach().double().exp()) / (a.sum(1, keepdim=True) + 3) for z in (z_s, z_t))
    weights = 1 - q_s.sum(1)
    weights = weights / weights.mean()
    source = np.mean((weights * F.cross_entropy(logits_s, batch.labels, reduction="none").double()).tolist())
    d_s, d_t = (torch.sigmoid(model.discriminator(z)).squeeze(1).double() for z in (z_s, z_t))
    p = logits_t.softmax(-1).double()
    truth = {
        "source": source,
        "adversarial": -(weights * d_s.log()).mean() - (1 - d_t).log().mean(),
        "entropy": -0.2 * (p * p.log()).sum(1).mean(),
        "auxiliary domain": -10 * (q_s.sum(1).log().mean() + (1 - q_t.sum(1)).log().mean()),
        "auxiliary label": F.binary_cross_entropy(q_s, F.one_hot(batch.labels, 3).double(), reduction="sum") / 6,
    }
    losses = model.terms(network, batch).losses
    assert losses.keys() == truth.keys()
    for term in truth:
        assert losses[term].item() == pytest.approx(torch.as_tensor(truth[term]).item(), rel=1e-4), term


def test_etn_auxiliary_classifier_learns_alone() -> None:
    network, method = build("etn")
    losses = method.terms(network, Toy().batch(0, 0.5)).losses
    (losses["auxiliary domain"] + losses["auxiliary label"]).backward()
    assert all(p.grad is None for p in network.parameters())


def test_etn_weighs_transferable_samples_more() -> None:
    """After training, source samples of the missing class have less weight than the others."""
    toy = PartialToy(4)
    network, method = build("etn", 4)
    model: Any = method
    train(network, method, toy, steps=100)
    points, labels = toy.source
    with torch.no_grad():
        _, total = leaky_softmax(model.auxiliary(network(points)[0]))
    weights = 1 - total.sigmoid()
    assert weights[labels == 3].mean() < 0.7 * weights[labels != 3].mean()


def test_complement_against_a_loop() -> None:
    logits, labels, weights = torch.randn(10, 4), torch.arange(10) % 4, torch.rand(10)
    values, counts = [], []
    for i in range(10):
        p = logits[i].double().softmax(-1).numpy()
        wrong = np.delete(p, labels[i]) / (1 - p[labels[i]])
        values.append((wrong * np.log(wrong)).sum() / math.log(3))
        counts.append(weights[i].item() * (1 - p[labels[i]]))
    assert complement(logits, labels, weights).item() == pytest.approx(np.average(values, weights=counts), rel=1e-4)


def test_complement_does_not_touch_the_right_class() -> None:
    logits = torch.randn(5, 4, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 3, 0])
    complement(logits, labels, torch.ones(5)).backward()
    assert logits.grad is not None
    assert torch.equal(logits.grad.gather(1, labels[:, None]), torch.zeros(5, 1))
    assert logits.grad.abs().sum() > 0


def test_complement_of_one_sample_has_a_finite_gradient() -> None:
    logits = torch.tensor([[9.0, 1.0, -1.0]], requires_grad=True)
    complement(logits, torch.tensor([0]), torch.ones(1)).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert logits.grad.abs().sum() > 0


def test_ba3us_extra_samples_stand_on_the_other_side() -> None:
    """A source sample and its extra copy pull the discriminator in opposite directions, with equal weight."""
    network, method = build("ba3us")
    method.eval()
    batch = Toy().batch(0, 0.5)
    alone = dataclasses.replace(batch, extra=(batch.source, batch.labels))
    answers = []
    for score in (-1.0, 1.0):
        torch.nn.init.zeros_(method.discriminator[-1].weight)
        torch.nn.init.constant_(method.discriminator[-1].bias, score)
        answers.append(method.terms(network, alone).losses["adversarial"].item())
    low, high = math.log1p(math.exp(-1)), math.log1p(math.exp(1))  # of a right and of a wrong answer
    # rho = 1: the source side counts 2 and is half right whatever the score; the target's side counts 1
    assert answers == pytest.approx([(low + high + low) / 3, (low + high + high) / 3], rel=1e-5)


def test_ba3us_extra_samples_have_a_forward_pass_of_their_own() -> None:
    """Batch norms of the source minibatch do not see them: its cross-entropy stays as it is."""
    torch.manual_seed(0)
    backbone = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8))
    network = Network(backbone, features=8, classes=3)
    method = make_method("ba3us", {"discriminator_width": 16}, features=8, classes=3)
    batch = Toy().batch(0, 0.5)
    extra = (100 + batch.source[:4], batch.labels[:4])
    alone, topped = (method.terms(network, each).losses for each in (batch, dataclasses.replace(batch, extra=extra)))
    assert topped["source"].item() == alone["source"].item()
    assert topped["adversarial"].item() != alone["adversarial"].item()
