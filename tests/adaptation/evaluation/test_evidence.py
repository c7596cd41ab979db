"""The evidence of `tune`: its formula worked by hand, and what it must not be misled by."""

from __future__ import annotations

import numpy as np
import pytest

from jumbot.adaptation._evaluation.modularity import modularity, nearest, weigh
from tests.refusals import refused


def one_hot(labels: np.ndarray, sure: float = 0.9, classes: int = 3) -> np.ndarray:
    rest = (1 - sure) / (classes - 1)
    return np.where(np.eye(classes)[labels] > 0, sure, rest)


def test_evidence_is_modularity_plus_agreement() -> None:
    a, b = np.array([[0.8, 0.2], [0.1, 0.9], [0.6, 0.4]]), np.array([[0.7, 0.3], [0.6, 0.4], [0.5, 0.5]])
    graph = np.array([[1], [2], [0]])
    found = weigh({"a": a, "b": b}, graph)
    agreement = np.mean([a[i] @ (a[i] + b[i]) / 2 for i in range(3)])
    assert found["a"].agreement == pytest.approx(agreement)
    assert found["a"].modularity == modularity(np.array([0, 1, 0]), graph)
    assert found["a"].value == pytest.approx(found["a"].modularity + agreement)


def test_collapse_and_noise_lose_against_clusters() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), (100, 60, 20))
    graph = nearest(5 * np.eye(3)[truth] + rng.normal(size=(180, 3)))
    wrong = np.where(rng.random(180) < 0.3, rng.integers(0, 3, 180), truth)
    found = weigh(
        {
            "collapsed": one_hot(np.zeros(180, int), 0.999),
            "noisy": one_hot(wrong),
            "clusters": one_hot(truth),
            "also": one_hot(truth, 0.8),
        },
        graph,
    )
    assert max(found, key=lambda name: found[name].value) == "clusters"
    assert min(found, key=lambda name: found[name].value) == "collapsed"
    assert found["collapsed"].entropy < found["clusters"].entropy  # what entropy alone would have picked


def test_what_cannot_be_compared_is_refused() -> None:
    with refused(r"a \(2, 2\), b \(3, 2\)"):
        weigh({"a": np.full((2, 2), 0.5), "b": np.full((3, 2), 0.5)}, [[1], [0]])
    with refused("none"):
        weigh({}, [[1], [0]])
