"""Minibatches: stratified, fresh, a function of (seed, i)."""

from __future__ import annotations

import numpy as np

from jumbot.minibatch._sampling import ShuffledSampler, StratifiedSampler
from tests.refusals import refused


def test_every_class_has_its_share() -> None:
    labels = np.repeat([0, 1, 2], [50, 20, 10])
    sampler = StratifiedSampler(labels, 12, seed=0)
    for i in range(30):
        rows = sampler.batch(i)
        assert np.bincount(labels[rows]).tolist() == [4, 4, 4]
        assert len(set(rows.tolist())) == 12


def test_a_class_is_read_whole_before_it_is_shuffled_again() -> None:
    labels = np.repeat([0, 1], [8, 8])
    sampler = StratifiedSampler(labels, 4, seed=1)
    first = np.concatenate([sampler.batch(i) for i in range(4)])
    second = np.concatenate([sampler.batch(i) for i in range(4, 8)])
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(16))
    assert first.tolist() != second.tolist()


def test_a_small_class_is_repeated() -> None:
    labels = np.array([0] * 20 + [1] * 3 + [2])
    rows = StratifiedSampler(labels, 15, seed=0).batch(7)
    assert np.bincount(labels[rows]).tolist() == [5, 5, 5]
    assert set(rows[labels[rows] == 1].tolist()) == {20, 21, 22}


def test_more_classes_than_places_draws_the_classes_too() -> None:
    labels = np.arange(40) % 10
    sampler = StratifiedSampler(labels, 4, seed=0)
    seen = []
    for i in range(8):
        rows = sampler.batch(i)
        assert len(set(labels[rows].tolist())) == len(rows) == 4
        seen += rows.tolist()
    assert set(labels[seen].tolist()) == set(range(10))
    assert len(set(seen)) > 20  # other samples of a class when it comes again


def test_unlabelled_rows_are_never_drawn() -> None:
    labels = np.array([0, 1, -1, 0, 1, -1])
    rows = np.concatenate([StratifiedSampler(labels, 2, seed=0).batch(i) for i in range(10)])
    assert (labels[rows] >= 0).all()


def test_minibatches_depend_on_seed_and_number_alone() -> None:
    labels = np.arange(100) % 7
    again = StratifiedSampler(labels, 14, seed=3)
    assert (StratifiedSampler(labels, 14, seed=3).batch(11) == again.batch(11)).all()
    assert (again.batch(11) != again.batch(12)).any()
    assert (StratifiedSampler(labels, 14, seed=4).batch(11) != again.batch(11)).any()


def test_target_batches_are_fresh_in_every_pass() -> None:
    sampler = ShuffledSampler(103, 10, seed=0)
    passes = [np.concatenate([sampler.batch(10 * p + i) for i in range(10)]) for p in range(2)]
    assert all(len(set(one.tolist())) == 100 for one in passes)
    assert passes[0].tolist() != passes[1].tolist()


def test_a_target_smaller_than_the_minibatch_is_taken_whole() -> None:
    assert sorted(ShuffledSampler(4, 10, seed=0).batch(2).tolist()) == [0, 1, 2, 3]


def test_nothing_to_sample() -> None:
    with refused("target"):
        ShuffledSampler(0, 10, seed=0)
    with refused("labelled"):
        StratifiedSampler(np.array([-1, -1]), 2, seed=0)


def test_the_memory_of_the_last_order_changes_nothing(rng: np.random.Generator) -> None:
    """Minibatches asked for in any order, and written into, are those of a sampler that has answered nothing yet."""
    labels = np.repeat([0, 1, 2], [31, 7, 12])
    for make in (
        lambda: StratifiedSampler(labels, 9, seed=3),
        lambda: StratifiedSampler(labels, 2, seed=3),
        lambda: ShuffledSampler(50, 8, seed=3),
    ):
        asked = make()
        for i in rng.integers(0, 40, 120).tolist():
            found = asked.batch(i)
            assert found.tolist() == make().batch(i).tolist()
            found[:] = -1
