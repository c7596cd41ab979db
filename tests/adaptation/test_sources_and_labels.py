"""Several sources, and a few labels of the target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import jumbot
from jumbot.errors import ArgumentError
from jumbot.methods.source_weights import SourceWeights

SHORT: dict[str, Any] = {"steps": 12, "seed": 0}


def _clusters(seed: int, n: int = 120, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return 4 * np.eye(3)[y] + 0.7 * rng.normal(size=(n, 3)) + shift, y


def test_shares_of_the_sources_follow_the_plan_by_hand() -> None:
    weights = SourceWeights(2)
    origin = torch.tensor([0, 0, 1])
    weights.observe(torch.tensor([[0.1, 0.2], [0.1, 0.2], [0.1, 0.1]]), origin)
    weights.settle()
    torch.testing.assert_close(weights.shares, torch.tensor([0.95 * 0.5 + 0.05 * 0.75, 0.95 * 0.5 + 0.05 * 0.25]))
    counted = weights(origin)
    assert float(counted.mean()) == pytest.approx(1)
    assert float(counted[2] / counted[:2].sum()) == pytest.approx(float(weights.shares[1] / weights.shares[0]))


@pytest.mark.parametrize("method", ["jumbot", "deepjdot", "source-only", "dann", "mcc"])
def test_every_method_takes_several_sources_and_target_labels(method: str) -> None:
    few = _clusters(3, 6, shift=1.0)
    target = _clusters(2, shift=1.0)
    model = jumbot.adapt([_clusters(0), _clusters(1)], target, labelled_target=few, method=method, **SHORT)
    assert model.results["n"] == len(target[1])
    assert model.predict(target[0]).shape == target[1].shape


def test_sources_of_any_kind_are_joined_by_name(tmp_path: Any) -> None:
    (X, y), (Z, w) = _clusters(0), _clusters(1)
    names = ["a", "b", "c"]
    one, two = pd.DataFrame(X, columns=names).assign(label=y), pd.DataFrame(Z, columns=names).assign(label=w)
    one.to_csv(tmp_path / "one.csv", index=False)
    two[["label", "c", "b", "a"]].to_csv(tmp_path / "two.csv", index=False)
    target, _ = _clusters(2)
    ways: list[tuple[Any, Any]] = [
        ([(X, y), (Z, w)], target),
        ([(torch.from_numpy(X), torch.from_numpy(y)), (torch.from_numpy(Z), w)], torch.from_numpy(target)),
        ([one, two[["c", "label", "a", "b"]]], pd.DataFrame(target, columns=names)),
        ([tmp_path / "one.csv", tmp_path / "two.csv"], pd.DataFrame(target, columns=names)),
    ]
    found = [jumbot.adapt(source, there, **SHORT).predict_proba(there) for source, there in ways]
    for probabilities in found[1:]:
        np.testing.assert_allclose(probabilities, found[0], rtol=1e-3, atol=1e-4)
    with pytest.raises(ArgumentError, match="its columns differ from those of"):
        jumbot.adapt([one, two.rename(columns={"a": "z"})], pd.DataFrame(target, columns=names), **SHORT)


def test_classes_of_all_sources_are_classes() -> None:
    (X, y), (Z, w) = _clusters(0), _clusters(1)
    model = jumbot.adapt([(X[y < 2], y[y < 2]), (Z, w)], _clusters(2)[0], **SHORT)
    assert model.classes == ("0", "1", "2")
    with pytest.raises(ArgumentError, match="source: an empty list"):
        jumbot.adapt([], X, **SHORT)


def test_several_sources_of_numbers() -> None:
    X, _ = _clusters(0)
    pair = X, X[:, 0] + 0.5
    model = jumbot.adapt([pair, pair], X, task="regression", labelled_target=(X[:5], X[:5, 0]), **SHORT)
    assert model.predict(X).shape == (len(X),)


def test_a_poor_source_does_not_ruin_a_good_one() -> None:
    good, (X, y), target = _clusters(0, 300), _clusters(1, 300), _clusters(2, 300, shift=0.5)
    poor = X, np.random.default_rng(0).permutation(y)
    alone, both = (
        jumbot.adapt(source, target, steps=200, seed=0).results["accuracy"] for source in (good, [good, poor])
    )
    assert both > alone - 0.03


def test_labels_of_the_target_teach_what_the_source_cannot() -> None:
    """The classes of the target stand in the other's place: a few labels say so, and no other way could."""
    X, y = _clusters(0, 300)
    source, target = (X, y), (X[:, [1, 0, 2]], y)
    few = np.concatenate([np.flatnonzero(y == c)[:5] for c in range(3)])
    how: dict[str, Any] = {"steps": 200, "seed": 0, "hidden": (32,)}
    without = jumbot.adapt(source, target, **how)
    taught = jumbot.adapt(source, target, labelled_target=(target[0][few], y[few]), **how)
    assert without.results["n"] == 300
    assert taught.results["n"] == 300 - len(few)  # evaluation never uses these rows
    assert taught.results["accuracy"] > without.results["accuracy"]


def test_target_labels_that_cannot_be_used_are_refused() -> None:
    X, y = _clusters(0)
    for given, message in (
        (X[:3], "labelled_target: labelled_target has no labels"),
        ((X[:2], ["0", "fox"]), "labelled_target: fox came in, but the source has no such class"),
        ((X[:2], ["0", None]), "labelled_target: row 1 has no label"),
    ):
        with pytest.raises(ArgumentError, match=message):
            jumbot.adapt((X, y), X, labelled_target=given, **SHORT)
