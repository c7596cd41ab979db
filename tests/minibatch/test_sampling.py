"""Index draws: valid subsets, uniform, and functions of (seed, minibatch) alone."""

import itertools

import numpy as np
import pytest

from jumbot.minibatch._sampling import all_pairs, count_pairs, draw_by_weight, draw_subsets


def test_subsets_hold_different_points():
    index = draw_subsets(3, 0, 500, 0, 20, 15)
    assert index.min() >= 0
    assert index.max() < 20
    assert all(len(set(row)) == 15 for row in index)


def test_all_subsets_are_equally_likely():
    index = np.sort(draw_subsets(0, 0, 60_000, 1, 5, 2), axis=1)
    _, counts = np.unique(index, axis=0, return_counts=True)
    expected = 60_000 / 10
    assert len(counts) == 10
    assert ((counts - expected) ** 2 / expected).sum() < 27.9  # chi-square with 9 degrees of freedom, 99.9 %


def test_minibatch_depends_on_seed_and_number_alone():
    whole = draw_subsets(7, 0, 100, 0, 1000, 16)
    np.testing.assert_array_equal(draw_subsets(7, 40, 5, 0, 1000, 16), whole[40:45])
    assert not np.array_equal(draw_subsets(8, 0, 100, 0, 1000, 16), whole)
    assert not np.array_equal(draw_subsets(7, 0, 100, 1, 1000, 16), whole)


def test_draws_by_weight_follow_the_weights():
    weights = np.array([0.0, 1.0, 3.0, 0.0])
    index = draw_by_weight(0, 0, 4000, 0, np.cumsum(weights), 10)
    share = np.bincount(index.ravel(), minlength=4) / index.size
    np.testing.assert_allclose(share, weights / 4, atol=0.01)
    assert share[0] == share[3] == 0


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_all_pairs_are_all_pairs(chunk):
    blocks = list(all_pairs(4, 5, 2, chunk))
    seen = [(tuple(i), tuple(j)) for I, J in blocks for i, j in zip(I, J, strict=True)]
    pairs = itertools.product(itertools.combinations(range(4), 2), itertools.combinations(range(5), 2))
    assert seen == list(pairs)
    assert len(seen) == count_pairs(4, 5, 2)
