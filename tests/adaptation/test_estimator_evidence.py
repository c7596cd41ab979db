"""What the estimators say of the target without its labels: diagnosis, harm, scorers; and what else fit takes."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import jumbot
from jumbot.adaptation import _judging
from jumbot.adaptation._evaluation.decision import Harm
from jumbot.adaptation._evaluation.modularity import modularity, nearest
from jumbot.adaptation._evaluation.votes import Witness
from jumbot.adaptation._training import witnesses
from tests.refusals import refused

Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def clouds(seed: int, counts: tuple[int, ...], shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Three clouds in a plane, of so many rows each."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    centres = 3 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    return centres[y] + 0.7 * rng.normal(size=(len(y), 2)) + shift, y


def classifier(**changes: Any) -> jumbot.DomainAdaptationClassifier:
    return jumbot.DomainAdaptationClassifier(**{"steps": 40, "random_state": 0, "n_components": 8, **changes})


@pytest.fixture(scope="module")
def shifted() -> Rows:
    return *clouds(0, (40, 40, 40)), *clouds(1, (40, 40, 40), 0.8)


@pytest.fixture(scope="module")
def fitted(shifted: Rows) -> jumbot.DomainAdaptationClassifier:
    X, y, X_target, _ = shifted
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("error")  # no harm is done here
        patch.setattr(witnesses, "TREES_GROWN", 10)
        return classifier(steps=150, method="jumbot").fit(X, y, X_target=X_target)


@pytest.mark.judged
def test_what_is_known_of_the_target(
    fitted: jumbot.DomainAdaptationClassifier, shifted: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, X_target, truth = shifted
    monkeypatch.setattr(witnesses, "TREES_GROWN", 10)
    diagnosis, harm = fitted.diagnosis_, fitted.harm_
    assert isinstance(diagnosis, jumbot.Diagnosis)
    np.testing.assert_allclose(diagnosis.class_proportions, np.full(3, 1 / 3), atol=0.1)
    assert len(diagnosis.received_mass) == len(X_target)
    assert fitted.estimated_accuracy_ is not None
    assert fitted.estimated_accuracy_.value == pytest.approx(fitted.score(X_target, truth), abs=0.15)
    assert harm is not None
    assert not harm.likely
    assert str(harm) == "no sign of harm done by adaptation"
    assert harm.gain > -0.03
    alone = classifier(steps=2, method="source-only").fit(X, y, X_target=X_target)
    assert alone.method_ == "source-only"
    assert alone.harm_ is None
    assert classifier(steps=2, method="jumbot", baseline=False).fit(X, y, X_target=X_target).harm_ is None
    assert classifier(steps=49, method="jumbot").fit(X, y, X_target=X_target).harm_ is None  # too short to tell
    itself = classifier(steps=2).fit(X, y)
    assert (itself.diagnosis_, itself.estimated_accuracy_, itself.harm_) == (None, None, None)
    assert pickle.loads(pickle.dumps(fitted)).harm_ == harm


@pytest.mark.parametrize("gain", [-0.1, 0.1])
def test_the_network_that_is_returned_passes_the_rule_as_those_of_folds_do(
    shifted: Rows, monkeypatch: pytest.MonkeyPatch, gain: float
) -> None:
    X, y, X_target, _ = shifted
    weighed: list[Witness] = []

    def weigh(adapted: Witness, alone: Witness) -> Harm:
        weighed.append(adapted)
        return Harm(0.8 + (0.1 if len(weighed) == 1 else gain), 0.8, 0.3)

    monkeypatch.setattr(_judging, "weigh_witnesses", weigh)
    clf = classifier().fit(X, y, X_target=X_target)
    assert len(weighed) == 2
    assert clf.method_ == ("jumbot" if gain > 0 else "source-only")
    if gain > 0:
        np.testing.assert_allclose(clf._logits(X_target), weighed[1].target[0], atol=1e-4)


@pytest.mark.slow
@pytest.mark.judged
def test_a_label_shift_that_does_harm_is_reported() -> None:
    """Balanced transport must give a target of one class the other classes of the source too."""
    X, y = clouds(0, (60, 60, 60))
    X_target, truth = clouds(1, (117, 2, 1))
    clf = classifier(method="deepjdot", steps=100)
    with pytest.warns(jumbot.NegativeTransferWarning, match=r"harm:.*jumbot\.tune"):
        clf.fit(X, y, X_target=X_target)
    alone = classifier(method="source-only", steps=100).fit(X, y, X_target=X_target)
    assert clf.score(X_target, truth) < alone.score(X_target, truth) - 0.05


@pytest.mark.slow
@pytest.mark.judged
def test_without_a_method_the_better_one_is_kept(shifted: Rows) -> None:
    X, y, X_target, _ = shifted
    clf = classifier(method=None, steps=150).fit(X, y, X_target=X_target)
    assert clf.decision_ is not None
    assert clf.method_ == clf.decision_.method
    assert "was chosen over" in str(clf.decision_)
    named = classifier(method=clf.method_, steps=150).fit(X, y, X_target=X_target)
    np.testing.assert_array_equal(clf.predict(X_target), named.predict(X_target))  # the same training, on all rows
    same = classifier(method=None, steps=150).fit(X, y, X_target=X)
    assert same.method_ == "source-only"  # nothing has shifted, so neither is better
    assert classifier(method=None, steps=2).fit(X, y).method_ == "source-only"
    by_option = classifier(method=None, options={"tau": 1.0}, steps=60).fit(X, y, X_target=X)
    assert by_option.method_ == "jumbot"
    assert by_option.decision_.asked


def test_predictions_of_natural_and_of_equal_class_sizes() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(3000) < 0.15).astype(int)
    X = rng.normal(size=(3000, 2)) + 0.8 * y[:, None]
    truth = (rng.random(600) < 0.15).astype(int)
    target = rng.normal(size=(600, 2)) + 0.8 * truth[:, None] + 0.1
    stratified = {"sampler": "stratified"}  # equal classes in training, whatever the method's authors do
    clf = classifier(method="source-only", steps=200, options=stratified).fit(X, y, X_target=target)
    assert clf.score(target, truth) > (clf.predict(target, prior="equal") == truth).mean() + 0.02
    np.testing.assert_array_equal(clf.predict_proba(target).argmax(1), clf.predict(target))
    np.testing.assert_array_equal(clf.decision_function(target) > 0, clf.predict(target) == 1)
    expected = clf.predict(target, prior="equal")
    np.testing.assert_array_equal(clf.set_params(prior="equal").predict(target), expected)
    with refused("prior"):
        classifier(prior="natural").fit(X, y)


@pytest.mark.slow
def test_scores_of_the_target_next_to_those_of_the_source() -> None:
    """What is perfect on folds of the source is not on the target, which says so without labels."""
    X, y = clouds(0, (40, 40, 40))
    target, truth = clouds(1, (50, 50, 50))
    turned = target @ np.array([[0.7, 0.714], [-0.714, 0.7]])
    grid = {"method": ["source-only", "jumbot"]}
    clf = classifier(steps=100, baseline=False)
    by_target = GridSearchCV(clf, grid, cv=2, scoring=jumbot.target_scorer()).fit(X, y, X_target=turned)
    each = [clone(clf).set_params(method=name).fit(X, y, X_target=turned) for name in grid["method"]]
    true = [one.score(turned, truth) for one in each]
    assert each[0].score(X, y) > 0.9 > true[0]
    assert true[1] > true[0] + 0.05
    assert by_target.best_params_ == {"method": "jumbot"}
    best = by_target.best_estimator_
    expected = modularity(best.predict(turned), nearest(turned - best.mean_))
    assert jumbot.target_scorer()(best) == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_a_grid_over_an_option_of_the_method(shifted: Rows) -> None:
    X, y, X_target, _ = shifted
    for name in ("modularity", "entropy", "infomax", "snd"):
        search = GridSearchCV(
            classifier(steps=5, baseline=False), {"tau": [0.1, 2.0]}, cv=2, scoring=jumbot.target_scorer(name)
        )
        search.fit(X, y, X_target=X_target)
        assert search.best_estimator_.options == {"tau": search.best_params_["tau"]}
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_scorers_refuse_what_they_cannot_score(shifted: Rows) -> None:
    X, y, X_target, _ = shifted
    with refused("X_target"):
        jumbot.target_scorer()(classifier(steps=2).fit(X, y))
    with refused("'smoothness'.*Known:"):
        jumbot.target_scorer("smoothness")(classifier(steps=2, baseline=False).fit(X, y, X_target=X_target))
    with refused("got StandardScaler"):
        jumbot.target_scorer()(StandardScaler())
    with refused("'accuracy'"):
        jumbot.target_scorer("accuracy")
    regressor = jumbot.DomainAdaptationRegressor(steps=20, random_state=0).fit(X, X[:, 0], X_target=X_target)
    assert 0 < jumbot.target_scorer("smoothness")(regressor) <= 1
    assert regressor.diagnosis_ is not None
    assert len(regressor.diagnosis_.received_mass) == len(X_target)


def test_target_labels_are_trained_on(shifted: Rows) -> None:
    """Names that are exchanged in the target can be known from its labels alone."""
    X, y, X_target, _ = shifted
    exchanged = (y + 1) % 3
    known = np.arange(0, 120, 4)
    clf = classifier(method="source-only", steps=100)
    before = clf.fit(X[:6], np.arange(6) % 3, X_target=X_target).score(X_target, exchanged)
    labelled = X_target[known], exchanged[known]
    clf.fit(X[:6], np.arange(6) % 3, X_target=X_target, labelled_target=labelled)
    assert clf.score(X_target, exchanged) > max(0.9, before)
    regressor = jumbot.DomainAdaptationRegressor(method="source-only", steps=200, random_state=0)
    line = regressor.fit(X[:5], np.zeros(5), X_target=X_target, labelled_target=(X_target, 3 * X_target[:, 0]))
    assert line.score(X_target, 3 * X_target[:, 0]) > 0.5


@pytest.mark.slow
def test_a_poor_source_counts_for_less(shifted: Rows) -> None:
    X, y, X_target, truth = shifted
    both, labels = np.concatenate([X, X]), np.concatenate([y, np.random.default_rng(0).permutation(y)])
    names = np.repeat(["good", "shuffled"], len(X))
    clf = classifier(steps=200, baseline=False).fit(both, labels, X_target=X_target, sample_domain=names)
    assert clf.source_shares_["good"] > 0.6 > clf.source_shares_["shuffled"]
    assert clf.score(X_target, truth) > 0.9
    assert classifier(steps=2, method="jumbot", baseline=False).fit(X, y, X_target=X_target).source_shares_ is None
    one = classifier(steps=2, baseline=False).fit(X, y, X_target=X_target, sample_domain=np.zeros(len(X), int))
    assert one.source_shares_ is None


def test_folds_carry_the_names_of_sources(shifted: Rows) -> None:
    X, y, X_target, _ = shifted
    names = np.arange(len(X)) % 2
    clf = classifier(method="jumbot", steps=3, baseline=False)
    GridSearchCV(clf, {"tau": [0.5]}, cv=2).fit(X, y, X_target=X_target[:50], sample_domain=names)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = clf.set_fit_request(X_target=True, sample_domain=True, labelled_target=True)
        pipe = Pipeline([("scale", StandardScaler()), ("adapt", asked)], transform_input=["X_target"])
        pipe.fit(X, y, X_target=X_target, sample_domain=names)
        assert set(pipe[-1].source_shares_) == {"0", "1"}
        assert np.isfinite(jumbot.target_scorer()(pipe))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"labelled_target": 3}, "labelled_target: got int; pass a pair"),
        ({"labelled_target": (np.zeros((2, 2)), [0])}, r"labelled_target: 2 rows and labels of shape \(1,\)"),
        ({"labelled_target": (np.zeros((2, 2)), [0, 7])}, "labelled_target: got 7; .* y"),
        ({"sample_domain": [0, 1]}, r"sample_domain: shape \(2,\); .* 120 rows"),
        ({"sample_domain": np.zeros(120)}, "sample_domain: got float64"),
        ({"sample_domain": "a"}, r"sample_domain: shape \(\)"),
    ],
)
def test_what_fit_refuses(shifted: Rows, given: dict[str, Any], words: str) -> None:
    X, y, X_target, _ = shifted
    with refused(words):
        classifier().fit(X, y, X_target=X_target, **given)
    with refused("labelled_target"):
        jumbot.DomainAdaptationRegressor().fit(X, X, X_target=X, labelled_target=(X, y))
