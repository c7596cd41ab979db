"""`Model.predict` of one picture and of many, in whatever form they come."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import jumbot
from jumbot.adaptation._model import Model
from tests.refusals import refused


def _pictures(rng: np.random.Generator, n: int = 40, side: int = 16) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(n) % 2
    images = rng.integers(0, 60, (n, side, side, 3), dtype=np.uint8)
    images[labels == 1] += 150
    return images, labels


@pytest.fixture(scope="module")
def model() -> Model:
    images, labels = _pictures(np.random.default_rng(0))
    names = np.array(["dark", "light"])[labels]
    short = {"source_steps": 10, "steps": 5, "batch_size": 20, "learning_rate": 0.003}
    return jumbot.adapt((images, names), images, recipe="digits", **short)


@pytest.fixture
def light() -> np.ndarray:
    return _pictures(np.random.default_rng(1), 2, 256)[0][1]


def test_one_picture_in_every_form(model: Model, light: np.ndarray, tmp_path: Path) -> None:
    file = tmp_path / "light.png"
    Image.fromarray(light).save(file)
    forms = [light, torch.from_numpy(light), Image.fromarray(light), file, str(file), [file], [Image.fromarray(light)]]
    for form in [*forms, light[None], light.astype(np.float32) / 255]:
        assert model.predict(form).tolist() == ["light"]
    assert model.predict_proba(light).shape == (1, 2)
    assert model.predict(light[:, :, 0]).shape == (1,)  # grey


def test_several_files(model: Model, light: np.ndarray, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.png" for name in ("one", "two")]
    Image.fromarray(light).save(files[0])
    Image.fromarray(light[:100] // 9).save(files[1])
    assert model.predict(files).tolist() == ["light", "dark"]
    assert model.write_predictions(files, tmp_path / "p.csv").read_text().splitlines()[1].startswith(str(files[0]))


def test_rows_of_pixels_are_not_one_picture(model: Model) -> None:
    rows = _pictures(np.random.default_rng(2))[0].reshape(40, -1)
    with refused(r"\(40, 768\).*40.*x\[None\]"):
        model.predict(rows)
    assert model.predict(rows[None]).shape == (1,)


def test_a_loaded_model_says_the_same_bit_by_bit(tmp_path: Path) -> None:
    images, labels = _pictures(np.random.default_rng(3), 300, 28)
    model = jumbot.adapt((images, labels), images, recipe="digits", source_steps=2, steps=1, batch_size=20)
    again = jumbot.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.transform(images), model.transform(images))


def test_what_may_be_one_or_three_is_refused(model: Model, light: np.ndarray) -> None:
    with refused(r"\(3, 256, 256\).*3.*x\[None\]"):
        model.predict(light.transpose(2, 0, 1))
    assert model.predict(light.transpose(2, 0, 1)[None]).tolist() == ["light"]
