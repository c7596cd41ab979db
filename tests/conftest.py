"""Seeded randomness for every test; of grids of cases the quick run takes a part."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "jumbot", derandomize=True, deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("jumbot")


@pytest.hookimpl(tryfirst=True)  # before `-m "not slow"` is applied
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test over a grid, the quick run takes as many cases as show every value of every parameter.

    The others are slow tests: `make test-slow` and the nightly workflow run the whole grid.
    """
    grids: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            grids[item.nodeid.partition("[")[0]].append(item)
    for cases in grids.values():
        # values by identity: all cases of a grid share them, and some cannot be hashed
        values = [{(name, id(value)) for name, value in item.callspec.params.items()} for item in cases]
        shown = covering(values)
        for place, item in enumerate(cases):
            if place not in shown:
                item.add_marker(pytest.mark.slow)


def covering(cases: Sequence[set[tuple[str, int]]]) -> set[int]:
    """Places of cases that together show every value: each time the first that shows the most new ones.

    >>> sorted(covering([{("x", i), ("y", j)} for i in range(3) for j in range(2)]))
    [0, 3, 4]
    """
    left, chosen = set().union(*cases), set()
    while left:
        best = max(range(len(cases)), key=lambda place: len(cases[place] & left))
        chosen.add(best)
        left -= cases[best]
    return chosen


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator of its own for each test, the same in every run and order."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))


@pytest.fixture(autouse=True)
def quick_judging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not what is tested, runs are judged by one fold of the source and small forests.

    `pytestmark = pytest.mark.judged` keeps what ships: three folds of small sources, forests of a hundred trees.
    """
    inside = {"adaptation", "cli", "data", "paper", "report"} & set(
        request.path.relative_to(request.config.rootpath).parts
    )
    if inside and request.node.get_closest_marker("judged") is None:
        monkeypatch.setattr("jumbot.adaptation._training.witnesses.SMALL", 0)
        monkeypatch.setattr("jumbot.adaptation._training.witnesses.TREES_GROWN", 10)


@pytest.fixture(autouse=True)
def small_maps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where runs are trained, their reports map few points: t-SNE of them all would take longer than the training.

    `tests/report` draws whole maps.
    """
    if {"adaptation", "cli", "paper", "test_docs.py"} & set(request.path.relative_to(request.config.rootpath).parts):
        monkeypatch.setattr("jumbot.report._curves.SHOWN", 20)
