"""Models of tables: the columns that they were trained on, by name, in predictions, evaluations and files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jumbot
from jumbot.adaptation._model import Model
from jumbot.errors import NotFiniteError
from tests.refusals import refused

FEATURES = ["a", "b", "c", "colour"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 240)
    numbers = rng.normal(size=(240, 3)) + 3 * np.eye(3)[y]
    frame = pd.DataFrame(numbers, columns=["a", "b", "c"])
    frame["colour"] = rng.choice(["red", "blue"], 240)
    frame.loc[5:20, "b"] = np.nan
    return frame.assign(outcome=np.array(["x", "y", "z"])[y], key=[f"k{i}" for i in range(240)])


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Model:
    source, target = frame[:120], frame[120:].drop(columns=["outcome", "key"])
    out = tmp_path_factory.mktemp("runs") / "run"
    return jumbot.adapt(
        source, target, label="outcome", id="key", steps=80, out=out, seed=0, method="jumbot", judge=False
    )


def test_columns_in_another_order_are_predicted_alike(model: Model, frame: pd.DataFrame, tmp_path: Path) -> None:
    target = frame[120:].drop(columns=["outcome", "key"])
    target.to_csv(tmp_path / "target.csv", index=False)
    target[target.columns[::-1]].to_csv(tmp_path / "reversed.csv", index=False, sep=";")
    expected = model.predict_proba(target)
    for file in ("target.csv", "reversed.csv"):
        np.testing.assert_allclose(model.predict_proba(tmp_path / file), expected, atol=1e-6)
    found = model.evaluate(frame[120:])  # the label is known by its name
    assert found.accuracy > 0.9
    assert (model.predict(target) == frame["outcome"][120:]).mean() == pytest.approx(found.accuracy)


def test_missing_and_renamed_columns_are_refused(model: Model, frame: pd.DataFrame, tmp_path: Path) -> None:
    with refused("'b'"):
        model.predict(frame.drop(columns="b"))
    with refused("'b'.*'B'.*'b'"):
        model.evaluate(frame.rename(columns={"b": "B"}))
    with refused("'colour'"):
        model.predict(np.zeros((2, 4)))
    with refused("label"):
        model.evaluate(frame.drop(columns="outcome"), label="result")


def test_the_preprocessing_is_in_the_file(model: Model, frame: pd.DataFrame, tmp_path: Path) -> None:
    saved = model.save(tmp_path)
    stored = json.loads((saved / "model.json").read_text())["input"]["columns"]
    assert [column["name"] for column in stored["columns"]] == FEATURES
    assert stored["columns"][1]["fill"] == pytest.approx(frame["b"][:120].median())
    assert stored["columns"][3]["categories"] == ["blue", "red"]
    again = jumbot.load(saved)
    assert again.input == model.input
    later = frame[["colour", "c", "key", "b", "a"]]
    np.testing.assert_array_equal(again.predict(later), model.predict(later))
    assert again.domain(later).ids[:2] == ["k0", "k1"]


def test_frames_and_arrays_give_the_same_model(frame: pd.DataFrame) -> None:
    numbers = frame[["a", "c"]]
    options = {"steps": 20, "seed": 3, "standardise": "source"}
    one = jumbot.adapt((numbers[:120], frame["outcome"][:120]), numbers[120:][["c", "a"]], **options)
    values = numbers.to_numpy()
    two = jumbot.adapt((values[:120], frame["outcome"][:120].tolist()), values[120:], **options)
    for name, weight in one.network.state_dict().items():
        assert weight.equal(two.network.state_dict()[name]), name
    np.testing.assert_array_equal(one.predict(numbers), two.predict(values))
    with pytest.warns(UserWarning, match="in order, a, c"):
        one.predict(values)


def test_models_without_names_are_still_read(frame: pd.DataFrame, tmp_path: Path) -> None:
    values = frame[["a", "c"]].to_numpy()
    model = jumbot.adapt((values, frame["outcome"].tolist()), values, steps=5, method="jumbot", judge=False)
    saved = model.save(tmp_path)
    described = json.loads((saved / "model.json").read_text())
    del described["input"]["columns"]  # as version 0.1 wrote it
    (saved / "model.json").write_text(json.dumps(described))
    np.testing.assert_array_equal(jumbot.load(saved).predict(values), model.predict(values))


def test_an_unlabelled_target_with_a_named_label(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame[:120].drop(columns="key").to_csv(tmp_path / "source.csv", index=False)
    frame[120:].drop(columns=["outcome", "key"]).to_csv(tmp_path / "target.csv", index=False)
    model = jumbot.adapt(
        tmp_path / "source.csv", tmp_path / "target.csv", label="outcome", steps=5, method="jumbot", judge=False
    )
    assert model.classes == ("x", "y", "z")
    with refused("label"):
        jumbot.adapt(tmp_path / "source.csv", tmp_path / "target.csv", label="outcom", method="jumbot", judge=False)


def test_a_column_in_units_of_its_own_is_named(frame: pd.DataFrame) -> None:
    wild = frame[["a", "c", "outcome"]].assign(income=np.random.default_rng(1).normal(1e30, 1e29, 240))
    with pytest.raises(NotFiniteError, match=r"'income'.*1\.\d+e\+30 .*standardise='source'"):
        jumbot.adapt(wild, wild, label="outcome", steps=50, standardise="none", method="jumbot", judge=False)
