"""Classes that the source lacks, and whether a target has shifted at all, in the folder of a run."""

from __future__ import annotations

import csv
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

import jumbot
from jumbot.adaptation import _unknown
from jumbot.data._domain import ArraySamples, Domain
from tests.refusals import refused


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


def test_a_finished_run_is_marked_once(tmp_path) -> None:
    X, y = clouds(60, 3, 0)
    how = {"method": "source-only", "steps": 5, "judge": False, "report": False, "out": tmp_path / "run"}
    for marks in ([], ["unknown", "unknown_score"], ["unknown", "unknown_score"]):
        model = jumbot.adapt((X, y), X, unknown=bool(marks), resume=(tmp_path / "run").exists(), **how)
        with (model.run / "predictions.csv").open() as file:
            assert next(csv.reader(file)) == ["id", "label", "confidence", "received_mass", "unexplained", *marks]


@pytest.mark.judged
def test_no_prediction_changes_by_marking(run) -> None:
    model, there, _ = run
    plain = jumbot.adapt(clouds(240, 4, 0), there, steps=40, method="source-only", seed=0)
    np.testing.assert_array_equal(plain.predict_proba(there), model.predict_proba(there))


def test_the_report_begins_with_the_shift(run) -> None:
    model, *_ = run
    found = json.loads((model.run / "shift.json").read_text())
    assert found["p_value"] <= 0.05
    page = (model.run / "report.html").read_text()
    assert "Has the target shifted?" in page
    assert page.index("Has the target shifted?") < page.index("Composition of the target")


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
    for given in ({}, {"out": "r", "task": "regression"}):
        with pytest.raises(jumbot.ArgumentError) as error:
            jumbot.adapt((X, y), X, unknown=True, **given)
        assert error.value.argument == "unknown"


def test_a_source_of_one_class_is_refused() -> None:
    domain = Domain("one", ArraySamples(np.zeros((5, 2), np.float32)), np.zeros(5, np.int64), ("a",))
    model = SimpleNamespace(compared_by=lambda _: lambda part: part.samples.array)
    with refused("unknown"):
        _unknown.mark_unknown(model, SimpleNamespace(source=domain, target=domain), 0)


def test_entropies_are_those_of_regressions_that_did_not_see_the_row() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 30)
    source = rng.normal(size=(60, 3)) + 4 * (2 * labels[:, None] - 1) * [1, 0, 0]
    labels[0] = 1  # a mistake, which a regression that saw it would be surer of
    target = np.array([[0.0, 0.0, 0.0], [5.0, 0.0, 0.0]])
    found, own = _unknown.source_entropies(source, labels, target)
    assert found[0] == pytest.approx(np.log(2), abs=0.2)
    assert found[1] < 0.2
    scaled = source / source.std(0)
    for train, test in StratifiedKFold(3).split(scaled, labels):
        fitted = LogisticRegression(C=1.0, max_iter=200).fit(scaled[train], labels[train])
        p = fitted.predict_proba(scaled[test])
        np.testing.assert_allclose(own[test], -(p * np.log(p)).sum(1), rtol=1e-6)


def test_the_score_does_not_depend_on_the_length_of_training(tmp_path) -> None:
    X, y = clouds(60, 3, 0)
    T, _ = clouds(60, 4, 1)
    found = []
    for steps in (2, 20):
        out = tmp_path / str(steps)
        jumbot.adapt((X, y), T, steps=steps, out=out, unknown=True, report=False, judge=False, method="jumbot")
        found.append(pd.read_csv(out / "predictions.csv")["unknown_score"])
    pd.testing.assert_series_equal(*found)
