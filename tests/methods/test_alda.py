"""ALDA: the confusion matrix, the losses against loops, and minibatches in which no sample is confident."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from jumbot.methods import make_method
from jumbot.methods.adversarial import reversal
from jumbot.methods.alda import corrected
from tests.methods.method_case import Toy, build
from tests.refusals import refused


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_columns_of_the_confusion_matrix(classes: int) -> None:
    xi = torch.rand(1, classes)
    matrix = torch.stack([corrected(xi, torch.tensor([l]))[0] for l in range(classes)], dim=1)
    torch.testing.assert_close(matrix.sum(0), torch.ones(classes))
    torch.testing.assert_close(matrix.diagonal(), xi[0])
    assert (matrix >= 0).all()


def test_terms_against_a_loop() -> None:
    network, method = build("alda")
    method.eval()
    method.options = dataclasses.replace(method.options, threshold=0.5)
    batch = Toy().batch(0, 0.3)
    losses = method.terms(network, batch).losses

    adversarial, agreement = [], []
    z_s, logits_s = network(batch.source)
    z_t, logits_t = network(batch.target)
    for z, logits, labels in ((z_s, logits_s, batch.labels), (z_t, logits_t, None)):
        xi = torch.sigmoid(method.discriminator(z)).detach().numpy()
        p = logits.softmax(-1).detach().numpy()
        for i in range(len(p)):
            k = p[i].argmax()
            c = np.array([xi[i, k] if l == k else (1 - xi[i, k]) / 2 for l in range(3)])
            if labels is not None:
                goal = np.eye(3)[labels[i]]
            elif p[i, k] > 0.5:
                goal = (1 - np.eye(3)[k]) / 2
                agreement.append(p[i] @ c)
            else:
                continue
            adversarial.append(-(goal * np.log(c) + (1 - goal) * np.log(1 - c)).sum())
    assert 0 < len(agreement) < len(batch.target)
    assert losses["adversarial"].item() == pytest.approx(np.mean(adversarial), rel=1e-4)
    assert losses["self-training"].item() == pytest.approx(-reversal(0.3) * np.mean(agreement) / 3, rel=1e-4)
    method.options = dataclasses.replace(method.options, ramp=False)
    assert method.terms(network, batch).losses["self-training"].item() == pytest.approx(
        -np.mean(agreement) / 3, rel=1e-4
    )


def test_no_confident_sample() -> None:
    network, method = build("alda")
    with torch.no_grad():
        network.classifier.weight.zero_()
    terms = method.terms(network, Toy().batch(0, 0.5))
    assert terms.losses["self-training"] == 0
    terms.total.backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters())


def gradients(name: str, term: str) -> tuple[Any, Any]:
    network, method = build(name)
    method.options = dataclasses.replace(method.options, threshold=0.34)
    method.terms(network, Toy().batch(0, 0.5)).losses[term].backward()
    return network.backbone[0].weight.grad, method.discriminator[0].weight.grad


def test_who_learns_from_which_term() -> None:
    features, discriminator = gradients("alda", "discriminator")
    assert features is None
    assert discriminator.abs().sum() > 0
    features, discriminator = gradients("alda", "self-training")
    assert features.abs().sum() > 0
    assert discriminator is None


def test_threshold_below_1() -> None:
    with refused("threshold"):
        make_method("alda", {"threshold": 1.0}, features=2, classes=2)
