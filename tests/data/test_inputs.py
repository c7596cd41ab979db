"""Two domains made alike, against PIL and closed forms."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from PIL import Image

from jumbot.data import InputFormat, as_domain, prepare
from jumbot.data._images import match_channels, resize
from tests.refusals import refused


def _images(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("size", [(28, 28), (8, 8), (5, 40)])
def test_resizing_agrees_with_pil(rng: np.random.Generator, size: tuple[int, int]) -> None:
    image = rng.random((16, 16), dtype=np.float32)
    pil = np.asarray(Image.fromarray(image).resize((size[1], size[0]), Image.Resampling.BILINEAR))
    np.testing.assert_allclose(resize(torch.tensor(image)[None, None], size)[0, 0], pil, atol=1e-5)


def test_grey_of_colour_agrees_with_pil(rng: np.random.Generator) -> None:
    image = _images(rng, 9, 9, 3)
    grey = match_channels(torch.tensor(image).permute(2, 0, 1)[None].float(), 1)[0, 0]
    np.testing.assert_allclose(grey, np.asarray(Image.fromarray(image).convert("L")), atol=0.51)


def test_larger_size_and_colour_win_by_default(rng: np.random.Generator) -> None:
    source = as_domain((_images(rng, 4, 16, 16), [0, 1, 0, 1]))
    target = as_domain(_images(rng, 3, 28, 28, 3))
    a, b, format = prepare(source, target)
    assert format.shape == a.shape == b.shape == (3, 28, 28)
    batch = a.samples.batch(np.arange(4))
    assert batch.is_contiguous()
    assert torch.equal(batch[:, 0], batch[:, 2])
    np.testing.assert_allclose(
        b.samples.batch(np.array([1]))[0], target.samples.batch(np.array([1]))[0] * 2 - 1, atol=1e-6
    )


def test_asked_size_and_channels(rng: np.random.Generator) -> None:
    source = as_domain((_images(rng, 2, 16, 16, 3), [0, 1]))
    a, _, format = prepare(source, source, 12, 1, pixels="unit")
    assert (a.shape, format.size) == ((1, 12, 12), (12, 12))
    batch = a.samples.batch(np.arange(2))
    assert 0 <= batch.min() <= batch.max() <= 1


def test_imagenet_pixels_are_colour(rng: np.random.Generator) -> None:
    source = as_domain((np.full((2, 8, 8), 255, np.uint8), [0, 1]))
    a, _, _ = prepare(source, source, pixels="imagenet")
    expected = (1 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    np.testing.assert_allclose(a.samples.batch(np.array([0]))[0, :, 3, 3], expected, rtol=1e-5)
    with refused("channels"):
        prepare(source, source, channels=1, pixels="imagenet")


def test_format_survives_json_and_serves_new_data(rng: np.random.Generator) -> None:
    source = as_domain((_images(rng, 2, 16, 16), [0, 1]))
    _, b, format = prepare(source, as_domain(_images(rng, 5, 28, 28)))
    again = InputFormat.from_dict(json.loads(json.dumps(asdict(format))))
    assert again == format
    new = again.apply(as_domain(_images(rng, 1, 40, 30, 3)))
    assert new.shape == b.shape == (1, 28, 28)
    with refused("features.*images"):
        again.apply(as_domain(np.zeros((2, 3)), name="new"))
    with refused("crop"):
        InputFormat.from_dict({"kind": "image", "crop": 1})


def test_features_standardised_by_the_source(rng: np.random.Generator) -> None:
    x = rng.normal(1e3, 2.0, (5000, 3)).astype(np.float32)
    x[:, 2] = 7.5
    y = rng.normal(size=(10, 3)).astype(np.float16)
    a, b, format = prepare(as_domain((x, np.arange(5000) % 2)), as_domain(y), standardise="source")
    batch = a.samples.batch(np.arange(5000)).double()
    np.testing.assert_allclose(batch.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(batch.std(0, correction=0) / format.factor, [1, 1, 0], atol=1e-4)
    x64 = x.astype(np.float64)
    expected = format.factor * (y.astype(np.float64) - x64.mean(0)) / np.where(x64.std(0) > 0, x64.std(0), np.inf)
    np.testing.assert_allclose(b.samples.batch(np.arange(10)), expected, rtol=1e-4)
    assert InputFormat.from_dict(json.loads(json.dumps(asdict(format)))) == format


def test_transform_sees_unit_pixels_and_the_generator(rng: np.random.Generator) -> None:
    def crop(images: torch.Tensor, draw: np.random.Generator | None) -> torch.Tensor:
        assert 0 <= images.min() <= images.max() <= 1
        top = 2 if draw is None else int(draw.integers(5))
        return images[:, :, top : top + 12, 2:14]

    source = as_domain((_images(rng, 6, 16, 16), [0, 1] * 3))
    a, _, _ = prepare(source, source, transform=crop)
    assert a.shape == (1, 12, 12)
    rows = np.arange(6)
    one, two = (a.samples.batch(rows, np.random.default_rng(3)) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(
        a.samples.batch(rows)[:, 0], (torch.tensor(source.samples.array)[:, 2:14, 2:14] / 255 - 0.5) / 0.5
    )


def test_what_cannot_be_matched() -> None:
    features = as_domain((np.zeros((2, 3)), [0, 1]), name="amazon")
    with refused("webcam"):
        prepare(features, as_domain(np.zeros((2, 4)), name="webcam"))
    with refused("amazon.*features.*photos.*images"):
        prepare(features, as_domain(np.zeros((2, 8, 8), np.uint8), name="photos"))
    empty = as_domain(np.zeros((2, 3)), name="void").subset([])
    with refused("void"):
        prepare(features, empty)


def test_float_pixels_out_of_range() -> None:
    grey = np.linspace(0, 16, 128).reshape(2, 8, 8)
    domain = as_domain((grey, [0, 1]), name="scans")
    with refused("scans"):
        prepare(domain, domain)
    a, _, _ = prepare(domain, domain, pixels="as-is")
    assert float(a.samples.batch(np.array([1])).max()) == 16


@pytest.mark.parametrize(
    "arguments", [{"pixels": "loud"}, {"standardise": "target"}, {"size": 0}, {"size": (3, 4, 5)}, {"channels": 17}]
)
def test_bad_arguments_are_named(arguments: dict) -> None:
    domain = as_domain((np.zeros((2, 8, 8), np.uint8), [0, 1]))
    with refused(f"^{next(iter(arguments))}: "):
        prepare(domain, domain, **arguments)
