"""The scikit-learn contract, and the rule for unlabelled rows."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import jumbot
from tests.refusals import refused


@parametrize_with_checks([jumbot.DomainAdaptationClassifier(steps=10, random_state=0)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture
def rows(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y = rng.integers(0, 3, 240)
    X = 3 * np.eye(3)[y] + 0.6 * rng.normal(size=(240, 3))
    return X, y, X + np.array([1.2, -1.0, 0.0])


def test_adapts(rows: tuple[np.ndarray, ...]) -> None:
    X, y, moved = rows
    how = {"random_state": 0, "steps": 150, "baseline": False}
    alone = jumbot.DomainAdaptationClassifier("source-only", **how).fit(X, y, X_target=moved).score(moved, y)
    adapted = jumbot.DomainAdaptationClassifier("jumbot", **how).fit(X, y, X_target=moved)
    assert adapted.score(moved, y) > max(alone, 0.95)
    assert adapted.transform(moved).shape == (240, adapted.n_components)
    np.testing.assert_allclose(adapted.predict_proba(moved).sum(1), 1)


@pytest.mark.parametrize("names", [[0, 1, 2], ["b", "a", "c"], [-1, 5, 9]])
def test_evaluate_shows_accuracy_and_mean_over_classes(rows: tuple[np.ndarray, ...], names: list[Any]) -> None:
    X, y, moved = rows
    y, how = np.array(names)[y], {"random_state": 0, "steps": 20}
    clf = jumbot.DomainAdaptationClassifier("source-only", **how).fit(X, y, X_target=moved)
    some = np.concatenate([np.flatnonzero(y == names[0])[:40], np.flatnonzero(y == names[1])[:7]])
    found, predicted = clf.evaluate(moved[some], y[some]), clf.predict(moved[some])
    assert found.accuracy == clf.score(moved[some], y[some])
    assert found.mean_class_accuracy == pytest.approx(balanced_accuracy_score(y[some], predicted))
    assert f"mean over classes {100 * found.mean_class_accuracy:.1f} %" in str(found)
    others = np.where(np.arange(len(some)) < 9, 77, y[some].astype(object))  # no class of the source
    assert (clf.evaluate(moved[some], others).left_out, found.left_out) == (9, 0)


def test_evaluate_compares_times_in_any_unit(rows: tuple[np.ndarray, ...]) -> None:
    X, y, moved = rows
    days = np.datetime64("2026-01-01", "D") + y.astype("m8[D]")
    clf = jumbot.DomainAdaptationClassifier("source-only", random_state=0, steps=5).fit(X, days, X_target=moved)
    found = [clf.evaluate(moved, days.astype(f"M8[{unit}]")) for unit in ("D", "s", "ns")]
    assert [(one.left_out, one.accuracy) for one in found] == [(0, found[0].accuracy)] * 3


def test_minus_one_marks_the_target(rows: tuple[np.ndarray, ...]) -> None:
    X, y, moved = rows
    both, labels = np.concatenate([X, moved]), np.concatenate([y, np.full(len(moved), -1)])
    clf = jumbot.DomainAdaptationClassifier(random_state=0, steps=20)
    marked, given = clf.fit(both, labels), clone(clf).fit(X, y, X_target=moved)
    assert marked.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(marked.predict_proba(moved), given.predict_proba(moved))


@pytest.mark.parametrize("estimator", [jumbot.DomainAdaptationClassifier, jumbot.DomainAdaptationRegressor])
def test_without_a_target_it_says_that_nothing_is_adapted_to(rows: tuple[np.ndarray, ...], estimator: Any) -> None:
    X, y, _ = rows
    with pytest.warns(jumbot.NoTargetWarning, match="X_target:"):
        estimator(steps=2).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", jumbot.NoTargetWarning)
        estimator("source-only", steps=2).fit(X, y)
        estimator(steps=2).fit(X, y, X_target=X)


@pytest.mark.parametrize("labels", [[-1, 1], ["-1", "b", "c"]])
def test_minus_one_is_otherwise_a_class(rows: tuple[np.ndarray, ...], labels: list[Any]) -> None:
    X = rows[0]
    y = np.array(labels)[np.arange(len(X)) % len(labels)]
    assert len(jumbot.DomainAdaptationClassifier(steps=5).fit(X, y).classes_) == len(labels)
    with_target = jumbot.DomainAdaptationClassifier(steps=5, baseline=False).fit(
        X, np.arange(len(X)) % 3 - 1, X_target=X
    )
    assert with_target.classes_.tolist() == [-1, 0, 1]


def test_pickle_and_clone(rows: tuple[np.ndarray, ...]) -> None:
    X, y, moved = rows
    clf = jumbot.DomainAdaptationClassifier(random_state=3, steps=30, options={"tau": 1.0}, baseline=False)
    clf.fit(X, y, X_target=moved)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict(moved), clf.predict(moved))
    again = clone(clf).fit(X, y, X_target=moved)
    np.testing.assert_array_equal(again.predict_proba(moved), clf.predict_proba(moved))


@pytest.mark.slow
def test_pipeline_brings_the_target_through_the_scaler(rows: tuple[np.ndarray, ...]) -> None:
    X, y, moved = rows
    with sklearn.config_context(enable_metadata_routing=True):
        clf = jumbot.DomainAdaptationClassifier(random_state=0, standardise=False).set_fit_request(X_target=True)
        pipe = Pipeline([("scale", StandardScaler()), ("adapt", clf)], transform_input=["X_target"])
        pipe.fit(1000 * X, y, X_target=1000 * moved)
        assert pipe.score(1000 * moved, y) > 0.9


def test_grid_search(rows: tuple[np.ndarray, ...]) -> None:
    X, y, _ = rows
    search = GridSearchCV(
        jumbot.DomainAdaptationClassifier(random_state=0, steps=20, baseline=False),
        {"method": ["jumbot", "deepjdot"]},
        cv=2,
    )
    assert search.fit(X, y).best_score_ > 0.5


def test_errors(rows: tuple[np.ndarray, ...]) -> None:
    X, y, moved = rows
    with refused("y: .*one class"):
        jumbot.DomainAdaptationClassifier().fit(X, np.zeros(len(X)))
    with refused("'jumbot'"):
        jumbot.DomainAdaptationClassifier("jumbo").fit(X, y)
    with refused("'tau'"):
        jumbot.DomainAdaptationClassifier(options={"tua": 1}).fit(X, y)
    with pytest.raises(ValueError, match="features"):
        jumbot.DomainAdaptationClassifier(steps=2).fit(X, y, X_target=moved[:, :2])


def test_options_of_the_method_by_their_own_names() -> None:
    clf = jumbot.DomainAdaptationClassifier(options={"epsilon": 0.1}, steps=3).set_params(tau=0.3, steps=4)
    assert clf.options == {"epsilon": 0.1, "tau": 0.3}
    assert clone(clf).options == clf.options
    assert clf.steps == 4
    with pytest.raises(ValueError, match="tua"):
        clf.set_params(tua=1.0)
    with pytest.raises(ValueError, match="tau"):
        clf.set_params(method="dann", tau=1.0)
    with pytest.raises(ValueError, match="seed"):  # the estimator's own is random_state
        clf.set_params(seed=1)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("estimator", [jumbot.DomainAdaptationClassifier, jumbot.DomainAdaptationRegressor])
def test_other_units_in_the_target_are_named(rows: tuple[np.ndarray, ...], estimator: Any, named: bool) -> None:
    X, y, moved = rows
    data = [pd.DataFrame(part, columns=["u", "mass", "v"]) if named else part for part in (X, moved * [1, 1000, 1])]
    which = "'mass'" if named else "2"
    with pytest.warns(UserWarning, match=f"target:.*{which}"):
        estimator(steps=5, random_state=0).fit(data[0], y, X_target=data[1])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"steps": 9}, "options: got steps, which is the parameter steps here; set that"),
        ({"hidden": [9]}, "options: got hidden, which is the parameter hidden_layer_sizes here; set that"),
        ({"seed": 1}, "options: got seed, which is the parameter random_state here"),
        ({"validation": 0.2}, r"options: validation has no effect on the estimators; see jumbot\.adapt"),
    ],
)
def test_options_that_are_parameters_or_of_no_use_are_refused(rows, options: dict[str, Any], match: str) -> None:
    X, y, moved = rows
    with refused(match):
        jumbot.DomainAdaptationClassifier(options=options).fit(X, y, X_target=moved)


def test_numbers_whose_squares_overflow_are_refused(rows: tuple[np.ndarray, ...]) -> None:
    X, y, _ = rows
    with refused("X"):
        jumbot.DomainAdaptationClassifier(steps=3).fit(1e200 * X, y)


@pytest.mark.parametrize("kind", ["pandas", "polars", "default"])
@pytest.mark.parametrize("estimator", [jumbot.DomainAdaptationClassifier, jumbot.DomainAdaptationRegressor])
def test_set_output_gives_frames_of_embeddings(estimator: Any, kind: str) -> None:
    if kind != "default":
        pytest.importorskip(kind)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    fitted = estimator(steps=2, n_components=5, random_state=0).set_output(transform=kind)
    fitted.fit(X, np.arange(40) % 2, X_target=X)
    found = fitted.transform(X[:7])
    assert found.shape == (7, 5)
    names = [f"{estimator.__name__.lower()}{i}" for i in range(5)]
    assert fitted.get_feature_names_out().tolist() == names
    if kind == "default":
        assert isinstance(found, np.ndarray)
    else:
        assert type(found).__module__.startswith(kind)
        assert list(found.columns) == names
        plain = fitted.set_output(transform="default").transform(X[:7])
        np.testing.assert_array_equal(np.asarray(found), plain)


@pytest.mark.parametrize("make", [jumbot.DomainAdaptationClassifier, jumbot.DomainAdaptationRegressor])
def test_numbers_far_from_zero_are_no_constants(make: Any) -> None:
    """Seconds since 1970 vary by little of their size."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 3)) + 6 * y[:, None]
    plain, far = (make("source-only", steps=30, random_state=0).fit(X + o, y, X_target=X + o) for o in (0, 1.7e9))
    assert far.score(X + 1.7e9, y) > 0.8
    np.testing.assert_allclose(far.predict(X + 1.7e9), plain.predict(X), atol=1e-3)


def test_digits_that_are_lost_are_warned_of() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal((0, 1.7e9, 0), size=(40, 3))
    fitted = jumbot.DomainAdaptationClassifier("source-only", steps=2, standardise="none", baseline=False)
    with pytest.warns(jumbot.DataWarning, match=r"X: column 2 .*float32"):
        fitted.fit(X, np.arange(40) % 2, X_target=X)


@pytest.mark.parametrize("argument", ["X", "y", "X_target", "labelled_target", "sample_domain"])
def test_masked_entries_are_refused_by_name(argument: str) -> None:
    """NumPy, and scikit-learn with it, would use what is under the mask."""
    y = np.arange(20) % 2
    given = {"X": np.ones((20, 3)), "y": y, "X_target": np.ones((20, 3)), "sample_domain": y}
    if argument == "labelled_target":
        given["labelled_target"] = (np.ones((20, 3)), np.ma.masked_array(y, mask=y == 0))
    else:
        given[argument] = np.ma.masked_array(given[argument], mask=given[argument] == 1)
    with refused(argument) as error:
        jumbot.DomainAdaptationClassifier(steps=1).fit(**given)
    assert error.value.argument == argument


@pytest.mark.parametrize("argument", ["y", "labelled_target"])
def test_labels_whose_index_has_another_order_are_refused(argument: str, rng: np.random.Generator) -> None:
    """As in `adapt`."""
    X, y = pd.DataFrame(rng.normal(size=(20, 3))), pd.Series(np.arange(20) % 2)
    given = {"y": y[::-1]} if argument == "y" else {"y": y, "labelled_target": (X, y[::-1])}
    with refused("order") as error:
        jumbot.DomainAdaptationClassifier(steps=1).fit(X, X_target=X, **given)
    assert error.value.argument == argument


@pytest.mark.parametrize("argument", ["X_target", "labelled_target"])
@pytest.mark.parametrize("spoilt", [lambda X: X[:, :2], lambda X: np.where(X > 0, np.nan, X), lambda X: X[:0]])
def test_rows_of_the_target_are_refused_by_their_own_name(argument: str, spoilt: Any, rng: np.random.Generator) -> None:
    """scikit-learn calls them X."""
    X, y = rng.normal(size=(20, 3)), np.arange(20) % 2
    bad = spoilt(X)
    given = {"X_target": X} | (
        {"X_target": bad} if argument == "X_target" else {"labelled_target": (bad, y[: len(bad)])}
    )
    with refused(f"^{argument}") as error:
        jumbot.DomainAdaptationClassifier(steps=1).fit(X, y, **given)
    assert error.value.argument == argument
