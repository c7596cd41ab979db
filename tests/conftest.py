"""Seeded randomness for every test; of grids of cases the quick run takes a part."""

from __future__ import annotations

import gc
import html
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "jumbot", derandomize=True, deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("jumbot")


def pytest_configure() -> None:
    """Imported modules and collected tests stay in memory: searching them for garbage would take a tenth of the run."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


#: Folders whose tests compile most kernels.  They come last: each of two processes begins with one half of all tests,
#: so that few kernels are compiled by both.
KERNELS = {"aliasing", "compat", "fuzz", "minibatch", "transport"}


@pytest.hookimpl(tryfirst=True)  # before `-m "not slow"` is applied
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test over a grid, the quick run takes only enough cases to cover every value of every parameter.

    The others are slow tests: `make test-slow` and the nightly workflow run the whole grid.
    """
    items.sort(key=_half)
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


def _half(item: pytest.Item) -> int:
    """Kernels are last, files outside of folders in the middle."""
    parts = item.path.parts[item.path.parts.index("tests") + 1 :] if "tests" in item.path.parts else ("",)
    return 2 if parts[0] in KERNELS else 1 if len(parts) == 1 and parts[0] else 0


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
    """A generator for each test, the same in every run and order."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))


@pytest.fixture(autouse=True)
def quick_judging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless judging is tested, runs are judged by one fold, small models and few exchanges of their data.

    `pytestmark = pytest.mark.judged` keeps what ships: three folds of small sources, forests and boosting of a hundred
    trees, 99 exchanges.
    """
    inside = {"adaptation", "cli", "data", "paper", "report"} & set(
        request.path.relative_to(request.config.rootpath).parts
    )
    if inside and request.node.get_closest_marker("judged") is None:
        judge_quickly(monkeypatch)


def judge_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """For fixtures of a module too, which are made before those of a test."""
    monkeypatch.setattr("jumbot.adaptation._training.witnesses.SMALL", 0)
    monkeypatch.setattr("jumbot.adaptation._training.witnesses.TREES_GROWN", 10)
    monkeypatch.setattr("jumbot.adaptation._evaluation.rivals._MOST", 10)
    monkeypatch.setattr("jumbot._shift.found._FEW_EXCHANGES", 19)
    monkeypatch.setattr("jumbot._shift.effect._BOOTSTRAPS", 3)


@pytest.fixture(autouse=True)
def flat_maps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In tests that train, reports show two columns instead of t-SNE, which takes longer than the training.

    `tests/report` draws maps.
    """
    if {"adaptation", "cli", "paper", "test_docs.py"} & set(request.path.relative_to(request.config.rootpath).parts):
        monkeypatch.setattr("jumbot.report._curves.tsne", lambda points, seed: np.resize(points, (len(points), 2)))


@pytest.fixture(autouse=True)
def quick_drawing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless pictures are tested, pages of reports are written with empty ones.

    Figures are still made from the data; what is left out is matplotlib's layout and its svg, which take longer than a
    small training, and where pages belong to runs also its axes.  `pytest.mark.drawn` draws them.
    """
    folders = set(request.path.relative_to(request.config.rootpath).parts)
    if request.node.get_closest_marker("drawn") is None:
        if {"adaptation", "cli", "data", "report"} & folders:
            for module in ("_page", "_tuning"):
                monkeypatch.setattr(f"jumbot.report.{module}.inline_svg", _empty_picture)
        if {"adaptation", "cli", "data"} & folders:
            for module in DRAWING:
                monkeypatch.setattr(f"jumbot.report.{module}.new_figure", lambda width, height: Blank())


#: the modules of `jumbot.report` that make figures
DRAWING = ("_classes", "_comparison", "_curves", "_sections", "_shift_page", "_tuning")


class Blank:
    """A figure or axes, or a part of them, that draws nothing."""

    def __getattr__(self, name: str) -> Blank:
        if name.startswith("__"):  # what numpy asks of an element of an array
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> Blank:
        return self

    def __getitem__(self, key: Any) -> Blank:
        return self

    def __iter__(self) -> Iterator[Blank]:
        return iter(())

    def subplots(self, rows: int = 1, columns: int = 1, **how: Any) -> Any:
        """As matplotlib gives them: alone, or in an array of one or two dimensions."""
        found = np.empty((rows, columns), dtype=object)
        for place in np.ndindex(rows, columns):  # not taken for a sequence
            found[place] = self
        return found if not how.get("squeeze", True) else found.squeeze() if found.size > 1 else self

    subfigures = subplots

    def get_xlim(self) -> tuple[float, float]:
        return 0.0, 1.0

    get_ylim = get_xlim


def _empty_picture(figure: Any, label: str, prefix: str) -> str:
    from jumbot.report._page import Html

    return Html(f'<svg id="{prefix}-figure" role="img" aria-label="{html.escape(label)}" viewBox="0 0 1 1"></svg>')
