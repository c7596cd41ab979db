"""Signals, raw tensors, and images of many channels."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from jumbot.data import ArraySamples, InputFormat, as_domain, prepare
from jumbot.data._inputs import kind_of
from tests.refusals import refused


def test_signals_pass_as_they_are(rng: np.random.Generator, tmp_path: Path) -> None:
    x = rng.normal(size=(6, 3, 40))
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", X=x, y=[0, 1] * 3)
    sources = [
        as_domain((x, [0, 1] * 3), kind="signal"),
        as_domain(tmp_path / "x.npz", kind="signal"),
        as_domain(TensorDataset(torch.from_numpy(x), torch.tensor([0, 1] * 3)), kind="signal"),
    ]
    for source in sources:
        a, b, format = prepare(source, as_domain(tmp_path / "x.npy", kind="signal"), standardise="none")
        assert (kind_of(a), format.shape, a.shape, kind_of(a.subset([1]))) == ("signal", (3, 40), (3, 40), "signal")
        np.testing.assert_array_equal(a.samples.batch(np.arange(6)), x.astype(np.float32))
        np.testing.assert_array_equal(b.samples.batch(np.array([4])), x[4:5].astype(np.float32))


def test_one_channel_may_be_left_out(rng: np.random.Generator) -> None:
    assert as_domain(rng.normal(size=(5, 40)), kind="signal").shape == (1, 40)


def test_channels_are_standardised_by_the_source(rng: np.random.Generator) -> None:
    x = rng.normal([[[5.0], [-2.0]]], [[[3.0], [0.1]]], size=(50, 2, 30))
    a, _, format = prepare(
        as_domain((x, [0, 1] * 25), kind="signal"), as_domain(x, kind="signal"), standardise="source"
    )
    np.testing.assert_allclose(format.mean, x.astype(np.float32).mean((0, 2)), rtol=1e-5)
    batch = a.samples.batch(np.arange(50)).double()
    np.testing.assert_allclose(batch.mean((0, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(batch.std((0, 2), correction=0), 1, atol=1e-5)
    assert InputFormat.from_dict(json.loads(json.dumps(asdict(format)))) == format


def test_channels_last_are_asked_about() -> None:
    with pytest.warns(UserWarning, match=r"128.*9.*x\.transpose\(0, 2, 1\)"):
        as_domain(np.zeros((4, 128, 9)), kind="signal")


def test_raw_tensors_keep_shape_and_whole_numbers(rng: np.random.Generator) -> None:
    volumes = rng.normal(size=(4, 2, 5, 6, 7))
    a, _, format = prepare(as_domain((volumes, [0, 1] * 2), kind="raw"), as_domain(volumes, kind="raw"))
    assert (format.shape, format.dtype, a.shape) == ((2, 5, 6, 7), torch.float32, (2, 5, 6, 7))
    np.testing.assert_array_equal(a.samples.batch(np.array([3])), volumes[3:].astype(np.float32))
    tokens = rng.integers(0, 90, (4, 12))
    a, _, format = prepare(as_domain((tokens, [0, 1] * 2), kind="raw"), as_domain(tokens, kind="raw"))
    assert format.dtype == a.samples.batch(np.array([0])).dtype == torch.int64
    with refused("fractions where whole numbers"):
        format.apply(as_domain(tokens + 0.5, kind="raw"))
    with refused("standardise"):
        prepare(as_domain((tokens, [0, 1] * 2), kind="raw"), as_domain(tokens, kind="raw"), standardise="source")


def test_what_is_no_signal(rng: np.random.Generator, tmp_path: Path) -> None:
    source = as_domain((np.zeros((4, 2, 30)), [0, 1] * 2), kind="signal", name="here")
    with refused("there"):
        prepare(source, as_domain(np.zeros((4, 2, 20)), kind="signal", name="there"))
    with refused("here.*signals.*there.*features"):
        prepare(source, as_domain(np.zeros((4, 2)), name="there"))
    with refused("mine"):
        as_domain(np.zeros((5, 2, 3, 4)), kind="signal", name="mine")
    with refused("kind"):
        as_domain(np.zeros((5, 2)), kind="sound")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    for data in (tmp_path / "x.csv", tmp_path, "usps"):
        with refused("kind"):
            as_domain(data, kind="signal")
    holed = np.zeros((3, 1, 9))
    holed[1, 0, 4] = np.nan
    with refused("1.*3.*NaN.*1"):
        as_domain(holed, kind="signal")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((5, 32, 40, 7), (7, 32, 40)),
        ((5, 7, 32, 40), (7, 32, 40)),
        ((5, 16, 64, 64), (16, 64, 64)),
        ((5, 4, 8, 8), (4, 8, 8)),
        ((5, 8, 8, 4), (4, 8, 8)),
        ((5, 3, 8, 8), (3, 8, 8)),
        ((5, 2, 3, 3), (3, 2, 3)),
    ],
)
def test_images_of_many_channels(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    samples = ArraySamples(images)
    assert samples.shape == expected
    batch = samples.batch(np.array([1]))[0].numpy() * 255
    first = images[1] if shape[1:] == expected else images[1].transpose(2, 0, 1)
    np.testing.assert_allclose(batch, first, atol=1e-3)


@pytest.mark.parametrize("shape", [(2, 20, 18, 18), (2, 8, 8, 8), (2, 5, 7, 9)])
def test_channels_that_cannot_be_found(shape: tuple[int, ...]) -> None:
    with refused(r"images have (1 to 16 channels|channels last or first)"):
        ArraySamples(np.zeros(shape))


def test_channels_that_do_not_fit() -> None:
    many = as_domain((np.zeros((4, 20, 20, 5), np.uint8), [0, 1] * 2), name="satellite")
    a, _, format = prepare(many, as_domain(np.zeros((4, 30, 30, 5), np.uint8)))
    assert (a.shape, format.channels) == ((5, 30, 30), 5)
    grey = prepare(many, as_domain(np.full((4, 30, 30), 255, np.uint8)))[1].samples.batch(np.array([0]))
    assert grey.shape == (1, 5, 30, 30)
    assert float(grey.min()) == 1
    with refused("camera"):
        prepare(many, as_domain(np.zeros((4, 30, 30, 3), np.uint8), name="camera"))
    with refused("satellite"):
        prepare(many, many, channels=3)
