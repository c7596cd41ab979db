"""JUMBOT and DeepJDOT against jumbot.solve and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch.nn import functional as F

import jumbot
from jumbot.adaptation._networks.build import table_network
from jumbot.methods import make_method
from jumbot.methods.base import Batch
from jumbot.methods.network import Network


def problem(seed: int = 0, n: int = 7, m: int = 5) -> tuple[Network, Batch]:
    torch.manual_seed(seed)
    network = table_network(4, 3, features=6).double()
    return network, Batch(torch.randn(n, 4).double(), torch.arange(n) % 3, torch.randn(m, 4).double())


def cost_of(network: Network, batch: Batch, eta1: float, eta2: float) -> np.ndarray:
    with torch.no_grad():
        z_s, z_t = (network.embed(x).numpy() for x in (batch.source, batch.target))
        log_p = network(batch.target)[1].log_softmax(-1).numpy()
    return np.array(
        [
            [eta1 * ((z_s[i] - z_t[j]) ** 2).sum() - eta2 * log_p[j, batch.labels[i]] for j in range(len(z_t))]
            for i in range(len(z_s))
        ]
    )


@pytest.mark.parametrize("reference", ["product", "ones"])
def test_jumbot_terms(reference: str) -> None:
    network, batch = problem()
    options = {"eta1": 0.02, "eta2": 0.6, "eta3": 2.0, "tau": 0.7, "epsilon": 0.05, "reference": reference}
    terms = make_method("jumbot", options, features=6, classes=3).terms(network, batch)
    cost = cost_of(network, batch, 0.02, 0.6)
    solution = jumbot.solve(cost, epsilon=0.05, tau=0.7, reference=reference, tol=1e-8)
    np.testing.assert_allclose(terms.plan, solution.plan, rtol=1e-2, atol=1e-5)
    assert terms.losses["transport"].item() == pytest.approx(2 * (solution.plan * cost).sum(), rel=1e-3)
    assert terms.value.item() == pytest.approx(float(solution.value), rel=1e-4)


@pytest.mark.parametrize("reference", ["product", "ones"])
def test_jumbot_gradient_is_that_of_the_full_value(reference: str) -> None:
    """The envelope theorem: <P, C> with P held fixed has the gradient of the whole unbalanced objective."""
    network, batch = problem(1)
    options: Any = {"eta1": 0.05, "tau": 0.5, "epsilon": 0.1, "reference": reference}
    method = make_method("jumbot", options, features=6, classes=3)
    method.terms(network, batch).losses["transport"].backward()

    def value() -> float:
        cost = cost_of(network, batch, 0.05, 0.5)
        return float(jumbot.solve(cost, epsilon=0.1, tau=0.5, reference=reference, tol=1e-10).value)

    for parameter in network.parameters():
        flat, grad = parameter.data.view(-1), parameter.grad.view(-1)
        k = int(grad.abs().argmax())
        start = flat[k].item()
        values = []
        for step in (1e-4, -1e-4):
            flat[k] = start + step
            values.append(value())
        flat[k] = start
        assert grad[k].item() == pytest.approx((values[0] - values[1]) / 2e-4, rel=1e-2)


@pytest.mark.parametrize(("n", "m"), [(6, 6), (6, 4)])
def test_kappa_between_references(n: int, m: int) -> None:
    """P_ones = kappa P_product, kappa = (n m)^(epsilon / (2 tau + epsilon)), m^(2 epsilon / ...) for equal sizes."""
    network, batch = problem(2, n, m)
    options = {"tau": 0.5, "epsilon": 0.1}
    ones, product = (
        make_method("jumbot", options | {"reference": r}, features=6, classes=3).terms(network, batch).plan
        for r in ("ones", "product")
    )
    kappa = (n * m) ** (0.1 / (2 * 0.5 + 0.1))
    np.testing.assert_allclose(ones, kappa * product, rtol=1e-2, atol=1e-5)


def test_deepjdot_plan_is_the_best_assignment() -> None:
    network, batch = problem(3, 6, 6)
    terms = make_method("deepjdot", {"eta3": 3.0}, features=6, classes=3).terms(network, batch)
    cost = cost_of(network, batch, 0.01, 0.5)
    rows, columns = linear_sum_assignment(cost)
    assert terms.losses["transport"].item() == pytest.approx(3 * cost[rows, columns].mean(), rel=1e-5)
    np.testing.assert_allclose(terms.plan.numpy()[rows, columns], 1 / 6, rtol=1e-5)


def test_deepjdot_entropic() -> None:
    network, batch = problem(4)
    terms = make_method("deepjdot", {"epsilon": 0.1}, features=6, classes=3).terms(network, batch)
    solution = jumbot.solve(cost_of(network, batch, 0.01, 0.5), epsilon=0.1, tol=1e-8)
    np.testing.assert_allclose(terms.plan, solution.plan, rtol=1e-2, atol=1e-5)


def test_deepjdot_original_plans_on_squared_labels() -> None:
    """The plan from |one-hot - probabilities|^2, the loss from the cross-entropy."""
    network, batch = problem(5, 6, 6)
    options = {"variant": "original", "eta1": 0.1, "eta2": 1.0}
    terms = make_method("deepjdot", options, features=6, classes=3).terms(network, batch)
    with torch.no_grad():
        probabilities = network(batch.target)[1].softmax(-1).numpy()
    one_hot = F.one_hot(batch.labels, 3).numpy()
    squared = ((one_hot[:, None] - probabilities[None]) ** 2).sum(-1)
    rows, columns = linear_sum_assignment(cost_of(network, batch, 0.1, 0.0) + squared)
    np.testing.assert_allclose(terms.plan.numpy()[rows, columns], 1 / 6, rtol=1e-5)
    loss = cost_of(network, batch, 0.1, 1.0)[rows, columns].mean()
    assert terms.losses["transport"].item() == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("name", ["jumbot", "deepjdot"])
def test_the_engine_is_handed_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From `adapt` to every solve of the training."""
    import jumbot.loss

    seen, solve = [], jumbot.loss.solve

    def watched(*args: Any, **options: Any) -> Any:
        seen.append(options["engine"])
        return solve(*args, **options)

    monkeypatch.setattr(jumbot.loss, "solve", watched)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)).astype(np.float32), np.arange(40) % 2
    jumbot.adapt((X, y), X + 1, method=name, steps=2, batch_size=10, engine="cpu")
    assert "cpu" in seen
    with pytest.raises(jumbot.errors.JumbotError, match="engine"):
        jumbot.adapt((X, y), X + 1, method=name, steps=2, batch_size=10, engine="gpu")
