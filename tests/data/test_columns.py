"""Columns of tables: matched by name, filled, encoded; what cannot be meant is refused by name."""

from __future__ import annotations

import datetime
import decimal
import json
import unicodedata
import warnings
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jumbot._settings.reading import Reading
from jumbot.data import InputFormat, as_domain
from jumbot.data import prepare as prepare_scaled
from jumbot.data._sources import read_domains
from jumbot.errors import ArgumentError
from tests.refusals import refused

ROWS = 24
prepare = partial(prepare_scaled, standardise="none")


def _frame(rng: np.random.Generator, **more: Any) -> pd.DataFrame:
    base = {"age": rng.normal(40, 9, ROWS), "height": rng.normal(1.7, 0.1, ROWS), "label": ["no", "yes"] * (ROWS // 2)}
    return pd.DataFrame({**base, **more})


def _numbers(domain: Any) -> np.ndarray:
    return domain.samples.batch(np.arange(len(domain))).numpy()


def test_columns_in_another_order_are_the_same(rng: np.random.Generator, tmp_path: Path) -> None:
    frame = _frame(rng)
    a, b, _ = prepare(as_domain(frame), as_domain(frame[["label", "height", "age"]]))
    np.testing.assert_array_equal(_numbers(a), _numbers(b))
    np.testing.assert_array_equal(_numbers(a), frame[["age", "height"]].to_numpy(np.float32))


def test_missing_and_renamed_columns_are_named(rng: np.random.Generator) -> None:
    source = as_domain(_frame(rng), name="clinic")
    with refused("ward"):
        prepare(source, as_domain(_frame(rng).drop(columns="height"), name="ward"))
    with refused("'height'.*'Height'.*'height'"):
        prepare(source, as_domain(_frame(rng).rename(columns={"height": "Height"}), name="ward"))
    with refused(r"ward:.*lacks:.*columns=\"shared\""):
        prepare(source, as_domain(_frame(rng, weight=np.ones(ROWS)), name="ward"))


def test_shared_columns_when_asked_for(rng: np.random.Generator) -> None:
    frame = _frame(rng)
    target = frame.drop(columns="age").assign(weight=1.0)
    a, b, format = prepare(as_domain(frame), as_domain(target), columns="shared")
    assert format.columns is not None
    assert (a.shape, b.shape, format.columns.names) == ((1,), (1,), ("height",))
    with refused("columns"):
        prepare(as_domain(frame), as_domain(frame.rename(columns={"age": "Age"})), columns="shared")
    with refused("got 'shared'"):
        prepare(as_domain(frame), as_domain(frame[["age", "height"]].to_numpy()), columns="shared")
    with refused("columns"):
        prepare(as_domain(frame), as_domain(frame), columns="common")


def test_missing_numbers_become_the_sources_median(rng: np.random.Generator) -> None:
    frame, target = _frame(rng), _frame(rng)
    frame.loc[3, "age"] = np.nan
    target.loc[[0, 5], "age"] = np.nan
    a, b, format = prepare(as_domain(frame), as_domain(target))
    median = np.float32(np.nanmedian(frame["age"]))
    assert format.columns is not None
    assert np.float32(format.columns.columns[0].fill) == median
    assert _numbers(a)[3, 0] == median
    assert _numbers(b)[[0, 5], 0].tolist() == [median, median]
    np.testing.assert_array_equal(_numbers(b)[1:5], target[["age", "height"]].to_numpy(np.float32)[1:5])


def test_categories_are_one_hot(rng: np.random.Generator) -> None:
    colours = ["red", "blue", None, "red"] * (ROWS // 4)
    source = _frame(rng, colour=colours, ward=pd.Categorical([7, 3] * (ROWS // 2)))
    target = _frame(rng, colour=["blue"] * (ROWS - 1) + ["green"], ward=[3.0] * ROWS)
    with pytest.warns(UserWarning, match=r"'colour'.*\('green'\)"):
        a, b, format = prepare(as_domain(source), as_domain(target))
    assert format.columns is not None
    assert format.columns.features == ("age", "height", "colour=blue", "colour=red", "ward=3", "ward=7")
    assert _numbers(a)[:4, 2:4].tolist() == [[0, 1], [1, 0], [0, 0], [0, 1]]
    assert _numbers(b)[[0, ROWS - 1], 2:].tolist() == [[1, 0, 1, 0], [0, 0, 1, 0]]


def test_numbers_of_every_kind(rng: np.random.Generator) -> None:
    frame = _frame(
        rng,
        flag=[True, False] * (ROWS // 2),
        nullable=pd.array([1, None, 3, 4] * (ROWS // 4), dtype="Int64"),
        exact=[decimal.Decimal("1.5"), None] * (ROWS // 2),
        boolean=[True, None] * (ROWS // 2),
    )
    a, _, _ = prepare(as_domain(frame), as_domain(frame))
    assert _numbers(a)[:4, 2:].tolist() == [[1, 1, 1.5, 1], [0, 3, 1.5, 1], [1, 3, 1.5, 1], [0, 4, 1.5, 1]]


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([f"patient number {i}" for i in range(ROWS)], r"'notes' contains free text: 24 different values in 24 rows"),
        ([f"{i}.5" for i in range(ROWS - 1)] + ["?"], r"'notes' contains numbers and text \('\?'\)"),
        ([*np.arange(1.5, ROWS), "?"], r"'notes' contains numbers and text \('\?'\)"),
        ([datetime.date(2024, 1, 1)] * ROWS, r"'notes' contains dates \(2024-01-01\)"),
        (["2024-01-01 10:00", None] * (ROWS // 2), "'notes' contains dates"),
        (["3/12/24"] * ROWS, "'notes' contains dates"),
        ([f"1,{100 + i}" for i in range(ROWS)], r"'notes' contains formatted numbers \('1,100'\)"),
        ([f"{i} %" for i in range(ROWS)], r"'notes' contains formatted numbers \('0 %'\)"),
        (pd.date_range("2024", periods=ROWS), "'notes' contains dates"),
        ([np.nan] * ROWS, "'notes' is empty"),
        ([[1, 2], [1]] * (ROWS // 2), "'notes' contains list values"),
        ([1j] * ROWS, "'notes' contains complex128 values"),
    ],
)
def test_columns_that_say_nothing_are_refused_with_the_remedy(
    rng: np.random.Generator, values: Any, match: str
) -> None:
    frame = _frame(rng, notes=values)
    with refused(match) as caught:
        prepare(as_domain(frame), as_domain(frame))
    assert "drop='notes'" in str(caught.value)
    prepare(as_domain(frame, drop="notes"), as_domain(frame, drop=["notes"]))


def test_few_numbers_with_other_signs_are_categories_with_a_word(rng: np.random.Generator) -> None:
    frame = _frame(rng, price=["$1,000", "$2,500", "$900"] * (ROWS // 3))
    with pytest.warns(UserWarning, match=r"'price'.*\('\$1,000'\)"):
        _, _, fitted = prepare(as_domain(frame), as_domain(frame))
    assert fitted.columns is not None
    assert fitted.columns.columns[-1].categories == ("$1,000", "$2,500", "$900")


def test_numbers_next_to_numbers_as_text_are_categories_with_a_word(rng: np.random.Generator) -> None:
    """As a workbook may have them; texts alone are categories without one."""
    frame = _frame(rng, size=[1, 2.5, "3"] * (ROWS // 3))
    with pytest.warns(UserWarning, match=r"'size'.*\('3'\)"):
        prepare(as_domain(frame), as_domain(frame))
    prepare(*[as_domain(frame.assign(size=["1", "2", "3"] * (ROWS // 3)))] * 2)


def test_a_column_whose_accent_is_stored_in_another_way_is_named(rng: np.random.Generator) -> None:
    """As files from macOS have it."""
    frame = _frame(rng, **{"ta\N{LATIN SMALL LETTER I WITH ACUTE}n": np.arange(1.5, ROWS + 1)})
    there = frame.rename(columns=lambda name: unicodedata.normalize("NFD", name))
    with refused("Rename"):
        prepare(as_domain(frame), as_domain(there))


def test_text_among_the_targets_numbers(rng: np.random.Generator) -> None:
    target = _frame(rng).astype({"age": object})
    target.loc[6, "age"] = "unknown"
    with refused("'age'.*'unknown'.*6"):
        prepare(as_domain(_frame(rng)), as_domain(target))


def test_numbers_in_another_dress(rng: np.random.Generator) -> None:
    source = _frame(rng, floor=[1, 2, 3] * (ROWS // 3))
    for floors in (pd.Categorical(source["floor"]), source["floor"].astype(str)):
        a, b, _ = prepare(as_domain(source), as_domain(source.assign(floor=floors)))
        np.testing.assert_array_equal(_numbers(a), _numbers(b))


def test_a_column_that_is_empty_in_the_target(rng: np.random.Generator) -> None:
    with pytest.warns(UserWarning, match="there:.*'age'"):
        prepare(as_domain(_frame(rng)), as_domain(_frame(rng).assign(age=None), name="there"))


def test_what_is_no_frame(rng: np.random.Generator) -> None:
    with refused("Series"):
        as_domain(_frame(rng).iloc[0])
    with refused(r"pandas\.DataFrame"):
        as_domain({"age": [1]})
    unlabelled = as_domain(_frame(rng)[["age", "height"]], name="here")
    with refused("here"):
        prepare(unlabelled, unlabelled)


def test_labels_that_are_among_the_features(rng: np.random.Generator) -> None:
    frame = _frame(rng).rename(columns={"label": "outcome"})
    with refused("'outcome'"):
        as_domain((frame, frame["outcome"]))
    with refused("'label'"):
        as_domain((_frame(rng), _frame(rng)["label"].tolist()))
    assert as_domain((frame.drop(columns="outcome"), frame["outcome"])).classes == ("no", "yes")


def test_infinity_is_named_by_column_and_line(rng: np.random.Generator, tmp_path: Path) -> None:
    frame = _frame(rng)
    frame.loc[2, "height"] = np.inf
    frame.to_csv(tmp_path / "x.csv", index=False)
    with refused(r"'height'.*1.*4.*x\.csv"):
        prepare(as_domain(tmp_path / "x.csv"), as_domain(tmp_path / "x.csv"))


@pytest.mark.parametrize("numbers", [np.arange(100, 100 + ROWS), np.arange(ROWS) ** 2 + 1, np.arange(ROWS)[::-1]])
def test_a_row_number_is_named_in_a_warning(rng: np.random.Generator, numbers: np.ndarray) -> None:
    frame = _frame(rng, record=numbers)
    with pytest.warns(UserWarning, match="'record'.*drop='record'"):
        prepare(as_domain(frame), as_domain(frame))
    _, b, format = prepare(as_domain(frame, id="record"), as_domain(frame, id="record"))
    assert b.ids == [str(n) for n in numbers]
    assert format.columns is not None
    assert format.columns.id == "record"


@pytest.mark.parametrize("name", ["Unnamed: 0", "patient_id", "PassengerId", "customerID", "Index", "row key"])
def test_numbers_of_rows_that_were_shuffled_are_known_by_their_name(rng: np.random.Generator, name: str) -> None:
    numbers = rng.permutation(10 * ROWS)[:ROWS]
    frame = _frame(rng, **{name: numbers})
    with pytest.warns(UserWarning, match=f"'{name}'"):
        prepare(as_domain(frame), as_domain(frame))
    frame = _frame(rng, grid=numbers, heat_index=numbers / 2)
    prepare(as_domain(frame), as_domain(frame))


@pytest.mark.parametrize("as_table", [True, False])
def test_digits_that_float32_loses(rng: np.random.Generator, as_table: bool) -> None:
    rows = pd.DataFrame({"u": rng.normal(size=ROWS), "time": 1.7e9 + 60 * rng.random(ROWS)})
    labels = np.arange(ROWS) % 2
    which, data = ("'time'", rows) if as_table else ("2", rows.to_numpy())
    with pytest.warns(UserWarning, match=rf"source:.*{which}.*17000000\d\d"):
        prepare(as_domain(data, labels, name="source"), as_domain(data))


def test_digits_of_whole_numbers_that_float32_loses() -> None:
    rows = np.stack([np.arange(ROWS), 1_700_000_000 + np.arange(ROWS)], axis=1).astype(np.int32)
    with pytest.warns(UserWarning, match=r"source: column 2 .*17000000\d\d"):
        prepare(as_domain(rows, np.arange(ROWS) % 2, name="source"), as_domain(rows))


def test_the_target_may_lack_labels_and_ids(rng: np.random.Generator) -> None:
    frame = _frame(rng).rename(columns={"label": "outcome"}).assign(patient=[f"p{i}" for i in range(ROWS)])
    source, target, _ = read_domains(frame, frame[["height", "age"]], reading=Reading(label="outcome", id="patient"))
    assert (target.labels, target.ids, source.classes) == (None, None, ("no", "yes"))
    prepare(source, target)
    with refused("source"):
        read_domains(frame[["age", "height"]], frame, reading=Reading(label="outcome"))
    with refused("source"):
        read_domains((np.zeros((2, 2)), [0, 1]), frame, reading=Reading(label="outcome"))


def test_a_feature_is_never_taken_for_the_targets_labels(rng: np.random.Generator) -> None:
    frame = _frame(rng).rename(columns={"label": "outcome", "age": "class"})
    source, target, _ = read_domains(frame, frame[["class", "height"]], reading=Reading(label="outcome"))
    assert source.roles is not None
    assert (source.roles.features, target.labels) == (("class", "height"), None)
    pair = frame[["class", "height"]], frame["outcome"]
    source, target, _ = read_domains(pair, frame[["class", "height"]])
    assert (source.classes, target.labels) == (("no", "yes"), None)


def test_columns_to_drop_must_exist_on_one_side(rng: np.random.Generator) -> None:
    frame = _frame(rng)
    source, target, _ = read_domains(frame.assign(notes="x"), frame, reading=Reading(drop=("notes",)))
    assert source.shape == target.shape == (2,)
    with refused("drop"):
        read_domains(frame, frame, reading=Reading(drop=("nots",)))
    with refused("drop"):
        as_domain(frame, drop="nots")
    with refused("'age'"):
        as_domain(frame, drop="age", id="age")


def test_frames_and_arrays_give_the_same_numbers(rng: np.random.Generator) -> None:
    frame = _frame(rng)
    X, y = frame[["age", "height"]].to_numpy(), frame["label"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a, b, format = prepare(as_domain((X, y)), as_domain(X + 1), standardise="source")
        c, d, named = prepare(as_domain(frame), as_domain(frame[["height", "age"]] + 1), standardise="source")
    np.testing.assert_array_equal(_numbers(a), _numbers(c))
    np.testing.assert_array_equal(_numbers(b), _numbers(d))
    assert (format.mean, format.std) == (named.mean, named.std)


def test_names_on_one_side_only(rng: np.random.Generator) -> None:
    frame = _frame(rng)[["height", "age", "label"]]  # by place, which is not that of the alphabet
    X = frame[["height", "age"]].to_numpy()
    for source, target in (
        (as_domain(frame), as_domain(X)),
        (as_domain((X, frame["label"])), as_domain(frame)),
    ):
        with pytest.warns(UserWarning, match="height, age"):
            a, b, _ = prepare(source, target)
        np.testing.assert_array_equal(_numbers(a), _numbers(b))
    with refused("data"):
        prepare(as_domain(frame), as_domain(np.zeros((4, 3))))
    named = as_domain(_frame(rng, colour=["red", "blue"] * (ROWS // 2)))
    with refused("'colour'"):
        prepare(named, as_domain(np.zeros((4, 3))))
    holed = frame.assign(age=np.nan)
    with (
        pytest.warns(UserWarning, match="the source had no column names"),
        refused("'age'.*24.*0"),
    ):
        prepare(as_domain((X, frame["label"])), as_domain(holed))


def test_the_preprocessing_survives_json(rng: np.random.Generator) -> None:
    frame = _frame(rng, colour=["red", "blue"] * (ROWS // 2), id=range(ROWS))
    _, b, format = prepare(as_domain(frame), as_domain(frame), standardise="source")
    again = InputFormat.from_dict(json.loads(json.dumps(asdict(format))))
    assert again == format
    assert again.columns is not None
    assert (again.columns.label, again.columns.id) == ("label", "id")
    shuffled = frame[["colour", "height", "age"]].assign(extra="ignored: later data may have more columns")
    np.testing.assert_array_equal(_numbers(again.apply(as_domain(shuffled))), _numbers(b))


def test_labels_in_another_order_than_their_rows(rng: np.random.Generator) -> None:
    X, y = _frame(rng)[["age"]], _frame(rng)["label"]
    assert as_domain((X, y.reset_index(drop=True))).classes == ("no", "yes")
    with refused(r"y\.loc"):
        as_domain((X, y.iloc[::-1]))


def test_rows_keep_the_names_of_a_frames_index(rng: np.random.Generator) -> None:
    frame = _frame(rng).set_index(pd.Index([f"p{i}" for i in range(ROWS)]))
    assert as_domain(frame).ids[:2] == ["p0", "p1"]
    assert as_domain(_frame(rng)).ids is None
    assert as_domain(_frame(rng).iloc[[5, 3]]).ids == ["5", "3"]


def test_frames_without_names(rng: np.random.Generator) -> None:
    X = rng.normal(size=(ROWS, 3))
    a, _, format = prepare(as_domain((pd.DataFrame(X), [0, 1] * (ROWS // 2))), as_domain(X))
    np.testing.assert_array_equal(_numbers(a), X.astype(np.float32))
    assert format.columns is not None
    assert not format.columns.named
    with refused(r"\b2\b"):
        as_domain(pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])))
    with refused("'a'"):
        as_domain(pd.DataFrame(X, columns=["a", "b", "a"]))


def test_everything_in_the_way_is_listed_at_once_with_options_that_would_do(rng: np.random.Generator) -> None:
    odd = {
        "patient_id": [f"p{i:03}" for i in range(ROWS)],
        "seen": ["2024-01-01"] * ROWS,
        "empty": [np.nan] * ROWS,
        "my notes": [f"text {i}" for i in range(ROWS)],
    }
    source, target = _frame(rng, **odd), _frame(rng, **odd, more=1.0)
    with pytest.raises(ArgumentError) as caught:
        prepare(as_domain(source), as_domain(target))
    message = str(caught.value)
    for what in ("'patient_id' contains free text", "'seen' contains dates", "'empty' is empty", "lacks: more"):
        assert what in message
    assert message.endswith("Try: --columns shared --id patient_id --dates seen --text 'my notes' --drop empty")
    own = {"drop": "empty", "id": "patient_id"}
    how = {"columns": "shared", "dates": ("seen",), "text": ("my notes",)}
    prepare(as_domain(source, **own), as_domain(target, **own), **how)


def test_the_id_is_offered(rng: np.random.Generator) -> None:
    frame = _frame(rng, case=[f"c{i}" for i in range(ROWS)])
    with refused(r"\(--id case\)") as caught:
        prepare(as_domain(frame), as_domain(frame))
    assert caught.value.remedy == {"id": "case"}
