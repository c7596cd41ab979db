"""Logistic regression and boosted trees beside a run: scikit-learn's own answers, in the form of logits."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jumbot
from jumbot.adaptation._evaluation.rivals import LINEAR, RIDGE, TREES, compare_references, rival_outputs
from jumbot.adaptation._evaluation.task import task_of
from jumbot.adaptation._evaluation.votes import Panel, Witness
from jumbot.adaptation._judging import withheld
from jumbot.data import as_domain
from jumbot.report._answer import describe_references
from jumbot.report._records import read_run


@pytest.mark.judged
def test_they_are_those_of_scikit_learn(rng: np.random.Generator) -> None:
    X, T = rng.normal(size=(80, 3)).astype(np.float32), rng.normal(size=(30, 3)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
    source = as_domain(X, y)
    found = rival_outputs(source, [as_domain(T), source], task_of(source))
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y)
    np.testing.assert_allclose(np.exp(found[LINEAR][0]), linear.predict_proba(T), rtol=1e-3, atol=2e-6)
    trees = HistGradientBoostingClassifier(random_state=0).fit(X, y)
    np.testing.assert_allclose(np.exp(found[TREES][0]), trees.predict_proba(T), rtol=1e-3, atol=2e-6)
    assert found[TREES][1].shape == (80, 3)


def test_numbers_come_in_the_units_of_networks(rng: np.random.Generator) -> None:
    X = rng.normal(size=(60, 2)).astype(np.float32)
    values = 500 + 100 * np.stack([X[:, 0], X[:, 1] ** 2], 1)
    source = as_domain(X, values, task="regression")
    task = task_of(source)
    found = rival_outputs(source, [source], task)
    assert set(found) == {RIDGE, TREES}
    expected = make_pipeline(StandardScaler(), Ridge()).fit(X, task.labels(source)).predict(X)
    np.testing.assert_allclose(found[RIDGE][0], expected, atol=1e-5)


def test_signals_are_read_by_their_spectra_and_images_not_at_all(rng: np.random.Generator) -> None:
    labels = np.arange(60) % 2
    waves = np.sin(np.arange(64) * (0.3 + 0.4 * labels[:, None, None])) + 0.3 * rng.normal(size=(60, 2, 64))
    source = as_domain(waves, labels, kind="signal")
    found = rival_outputs(source, [source], task_of(source))
    assert all((each[0].argmax(1) == labels).mean() > 0.95 for each in found.values())
    images = as_domain(rng.integers(0, 255, (12, 16, 16), dtype=np.uint8), np.arange(12) % 2)
    assert rival_outputs(images, [images], task_of(images)) == {}


def test_a_class_that_the_fold_lacks_is_unlikely(rng: np.random.Generator) -> None:
    source = as_domain(rng.normal(size=(40, 2)), np.arange(40) % 3)
    part = source.subset(np.flatnonzero(source.labels != 1))
    found = rival_outputs(part, [source], task_of(source))
    assert found[LINEAR][0].shape == (40, 3)
    assert (np.exp(found[LINEAR][0][:, 1]) < 1e-5).all()


def _witness(right: np.ndarray, target: np.ndarray, panel: Panel | None = None) -> Witness:
    """Of two classes: a classifier that gets the `right` ones of its held-out samples, and says this of the target."""
    labels = np.arange(len(right)) % 2
    predicted = np.where(right, labels, 1 - labels)
    logits = [4.0 * np.eye(2)[each] for each in (predicted, target)]
    return Witness(logits[0], labels, (logits[1],), np.full(2, 0.5), np.zeros(2), panel or Panel({}, {}))


def test_who_is_clearly_ahead_is_found_by_hand(rng: np.random.Generator) -> None:
    n, target = 200, rng.integers(0, 2, 80)
    ours, better, same = (np.arange(n) >= wrong for wrong in (40, 20, 38))
    near = np.arange(n) % 2
    panel = Panel({LINEAR: near, "neighbours": near}, {LINEAR: (target,), "neighbours": (target,)})
    rivals = {LINEAR: _witness(better, target), TREES: _witness(same, target)}
    found = compare_references(_witness(ours, target, panel), rivals, 80)
    assert (found.measure, found.n, found.held_out) == ("accuracy", n, 0.8)
    assert found.error == pytest.approx(np.sqrt(0.8 * 0.2 / (n - 1)))
    linear, trees = found.models
    # 20 of 200 samples differ, all for it: .1 +- .021; two samples differ: .01 +- .007
    assert (linear.name, linear.held_out, linear.ahead) == (LINEAR, 0.9, True)
    assert (trees.name, trees.held_out, trees.ahead) == (TREES, 0.81, False)
    assert linear.estimated_accuracy is not None
    assert "agreement with neighbours" in linear.estimated_accuracy.votes
    assert f"agreement with {LINEAR}" not in linear.estimated_accuracy.votes  # it would agree with itself
    assert f"agreement with {LINEAR}" in trees.estimated_accuracy.votes  # type: ignore[union-attr]


def test_a_rival_is_judged_as_the_model_is(rng: np.random.Generator) -> None:
    """One that predicts one class for the whole target has no estimated accuracy, as the model would have none."""
    right, mixed, one = np.arange(200) >= 20, rng.integers(0, 2, 80), np.zeros(80, int)
    near = np.arange(200) % 2
    panel = Panel({"neighbours": near}, {"neighbours": (mixed,)})
    rivals = {LINEAR: _witness(right, mixed), TREES: _witness(right, one)}
    linear, trees = compare_references(_witness(right, mixed, panel), rivals, 80, withheld).models
    assert linear.estimated_accuracy is not None
    assert linear.estimated_accuracy.value is not None
    assert trees.estimated_accuracy is not None
    assert trees.estimated_accuracy.value is None


def test_numbers_are_compared_by_r2(rng: np.random.Generator) -> None:
    truth = rng.normal(size=(300, 2))
    own, other = truth + 0.5 * rng.normal(size=truth.shape), truth + 0.1 * rng.normal(size=truth.shape)
    witnesses = [Witness(predicted, truth, (predicted,), np.ones(2), np.zeros(2)) for predicted in (own, other)]
    found = compare_references(witnesses[0], {TREES: witnesses[1]}, 300)
    assert found.measure == "r2"
    assert found.held_out == pytest.approx(r2_score(truth, own))
    assert found.models[0].held_out == pytest.approx(r2_score(truth, other))
    assert found.models[0].ahead
    assert found.models[0].estimated_accuracy is None
    assert not compare_references(witnesses[1], {TREES: witnesses[0]}, 300).models[0].ahead


@pytest.mark.parametrize("kind", ["rows", "numbers", "signal"])
def test_a_run_with_a_report_has_them(kind: str, tmp_path: Path, rng: np.random.Generator) -> None:
    labels = np.arange(160) % 2
    X = rng.normal(size=(160, 3)) + 2 * labels[:, None]
    y: np.ndarray = labels
    how: dict[str, Any] = {"steps": 5}
    if kind == "numbers":
        y, how["task"] = X[:, 0] + 0.1 * X[:, 1] + 0.5, "regression"
    if kind == "signal":
        X = np.sin(np.arange(32) * (0.3 + 0.4 * labels[:, None, None])) + 0.3 * rng.normal(size=(160, 2, 32))
        how |= {"kind": "signal", "source_steps": 5}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = jumbot.adapt((X, y), X + 0.1, seed=0, out=tmp_path / "run", **how)
        bare = jumbot.adapt((X, y), X + 0.1, seed=0, **how)
    found = read_run(tmp_path / "run").final["references"]
    assert found == model.results["references"]
    assert bare.results.get("references") is None
    assert [one["name"] for one in found["models"]] == [RIDGE if kind == "numbers" else LINEAR, TREES]
    assert found["models"][0]["held_out"] > 0.9
    assert found["models"][0]["ahead"] or kind != "numbers"  # five steps teach a network little of numbers
    page = (tmp_path / "run" / "report.html").read_text()
    sentences = " ".join(describe_references(read_run(tmp_path / "run")))
    ahead = any(one["ahead"] for one in found["models"])
    for text in (page, sentences, (tmp_path / "run" / "README.md").read_text()):
        assert ("is clearly ahead on the source" in text) == ahead
        assert "held-out source samples" in text
    assert all((one["estimated_accuracy"] is None) == (kind == "numbers") for one in found["models"])
