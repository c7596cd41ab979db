"""The estimators on frames with strings, categories, dates and missing values, as `jumbot.adapt` takes them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import jumbot
from jumbot import DomainAdaptationClassifier, DomainAdaptationRegressor
from tests.refusals import refused

ROWS = 90


def _frame(rng: np.random.Generator, moved: float = 0.0) -> tuple[pd.DataFrame, np.ndarray]:
    y = rng.integers(0, 2, ROWS)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 5, ROWS) + moved + 6 * y,
            "ward": np.where(rng.random(ROWS) < 0.2 + 0.6 * y, "north", "south"),
            "kind": pd.Categorical(rng.choice(["a", "b"], ROWS)),
            "urgent": rng.random(ROWS) < 0.5,
        }
    )
    frame.loc[rng.random(ROWS) < 0.1, "age"] = np.nan
    frame.loc[rng.random(ROWS) < 0.1, "ward"] = None
    return frame, np.where(y, "ill", "well")


def _classifier(**more: Any) -> DomainAdaptationClassifier:
    return DomainAdaptationClassifier("source-only", steps=60, random_state=0, baseline=False, **more)


def test_strings_and_missing_values(rng: np.random.Generator) -> None:
    (X, y), (there, truth) = _frame(rng), _frame(rng, 2.0)
    clf = _classifier().fit(X, y, X_target=there)
    assert clf.score(there, truth) > 0.7
    assert clf.feature_names_in_.tolist() == [*X.columns]
    assert clf.n_features_in_ == 4
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict_proba(there), clf.predict_proba(there))
    assert clone(clf).fit(X, y, X_target=there).predict(there).tolist() == clf.predict(there).tolist()


def test_as_adapt_does(rng: np.random.Generator) -> None:
    (X, y), (there, _) = _frame(rng), _frame(rng, 2.0)
    clf = _classifier().fit(X, y, X_target=there)
    model = jumbot.adapt((X, y), there, method="source-only", steps=60, seed=0, judge=False)
    assert model.input.columns == clf.columns_
    assert (model.predict(there, prior="equal") == clf.predict(there, prior="equal")).mean() > 0.95


def test_dates_and_text_by_options(rng: np.random.Generator) -> None:
    words = np.array(
        ["engine", "brake", "wheel", "noise", "oil", "leak", "window", "door", "seat", "paint", "rust", "horn"]
    )
    (X, y), (there, truth) = _frame(rng), _frame(rng)
    for frame, labels in ((X, y), (there, truth)):
        frame["seen"] = pd.date_range("2024-01-01", periods=ROWS)
        frame["note"] = [" ".join(rng.choice(words[:7] if one == "ill" else words[5:], 6)) for one in labels]
        del frame["age"], frame["ward"]
    with refused("'seen'.*dates="):
        _classifier().fit(X, y, X_target=there)
    clf = _classifier(options={"dates": True, "text": "note"}).fit(X, y, X_target=there)
    assert clf.score(there, truth) > 0.8
    with refused("options"):
        _classifier(options={"text": "note"}).fit(np.ones((4, 2)), [0, 1, 0, 1], X_target=np.ones((4, 2)))


def test_an_unknown_category_and_another_order(rng: np.random.Generator) -> None:
    (X, y), (there, _) = _frame(rng), _frame(rng)
    clf = _classifier().fit(X, y, X_target=there)
    with pytest.warns(jumbot.DataWarning, match="'east'"):
        clf.predict(there.assign(ward="east"))
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(there[["ward", "age", "kind", "urgent"]])
    with refused("'ward'"):
        clf.predict(np.ones((3, 4)))


def test_numbers_that_are_missing_at_prediction_alone(rng: np.random.Generator) -> None:
    X = pd.DataFrame(rng.normal(size=(ROWS, 2)), columns=["a", "b"])
    y = (X["a"] > 0).astype(int)
    clf = _classifier().fit(X, y, X_target=X)
    plain = _classifier().fit(X.to_numpy(), y, X_target=X.to_numpy())
    np.testing.assert_array_equal(plain.predict_proba(X.to_numpy()), clf.predict_proba(X))
    holes, filled = X.copy(), X.copy()
    holes.loc[:5, "b"], filled.loc[:5, "b"] = np.nan, X["b"].median()
    np.testing.assert_allclose(clf.predict_proba(holes), clf.predict_proba(filled), atol=1e-6)
    with pytest.raises(ValueError, match="NaN"):
        plain.predict(holes.to_numpy())


def test_the_target_marked_in_y_teaches_no_categories(rng: np.random.Generator) -> None:
    X, _ = _frame(rng)
    y = rng.integers(0, 2, ROWS)
    y[60:] = -1
    X.loc[60:, "ward"] = "east"
    with pytest.warns(jumbot.DataWarning, match="'east'"):
        clf = _classifier().fit(X, y)
    assert clf.columns_.columns[1].categories == ("north", "south")


def test_numbers_to_predict(rng: np.random.Generator) -> None:
    (X, y), (there, truth) = _frame(rng), _frame(rng)
    reg = DomainAdaptationRegressor("source-only", steps=200, random_state=0)
    reg.fit(X, np.where(y == "ill", 3.0, 1.0), X_target=there)
    found = reg.predict(there)
    assert found[truth == "ill"].mean() > found[truth == "well"].mean() + 0.5


def test_in_cross_validation_and_polars(rng: np.random.Generator) -> None:
    X, y = _frame(rng)
    with pytest.warns(jumbot.errors.NoTargetWarning):
        scores = cross_val_score(_classifier().set_params(method=None, steps=20), X, y, cv=2, error_score="raise")
    assert len(scores) == 2
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1.0, 2.0, None, 4.0] * 6, "w": ["x", "y", "x", None] * 6})
    assert _classifier().fit(frame, [0, 1] * 12, X_target=frame).predict(frame).shape == (24,)


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(lambda y: y.astype(np.int8), id="int8"),
        pytest.param(lambda y: y.astype(bool), id="bool"),
        pytest.param(lambda y: y.astype(str), id="digits as text"),
        pytest.param(lambda y: np.array(["00", "01"])[y], id="padded"),
        pytest.param(lambda y: np.array(["1", "2"], object)[y], id="objects"),
        pytest.param(lambda y: pd.Categorical(np.array(["1", "2"])[y]), id="categorical"),
        pytest.param(lambda y: pd.Series(y, dtype="category"), id="categorical of numbers"),
        pytest.param(lambda y: pd.Series(y, dtype="Int64"), id="nullable numbers"),
        pytest.param(lambda y: pd.Series(y.astype(bool), dtype="boolean"), id="nullable truth"),
    ],
)
def test_predictions_have_the_type_of_the_labels(labels: Any, rng: np.random.Generator) -> None:
    y = np.arange(ROWS) % 2
    X = rng.normal(size=(ROWS, 3)) + 5 * y[:, None]
    given = labels(y)
    plain = np.asarray(given)
    model = jumbot.adapt((X, given), X, method="source-only", steps=15, judge=False)
    for found in (model.predict(X), _classifier().set_params(steps=15).fit(X, given, X_target=X).predict(X)):
        assert (found == plain).all()
        assert found.dtype.kind in {"O": "UO"}.get(plain.dtype.kind, plain.dtype.kind)
