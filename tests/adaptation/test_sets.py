"""Prediction sets: quantiles against other words for them, coverage by simulation, and the model's file."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

import jumbot
from jumbot.adaptation._evaluation import sets
from jumbot.adaptation._evaluation.accuracy import Calibration
from jumbot.adaptation._evaluation.votes import Witness
from jumbot.cli import main


def test_equal_weights_are_split_conformal() -> None:
    """The ceil((n + 1) level)-th smallest score, as in every text on the subject."""
    rng = np.random.default_rng(0)
    for n in (9, 19, 50):
        scores = rng.random(n)
        for level in (0.5, 0.8, 0.9, 0.95):
            place = math.ceil((n + 1) * level - 1e-9)
            expected = np.sort(scores)[place - 1] if place <= n else math.inf
            assert sets.weighted_quantile(scores, np.ones(n), level) == expected
            assert sets.weighted_quantile(scores, np.full(n, 7.0), level) == expected


@pytest.mark.parametrize("n", [37, 200])
def test_equal_weights_are_the_sets_of_crepes(n: int) -> None:
    """Where that package is installed; seen with crepes 0.9.1."""
    crepes = pytest.importorskip("crepes")
    rng = np.random.default_rng(n)
    held, labels, new = rng.dirichlet(np.ones(4), n), rng.integers(0, 4, n), rng.dirichlet(np.ones(4), 300)
    scores = 1 - held[np.arange(n), labels]
    theirs = crepes.ConformalClassifier().fit(scores).predict_set(1 - new, confidence=0.9, smoothing=False)
    ours = 1 - new <= sets.weighted_quantile(scores, np.ones(n), 0.9) + 1e-12
    np.testing.assert_array_equal(ours, theirs.astype(bool))


def test_weights_are_repetitions() -> None:
    scores, times = np.array([0.4, 0.1, 0.3, 0.2]), np.array([5, 20, 10, 15])
    repeated = np.repeat(scores, times)
    for level in (0.3, 0.5, 0.75):
        found = sets.weighted_quantile(scores, times.astype(float), level)
        needed = level * (50 + (times**2).sum() / 50)
        assert found == np.sort(repeated)[math.ceil(needed - 1e-6) - 1]


def test_weighted_coverage_under_a_known_shift() -> None:
    """y = x + noise of size |x|, with x drawn elsewhere in the target: true ratios cover, equal weights do not."""
    covered = {"equal": [], "weighted": []}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x, t = rng.uniform(0, 1, 400), rng.beta(3, 1, 400)
        scores, truth = np.abs(x * rng.normal(size=400)), np.abs(t * rng.normal(size=400))
        for name, weights in (("equal", np.ones(400)), ("weighted", 3 * x**2)):
            covered[name].append(np.mean(truth <= sets.weighted_quantile(scores, weights, 0.9)))
    assert np.mean(covered["weighted"]) == pytest.approx(0.9, abs=0.015)
    assert np.mean(covered["equal"]) < 0.87


def test_the_plan_finds_the_ratio() -> None:
    """Mass goes to the half of the held-out samples where the target is."""
    rng = np.random.default_rng(0)
    held = rng.normal(size=(300, 2)) + np.where(np.arange(300) < 150, 0.0, 6.0)[:, None]
    weights, moved = sets.plan_weights(held, rng.normal(size=(200, 2)), np.ones(300))
    assert weights.mean() == pytest.approx(1)
    assert weights[:150].mean() > 10 * weights[150:].mean()
    assert moved > 0.7
    _, far = sets.plan_weights(held, rng.normal(size=(200, 2)) + 40, np.ones(300))
    assert far < sets.LEAST_MOVED
    many, _ = sets.plan_weights(np.repeat(held, 5, axis=0), held[:150], np.ones(1500), np.arange(1500) // 750)
    assert len(many) == 1500
    assert many[:750].mean() > 5 * many[750:].mean()


def test_expected_coverage_by_hand() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(4), 50)
    thresholds, covered, sizes = sets.expected_coverage(p)
    for place in (0, 57, 120, len(thresholds) - 1):
        inside = 1 - p <= thresholds[place] + 1e-12
        inside[np.arange(50), p.argmax(1)] = True
        assert covered[place] == pytest.approx((p * inside).sum(1).mean())
        assert sizes[place] == pytest.approx(inside.sum(1).mean())
    assert (np.diff(covered) >= -1e-12).all()


def test_a_target_without_counterpart_gets_no_promise() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(100, 3))
    logits, labels = rng.normal(size=(100, 2)), rng.integers(0, 2, 100)
    for there, start in (
        (z + 50, "no promise: the plan moves"),
        (z, "no promise: the accuracy"),
        (z, "90 % of the sets"),
    ):
        witness = Witness(logits, labels, (logits,), np.full(2, 0.5), np.zeros(2), held_z=(z,), target_z=(there,))
        probabilities = None if "accuracy" in start else np.full((10, 2), 0.5)
        found = sets.learn_guarantee(witness, Calibration(), np.full(2, 0.5), probabilities, 0.25)
        assert sets.promise_of(found, 0.9).startswith(start)


def test_sets_stay_near_the_usual_size_or_promise_nothing() -> None:
    """Of probabilities with a long flat tail: holding more of them takes many classes."""
    scores = np.linspace(0.0, 0.6, 200)[:, None]
    p = np.full((100, 11), 0.0)
    p[:90, 0], p[:90, 1:] = 0.96, 0.004
    p[90:, 0], p[90:, 1:] = 0.5, 0.05
    sure = sets.Guarantee(scores, np.ones(200), 1.0, sets.expected_coverage(p), 0.25)
    assert not sure.why_not(0.9)
    assert len(sets.class_sets(p, float(sure.thresholds(0.9)[0]), np.arange(11))[0]) == 1
    p[:, 0], p[:, 1:] = 0.8, 0.02
    unsure = sets.Guarantee(scores, np.ones(200), 1.0, sets.expected_coverage(p), 0.25)
    assert "several times" in unsure.why_not(0.9)
    assert len(sets.class_sets(p, float(unsure.thresholds(0.9)[0]), np.arange(11))[0]) > 5
    old = sets.Guarantee(scores, np.ones(200), 1.0, unsure.curve[:2], 0.25)  # of a model that kept no sizes
    assert not old.why_not(0.9)
    np.testing.assert_array_equal(old.thresholds(0.9), unsure.thresholds(0.9))


def data(n: int, seed: int, by: float = 0.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return np.array([[0, 0], [2.2, 0], [0, 2.2]])[y] + rng.normal(size=(n, 2)) + by, np.array(["a", "b", "c"])[y]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    X, y = data(240, 0)
    return jumbot.adapt(
        (X, y), data(240, 1, 0.2)[0], steps=60, seed=0, out=tmp_path_factory.mktemp("sets") / "run", report=False
    )


def test_sets_cover_and_survive_the_file(model) -> None:
    X, y = data(600, 2, 0.2)
    out = model.predict_set(X, coverage=0.9)
    inside = np.array([label in one for label, one in zip(y, out.sets, strict=True)])
    assert out.promised, out.promise
    assert inside[~out.unknown].mean() >= 0.87
    assert 1 <= out.sizes.mean() < 2.6
    assert out.unknown.mean() < 0.2
    assert out.promise.startswith("90 % of the sets hold the truth where labels move with the features")
    again = jumbot.load(model.run).predict_set(X, 0.9)
    assert again.sets == out.sets
    assert (again.unknown == out.unknown).all()
    smaller = model.predict_set(X, coverage=0.6).sizes
    assert (smaller <= out.sizes).all()
    assert smaller.sum() < out.sizes.sum()


def test_columns_of_the_csv(model, tmp_path, capsys) -> None:
    X = data(20, 3)[0]
    np.save(tmp_path / "x.npy", X)
    assert (
        main(
            ["predict", str(model.run), str(tmp_path / "x.npy"), "--coverage", "0.9", "--csv", str(tmp_path / "p.csv")]
        )
        == 0
    )
    assert "90 % of the sets" in capsys.readouterr().err
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    out = model.predict_set(X)
    assert [frozenset(row["set"].split("|")) for row in rows] == out.sets
    assert [int(row["set_size"]) for row in rows] == out.sizes.tolist()
    assert all(row["label"] in row["set"].split("|") for row in rows)
    assert main(["predict", str(model.run), str(tmp_path / "x.npy"), "--coverage", "1.5"]) == 2
    assert "coverage" in capsys.readouterr().err


def test_a_model_without_held_out_samples_says_so() -> None:
    X, y = data(60, 0)
    bare = jumbot.adapt((X, y), X, steps=3, method="source-only", judge=False)
    for call in (lambda: bare.predict_set(X), lambda: bare.write_predictions(X, "none.csv", coverage=0.9)):
        with pytest.raises(jumbot.ArgumentError) as error:
            call()
        assert error.value.argument == "coverage"


@pytest.mark.parametrize("coverage", [0, 1, -0.1, "much", math.nan])
def test_a_coverage_that_is_none_is_refused(model, coverage) -> None:
    with pytest.raises(jumbot.ArgumentError) as error:
        model.predict_set(data(20, 3)[0], coverage=coverage)
    assert error.value.argument == "coverage"


@pytest.mark.judged
def test_intervals_of_numbers() -> None:
    def numbers(n: int, seed: int):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n, 3))
        return x, 10 * x[:, 0] + 3 * rng.normal(size=n)

    X, y = numbers(240, 0)
    found = jumbot.adapt((X, y), numbers(200, 1)[0], task="regression", steps=150, seed=0)
    there, truth = numbers(400, 2)
    out = found.predict_set(there, 0.9)
    assert out.sets.shape == (400, 2)
    inside = (out.sets[:, 0] <= truth) & (truth <= out.sets[:, 1])
    assert 0.84 <= inside[~out.unknown].mean() <= 0.97
    assert np.allclose(out.sets.mean(1), found.predict(there))
