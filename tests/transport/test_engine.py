"""Where problems are solved, as far as a machine without a GPU can tell."""

import math

import numpy as np
import pytest
import torch

import jumbot
from jumbot.transport import _placement as placement
from tests.refusals import refused
from tests.transport.pretend import Device, Pretend

KINDS = [
    {"epsilon": 0.01, "tau": 0.5},
    {"epsilon": 0.05},
    {"epsilon": 0.0},
    {"epsilon": 0.0, "tau": 0.5},
    {"epsilon": 0.1, "mass": 0.5},
    {"epsilon": 0.1, "tau": (0.5, math.inf), "divergence": "tv"},
]


def test_the_rule():
    """On a GPU small problems and small batches leave, large ones stay; on the CPU all stay."""
    assert placement.on_cpu("auto", "cuda", 1, 65, 65, 0.01)
    assert placement.on_cpu("auto", "cuda", 32, 65, 65, 0.01)
    assert not placement.on_cpu("auto", "cuda", 1000, 65, 65, 0.01)
    assert not placement.on_cpu("auto", "cuda", 1, 2000, 2000, 0.01)
    assert placement.on_cpu("auto", "cuda", 1, 512, 512, 0.01)
    assert not placement.on_cpu("auto", "cuda", 1, 512, 513, 0.01)
    assert placement.on_cpu("auto", "cuda", 1, 2000, 2000, 0.0), "exact methods are the CPU's"
    assert placement.on_cpu("auto", "mps", 1, 2000, 2000, 0.01), "there is no float64"
    for name in placement.ENGINES:
        assert placement.on_cpu(name, "cpu", 1000, 65, 65, 0.01)
    assert placement.on_cpu("cpu", "cuda", 1000, 65, 65, 0.01)
    assert not placement.on_cpu("device", "cuda", 1, 65, 65, 0.01)


def test_what_a_device_cannot_do_is_refused():
    with pytest.raises(jumbot.errors.UnsupportedError):
        placement.on_cpu("device", "mps", 1, 65, 65, 0.01)
    with pytest.raises(jumbot.errors.UnsupportedError):
        placement.on_cpu("device", "cuda", 1, 65, 65, 0.0)


def test_an_unknown_engine_is_refused():
    x = torch.zeros(3, 2)
    for call in (
        lambda: jumbot.solve(torch.zeros(2, 2), epsilon=0.1, engine="devise"),
        lambda: jumbot.solve(np.zeros((2, 2)), epsilon=0.0, engine="devise"),
        lambda: jumbot.sinkhorn_divergence(x, x, epsilon=0.1, engine="devise"),
        lambda: jumbot.JointTransportLoss(1, 1, 1, 0.1, engine="devise"),
    ):
        with refused("'device'"):
            call()


@pytest.mark.parametrize("name", placement.ENGINES)
def test_on_the_cpu_it_plays_no_part(name, rng):
    cost = torch.from_numpy(rng.random((3, 10, 12)))
    expected = jumbot.solve(cost, epsilon=0.05, tau=0.5)
    assert torch.equal(jumbot.solve(cost, epsilon=0.05, tau=0.5, engine=name).plan, expected.plan)


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_one_copy_each_way(options, batch, rng):
    """The answer is that of the CPU, on the device and in its dtype, with one copy off it and one for what is read."""
    cost = torch.tensor(rng.random((*batch, 10, 10)), dtype=torch.float32)
    expected = jumbot.solve(cost, **options)
    with Device() as device:
        solution = jumbot.solve(Pretend(cost), **options)
        assert device.copies == {"to": 0, "off": 1}
        for name in ("plan", "value", "linear", "dual", "gap", "mass"):
            device.copies["to"] = 0
            x = getattr(solution, name)
            assert isinstance(x, Pretend)
            assert x.device.type == "mps"
            assert torch.equal(x.held, getattr(expected, name))
            assert device.copies == {"to": 1, "off": 1}
        again = jumbot.solve(Pretend(cost), init=solution, **options)
        assert np.all(again.converged if isinstance(again.converged, bool) else again.converged.held.numpy())
        assert all(isinstance(x, Pretend) for x in (*solution.marginals, *solution.potentials))


def test_weights_leave_with_the_cost(rng):
    cost, a = (torch.tensor(rng.random(shape), dtype=torch.float32) for shape in ((8, 6), 8))
    plan = jumbot.solve(cost, a, epsilon=0.1, tau=1.0).plan
    with Device() as device:
        held = jumbot.solve(Pretend(cost), Pretend(a), epsilon=0.1, tau=1.0).plan.held
    assert torch.equal(held, plan)
    assert device.copies == {"to": 1, "off": 2}


def test_refused_on_the_device_itself():
    with Device(), pytest.raises(jumbot.errors.UnsupportedError):
        jumbot.solve(Pretend(torch.zeros(3, 3)), epsilon=0.1, engine="device")
