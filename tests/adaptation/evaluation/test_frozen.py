"""Outliers are judged by what training does not change: pictures and signals."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

import jumbot
from jumbot.adaptation._evaluation.nearness import PICTURE, picture_features

KNOWN, STRANGE = 120, 12


def _bars(rng: np.random.Generator, count: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Upright and level bars, 16 x 16."""
    y = np.arange(count) % 2
    x = np.zeros((count, 16, 16))
    for picture, upright in zip(x, y, strict=True):
        at = rng.integers(3, 11)
        picture[:, at : at + 3] = 1
        if not upright:
            picture[:] = picture.T.copy()
    return (255 * (x + noise * rng.random(x.shape)).clip(0, 1)).astype(np.uint8), y


def _strange(rng: np.random.Generator) -> np.ndarray:
    """Checks of small fields, of which there are none among bars."""
    board = np.kron(np.indices((8, 8)).sum(0) % 2, np.ones((2, 2)))
    return (255 * (0.9 * board + 0.1 * rng.random((STRANGE, 16, 16)))).astype(np.uint8)


def _flags(model: jumbot.Model, data: object, folder: Path) -> list[tuple[float, bool]]:
    model.write_predictions(data, folder / "p.csv")
    return _read(folder / "p.csv")


def _read(predictions: Path) -> list[tuple[float, bool]]:
    with predictions.open(newline="") as file:
        return [(float(row["received_mass"]), row["unexplained"] == "1") for row in csv.DictReader(file)]


def test_the_alarm_does_not_depend_on_the_length_of_training(rng: np.random.Generator, tmp_path: Path) -> None:
    (X, y), (there, _) = _bars(rng, KNOWN, 0.1), _bars(rng, KNOWN, 0.3)
    target = np.concatenate([there, _strange(rng)])
    new = np.concatenate([_bars(rng, 40, 0.3)[0], _strange(rng)])
    found = {}
    for steps in (2, 15):
        model = jumbot.adapt(
            (X, y), target, method="jumbot", steps=steps, batch_size=16, source_epochs=0, judge=False, seed=0
        )
        assert model.run is not None
        assert all(flag for _, flag in _read(model.run / "predictions.csv")[KNOWN:]), "in the run itself"
        found[steps] = _flags(model, new, tmp_path)
        model.save(tmp_path / str(steps))
        assert _flags(jumbot.load(tmp_path / str(steps)), new, tmp_path) == found[steps]
    assert found[2] == found[15]
    assert all(flag for _, flag in found[2][40:])
    assert sum(flag for _, flag in found[2][:40]) <= 4


def test_signals_are_compared_by_their_statistics(rng: np.random.Generator, tmp_path: Path) -> None:
    time, y = np.arange(64), np.arange(KNOWN) % 2
    waves = np.sin(0.2 * np.pi * (1 + y)[:, None, None] * time) + 0.3 * rng.normal(size=(KNOWN, 1, 64))
    bursts = 6 * rng.normal(size=(STRANGE, 1, 64))
    target = np.concatenate([waves + 0.1, bursts]).astype(np.float32)
    found = []
    for steps in (3, 60):
        model = jumbot.adapt(
            (waves.astype(np.float32), y), target, kind="signal", method="jumbot", steps=steps, judge=False, seed=0
        )
        found.append(_flags(model, target, tmp_path))
    assert found[0] == found[1]
    assert all(flag for _, flag in found[0][KNOWN:])


def test_features_of_pictures() -> None:
    across = torch.zeros(1, 1, 28, 28)
    across[..., 14:] = 1
    features = picture_features(torch.cat([across, across.mT, 1 - across]))
    assert features.shape == (3, PICTURE)
    edges = features[:, :128]
    assert torch.allclose(edges[0], edges[2], atol=1e-6), "dark on light is light on dark"
    assert not torch.allclose(edges[0], edges[1], atol=0.1), "level is not upright"
    dim = picture_features(0.3 * across)[:, :128]
    assert torch.allclose(dim[0], edges[0], atol=0.02), "contrast does not count"
    assert picture_features(torch.rand(2, 3, 300, 200)).isfinite().all()
    assert (picture_features(across, shades=False)[:, 128:] == 0).all()
    assert picture_features(torch.zeros(1, 1, 8, 8)).isfinite().all(), "nor does a picture without edges divide by 0"


@pytest.mark.parametrize("size", [1, 3, 65])
def test_pictures_of_any_size(size: int) -> None:
    assert picture_features(torch.rand(2, 1, size, size)).shape == (2, PICTURE)
