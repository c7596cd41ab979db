"""Seeded randomness for every test."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "jumbot", derandomize=True, deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("jumbot")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator of its own for each test, the same in every run and order."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))


@pytest.fixture(autouse=True)
def small_maps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where runs are trained, their reports map few points: t-SNE of them all would take longer than the training.

    `tests/report` draws whole maps.
    """
    if {"adaptation", "cli", "paper", "test_docs.py"} & set(request.path.relative_to(request.config.rootpath).parts):
        monkeypatch.setattr("jumbot.report.embedding.SHOWN", 20)
