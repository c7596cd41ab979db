"""A hash tells whether two domains hold the same data."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from jumbot.data import ArraySamples, Domain, as_domain
from jumbot.data._content import content_keys, domain_hash

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(6, 3)).astype(np.float32)
LABELS = np.array([0, 1, 0, 1, 1, 0])


def table(path: Path, rows: np.ndarray) -> Domain:
    import pandas as pd

    pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "label": ["x", "y"] * 3}).to_csv(path, index=False)
    return as_domain(path)


def folder(path: Path, pixels: np.ndarray) -> Domain:
    image = pytest.importorskip("PIL.Image")
    for number, picture in enumerate(pixels):
        (path / f"c{number % 2}").mkdir(parents=True, exist_ok=True)
        image.fromarray(picture).save(path / f"c{number % 2}" / f"{number}.png")
    return as_domain(path)


def test_same_data_same_hash(tmp_path: Path) -> None:
    pixels = RNG.integers(0, 255, (4, 9, 9, 3), dtype=np.uint8)
    one = Domain("one", ArraySamples(ROWS), LABELS, ("x", "y"))
    for first, second in (
        (one, Domain("other name", ArraySamples(ROWS.copy()), LABELS, ("x", "y"))),
        (one.subset([0, 1]), Domain("two", ArraySamples(ROWS[:2]), LABELS[:2], ("x", "y"))),
        (table(tmp_path / "a.csv", ROWS), table(tmp_path / "b.csv", ROWS)),
        (folder(tmp_path / "a", pixels), folder(tmp_path / "b", pixels)),
    ):
        assert domain_hash(first) == domain_hash(second) is not None


def test_other_data_other_hash(tmp_path: Path) -> None:
    one = Domain("one", ArraySamples(ROWS), LABELS, ("x", "y"))
    moved = ROWS.copy()
    moved[3, 1] += 1
    others = [
        one,
        one.subset(range(5)),
        one.subset([1, 0, 2, 3, 4, 5]),
        one.unlabelled(),
        Domain("one", ArraySamples(ROWS), 1 - LABELS, ("x", "y")),
        Domain("one", ArraySamples(ROWS), LABELS, ("x", "z")),
        Domain("one", ArraySamples(moved), LABELS, ("x", "y")),
        Domain("one", ArraySamples(ROWS.astype(np.float64)), LABELS, ("x", "y")),
        table(tmp_path / "a.csv", ROWS),
        table(tmp_path / "b.csv", moved),
    ]
    assert len({domain_hash(each) for each in others}) == len(others)


def test_datasets_have_none() -> None:
    import torch
    from torch.utils.data import TensorDataset

    data = TensorDataset(torch.from_numpy(ROWS), torch.from_numpy(LABELS))
    assert domain_hash(as_domain(data, name="data")) is None


def test_keys_take_little_more_memory_than_they_are_long() -> None:
    many = Domain("many", ArraySamples(np.zeros((100_000, 1), np.float32)))
    tracemalloc.start()
    try:
        keys = content_keys(many.samples)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(keys) == len(many)
    assert most < 2 * keys.nbytes
