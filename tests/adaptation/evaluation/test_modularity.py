"""Modularity of predictions on the target's graph: a hand-worked graph, closed forms, the double sum, brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from jumbot.adaptation._evaluation.modularity import modularity, nearest, some_rows
from jumbot.data._domain import ArraySamples, Domain
from tests.refusals import refused


def test_a_graph_worked_by_hand() -> None:
    # edges 0>1, 1>0, 2>3, 3>2, 4>3; labels a a b b a: four of five edges agree.  Shares (3/5, 2/5), at the heads of
    # edges: a twice (1, 0), b three times (3, 2, 3), so that chance gives 3/5 2/5 + 2/5 3/5 = 12/25
    assert modularity([0, 0, 1, 1, 0], [[1], [0], [3], [2], [3]]) == pytest.approx(4 / 5 - 12 / 25)


@pytest.mark.parametrize("sizes", [(10, 10), (8, 16, 40), (30,)])
def test_whole_neighbourhoods_score_one_minus_the_squared_shares(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rows = 100 * labels[:, None] + rng.normal(size=(sum(sizes), 3))
    shares = np.array(sizes) / sum(sizes)
    assert modularity(labels, nearest(rows)) == pytest.approx(1 - (shares**2).sum())


def test_one_class_scores_nothing_and_random_labels_about_nothing() -> None:
    rng = np.random.default_rng(0)
    graph = nearest(rng.normal(size=(2000, 5)))
    assert modularity(np.full(2000, 3), graph) == 0
    # 14,000 edges of about unit variance / 4: a deviation of some thousandths
    assert abs(modularity(rng.integers(0, 4, 2000), graph)) < 0.02


def test_it_is_the_modularity_of_leicht_and_newman() -> None:
    """Q = (1/m) sum_ij [A_ij - out_i in_j / m] delta(y_i, y_j)."""
    rng = np.random.default_rng(1)
    labels, graph = rng.integers(0, 3, 40), nearest(rng.normal(size=(40, 2)), 5)
    adjacency = np.zeros((40, 40))
    np.put_along_axis(adjacency, graph, 1, axis=1)
    edges = adjacency.sum()
    expected = adjacency - np.outer(adjacency.sum(1), adjacency.sum(0)) / edges
    same = labels[:, None] == labels[None]
    assert modularity(labels, graph) == pytest.approx((expected * same).sum() / edges)


def test_names_of_classes_play_no_part() -> None:
    rng = np.random.default_rng(2)
    labels, graph = rng.integers(0, 3, 50), nearest(rng.normal(size=(50, 2)))
    assert modularity(np.array([70, 4, 9])[labels], graph) == pytest.approx(modularity(labels, graph))


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_neighbours_are_those_of_brute_force(offset: float) -> None:
    rows = np.random.default_rng(0).normal(size=(700, 4)) + offset
    distances = cdist(rows, rows)
    np.fill_diagonal(distances, np.inf)
    assert (nearest(rows) == np.argsort(distances, axis=1)[:, :7]).all()


def test_few_rows_and_equal_rows() -> None:
    assert nearest([[0.0], [1.0], [5.0]]).tolist() == [[1, 2], [0, 2], [1, 0]]
    assert nearest(np.zeros((4, 2)), 2).tolist() == [[1, 2], [0, 2], [0, 1], [0, 1]]


def test_what_cannot_be_is_refused() -> None:
    with refused("rows"):
        nearest(np.zeros((1, 2)))
    with refused("NaN"):
        nearest([[0.0], [np.nan], [1.0]])
    with refused("k"):
        nearest(np.zeros((4, 2)), 0)
    with refused("whole numbers"):
        modularity([0.5, 0.1], [[1], [0]])
    with refused("whole numbers"):
        modularity([0, 1, 1], [[1], [0]])


def test_rows_of_images_and_of_many_samples() -> None:
    images = Domain("i", ArraySamples(np.zeros((5, 3, 40, 24), np.float32)))
    assert some_rows(images)[1].shape == (5, 3 * 16 * 16)
    many = Domain("m", ArraySamples(np.arange(5000.0)[:, None]))
    index, rows = some_rows(many, seed=1)
    assert len(index) == 2000
    np.testing.assert_array_equal(index, rows[:, 0])
    np.testing.assert_array_equal(index, some_rows(many, seed=1)[0])
