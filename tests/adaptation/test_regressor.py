"""The scikit-learn contract of the regressor, and the loss of numbers for own training loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch.nn import functional as F

import jumbot
from jumbot.cost import label_cost
from tests.refusals import refused


@parametrize_with_checks([jumbot.DomainAdaptationRegressor(steps=10, random_state=0)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def test_adapts_to_the_target_and_keeps_the_shape_of_y(rng: np.random.Generator) -> None:
    X = rng.normal(size=(100, 3))
    one = jumbot.DomainAdaptationRegressor(steps=20, random_state=0).fit(X, 1e4 * X[:, 0], X_target=X + 1)
    assert one.predict(X).shape == (100,)
    two = jumbot.DomainAdaptationRegressor(steps=20, options={"label_loss": "huber"}).fit(X, X[:, :2])
    assert two.predict(X).shape == (100, 2)
    with refused("method"):
        jumbot.DomainAdaptationRegressor("mcc").fit(X, X[:, 0])


@pytest.mark.parametrize("label_loss", ["squared", "huber"])
def test_label_costs_are_those_of_torch(rng: np.random.Generator, label_loss: str) -> None:
    y, f = (torch.from_numpy(3 * rng.normal(size=(n, 2))) for n in (4, 5))
    torch_loss = F.mse_loss if label_loss == "squared" else F.huber_loss
    by_hand = torch.stack([torch.stack([torch_loss(b, a) for b in f]) for a in y])
    torch.testing.assert_close(label_cost(y, f, label_loss), by_hand)


def test_the_joint_loss_of_numbers_and_its_gradient(rng: np.random.Generator) -> None:
    z_s, z_t = (torch.from_numpy(rng.normal(size=(n, 3))) for n in (6, 5))
    y, f = torch.from_numpy(rng.normal(size=6)), torch.from_numpy(rng.normal(size=(5, 1)))
    loss = jumbot.JointTransportLoss(0.5, 0.7, tau=1.0, epsilon=0.1, label_loss="squared", tol=1e-12)
    cost = 0.5 * torch.cdist(z_s, z_t) ** 2 + 0.7 * (y[:, None] - f[:, 0][None]) ** 2
    direct = jumbot.solve(cost, epsilon=0.1, tau=1.0, tol=1e-12)
    out = loss(z_s, y, z_t, f)
    torch.testing.assert_close(out.value, direct.value)
    f.requires_grad_()
    loss(z_s, y, z_t, f).loss.backward()
    step = torch.zeros_like(f)
    step[2] = 1e-5
    values = [loss(z_s, y, z_t, f.detach() + sign * step).value for sign in (1, -1)]
    assert f.grad is not None
    assert float(f.grad[2]) == pytest.approx(float(values[0] - values[1]) / 2e-5, rel=1e-4)
    with refused("label_loss"):
        jumbot.JointTransportLoss(1, 1, 1, 1, label_loss="square")
    with refused("labels_t"):
        loss(z_s, y, z_t, f, torch.zeros(5))


def test_a_module_and_a_file_give_the_numbers_too(rng: np.random.Generator, tmp_path: Any) -> None:
    X = rng.normal(size=(80, 3)).astype(np.float32)
    model = jumbot.adapt((X, 1000 * X[:, 0] + 5), X, task="regression", steps=20, method="jumbot", judge=False)
    found = model.module()(torch.from_numpy(X)).detach().numpy()[:, 0]
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-3, atol=1.0)
    path = model.export(tmp_path / "model.pt2")
    assert path.exists()
