"""A target that is nothing like the source: no accuracy is estimated, whatever classifiers agree on."""

from __future__ import annotations

import numpy as np
import pytest

import jumbot
from jumbot.adaptation._judging import _unlike_the_source


def clouds(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return 3 * np.eye(5)[y] + rng.normal(size=(n, 5)), y


@pytest.mark.filterwarnings("ignore::jumbot.errors.DataWarning", "ignore::jumbot.errors.NegativeTransferWarning")
@pytest.mark.parametrize("by", [40.0, 500.0])
def test_no_accuracy_is_estimated_far_from_the_source(by: float) -> None:
    (X, y), (T, _) = clouds(200, 0), clouds(200, 1)
    model = jumbot.adapt((X, y), T + by, steps=40, seed=0)
    assert model.estimated_accuracy.value is None
    clf = jumbot.DomainAdaptationClassifier(steps=40, random_state=0).fit(X, y, X_target=T + by)
    assert clf.estimated_accuracy_.value is None


def test_why_nothing_is_reported() -> None:
    shares, predicted = np.full(2, 0.5), np.array([0, 1] * 20)
    assert not _unlike_the_source(predicted, shares, None)
    assert not _unlike_the_source(predicted, shares, np.linspace(0.2, 1.0, 40))
    assert "62 % of the target is not explained" in _unlike_the_source(
        predicted, shares, np.repeat([0.1, 1.0], [25, 15])
    )
    assert "100 % of the target is predicted as one class" in _unlike_the_source(0 * predicted, shares, None)
    assert not _unlike_the_source(0 * predicted, np.array([0.95, 0.05]), None)  # as in the source
    assert not _unlike_the_source(0 * predicted, np.array([0.75, 0.25]), None)  # 75 % are right if nothing has changed
    assert "25 % of the source" in _unlike_the_source(1 + 0 * predicted, np.array([0.75, 0.25]), None)


def test_a_target_predicted_as_one_class_is_not_estimated() -> None:
    (X, y), (T, truth) = clouds(240, 0), clouds(400, 1)
    alone = T[truth == 0]
    model = jumbot.adapt((X, y), alone, steps=60, seed=0, method="source-only")
    assert model.estimated_accuracy.value is None
    assert "predicted as one class" in model.estimated_accuracy.why


@pytest.mark.parametrize("rare", [0.5, 0.1, 0.03])
def test_a_target_predicted_as_nearly_one_class_is_named(rare: float) -> None:
    """However rare the other classes are in the source."""
    rng = np.random.default_rng(0)
    y = (rng.random(1000) < rare).astype(int)
    X = rng.normal(size=(1000, 3)) + 5 * y[:, None]
    model = jumbot.adapt((X, y), rng.normal(size=(300, 3)), steps=60, seed=0, method="source-only")
    assert (model.predict(rng.normal(size=(300, 3))) == 0).mean() > 0.98
    assert any("predicted as one class" in sign for sign in model.diagnosis["signs"])
    same = jumbot.adapt((X, y), X, steps=60, seed=0, method="source-only", judge=False)
    assert not any("predicted as one class" in sign for sign in same.diagnosis["signs"])


def test_a_near_target_is_estimated() -> None:
    (X, y), (T, truth) = clouds(240, 0), clouds(200, 1)
    model = jumbot.adapt((X, y), T + 0.2, steps=60, seed=0)
    assert model.estimated_accuracy.value == pytest.approx((model.predict(T + 0.2) == truth).mean(), abs=0.15)
