"""What does not fit is said before it is allocated, with what to use instead."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import jumbot
from jumbot.transport import _placement as room


def test_a_cost_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "free_memory", lambda: 2e9)
    cost = torch.zeros(1, 1).expand(20_000, 20_000)  # of no memory itself
    with pytest.raises(jumbot.TooLargeError, match=r"^cost: .*8\.0 GB.*2\.0 GB.*estimate.*jumbot\.solve_sample"):
        jumbot.solve(cost, epsilon=0.1, tau=1.0)
    with pytest.raises(MemoryError):
        jumbot.solve(torch.zeros(8, 8), torch.full((10**7, 8), 0.125), epsilon=0.1, tau=1.0)


def test_a_divergence_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "free_memory", lambda: 2e9)
    points = np.zeros((20_000, 2), dtype=np.float32)
    with pytest.raises(jumbot.TooLargeError, match=r"^x, y: .*20,000.*2\.0 GB.*jumbot\.estimate"):
        jumbot.sinkhorn_divergence(points, points, epsilon=0.0, tau=1.0)  # with entropy no matrix is made


def test_a_large_divergence_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "free_memory", lambda: 1e12)
    points = np.zeros((20_000, 2), dtype=np.float32)
    # as an error it comes before the work
    with pytest.raises(UserWarning, match=r"2.*GB.*jumbot\.solve_sample"):
        jumbot.sinkhorn_divergence(points, points, epsilon=0.0, tau=1.0)  # with entropy no matrix is made


def test_what_fits_is_not_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "free_memory", lambda: 1.0)
    assert jumbot.solve(np.eye(3), epsilon=0.1, tau=1.0).converged


def test_what_is_free_is_known_here() -> None:
    assert room.free_memory() > 1e6
