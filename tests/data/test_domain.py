"""Domains of arrays: shapes, ranges, subsets."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from jumbot.data import ArraySamples, Domain, as_domain
from tests.refusals import refused


def test_bytes_stay_bytes_until_the_batch(rng: np.random.Generator) -> None:
    images = rng.integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)
    samples = ArraySamples(images)
    assert samples.array is images
    assert samples.shape == (3, 4, 6)
    batch = samples.batch(np.array([3, 1]))
    assert batch.dtype == torch.float32
    np.testing.assert_allclose(batch.numpy(), images[[3, 1]].transpose(0, 3, 1, 2) / 255, rtol=1e-6)


def test_channels_first_and_grey(rng: np.random.Generator) -> None:
    first = rng.random((2, 3, 8, 9), dtype=np.float32)
    assert ArraySamples(first).shape == (3, 8, 9)
    np.testing.assert_array_equal(ArraySamples(first).batch(np.arange(2)).numpy(), first)
    assert ArraySamples(first[:, 0]).shape == (1, 8, 9)


def test_memory_mapped_array(tmp_path, rng: np.random.Generator) -> None:
    values = rng.random((20, 3)).astype(np.float16)
    np.save(tmp_path / "x.npy", values)
    domain = as_domain(tmp_path / "x.npy")
    assert isinstance(domain.samples.array, np.memmap)
    np.testing.assert_array_equal(domain.samples.batch(np.array([7, 2])), values[[7, 2]].astype(np.float32))


def test_subset_of_a_subset(rng: np.random.Generator) -> None:
    values = rng.random((10, 2)).astype(np.float32)
    domain = as_domain((values, np.arange(10) % 3), name="d")
    rows = domain.subset([9, 4, 2, 7]).subset(np.array([False, True, False, True]))
    np.testing.assert_array_equal(rows.samples.batch(np.arange(2)), values[[4, 7]])
    assert rows.labels.tolist() == [1, 1]
    assert rows.shape == (2,)
    assert len(rows) == 2


def test_unlabelled_and_other_samples() -> None:
    domain = as_domain((np.zeros((3, 2)), ["a", "b", "a"]))
    assert domain.unlabelled().labels is None
    assert domain.unlabelled().classes == ("a", "b")
    assert domain.with_samples(ArraySamples(np.ones((3, 5)))).shape == (5,)
    with refused(r"\b3\b.*\b4\b"):
        domain.with_samples(ArraySamples(np.ones((4, 5))))


@pytest.mark.parametrize(
    ("labels", "match"),
    [([0, 1], "2 labels for 3"), ([0, 1, 5], "from 0 to 5.*2 classes"), ([0.5, 1, 1], "whole numbers")],
)
def test_labels_that_do_not_fit(labels: list[float], match: str) -> None:
    with refused(match):
        Domain("d", ArraySamples(np.zeros((3, 1))), np.array(labels), ("a", "b"))


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (np.zeros(3), "shape"),
        (np.zeros((0, 4)), "no samples"),
        (np.zeros((2, 20, 18, 18)), "1 to 16 channels"),
        (np.array([["a", "b"]]), "must be numbers"),
        ([[1.0, "x"]], "must be numbers"),
    ],
)
def test_arrays_that_are_no_samples(array, match: str) -> None:
    with refused(match):
        as_domain(array, name="mine")


def test_nan_rows_are_counted_and_named() -> None:
    values = np.zeros((20_000, 2), np.float32)
    values[[9_000, 19_999], 1] = np.nan
    with refused("mine"):
        as_domain(values, name="mine")


def test_numbers_beyond_float32() -> None:
    with refused("float32.*1"):
        as_domain(np.array([[1.0], [1e300]]))


def test_no_data() -> None:
    with refused("target"):
        as_domain(None, name="target")
    with refused("/nowhere/at-all:"):
        as_domain("/nowhere/at-all")
