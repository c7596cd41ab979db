"""skada's `sample_domain`, told from ours by its sign, and its scorers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn

import jumbot
from tests.refusals import refused


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two sources, 1 and 2, and the target -3; all rows in one array, labels as skada masks them, and the true ones."""
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 60)
    X = rng.normal(size=(120, 2)) + 3 * y[:, None]
    domain = np.repeat([1, 2, -3], 40)
    X[domain < 0] += 0.7
    mixed = rng.permutation(120)
    X, y, domain = X[mixed], y[mixed], domain[mixed]
    return X, np.where(domain < 0, -1, y), domain, y


def classifier(**changes: Any) -> Any:
    return jumbot.DomainAdaptationClassifier(**{"steps": 60, "random_state": 0, "baseline": False, **changes})


def test_negative_numbers_mark_the_target(rows):
    X, masked, domain, _ = rows
    by_sign = classifier().fit(X, masked, sample_domain=domain)
    source = domain > 0
    by_name = classifier().fit(X[source], masked[source], X_target=X[~source], sample_domain=domain[source])
    assert by_sign.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(by_sign.predict_proba(X), by_name.predict_proba(X))


def test_labels_of_the_target_are_not_looked_at(rows):
    X, masked, domain, y = rows
    first = classifier().fit(X, masked, sample_domain=domain).predict_proba(X)
    np.testing.assert_array_equal(classifier().fit(X, y, sample_domain=domain).predict_proba(X), first)


@pytest.mark.slow
def test_numbers_from_zero_on_name_sources_as_before(rows):
    X, _, domain, y = rows
    ours = np.where(domain < 0, 0, domain)
    fitted = classifier().fit(X, y, X_target=X[domain < 0], sample_domain=ours)
    assert fitted.predict(X).shape == (120,)


@pytest.mark.slow
def test_the_regressor_with_masked_numbers(rows):
    X, _, domain, _ = rows
    values = np.where(domain < 0, np.nan, X[:, 0])
    fitted = jumbot.DomainAdaptationRegressor(steps=200, random_state=0).fit(X, values, sample_domain=domain)
    assert fitted.score(X[domain < 0], X[domain < 0, 0], sample_domain=domain[domain < 0]) > 0.3


@pytest.mark.parametrize(
    ("domain", "more"),
    [
        (lambda d: d, {"X_target": np.zeros((3, 2))}),
        (lambda d: -abs(d), {}),
        (lambda d: d[1:], {}),
        (lambda d: d > 0, {}),
    ],
)
def test_what_does_not_fit_is_refused(rows, domain, more):
    X, masked, numbers, _ = rows
    with refused(r"^sample_domain"):
        classifier(steps=1).fit(X, masked, sample_domain=domain(numbers), **more)


def test_calls_of_skadas_scorers(rows):
    """As its scorers make them, without skada."""
    X, masked, domain, y = rows
    fitted = classifier().fit(X, masked, sample_domain=domain)
    target = domain < 0
    domains = {"sample_domain": domain[target], "allow_source": True}
    np.testing.assert_array_equal(fitted.predict(X[target], **domains), fitted.predict(X[target]))
    np.testing.assert_array_equal(fitted.predict_proba(X[target], **domains), fitted.predict_proba(X[target]))
    weights = np.linspace(0, 1, target.sum())
    assert fitted.score(X[target], y[target], sample_weight=weights, **domains) == pytest.approx(
        np.average(fitted.predict(X[target]) == y[target], weights=weights)
    )
    np.testing.assert_array_equal(fitted.predict_features(X), fitted.transform(X))


@pytest.mark.parametrize(
    "name",
    [
        "SupervisedScorer",
        "ImportanceWeightedScorer",
        "PredictionEntropyScorer",
        "SoftNeighborhoodDensity",
        "DeepEmbeddedValidation",
        "CircularValidation",
        "MixValScorer",
        "MaNoScorer",
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_skadas_scorers(rows, name):
    metrics = pytest.importorskip("skada.metrics")
    if not hasattr(metrics, name):
        pytest.skip(f"this skada has no {name}")
    X, masked, domain, y = rows
    with sklearn.config_context(enable_metadata_routing=True):
        fitted = classifier().set_score_request(sample_weight=True, sample_domain=True, allow_source=True)
        fitted = fitted.set_fit_request(sample_domain=True).fit(X, masked, sample_domain=domain)
        more = {"target_labels": y} if name == "SupervisedScorer" else {}
        score = getattr(metrics, name)()(fitted, X, masked, sample_domain=domain, **more)
    assert np.isfinite(score)
    if name == "SupervisedScorer":
        assert score == fitted.score(X[domain < 0], y[domain < 0])
