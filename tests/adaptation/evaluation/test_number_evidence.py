"""Evidence for predictors of numbers, and `tune` with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import wasserstein_distance

import jumbot
from jumbot._settings.recipes import RECIPES
from jumbot.adaptation._evaluation.measures import weigh_numbers
from jumbot.adaptation._variants import candidates
from jumbot.methods import for_numbers
from tests.refusals import refused

SHORT: dict[str, Any] = {"jobs": 1, "steps": 40, "evaluate_every": 0, "task": "regression"}


def _moved(seed: int, by: float, n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X + np.array([by, 0.0, 0.0]), 20 * X[:, 0] + 100


def test_the_evidence_by_hand(rng: np.random.Generator) -> None:
    y = rng.normal(5, 3, size=(40, 2))
    given = {name: rng.normal(4, 2, size=(30, 2)) for name in "abc"}
    graph = np.roll(np.arange(30), 1)[:, None]
    mean = sum(given.values()) / 3
    for name, found in weigh_numbers(given, y, graph).items():
        f = given[name]
        assert found.agreement == pytest.approx(1 - np.mean((f - mean) ** 2 / y.var(0)))
        gaps = [wasserstein_distance(f[:, k], y[:, k]) / y[:, k].std() for k in range(2)]
        assert found.gap == pytest.approx(np.mean(gaps))
        assert found.value == found.to_row()["evidence"] == found.agreement - found.gap
    again = weigh_numbers({name: 1000 * f + 7 for name, f in given.items()}, 1000 * y + 7, graph)
    assert again["a"].value == pytest.approx(weigh_numbers(given, y, graph)["a"].value)  # units play no part
    with refused("predictions"):
        weigh_numbers({"a": given["a"], "b": given["b"][:, :1]}, y, graph)


@pytest.mark.parametrize("recipe", RECIPES)
def test_candidates_are_of_methods_that_predict_numbers(recipe: str) -> None:
    found = candidates(recipe, "regression")
    assert {each.method for each in found} == set(for_numbers())
    assert len({each.folder for each in found}) == 8
    assert [each.method for each in found[:2]] == ["source-only", "jumbot"]


def test_tune_says_where_it_cannot_know(tmp_path: Path) -> None:
    """The same inputs, moved or of another population: no evidence without labels can tell which."""
    source, (X, _) = _moved(0, 0.0), _moved(1, 2.5)
    best = jumbot.tune(source, X, out=tmp_path / "a", runs=3, **SHORT | {"steps": 150})
    assert best.model.method["name"] == "source-only"
    assert best.why[0].startswith("Whether adaptation helps cannot be determined without labels")
    assert best.table["gap"].iloc[0] > 0.75
    assert "No target label was used." in best.why
    page, text = ((tmp_path / "a" / f"tune.{ending}").read_text() for ending in ("html", "md"))
    assert "cannot be determined" in page
    assert "| gap |" in text


@pytest.mark.slow
def test_tune_of_numbers_leaves_what_that_of_classes_leaves(tmp_path: Path) -> None:
    source, target = _moved(0, 0.0), _moved(1, 0.3)
    frames = [pd.DataFrame(X, columns=list("abc")).assign(price=y) for X, y in (source, target)]
    best = jumbot.tune(*frames, out=tmp_path / "a", label="price", runs=4, **SHORT)
    table = best.table
    assert set(table["candidate"]) == {"source-only", "jumbot tau=2", "deepjdot", "dann"}
    assert np.allclose(table["evidence"], table["agreement"] - table["gap"])
    assert table["evidence"].iloc[0] == table["evidence"].max()
    assert table["rmse_not_used"].notna().all()
    wrong = frames[1].assign(price=frames[1]["price"].to_numpy()[::-1])
    again = jumbot.tune(frames[0], wrong, out=tmp_path / "b", label="price", runs=4, **SHORT)
    assert again.table["evidence"].tolist() == table["evidence"].tolist()  # labels of the target play no part
    assert "Target labels gave errors, but were not used." in best.why
    record = json.loads((tmp_path / "a" / "tune.json").read_text())
    assert record["candidates"][0]["modularity"] is None
    assert jumbot.load(tmp_path / "a").predict(frames[1]).shape == (120,)
    with refused("labelled_target"):
        jumbot.tune(*frames, out=tmp_path / "a", label="price", runs=4, labelled_target=frames[1][:9], **SHORT)
    with refused("select"):
        jumbot.tune("nowhere", "nowhere", select="snd", **SHORT)
