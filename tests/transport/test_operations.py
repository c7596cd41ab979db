"""What the torch engine asks of a device: operations per sweep, synchronisations, sweeps; counted on the CPU."""

import math
from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import jumbot
from jumbot.transport.entropic import torch_sweeps
from tests.fuzz.engines import engine

KINDS = [
    {"epsilon": 0.01, "tau": 0.5}, {"epsilon": 0.01, "tau": 0.3, "reference": "ones"}, {"epsilon": 0.01, "tau": 10.0},
    {"epsilon": 0.05}, {"epsilon": 0.01, "tau": (0.5, math.inf)}, {"epsilon": 0.1, "tau": 0.5, "divergence": "tv"},
    {"epsilon": 0.1, "divergence": "range(0.8,1.2)"}, {"epsilon": 0.1, "tau": 0.5, "divergence": "chi2"},
    {"epsilon": 0.1, "tau": (0.5, math.inf), "divergence": "chi2"},
    *({"epsilon": 0.1, "tau": 0.5, "divergence": f"power({p})"} for p in (-1, 0.5, 1.5, 3)),
    {"epsilon": 0.1, "mass": 0.6},
]  # fmt: skip


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
    from jumbot.transport.problem import make_problem

    defaults = {"tau": math.inf, "divergence": "kl", "reference": "product", "mass": None}
    cost = torch.from_numpy(rng.random((batch, 30, 40)))
    problem = make_problem(cost, None, None, **defaults | options)
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
    assert solution.iterations <= 1.2 * expected.iterations + 6
    np.testing.assert_allclose(solution.value, expected.value, rtol=1e-5)


def test_of_a_whole_solve(rng):
    """5,671 operations and 80 synchronisations before this was counted."""
    cost = torch.from_numpy(rng.random((65, 65)))
    with engine("torch", 1), Count() as count, Synchronisations() as waits:
        jumbot.solve(cost, epsilon=0.01, tau=0.5)
    assert count.total < 2500
    assert waits.count < 25
