"""ROT: its weights against a convex solver, and the rhythm of its steps."""

from __future__ import annotations

import dataclasses
from typing import Any

import cvxpy
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from jumbot.methods.rot import robust_weights
from tests.methods.method_case import Toy, build, outputs


@pytest.mark.parametrize("rho", [0.02, 0.2, 1.0, 5.0])
@pytest.mark.parametrize("shape", ["normal", "heavy", "ties"])
def test_weights_against_a_convex_solver(rho: float, shape: str, rng: np.random.Generator) -> None:
    n = 40
    scores = rng.normal(size=n) if shape == "normal" else rng.standard_cauchy(n) ** 2
    if shape == "ties":
        scores = np.round(rng.normal(size=n))
    w = cvxpy.Variable(n)
    constraints = [w >= 0, cvxpy.sum(w) == n, cvxpy.sum_squares(w - 1) <= 2 * rho * n]
    problem = cvxpy.Problem(cvxpy.Maximize(scores @ w / np.abs(scores).max()), constraints)
    problem.solve(solver=cvxpy.CLARABEL)
    found = robust_weights(torch.from_numpy(scores), rho).numpy()
    assert found.min() >= 0
    assert found.mean() == pytest.approx(1)
    assert np.square(found - 1).mean() / 2 <= rho * (1 + 1e-6)
    assert scores @ found == pytest.approx(scores @ w.value, rel=1e-5)
    if shape != "ties":
        np.testing.assert_allclose(found, w.value, atol=2e-3)


def test_special_weights() -> None:
    scores = torch.tensor([0.0, 1.0, 5.0])
    assert torch.equal(robust_weights(scores, 0.0), torch.ones(3))
    assert torch.equal(robust_weights(torch.full((4,), 7.0), 0.2), torch.ones(4))
    assert torch.equal(robust_weights(torch.tensor([3.0]), 0.2), torch.ones(1))
    # the ball holds the whole simplex: all weight goes to the best
    torch.testing.assert_close(robust_weights(scores, 100.0), torch.tensor([0.0, 0.0, 3.0]))


def test_features_oppose_the_critic_in_one_of_five_steps() -> None:
    network, method = build("rot")
    for step in range(10):
        network.zero_grad()
        method.zero_grad()
        batch = dataclasses.replace(Toy().batch(0), step=step)
        method.terms(network, batch).losses["adversarial"].backward()
        felt = network.backbone[0].weight.grad
        assert (felt is not None) == (step % 5 == 4)
        assert all(p.grad is not None for p in method.parameters())


def test_weights_of_all_target_samples() -> None:
    """Equal at the first look, then those of the critic's scores; a minibatch takes its own by index."""
    toy = Toy()
    network, method = build("rot")
    rot: Any = method
    looked = outputs(network, toy)
    rot.refresh(looked)
    batch = toy.batch(0)
    assert torch.equal(rot.of(batch, torch.rand(12)), torch.ones(12))
    rot.refresh(looked)
    rot.eval()
    scores = F.softplus(rot.critic(looked.embeddings)).squeeze(1).detach()
    torch.testing.assert_close(rot.weights, robust_weights(scores, 0.2))
    assert rot.weights.std() > 0.1
    assert torch.equal(rot.of(batch, torch.rand(12)), rot.weights[batch.target_index])
    losses = torch.rand(12)
    alone = dataclasses.replace(batch, target_index=None)
    torch.testing.assert_close(rot.of(alone, losses), robust_weights(losses, 0.2))


def test_critic_is_1_lipschitz() -> None:
    _, method = build("rot")
    rot: Any = method
    for _ in range(50):
        rot.critic(torch.randn(2, 8))  # power iterations
    rot.eval()
    x, y = torch.randn(200, 8), torch.randn(200, 8)
    assert ((rot.critic(x) - rot.critic(y)).squeeze(1).abs() <= 1.01 * (x - y).norm(dim=1)).all()
