"""MCC against a slow double loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from jumbot.methods import make_method
from jumbot.methods.mcc import confusion
from tests.methods.method_case import Toy, build
from tests.refusals import refused


def slow(logits: np.ndarray, temperature: float) -> float:
    n, classes = logits.shape
    p = np.exp(logits / temperature)
    p /= p.sum(1, keepdims=True)
    weights = np.array([1 + math.exp(sum(x * math.log(x) for x in row)) for row in p])
    weights *= n / weights.sum()
    matrix = np.zeros((classes, classes))
    for k in range(classes):
        for l in range(classes):
            matrix[k, l] = sum(weights[i] * p[i, k] * p[i, l] for i in range(n))
    for k in range(classes):
        matrix[k] /= matrix[k].sum()
    return sum(matrix[k, l] for k in range(classes) for l in range(classes) if k != l) / classes


@pytest.mark.parametrize("classes", [2, 3])
def test_against_a_loop(classes: int) -> None:
    network, method = build("mcc", classes)
    batch = Toy(classes).batch(0)
    logits = network(batch.target)[1].detach().double().numpy()
    assert method.terms(network, batch).losses["confusion"].item() == pytest.approx(slow(logits, 2.5), rel=1e-4)


def test_extremes() -> None:
    assert confusion(50 * torch.eye(4)).item() == pytest.approx(0, abs=1e-6)  # every class for itself, and sure
    assert confusion(torch.zeros(6, 4)).item() == pytest.approx(3 / 4)
    sure_of_one = torch.tensor([[500.0, 0.0, -500.0]], requires_grad=True)
    confusion(sure_of_one).backward()
    assert sure_of_one.grad is not None
    assert torch.isfinite(sure_of_one.grad).all()


def test_weights_are_held_fixed() -> None:
    """The gradient is that of the loss with the weights as constants."""
    logits = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(confusion(logits), logits)
    p = logits.detach().softmax(-1)
    weights = 1 + (p * p.log()).sum(-1).exp()

    def held(x: torch.Tensor) -> float:
        q = x.softmax(-1)
        matrix = (q * weights[:, None]).mT @ q
        matrix = matrix / matrix.sum(1, keepdim=True)
        return float(matrix.sum() - matrix.trace()) / 3

    for i, k in ((0, 0), (3, 2), (5, 1)):
        step = torch.zeros(6, 3, dtype=torch.float64)
        step[i, k] = 1e-5
        slope = (held(logits.detach() + step) - held(logits.detach() - step)) / 2e-5
        assert grad[i, k].item() == pytest.approx(slope, rel=1e-3, abs=1e-7)


def test_temperature_above_0() -> None:
    with refused("temperature"):
        make_method("mcc", {"temperature": 0.0}, features=2, classes=2)
