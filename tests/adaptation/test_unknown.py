"""Classes that the source lacks, and whether a target has shifted at all, in the folder of a run."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import jumbot
from jumbot.adaptation import _unknown


def clouds(n: int, classes: int, seed: int):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return 5 * np.eye(6)[y] + rng.normal(size=(n, 6)), np.array(list("abcdef"))[y]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    X, y = clouds(240, 4, 0)
    there, truth = clouds(200, 6, 1)
    model = jumbot.adapt(
        (X, y), there, steps=40, method="source-only", seed=0, unknown=True, out=tmp_path_factory.mktemp("u") / "run"
    )
    return model, there, truth


def test_classes_that_the_source_lacks_are_marked(run) -> None:
    model, there, truth = run
    with (model.run / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    marked = np.array([int(row["unknown"]) for row in rows], bool)
    lacking = np.isin(truth, ["e", "f"])
    assert marked[lacking].mean() > 0.8
    assert marked[~lacking].mean() < 0.2
    assert all(0 <= float(row["unknown_score"]) <= 1 for row in rows)
    assert [row["label"] for row in rows] == model.predict(there).tolist()


def test_the_report_begins_with_the_shift(run) -> None:
    model, *_ = run
    found = json.loads((model.run / "shift.json").read_text())
    assert found["p_value"] <= 0.05
    page = (model.run / "report.html").read_text()
    assert "Has the target shifted?" in page
    assert page.index("Has the target shifted?") < page.index("What the target is made of")


def test_the_threshold_is_that_of_the_held_out_source() -> None:
    rng = np.random.default_rng(0)
    held, target = (rng.random(400), rng.random(400)), (rng.random(300), rng.random(300))
    found = _unknown.combine(target, held)
    assert found.marked.mean() == pytest.approx(0.05, abs=0.03)
    rank = np.argsort(np.argsort(target[0])) + np.argsort(np.argsort(target[1]))
    assert np.corrcoef(rank, found.score)[0, 1] > 0.999


def test_cosines_by_hand() -> None:
    source = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0], [0.0, -1.0]])
    np.testing.assert_allclose(_unknown.unexplained(np.array([[2.0, 0.0]]), source), 1 - (1 + 0 + 0) / 3)
    np.testing.assert_allclose(_unknown.unexplained(source, source, own=True), 1 - (0 + 0 - 1) / 3)


def test_it_is_refused_where_it_cannot_mark() -> None:
    X, y = clouds(60, 3, 0)
    for given in ({}, {"out": "r", "judge": False}, {"out": "r", "task": "regression"}):
        with pytest.raises(jumbot.ArgumentError) as error:
            jumbot.adapt((X, y), X, unknown=True, **given)
        assert error.value.argument == "unknown"
