"""Half precision, whole numbers, other byte orders, autocast, a default device: any array that means numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import jumbot
from tests.refusals import refused

HALVES = [torch.bfloat16, torch.float16]


def cost(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(6, 8, generator=torch.Generator("cpu").manual_seed(0), device="cpu").to(dtype)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("settings", [{"epsilon": 0.1, "tau": 0.5}, {"epsilon": 0.0}, {"epsilon": 0.1}], ids=str)
def test_half_precision_is_solved_in_float32(dtype: torch.dtype, settings: dict[str, Any]) -> None:
    given = cost(dtype).requires_grad_()
    a = torch.full((6,), 0.125, dtype=dtype).requires_grad_()
    b = torch.full((8,), 0.09375, dtype=dtype)
    solution = jumbot.solve(given, a, b, **settings)
    expected = jumbot.solve(given.detach().float(), a.detach().float(), b.float(), **settings)
    assert solution.value.dtype == solution.plan.dtype == torch.float32
    torch.testing.assert_close(solution.plan, expected.plan)
    solution.value.backward()
    assert given.grad is not None
    assert a.grad is not None
    assert given.grad.dtype == a.grad.dtype == dtype
    torch.testing.assert_close(given.grad, expected.plan.to(dtype))


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_in_the_divergence(dtype: torch.dtype) -> None:
    x = torch.rand(7, 3, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()
    y = torch.rand(9, 3, generator=torch.Generator().manual_seed(2)).to(dtype)
    found = jumbot.sinkhorn_divergence(x, y, epsilon=0.1)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, jumbot.sinkhorn_divergence(x.float(), y.float(), epsilon=0.1))
    found.backward()
    assert x.grad is not None
    assert x.grad.dtype == dtype


def test_numpy_half_precision() -> None:
    given = cost().numpy().astype(np.float16)
    solution = jumbot.solve(given, epsilon=0.1, tau=0.5)
    assert solution.plan.dtype == np.float32
    np.testing.assert_allclose(solution.plan, jumbot.solve(given.astype(np.float32), epsilon=0.1, tau=0.5).plan)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_whole_numbers_are_those_of_numpy(dtype: torch.dtype) -> None:
    whole = torch.tensor([[0, 1, 2], [3, 0, 1]]).to(dtype)
    one, other = (jumbot.solve(c, epsilon=0.1, tau=0.5) for c in (whole, whole.numpy()))
    assert one.plan.dtype == torch.float64
    np.testing.assert_array_equal(one.plan.numpy(), other.plan)
    weights = torch.tensor([1, 2, 3])
    for kind in (torch.float32, torch.float64):
        c = cost(kind)[:2, :3]
        torch_kind = jumbot.solve(c, b=weights, epsilon=0.1, tau=0.5)
        numpy_kind = jumbot.solve(c.numpy(), b=weights.numpy(), epsilon=0.1, tau=0.5)
        assert torch_kind.plan.dtype == kind
        np.testing.assert_array_equal(torch_kind.plan.numpy(), numpy_kind.plan)


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i4", ">f2"])
def test_another_byte_order(dtype: str) -> None:
    given = (100 * cost(torch.float64).numpy()).astype(dtype)
    native = given.astype(given.dtype.newbyteorder("="))
    a = np.arange(1.0, 7.0).astype(">f8" if dtype in (">f8", ">i4") else ">f4")
    np.testing.assert_array_equal(
        jumbot.solve(given, a, epsilon=1.0, tau=9.0).plan,
        jumbot.solve(native, a.astype(a.dtype.newbyteorder("=")), epsilon=1.0, tau=9.0).plan,
    )
    points = given[:, :2]
    one, other = (jumbot.sinkhorn_divergence(p, p + 1, epsilon=1.0) for p in (points, native[:, :2]))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("bad", [torch.ones(2, 2, dtype=torch.complex64), np.ones((2, 2), dtype=complex), [["a"]]])
def test_what_is_no_real_number_is_refused(bad: Any) -> None:
    with refused(r"^cost"):
        jumbot.solve(bad, epsilon=0.1)


def test_precisions_that_differ_are_still_refused() -> None:
    with refused(r"^a"):
        jumbot.solve(cost(), torch.ones(6, dtype=torch.float64), epsilon=0.1, tau=1.0)


SOLVES: dict[str, dict[str, Any]] = {
    "kl": {"epsilon": 0.1, "tau": 0.5},
    "balanced": {"epsilon": 0.01},
    "tv": {"epsilon": 0.1, "tau": 0.5, "divergence": "tv"},
    "chi2": {"epsilon": 0.001, "tau": 50.0, "divergence": "chi2"},
    "range": {"epsilon": 0.1, "divergence": "range(0.5,1.5)"},
    "partial": {"epsilon": 0.1, "mass": 0.5},
    "exact": {"epsilon": 0.0},
    "exact kl": {"epsilon": 0.0, "tau": 0.5},
    "exact partial": {"epsilon": 0.0, "mass": 0.5},
    "blocked": {"epsilon": 0.1, "tau": 0.5},
}


def every_call() -> dict[str, Any]:
    """Results of all that computes transport, from inputs on the CPU."""
    found = {}
    for name, settings in SOLVES.items():
        given = cost(torch.float64).clone()
        if name == "blocked":
            given[0], given[1, 1] = torch.inf, torch.inf
        a = torch.full((6,), 1 / 6, dtype=torch.float64, device="cpu", requires_grad=True)
        given.requires_grad_()
        solution = jumbot.solve(given, a, **settings)
        solution.value.backward()
        found[name] = [solution.value.detach(), solution.plan, *solution.potentials, given.grad, a.grad]
        found[f"{name}, numpy"] = [jumbot.solve(given.detach().numpy(), **settings).value]
    x, y = cost(torch.float64), cost(torch.float64).flip(0) + 1
    x.requires_grad_()
    for divergence in ("kl", "tv"):
        total = jumbot.sinkhorn_divergence(x, y, epsilon=0.1, tau=1.0, divergence=divergence)
        found[f"divergence {divergence}"] = [total.detach(), *torch.autograd.grad(total, x)]
    points = x.detach()
    found["couple"] = list(jumbot.couple(points, y, epsilon=0.1, seed=0))
    found["estimate"] = [jumbot.estimate(points, y, m=3, k=4, epsilon=0.1, tau=1.0).value]
    weights = torch.arange(1.0, 7.0, dtype=torch.float64, device="cpu")
    found["weights"] = [jumbot.estimate(points, y, weights / 21, m=3, k=4, epsilon=0.1).value]
    flow = jumbot.gradient_flow(points, y, m=3, steps=2, learning_rate=0.1, epsilon=0.1, tau=1.0)
    found["flow"] = [flow.points[-1]]
    return found


@pytest.fixture
def default_device() -> Iterator[None]:
    torch.set_default_device("meta")  # which computes nothing: what lands there is lost
    yield
    torch.set_default_device(None)


def test_a_default_device_has_no_effect_on_inputs_elsewhere(default_device: None) -> None:
    with torch.device("cpu"):
        expected = every_call()
    generator_on_cpu = torch.Generator(device="cpu").manual_seed(0)
    assert generator_on_cpu.device.type == "cpu"
    found = every_call_under_default()
    assert found.keys() == expected.keys()
    for name in expected:
        for one, other in zip(found[name], expected[name], strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12, atol=1e-13, err_msg=name)


def every_call_under_default() -> dict[str, Any]:
    assert torch.zeros(1).device.type == "meta"
    return every_call()


@pytest.mark.parametrize("name", [*SOLVES, "divergence"])
def test_autocast_changes_nothing(name: str) -> None:
    given = cost()

    def call() -> Any:
        if name == "divergence":
            return jumbot.sinkhorn_divergence(given, given + 1, epsilon=0.1, cost="sqeuclidean")
        return jumbot.solve(given, **SOLVES[name]).value

    expected = call()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = call()
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16, "it is on"
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_training_step_under_autocast() -> None:
    network = torch.nn.Linear(3, 2)
    x, y = torch.rand(5, 3), torch.rand(6, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        u, v = network(x), network(y)
        assert u.dtype == torch.bfloat16
        loss = jumbot.solve((u[:, None] - v).square().sum(-1), epsilon=0.1, tau=1.0).value
        loss = loss + jumbot.sinkhorn_divergence(u, v, epsilon=0.1)
    loss.backward()
    assert network.weight.grad is not None
    assert bool(network.weight.grad.isfinite().all())
