"""Numbers instead of classes: units, metrics, files, what is refused, and a shift whose answer is known."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

import jumbot
from jumbot.adaptation._evaluation.measures import evaluate_numbers, smoothness
from jumbot.methods import METHODS, for_numbers
from tests.refusals import refused

SHORT: dict[str, Any] = {"task": "regression", "steps": 20, "seed": 0}


def _shifted(seed: int, n: int = 300, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 5))
    return z + shift * np.array([1.0, -1.0, 1.0, 0.0, 0.0]), 3 * np.sin(1.5 * z[:, 0]) + z[:, 1]


def test_the_figures_are_those_of_scikit_learn(rng: np.random.Generator) -> None:
    truth, found = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    figures = evaluate_numbers(found, truth)
    assert figures.rmse == pytest.approx(root_mean_squared_error(truth, found))
    assert figures.mae == pytest.approx(mean_absolute_error(truth, found))
    assert figures.r2 == pytest.approx(r2_score(truth, found))
    truth[3] = np.nan
    assert (evaluate_numbers(found, truth).n, evaluate_numbers(found, truth).left_out) == (29, 1)


def test_smoothness_by_hand() -> None:
    f = np.array([[1.0], [2.0], [4.0]])
    graph = np.array([[1], [0], [1]])
    c = f - f.mean()
    assert smoothness(f, graph) == pytest.approx((c[0] * c[1] + c[1] * c[0] + c[2] * c[1])[0] / (c**2).sum())
    assert smoothness(np.ones((3, 1)), graph) == 0


@pytest.mark.parametrize("method", for_numbers())
def test_predictions_come_in_the_units_of_the_source(method: str, tmp_path: Path) -> None:
    (X, y), (Xt, yt) = _shifted(0), _shifted(1)
    plain = jumbot.adapt((X, y), (Xt, yt), method=method, **SHORT)
    scaled = jumbot.adapt((X, 1e6 * y + 5e7), (Xt, 1e6 * yt + 5e7), method=method, out=tmp_path / "run", **SHORT)
    np.testing.assert_allclose(scaled.predict(Xt), 1e6 * plain.predict(Xt) + 5e7, rtol=1e-4)
    assert scaled.results["r2"] == pytest.approx(plain.results["r2"], abs=1e-3)
    assert scaled.results["rmse"] == pytest.approx(1e6 * plain.results["rmse"], rel=1e-3)
    again = jumbot.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict(Xt), scaled.predict(Xt))
    assert again.evaluate(Xt, 1e6 * yt + 5e7).rmse == pytest.approx(scaled.results["rmse"])  # type: ignore[union-attr]
    with (tmp_path / "run" / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    np.testing.assert_allclose([float(row["prediction"]) for row in rows], scaled.predict(Xt))
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert not {"accuracy", "confusion", "estimated_accuracy"} & set(results)
    assert not any(results["diagnosis"][name] for name in ("class_proportions", "absent_classes", "disagreement"))
    assert scaled.estimated_accuracy is None
    with refused("predict_proba"):
        scaled.predict_proba(Xt)


def test_arrays_tensors_frames_and_files_are_alike(tmp_path: Path) -> None:
    (X, y), (Xt, _) = _shifted(0), _shifted(1)
    names = [f"x{i}" for i in range(5)]
    frame, target = pd.DataFrame(X, columns=names).assign(price=y), pd.DataFrame(Xt, columns=names)
    frame.to_csv(tmp_path / "s.csv", index=False)
    target.to_csv(tmp_path / "t.csv", index=False)
    ways: list[tuple[Any, Any, dict[str, Any]]] = [
        ((X, y), Xt, {}),
        ((torch.from_numpy(X), torch.from_numpy(y)), torch.from_numpy(Xt), {}),
        (frame, target, {"label": "price"}),
        (tmp_path / "s.csv", tmp_path / "t.csv", {"label": "price"}),
    ]
    found = [
        jumbot.adapt(source, there, **how, **SHORT, method="jumbot", judge=False).predict(there)
        for source, there, how in ways
    ]
    for one in found[1:]:
        np.testing.assert_allclose(one, found[0], rtol=1e-4, atol=1e-4)


def test_folders_named_after_numbers(tmp_path: Path, rng: np.random.Generator) -> None:
    for folder in ("faces", "others"):
        for age in (20, 30):
            for i in range(6):
                path = tmp_path / folder / str(age) / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(rng.integers(0, 255, (12, 12), dtype=np.uint8)).save(path)
    model = jumbot.adapt(
        tmp_path / "faces",
        tmp_path / "others",
        task="regression",
        source_steps=1,
        steps=2,
        batch_size=6,
        epochs=None,
        method="jumbot",
        judge=False,
    )
    assert model.results["n"] == 12
    assert model.predict(tmp_path / "faces").shape == (12,)


@pytest.mark.slow
def test_several_numbers_and_huber(rng: np.random.Generator) -> None:
    X, _ = _shifted(0)
    y = np.stack([X[:, 0], 1000 * X[:, 1]], 1)
    model = jumbot.adapt((X, y), (X, y), label_loss="huber", method="source-only", **SHORT | {"steps": 200})
    assert model.predict(X).shape == y.shape
    assert model.results["r2"] > 0.8
    assert len(model.results["per_output"]) == 2
    with refused(r"\b1\b.*\b2\b"):
        jumbot.adapt((X, y), (X, y[:, 0]), **SHORT, method="jumbot", judge=False)


def test_fractions_say_that_numbers_are_meant() -> None:
    X, y = _shifted(0, 60)
    with pytest.warns(UserWarning, match="task='regression'"):
        model = jumbot.adapt((X, y), X, steps=2, method="jumbot", judge=False)
    assert model.task.name == "regression"
    with refused("source"):
        jumbot.adapt((X, y), X, task="classification", steps=2, method="jumbot", judge=False)
    with refused(r"\b60\b.*task='regression'.*task='classification'"):
        jumbot.adapt((X, np.arange(60)), X, steps=2, batch_size=60)
    many = jumbot.adapt((X, np.arange(60)), X, task="classification", steps=2, batch_size=60, judge=False)
    assert len(many.classes) == 60
    with refused("'red'; task='regression'"):
        jumbot.adapt((X, ["red", "blue"] * 30), X, task="regression", steps=2, method="jumbot", judge=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({"method": name}, f"method: {name} is for classes") for name in METHODS if name not in for_numbers()),
        ({"sampler": "stratified"}, "sampler: got 'stratified', but task='regression'"),
        *(({"select": rule}, f"select: got '{rule}', but") for rule in ("entropy", "infomax", "snd")),
        ({"partial": "first:2"}, "partial: got 'first:2', but task='regression'"),
        ({"method": "deepjdot", "variant": "original"}, "variant: got 'original', but"),
        ({"views": "ten-crop"}, "views: 'ten-crop' averages probabilities"),
        ({"task": "classification", "label_loss": "huber"}, "label_loss: got 'huber', but classes"),
        ({"task": "classification", "select": "smoothness"}, "select: got 'smoothness', but"),
    ],
)
def test_what_does_not_combine_is_refused_before_data_are_read(changes: dict[str, Any], message: str) -> None:
    with refused(message):
        jumbot.adapt("no/such/file.csv", "nor/this.csv", **{"task": "regression", **changes})


@pytest.mark.parametrize("rule", ["smoothness", "source_validation", "transport", "oracle"])
def test_rules_of_selection_for_numbers(rule: str) -> None:
    X, y = _shifted(0, 100)
    model = jumbot.adapt((X, y), (X + 1, y), select=rule, evaluate_every=5, **SHORT, method="jumbot", judge=False)
    assert model.results["rule"] == rule
    assert model.results["selected_step"] in (5, 10, 15, 20)


@pytest.mark.slow
def test_above_source_only_on_a_shift_with_a_known_answer() -> None:
    """The target is the source moved in its inputs, so that the answer of each sample is known."""
    source, target = _shifted(0, 600), _shifted(1, 600, shift=1.0)
    without, adapted = (
        jumbot.adapt(source, target, task="regression", method=name, steps=400, seed=0).results["rmse"]
        for name in ("source-only", "jumbot")
    )
    assert adapted < 0.85 * without


def test_several_columns_of_numbers_from_a_table(tmp_path: Path, rng: np.random.Generator) -> None:
    X = rng.normal(size=(60, 2))
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(height=170 + 10 * X[:, 0], weight=70 - 5 * X[:, 1])
    frame.to_csv(tmp_path / "people.csv", index=False)
    how = {"task": "regression", "steps": 10, "seed": 0}
    model = jumbot.adapt(
        tmp_path / "people.csv",
        frame[["v", "u"]],
        label="height, weight",
        out=tmp_path / "run",
        **how,
        method="jumbot",
        judge=False,
    )
    np.testing.assert_array_equal(model.predict(frame), jumbot.load(tmp_path / "run").predict(frame[["u", "v"]]))
    listed = jumbot.adapt(frame, frame, label=["height", "weight"], **how, method="jumbot", judge=False)
    np.testing.assert_allclose(listed.predict(frame), model.predict(frame), rtol=1e-5)
    arrays = jumbot.adapt(
        (frame[["u", "v"]], frame[["height", "weight"]].to_numpy()),
        frame[["u", "v"]],
        **how,
        method="jumbot",
        judge=False,
    )
    np.testing.assert_allclose(arrays.predict(frame[["u", "v"]]), model.predict(frame), rtol=1e-5)
    assert list(pd.read_csv(tmp_path / "run" / "predictions.csv"))[1:3] == ["prediction_height", "prediction_weight"]
    found = model.evaluate(frame)
    assert [one["name"] for one in found.to_json()["per_output"]] == ["height", "weight"]
    assert "  weight: RMSE" in str(found)
    for label, message in (
        ("height,width", "label: column 'width'"),
        ("height,height", "names a column twice"),
    ):
        with refused(message):
            jumbot.adapt(frame, frame, label=label, **how, method="jumbot", judge=False)
    with refused("label"):
        jumbot.adapt(frame, frame.drop(columns="weight"), label="height,weight", **how, method="jumbot", judge=False)
    with refused("task='regression'"):
        jumbot.adapt(frame, frame, label="height,weight", steps=10, method="jumbot", judge=False)


def test_source_only_is_handed_over_where_the_numbers_cannot_be_estimated() -> None:
    """The inputs are the same and the numbers half as large again: nothing but labels could tell, as with the bikes."""
    (X, y), (T, truth) = _shifted(0, 400), _shifted(1, 400)
    model = jumbot.adapt((X, y), (T, 1.5 * truth + 1), task="regression", steps=40, seed=0)
    assert model.decision is not None
    assert model.decision.method == model.method["name"] == "source-only"
    assert "cannot be determined without labels" in model.decision.why
    alone = jumbot.adapt((X, y), T, task="regression", steps=40, seed=0, method="source-only")
    np.testing.assert_array_equal(model.predict(T), alone.predict(T))


def test_numbers_of_signals_are_not_adapted_unasked(rng: np.random.Generator) -> None:
    """Where no fold is trained there is no evidence, and JUMBOT must be named."""
    y = rng.uniform(0.5, 2, 80)
    X = np.sin(np.arange(32) * y[:, None, None]) + 0.1 * rng.normal(size=(80, 2, 32))
    how: dict[str, Any] = {"task": "regression", "kind": "signal", "steps": 3, "source_steps": 2, "seed": 0}
    model = jumbot.adapt((X, y), X, **how)
    assert model.decision is not None
    assert (model.method["name"], model.decision.asked) == ("source-only", False)
    assert "cannot be determined without labels" in model.decision.why
    assert jumbot.adapt((X, y), X, method="jumbot", **how).method["name"] == "jumbot"


def test_the_network_follows_held_out_error(rng: np.random.Generator) -> None:
    """Noise asks for a smooth network, a wave for many bins; an option that was given is kept."""
    X = rng.uniform(size=(160, 3))
    noisy = X[:, 0] + 2 * rng.normal(size=160)
    wave = np.sin(25 * X[:, 0])
    how: dict[str, Any] = {"task": "regression", "method": "source-only", "steps": 60, "seed": 0}
    assert jumbot.adapt((X, noisy), X, **how).spec["bins"] == 8
    assert jumbot.adapt((X, wave), X, **how).spec["bins"] == 32
    assert jumbot.adapt((X, noisy), X, bins=32, judge=False, **how | {"steps": 2}).spec["bins"] == 32
