"""On a real device, where there is one."""

import math

import numpy as np
import pytest
import torch

import jumbot

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
KINDS = [
    {"epsilon": 0.01, "tau": 0.5},
    {"epsilon": 0.05},
    {"epsilon": 0.1, "mass": 0.5},
    {"epsilon": 0.1, "tau": (0.5, math.inf), "divergence": "tv"},
    {"epsilon": 0.05, "tau": 1.0, "divergence": "chi2"},
]


@pytest.mark.parametrize("engine", ["auto", "cpu", "device"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", KINDS, ids=str)
def test_values_and_gradients_are_those_of_the_cpu(options, dtype, engine, rng):
    cost = torch.tensor(rng.random((3, 40, 50)), dtype=dtype)
    here, there = cost.clone().requires_grad_(), cost.cuda().requires_grad_()
    expected = jumbot.solve(here, tol=1e-9, **options)
    solution = jumbot.solve(there, tol=1e-9, engine=engine, **options)
    expected.value.sum().backward()
    solution.value.sum().backward()
    assert solution.plan.device == solution.value.device == there.grad.device == there.device
    assert solution.plan.dtype == solution.value.dtype == there.grad.dtype == dtype
    rtol = 1e-5 if dtype == torch.float32 else 1e-7
    np.testing.assert_allclose(solution.value.detach().cpu(), expected.value.detach(), rtol=rtol)
    np.testing.assert_allclose(there.grad.cpu(), here.grad, atol=1e-4)


@pytest.mark.parametrize("engine", ["auto", "cpu", "device"])
def test_the_joint_loss(engine, rng):
    loss = jumbot.JointTransportLoss(0.1, 0.1, tau=0.5, epsilon=0.05, engine=engine)
    z, logits = torch.tensor(rng.random((20, 8))).float(), torch.tensor(rng.random((20, 3))).float()
    labels = torch.arange(20) % 3
    expected = loss(z, labels, z + 1, logits)
    out = loss(z.cuda(), labels.cuda(), z.cuda() + 1, logits.cuda())
    assert out.plan.is_cuda
    np.testing.assert_allclose(out.plan.cpu(), expected.plan, atol=1e-5)


@pytest.mark.parametrize("engine", ["auto", "cpu", "device"])
def test_the_divergence(engine, rng):
    x, y = (torch.tensor(rng.random((30, 2))) for _ in range(2))
    expected = jumbot.sinkhorn_divergence(x, y, epsilon=0.1, tau=1.0)
    result = jumbot.sinkhorn_divergence(x.cuda(), y.cuda(), epsilon=0.1, tau=1.0, engine=engine)
    assert result.is_cuda
    np.testing.assert_allclose(result.cpu(), expected, rtol=1e-6)
