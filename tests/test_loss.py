"""JointTransportLoss: against solve, finite differences, any batch sizes, autocast, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import jumbot
from jumbot.cost import joint_cost
from jumbot.errors import NotFiniteError
from jumbot.loss import mass_between
from tests.refusals import refused


def inputs(
    n: int = 6, m: int = 5, d: int = 3, c: int = 4, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, ...]:
    g = torch.Generator().manual_seed(0)
    z_s, z_t = torch.randn(n, d, generator=g, dtype=dtype), torch.randn(m, d, generator=g, dtype=dtype)
    return z_s, torch.arange(n) % c, z_t, torch.randn(m, c, generator=g, dtype=dtype)


def slow_cost(z_s: torch.Tensor, y: torch.Tensor, z_t: torch.Tensor, logits: torch.Tensor) -> np.ndarray:
    out = np.zeros((len(z_s), len(z_t)))
    p = logits.softmax(-1).numpy()
    for i in range(len(z_s)):
        for j in range(len(z_t)):
            out[i, j] = 0.3 * float(((z_s[i] - z_t[j]) ** 2).sum()) - 0.7 * math.log(p[j, int(y[i])])
    return out


def test_cost_and_plan() -> None:
    z_s, y, z_t, logits = inputs()
    cost = slow_cost(z_s, y, z_t, logits)
    np.testing.assert_allclose(joint_cost(z_s, y, z_t, logits, 0.3, 0.7).numpy(), cost, rtol=1e-12)
    soft = torch.nn.functional.one_hot(y, 4).double()
    np.testing.assert_allclose(joint_cost(z_s, soft, z_t, logits, 0.3, 0.7).numpy(), cost, rtol=1e-12)
    out = jumbot.JointTransportLoss(0.3, 0.7, 1.0, 0.1, tol=1e-12)(z_s, y, z_t, logits)
    expected = jumbot.solve(cost, epsilon=0.1, tau=1.0, tol=1e-12)
    np.testing.assert_allclose(out.plan.numpy(), expected.plan, atol=1e-7)
    assert float(out.value) == pytest.approx(float(expected.value), rel=1e-6)
    assert float(out.loss) == pytest.approx(float((expected.plan * cost).sum()), rel=1e-6)
    assert float(out.mass) == pytest.approx(float(expected.mass), rel=1e-6)


@pytest.mark.parametrize(
    ("tau", "epsilon", "reference"), [(1.0, 0.1, "product"), (1.0, 0.1, "ones"), (math.inf, 0.1, "product")]
)
def test_gradient_is_that_of_the_full_value(tau: float, epsilon: float, reference: str) -> None:
    z_s, y, z_t, logits = inputs()
    loss = jumbot.JointTransportLoss(0.3, 0.7, tau, epsilon, reference, tol=1e-12)
    tensors = [x.clone().requires_grad_() for x in (z_s, z_t, logits)]
    out = loss(tensors[0], y, tensors[1], tensors[2])
    from_loss = torch.autograd.grad(out.loss, tensors, retain_graph=True)
    from_value = torch.autograd.grad(out.value, tensors)
    for a, b in zip(from_loss, from_value, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-9)
    for k, (x, grad) in enumerate(zip((z_s, z_t, logits), from_value, strict=True)):
        for place in [(0, 0), (2, 1)]:
            ends = []
            for sign in (1, -1):
                moved = [z_s, z_t, logits]
                moved[k] = x.clone()
                moved[k][place] += sign * 1e-4
                ends.append(float(loss(moved[0], y, moved[1], moved[2]).value))
            assert (ends[0] - ends[1]) / 2e-4 == pytest.approx(float(grad[place]), rel=1e-5, abs=1e-8)


def test_references_differ_by_kappa() -> None:
    m, tau, epsilon = 40, 1.0, 0.1
    z_s, y, z_t, logits = inputs(m, m)
    product = jumbot.JointTransportLoss(0.1, 0.1, tau, epsilon, tol=1e-10)(z_s, y, z_t, logits).plan
    ones = jumbot.JointTransportLoss(0.1, 0.1, tau, epsilon, "ones", tol=1e-10)(z_s, y, z_t, logits).plan
    kappa = m ** (2 * epsilon / (2 * tau + epsilon))
    torch.testing.assert_close(ones, kappa * product, rtol=1e-4, atol=1e-12)


def test_wrong_mass() -> None:
    z_s, y, z_t, logits = inputs()
    labels = torch.tensor([0, 1, 2, 3, -1])
    out = jumbot.JointTransportLoss(0.1, 0.1, 1.0, 0.1)(z_s, y, z_t, logits, labels)
    plan = out.plan[:, :4]
    wrong = sum(float(plan[i, j]) for i in range(6) for j in range(4) if int(y[i]) != int(labels[j]))
    assert float(out.wrong_mass) == pytest.approx(wrong / float(plan.sum()))
    assert jumbot.JointTransportLoss(0.1, 0.1, 1.0, 0.1)(z_s, y, z_t, logits).wrong_mass is None
    assert float(mass_between(torch.eye(2), torch.tensor([0, 1]), torch.tensor([0, 1]))) == 0


def test_half_precision_inputs_are_solved_in_float32() -> None:
    z_s, y, z_t, logits = inputs(dtype=torch.float32)
    loss = jumbot.JointTransportLoss(0.1, 0.1, 1.0, 0.1)
    exact = loss(z_s, y, z_t, logits)
    half = loss(z_s.bfloat16(), y, z_t.bfloat16(), logits.bfloat16())
    assert half.plan.dtype == torch.float32
    assert float(half.value) == pytest.approx(float(exact.value), rel=0.02)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = loss(z_s, y, z_t, logits)
    assert float(inside.value) == pytest.approx(float(exact.value), rel=1e-6)


@pytest.mark.parametrize("kinds", [(torch.float32, torch.float64), (torch.float64, torch.float32)])
def test_labels_and_weights_of_another_precision(kinds: tuple[torch.dtype, torch.dtype]) -> None:
    z_s, y, z_t, logits = inputs(dtype=kinds[1])
    soft, weights = torch.nn.functional.one_hot(y, 4), torch.arange(1, 7)
    loss = jumbot.JointTransportLoss(0.3, 0.7, tau=1.0, epsilon=0.1)
    same = loss(z_s, y, z_t, logits, weights_s=weights.to(kinds[1]))
    for labels in (soft.to(kinds[0]), soft):
        other = loss(z_s, labels, z_t, logits, weights_s=weights.to(kinds[0]))
        torch.testing.assert_close(other.plan, same.plan, check_dtype=False, rtol=1e-4, atol=1e-6)


def test_extreme_logits_give_no_nan() -> None:
    z_s, y, z_t, logits = inputs()
    logits = 1e4 * logits
    logits.requires_grad_()
    out = jumbot.JointTransportLoss(0.1, 0.1, 1.0, 0.1)(z_s, y, z_t, logits)
    out.loss.backward()
    assert bool(torch.isfinite(logits.grad).all())  # type: ignore[arg-type]


def test_errors() -> None:
    z_s, y, z_t, logits = inputs()
    loss = jumbot.JointTransportLoss(0.1, 0.1, 1.0, 0.1)
    with refused("same d"):
        loss(z_s[:, :2], y, z_t, logits)
    with refused("labels_s"):
        loss(z_s, y[:3], z_t, logits)
    with refused(r"0\.\.3"):
        loss(z_s, y + 1, z_t, logits)
    with refused("integers"):
        loss(z_s, y.double(), z_t, logits)
    with refused("logits_t"):
        loss(z_s, y, z_t, logits[:2])
    with refused("labels_t"):
        loss(z_s, y, z_t, logits, torch.zeros(2))
    with pytest.raises(NotFiniteError, match="NaN"):
        loss(z_s * math.nan, y, z_t, logits)
    for bad in ({"eta1": -1.0}, {"tau": 0.0}, {"epsilon": -0.1}, {"reference": "twos"}):
        with refused(next(iter(bad))):
            jumbot.JointTransportLoss(**{"eta1": 0.1, "eta2": 0.1, "tau": 1.0, "epsilon": 0.1, **bad})


@pytest.mark.parametrize("factor", [1e-3, 1.0, 250.0])
def test_scale_makes_the_plan_independent_of_the_embeddings_units(factor: float) -> None:
    torch.manual_seed(0)
    z_s, z_t, logits = torch.randn(12, 5), torch.randn(9, 5), torch.randn(9, 3)
    labels = torch.arange(12) % 3
    plans = []
    for k in (1.0, factor):
        loss = jumbot.JointTransportLoss(0.01, 0.5, tau=0.5, epsilon=0.01, scale="auto")
        for shift in (0.0, 0.3):  # the second call uses the running scale
            out = loss(k * (z_s + shift * z_s.flip(0)), labels, k * z_t, logits)
        plans.append(out.plan)
    assert torch.allclose(*plans, rtol=1e-3, atol=1e-6)


def test_scale_is_the_identity_where_source_distances_are_typical() -> None:
    torch.manual_seed(0)
    z_s, z_t, logits, labels = torch.randn(8, 4), torch.randn(6, 4), torch.randn(6, 2), torch.arange(8) % 2
    typical = float(torch.cdist(z_s, z_s).square().mean())
    plain = jumbot.JointTransportLoss(0.1, 0.1, tau=1.0, epsilon=0.1)
    scaled = jumbot.JointTransportLoss(0.1, 0.1, tau=1.0, epsilon=0.1, scale=typical)
    assert torch.allclose(plain(z_s, labels, z_t, logits).plan, scaled(z_s, labels, z_t, logits).plan, rtol=1e-4)


def test_scale_follows_training_and_rests_in_evaluation() -> None:
    loss = jumbot.JointTransportLoss(0.1, 0.1, tau=1.0, epsilon=0.1, scale=2.0)
    z, labels, logits = torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1]), torch.zeros(2, 2)
    loss.eval()(z, labels, z, logits)
    assert loss.scale.square == 0
    loss.train()(z, labels, z, logits)
    assert loss.scale.square == pytest.approx(0.5)
    loss.scale.deferred = True
    loss(z, labels, z, logits)
    loss(5 * z, labels, z, logits)
    assert loss.scale.square == pytest.approx(0.5)
    loss.scale.settle()
    assert loss.scale.square == pytest.approx(0.9 * 0.5 + 0.1 * (0.5 + 12.5) / 2)
    loss.scale.deferred = False
    loss.scale.square.fill_(0.5)
    loss(3 * z, labels, z, logits)
    assert loss.scale.square == pytest.approx(0.9 * 0.5 + 0.1 * 4.5)
    loss.eval()(9 * z, labels, z, logits)
    assert loss.scale.square == pytest.approx(0.9 * 0.5 + 0.1 * 4.5)
    again = jumbot.JointTransportLoss(0.1, 0.1, tau=1.0, epsilon=0.1, scale=2.0)
    again.load_state_dict(loss.state_dict())
    assert again.scale.square == loss.scale.square


def test_scale_of_equal_samples_is_left_alone() -> None:
    loss = jumbot.JointTransportLoss(0.1, 0.1, tau=1.0, epsilon=0.1, scale="auto")
    z = torch.ones(3, 2)
    out = loss(z, torch.tensor([0, 1, 1]), z, torch.zeros(3, 2))
    assert torch.isfinite(out.loss)
    with refused("scale"):
        jumbot.JointTransportLoss(0.1, 0.1, tau=1.0, epsilon=0.1, scale=0.0)


@pytest.mark.parametrize("change", [lambda p: 5 * p, lambda p: p - 0.5, lambda p: p.log(), lambda p: p * math.nan])
def test_rows_of_labels_are_probabilities(change) -> None:
    z_s, y, z_t, logits = inputs()
    soft = (4.0 * torch.nn.functional.one_hot(y, 4).double()).softmax(-1)
    loss = jumbot.JointTransportLoss(0.3, 0.7, 1.0, 0.1)
    loss(z_s, soft, z_t, logits)
    with refused("labels_s"):
        loss(z_s, change(soft), z_t, logits)
