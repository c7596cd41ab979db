"""Logistic regression and boosted trees beside a run: scikit-learn's own answers, in the form of logits."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jumbot.adaptation.judgement._rivals import LINEAR, RIDGE, TREES, rival_outputs
from jumbot.adaptation.task import task_of
from jumbot.data import as_domain


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
