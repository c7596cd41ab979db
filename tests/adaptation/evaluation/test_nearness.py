"""Samples that resemble nothing of the source are told however long training was, and in new data too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import jumbot
from jumbot.adaptation._evaluation.nearness import Nearness, learn_nearness
from tests.refusals import refused


def _things(seed: int, n: int = 200, strange: int = 0, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Five classes in 20 dimensions; the last samples are of a sixth."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, n)
    X = 3 * np.eye(20)[y] + 0.6 * rng.normal(size=(n, 20)) + shift
    X[n - strange :] += 4 * np.eye(20)[9] - 3 * np.eye(20)[y[n - strange :]]
    return X, y


@pytest.mark.parametrize("steps", [20, pytest.param(300, marks=pytest.mark.slow)])
def test_the_alarm_does_not_depend_on_the_length_of_training(tmp_path: Path, steps: int) -> None:
    X, y = _things(0)
    target, _ = _things(1, strange=6, shift=0.5)
    model = jumbot.adapt((X, y), target, steps=steps, seed=0, out=tmp_path / "run", report=False, method="jumbot")
    written = pd.read_csv(tmp_path / "run" / "predictions.csv")
    assert set(range(194, 200)) <= set(model.diagnosis["unexplained"])
    assert written["unexplained"].iloc[194:].tolist() == [1] * 6
    # and new samples, from the model as it is on the disk
    new, _ = _things(2, n=60, strange=3, shift=0.5)
    jumbot.load(tmp_path / "run").write_predictions(new, tmp_path / "new.csv")
    found = pd.read_csv(tmp_path / "new.csv")
    assert found.columns.tolist() == ["id", "label", "confidence", "received_mass", "unexplained"]
    assert found["unexplained"].iloc[57:].tolist() == [1, 1, 1]
    assert found["unexplained"].iloc[:57].mean() <= 0.08
    assert ((found["received_mass"] < 0.25) == found["unexplained"]).all()


@pytest.mark.parametrize(("shift", "none"), [(3.0, False), (500.0, True)])
def test_a_target_that_is_somewhere_else_altogether_is_not_explained(shift: float, none: bool) -> None:
    """Every domain is taken around its mean, but no shift moves all of it by hundreds of deviations."""
    (here, _), (there, _) = _things(0), _things(1, shift=shift)
    found = learn_nearness(here, there)
    assert found is not None
    assert float((found.received(there) < 0.25).mean()) == pytest.approx(1.0 if none else 0.0, abs=0.1)
    assert float((found.received(here) < 0.25).mean()) == pytest.approx(0.0 if none else 1.0, abs=0.1)


def test_images_are_compared_by_their_embeddings(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = rng.random((80, 12, 12)) / 4 + 0.5 * y[:, None, None]
    model = jumbot.adapt((X, y), X, source_steps=3, steps=2, batch_size=20, seed=0)
    model.write_predictions(X[:5], tmp_path / "x.csv")
    assert "unexplained" in pd.read_csv(tmp_path / "x.csv").columns


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [jumbot.DomainAdaptationClassifier, jumbot.DomainAdaptationRegressor])
def test_the_estimators_tell_too(estimator: Any) -> None:
    X, y = _things(0)
    target, _ = _things(1, strange=6)
    found = estimator("source-only", steps=600, random_state=0).fit(X, y, X_target=target).diagnosis_
    assert set(range(194, 200)) <= set(found.unexplained.tolist())


def test_a_shift_of_all_samples_makes_none_of_them_strange() -> None:
    (X, _), (target, _) = _things(0), _things(1, shift=40.0)
    near = learn_nearness(X, target)
    assert near is not None
    assert (near.received(target) < 0.25).mean() <= 0.05
    assert near.received(target[:1]) == pytest.approx(near.received(target)[:1])  # one alone, and among others


def test_no_centre_is_a_sample() -> None:
    X, _ = _things(0, n=100)
    near = learn_nearness(X, X)
    assert near is not None
    centred = (X - X.mean(0)).astype(np.float32)
    assert abs(near.centres[:, None] - centred[None]).max(2).min() > 1e-3


@pytest.mark.parametrize("rows", [np.zeros((50, 3)), np.ones((5, 3))])
def test_nothing_is_reported_where_nothing_is_typical(rows: np.ndarray) -> None:
    assert learn_nearness(rows, rows) is None


def test_what_a_file_holds_is_checked() -> None:
    X, _ = _things(0)
    near = learn_nearness(X, X)
    assert near is not None
    tensors = near.to_tensors()
    again = Nearness.from_tensors(tensors, "model")
    assert again is not None
    np.testing.assert_array_equal(again.received(X), near.received(X))
    for damaged in ({"centres": tensors["centres"]}, {**tensors, "middle": tensors["middle"][:3]}):
        with refused("nearness"):
            Nearness.from_tensors(damaged, "model")


@pytest.mark.skipif("JUMBOT_DATA" not in os.environ, reason="JUMBOT_DATA names no folder with office_caltech10")
def test_bicycles_among_office_things() -> None:
    """Six of a class that the source lacks, features of a frozen backbone: most are told, few others are."""
    file = np.load(Path(os.environ["JUMBOT_DATA"]) / "office_caltech10" / "features.npz")
    X, domain, label = file["features"].astype(np.float32), file["domain"], file["label"]
    hits = wrong = seen = 0
    for source, target in (("amazon", "dslr"), ("amazon", "webcam"), ("caltech10", "dslr"), ("dslr", "amazon")):
        there, bike = domain == target, label == "bike"
        rows = np.r_[np.flatnonzero(there & ~bike), np.flatnonzero(there & bike)[:6]]
        near = learn_nearness(X[(domain == source) & ~bike], X[rows])
        assert near is not None
        strange = near.received(X[rows]) < 0.25
        hits, wrong, seen = hits + strange[-6:].sum(), wrong + strange[:-6].sum(), seen + len(rows) - 6
    assert hits >= 16
    assert wrong <= 0.05 * seen
