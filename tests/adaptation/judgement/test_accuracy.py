"""The accuracy estimated without labels, against the truth that the test knows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

import jumbot
from jumbot.adaptation.judgement.accuracy import EstimatedAccuracy, calibrating_temperature, estimate_accuracy
from jumbot.data.domain import ArraySamples, Domain


def domains(spread: float = 0.6, n: int = 300) -> tuple[Domain, Domain]:
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 3
    rows = 3 * np.eye(3)[labels]
    source, target = (rows + spread * rng.normal(size=rows.shape) for _ in range(2))
    names = ("a", "b", "c")
    return Domain("s", ArraySamples(source), labels, names), Domain("t", ArraySamples(target + 0.4), labels, names)


@pytest.mark.parametrize("offset", [0.0, 1.5, 2.0, 2.5, 3.0, 4.0])
def test_a_boundary_in_the_wrong_place_is_seen(offset: float) -> None:
    source, target = domains()
    rows = target.samples.batch(np.arange(300)).numpy()
    predictions = (rows + np.array([offset, 0.0, 0.0])).argmax(1)
    truth = float((predictions == target.labels).mean())
    found = estimate_accuracy(source, target, predictions, 3)
    assert found.low <= truth <= found.high, (truth, found)


def test_scattered_mistakes_count_as_more_than_they_are() -> None:
    source, target = domains()
    rng = np.random.default_rng(1)
    predictions = np.where(rng.random(300) < 0.2, rng.integers(0, 3, 300), target.labels)
    assert estimate_accuracy(source, target, predictions, 3).value < (predictions == target.labels).mean()


def test_classes_lumped_together_are_seen() -> None:
    source, target = domains()
    predictions = np.where(target.labels == 2, 1, target.labels)
    found = estimate_accuracy(source, target, predictions, 3)
    assert found.low <= 2 / 3 <= found.high
    assert estimate_accuracy(source, target, np.zeros(300, int), 3).value < 0.1


@pytest.mark.parametrize("spread", [0.2, 0.6, 0.9])
@pytest.mark.parametrize("n", [150, 300, 3000])
def test_of_one_class_alone_nothing_is_said(spread: float, n: int) -> None:
    source, target = domains(spread, n)
    one = target.subset(target.labels == 0)
    found = estimate_accuracy(source, one, one.labels, 3)  # all right
    assert found.value is None
    assert "one class" in str(found)


def test_what_cannot_be_known_is_said() -> None:
    source, target = domains(n=12)
    found = estimate_accuracy(source, target, target.labels, 3)
    assert found.value is None
    assert "only 12 samples" in str(found)
    noise = Domain("s", ArraySamples(np.random.default_rng(2).normal(size=(300, 3))), np.arange(300) % 3, tuple("abc"))
    assert "of the same class" in str(estimate_accuracy(noise, noise, np.arange(300) % 3, 3))
    same = Domain("t", ArraySamples(np.ones((40, 3))))
    assert estimate_accuracy(domains()[0], same, np.zeros(40, int), 3).value is None


@pytest.mark.parametrize("accuracy", [0.45, 0.8, 0.999])
def test_mean_confidence_is_the_accuracy(accuracy: float) -> None:
    logits = 3 * torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    temperature = calibrating_temperature(logits, accuracy)
    assert float((logits / temperature).softmax(-1).amax(-1).mean()) == pytest.approx(accuracy, abs=0.01)


def test_the_model_has_it_and_keeps_it(blobs: Any, tmp_path: Any) -> None:
    source, target = blobs()
    model = jumbot.adapt(source, target, steps=60, out=tmp_path / "run")
    found = model.estimated_accuracy
    truth = model.results["accuracy"]
    assert isinstance(found, EstimatedAccuracy)
    assert found.low <= truth <= found.high
    again = jumbot.load(tmp_path / "run")
    assert again.estimated_accuracy == found
    assert again.temperature == model.temperature != 1
    np.testing.assert_array_equal(again.predict_proba(target), model.predict_proba(target))
    assert model.predict_proba(target).max(1).mean() == pytest.approx(found.value, abs=0.01)
    described = json.loads((tmp_path / "run" / "model.json").read_text())
    del described["temperature"], described["results"]["estimated_accuracy"]  # as version 0.1 wrote it
    described["format"] = 1
    (tmp_path / "run" / "model.json").write_text(json.dumps(described))
    old = jumbot.load(tmp_path / "run")
    assert (old.temperature, old.estimated_accuracy) == (1.0, None)
