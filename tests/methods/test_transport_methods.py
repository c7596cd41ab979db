"""JUMBOT, DeepJDOT, m-POT and ELOT against jumbot.solve, linear programs, POT and finite differences."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment, linprog
from torch.nn import functional as F

import jumbot
from jumbot.adaptation._networks.build import table_network
from jumbot.methods import make_method
from jumbot.methods._joint_transport import moved_from
from jumbot.methods.base import Batch
from jumbot.methods.network import Network
from tests.refusals import refused


def problem(seed: int = 0, n: int = 7, m: int = 5) -> tuple[Network, Batch]:
    torch.manual_seed(seed)
    network = table_network(4, 3, features=6).double()
    return network, Batch(torch.randn(n, 4).double(), torch.arange(n) % 3, torch.randn(m, 4).double())


def cost_of(network: Network, batch: Batch, eta1: float, eta2: float) -> np.ndarray:
    with torch.no_grad():
        z_s, z_t = (network(x)[0].numpy() for x in (batch.source, batch.target))
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


def inequality_program(cost: np.ndarray, mass: float | None = None) -> tuple[float, float]:
    """Value and mass of min <C, P> with P 1 <= 1/n and P' 1 <= 1/m, of a given mass or any, by a linear program."""
    n, m = cost.shape
    sums = np.concatenate([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    bounds = np.concatenate([np.full(n, 1 / n), np.full(m, 1 / m)])
    whole = {} if mass is None else {"A_eq": np.ones((1, n * m)), "b_eq": [mass]}
    found = linprog(cost.ravel(), A_ub=sums, b_ub=bounds, **whole)
    assert found.success
    return float(found.fun), float(found.x.sum())


@pytest.mark.parametrize("mass", [0.1, 0.5, 0.85, 1.0])
def test_mpot_moves_that_much_as_cheaply_as_can_be(mass: float) -> None:
    network, batch = problem(6)
    method = make_method("m-pot", {"eta1": 0.1, "eta2": 0.7, "eta3": 2.0, "mass": mass}, features=6, classes=3)
    terms = method.terms(network, batch)
    value, _ = inequality_program(cost_of(network, batch, 0.1, 0.7), mass)
    assert terms.losses["transport"].item() == pytest.approx(2 * value, rel=1e-5)
    assert terms.plan.sum().item() == pytest.approx(mass, rel=1e-5)
    assert terms.plan.sum(1).max() <= 1 / 7 + 1e-6
    assert terms.plan.sum(0).max() <= 1 / 5 + 1e-6


def test_mpot_entropic_is_that_of_pot() -> None:
    ot = pytest.importorskip("ot")
    network, batch = problem(7)
    terms = make_method("m-pot", {"mass": 0.6, "epsilon": 0.3}, features=6, classes=3).terms(network, batch)
    cost = cost_of(network, batch, 0.01, 0.5)
    # against the all-ones matrix, which for uniform weights and a given mass is the same problem
    theirs = ot.partial.entropic_partial_wasserstein(
        np.full(7, 1 / 7), np.full(5, 1 / 5), cost, reg=0.3, m=0.6, numItermax=20_000, stopThr=1e-12
    )
    np.testing.assert_allclose(terms.plan, theirs, rtol=1e-3, atol=1e-6)


def test_mass_of_mpot_rises_along_its_ramp() -> None:
    network, batch = problem(8)
    method = make_method("m-pot", {"mass": 0.4, "mass_ramp": 0.5}, features=6, classes=3)
    found = [method.terms(network, replace(batch, progress=p)).plan.sum().item() for p in (0, 0.25, 0.5, 1)]
    assert found == pytest.approx([0.01, 0.2, 0.4, 0.4], rel=1e-4)


@pytest.mark.parametrize("reward", [0.05, 0.6, 1.0, 30.0])
def test_elot_moves_what_pays(reward: float) -> None:
    """The linear program with costs of both signs: too small a reward moves nothing, a large one all that it can."""
    network, batch = problem(9)
    method = make_method("elot", {"eta1": 0.1, "eta2": 0.7, "reward": reward}, features=6, classes=3)
    terms = method.terms(network, batch)
    cost = cost_of(network, batch, 0.1, 0.7)
    value, mass = inequality_program(cost - reward)
    assert terms.plan.sum().item() == pytest.approx(mass, abs=1e-6)
    assert terms.losses["transport"].item() - reward * mass == pytest.approx(value, abs=1e-5)
    assert (terms.plan.numpy() > 1e-9)[cost > reward].sum() == 0


def test_elot_entropic_is_the_plain_scaling_iteration() -> None:
    """u = min(1, a / (K v)), v = min(1, b / (K' u)): Dykstra's projections onto P 1 <= a, P' 1 <= b."""
    network, batch = problem(10)
    options = {"eta1": 0.1, "eta2": 0.7, "reward": 0.9, "epsilon": 0.2}
    terms = make_method("elot", options, features=6, classes=3).terms(network, batch)
    cost = cost_of(network, batch, 0.1, 0.7)
    kernel = np.exp((0.9 - cost) / 0.2) / 35
    u, v = np.ones(7), np.ones(5)
    for _ in range(5000):
        u = np.minimum(1, 1 / 7 / (kernel @ v))
        v = np.minimum(1, 1 / 5 / (kernel.T @ u))
    plan = u[:, None] * kernel * v
    assert 0.05 < plan.sum() < 0.95
    np.testing.assert_allclose(terms.plan, plan, rtol=1e-3, atol=1e-6)
    assert terms.losses["transport"].item() == pytest.approx((plan * cost).sum(), rel=1e-3)


def test_source_samples_count_by_the_mass_that_leaves_them() -> None:
    network, batch = problem(11)
    plain, weighted = (
        make_method("jumbot", {"tau": 0.2, "source_loss": how}, features=6, classes=3).terms(network, batch)
        for how in ("uniform", "plan")
    )
    with torch.no_grad():
        losses = F.cross_entropy(network(batch.source)[1], batch.labels, reduction="none").numpy()
    moved = weighted.plan.numpy().sum(1)
    assert moved.std() > 0.01 * moved.mean()
    assert weighted.losses["source"].item() == pytest.approx((moved * losses).sum() / moved.sum(), rel=1e-5)
    assert plain.losses["source"].item() == pytest.approx(losses.mean(), rel=1e-5)
    assert plain.losses["transport"].item() == weighted.losses["transport"].item()


def test_where_nothing_moves_all_source_samples_count_alike() -> None:
    assert moved_from(torch.zeros(3, 2)) is None


def test_deepjdot_with_its_authors_weights() -> None:
    options = make_method("deepjdot", {"cost_weights": "original"}, features=6, classes=3).options
    assert (options.eta1, options.eta2) == (0.001, 0.0001)
    assert type(options)(**dataclasses.asdict(options)) == options  # as a record is read again
    for wrong in ({"eta1": 0.1}, {"eta2": 0.2}):
        with refused("cost_weights='original'"):
            make_method("deepjdot", {"cost_weights": "original", **wrong}, features=6, classes=3)


@pytest.mark.parametrize("name", ["jumbot", "deepjdot", "m-pot", "elot"])
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
