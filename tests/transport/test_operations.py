"""What the torch engine asks of a device: operations per sweep, synchronisations, sweeps; counted on the CPU."""

import math
from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import jumbot
import jumbot.transport.divergences
from jumbot.transport._entropic import torch_sweeps
from jumbot.transport._marginal import PartialMarginal
from tests.fuzz.engines import engine

KINDS = [
    {"epsilon": 0.01, "tau": 0.5},
    {"epsilon": 0.01, "tau": 0.3, "reference": "ones"},
    {"epsilon": 0.01, "tau": 10.0},
    {"epsilon": 0.05},
    {"epsilon": 0.01, "tau": (0.5, math.inf)},
    {"epsilon": 0.1, "tau": 0.5, "divergence": "tv"},
    {"epsilon": 0.1, "divergence": "range(0.8,1.2)"},
    {"epsilon": 0.1, "tau": 0.5, "divergence": "chi2"},
    {"epsilon": 0.1, "tau": (0.5, math.inf), "divergence": "chi2"},
    *({"epsilon": 0.1, "tau": 0.5, "divergence": f"power({p})"} for p in (-1, 0.5, 1.5, 3)),
    {"epsilon": 0.1, "mass": 0.6},
]


class Count(TorchDispatchMode):
    """Operations by name."""

    def __init__(self):
        super().__init__()
        self.names = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names[str(func)] += 1
        return func(*args, **(kwargs or {}))

    @property
    def total(self):
        return sum(self.names.values())


class Synchronisations:
    """Reads of a tensor's numbers: `tolist`, `bool`, `float`, `nonzero`, indexing by a mask."""

    def __enter__(self):
        self.count, self.patches = 0, []
        for name in ("tolist", "__bool__", "__float__", "__int__", "item", "nonzero"):
            self.patches.append(patch.object(torch.Tensor, name, self._watched(getattr(torch.Tensor, name))))
            self.patches[-1].start()
        return self

    def __exit__(self, *error):
        for each in self.patches:
            each.stop()

    def _watched(self, method):
        def call(*args, **kwargs):
            self.count += 1
            return method(*args, **kwargs)

        return call


def state(rng, options, batch=4):
    """The sweeps of a batch, begun."""
    from jumbot.transport._problem import Terms, make_problem

    defaults = {"tau": math.inf, "divergence": "kl", "reference": "product", "mass": None}
    cost = torch.from_numpy(rng.random((batch, 30, 40)))
    problem = make_problem(cost, None, None, Terms(**defaults | options))
    zeros = torch.zeros(batch, 30, 1, dtype=torch.float64), torch.zeros(batch, 40, 1, dtype=torch.float64)
    return torch_sweeps._Sweeps(problem, *zeros, torch.ones(batch, dtype=torch.float64), cold=True)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_of_a_sweep(options, rng):
    """At most 40 operations, and none that waits for the device, between two checks; one wait at a check."""
    sweeps = state(rng, options)
    sweeps.next = 6
    counts = []
    with patch.object(torch_sweeps._Sweeps, "_check", lambda self, *rest: torch.ones(4, dtype=torch.bool)):
        for last in (6, 26):
            sweeps.next = last
            with Count() as count, Synchronisations() as waits:
                sweeps.advance(0.0, 10**6)
            counts.append(count.total)
            assert waits.count == 0
    assert (counts[1] - counts[0]) / 14 <= 40
    sweeps.next = sweeps.count + 1
    with Synchronisations() as waits:
        sweeps._check(*(torch.zeros_like(x) for x in (sweeps.f, sweeps.g, sweeps.g)), None, 1e-300, 10**6)
    assert waits.count <= 2, "one to decide, one if the kernel is built again"


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_the_policy_is_that_of_the_compiled_engine(options, rng):
    """As many sweeps, but for the checks that come at other times."""
    cost = torch.from_numpy(rng.random((65, 65)))
    expected = jumbot.solve(cost, **options)
    with engine("torch", 1):
        solution = jumbot.solve(cost, **options)
    assert solution.converged
    if not np.isinf(np.max(options.get("tau", np.inf))):  # the compiled sweeps mix exact marginals too, and need fewer
        assert solution.iterations <= 1.2 * expected.iterations + 6
    np.testing.assert_allclose(solution.value, expected.value, rtol=1e-5)


def test_of_a_whole_solve(rng):
    """5,671 operations and 80 synchronisations before this was counted."""
    cost = torch.from_numpy(rng.random((65, 65)))
    with engine("torch", 1), Count() as count, Synchronisations() as waits:
        jumbot.solve(cost, epsilon=0.01, tau=0.5, tol=1e-6)
    assert count.total < 2500
    assert waits.count < 25


@pytest.mark.parametrize("divergence", ["chi2", "power(-1)", "power(0.5)", "power(1.5)", "power(3)"])
@pytest.mark.parametrize("tau", [0.05, 0.5, 20.0])
def test_newton_from_the_last_potential_ends_at_the_step(divergence, tau, rng):
    """From anywhere, also from outside of the domain of the dual."""
    phi, f = jumbot.transport.divergences.parse(divergence), torch.from_numpy(2 * rng.normal(size=(1, 50, 1)))
    for start in (f, torch.zeros_like(f), 100 * f):
        h, ones = start, torch.ones_like(f)
        for _ in range(60):
            h = phi.relaxed_step(h, f, tau, 0.1, ones)
            assert bool(torch.isfinite(h).all())
        np.testing.assert_allclose(h, phi.step(f, tau, 0.1), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("share", [0.5, 0.95, 1.0])
def test_newton_for_a_level_ends_at_the_step(share, rng):
    f, a = torch.from_numpy(rng.normal(size=(3, 50, 1))), torch.from_numpy(rng.random((3, 50, 1)) + 0.1)
    a[1:] += 0.01  # of the first problem all weights go where share is one
    side = PartialMarginal.of_mass(share * float(a[0].sum()))
    h, epsilon = f - 1.0, 0.1
    for _ in range(80):
        length = side.length(h, f, a, epsilon)
        h = side.near_step(h, f, a.log(), epsilon, torch.ones_like(length), side.goal(a), length)
    np.testing.assert_allclose(h[..., 0], side.step(f[..., 0], a[..., 0], epsilon), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("epsilon", [0.005, 0.1])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95, 1.0])
def test_levels_by_newton_cost_few_sweeps_more_than_exact_ones(share, epsilon, rng, monkeypatch):
    """Where some weights are saturated long before others Newton may go to and fro; at checks levels are exact."""
    cost, a, b = rng.random((4, 20, 25)), rng.random(20) + 0.02, rng.random(25) + 0.02
    options = {"epsilon": epsilon, "mass": share * min(a.sum(), b.sum())}
    solution = jumbot.solve(cost, a, b, **options)

    def exact(self, h, f, log_a, epsilon, omega, goal, length):
        return self.relaxed_step(h[..., 0], f[..., 0], log_a[..., 0].exp(), epsilon, omega[..., 0])[..., None]

    monkeypatch.setattr(PartialMarginal, "near_step", exact)
    expected = jumbot.solve(cost, a, b, **options)
    assert solution.converged.all()
    assert solution.iterations.sum() <= 2 * expected.iterations.sum() + 40
    assert (np.abs(solution.value - expected.value) <= solution.gap + expected.gap + 1e-12).all()
