"""Dates and free text as numbers, against Python's calendar and scikit-learn's own vectoriser and decomposition."""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

from jumbot.data import InputFormat, as_domain, prepare
from jumbot.data._encoders import BUCKETS, Dates, NotADateError, find_dates, find_texts, read_date
from jumbot.errors import DataWarning
from tests.refusals import refused

WORDS = [
    "engine",
    "brake",
    "wheel",
    "noise",
    "oil",
    "leak",
    "window",
    "door",
    "seat",
    "paint",
    "rust",
    "horn",
    "mirror",
]


def _frame(rng: np.random.Generator, rows: int = 60, **more: Any) -> pd.DataFrame:
    y = np.arange(rows) % 2
    days = pd.date_range("2023-11-20", periods=rows, freq="D")
    notes = [" ".join(rng.choice(WORDS[:8] if one else WORDS[7:], 6)) for one in y]
    return pd.DataFrame(
        {"age": rng.normal(40, 9, rows), "seen": days.strftime("%Y-%m-%d"), "note": notes, "label": y, **more}
    )


def _prepared(source: pd.DataFrame, target: pd.DataFrame, **how: Any) -> tuple[np.ndarray, np.ndarray, InputFormat]:
    a, b, format = prepare(as_domain(source), as_domain(target), standardise="none", **how)
    rows = [one.samples.batch(np.arange(len(one))).numpy() for one in (a, b)]
    return rows[0], rows[1], format


def test_dates_are_what_the_calendar_says(rng: np.random.Generator) -> None:
    first = datetime.datetime(1969, 12, 31)
    dates = [first + datetime.timedelta(days=int(day)) for day in [0, *rng.integers(0, 40_000, 200)]]
    found, _ = find_dates([date.date().isoformat() for date in dates])
    expected = [[d.year, d.month, d.weekday(), (d - first).days] for d in dates]
    np.testing.assert_array_equal(found.numbers([d.date().isoformat() for d in dates], "1970-01-01"), expected)


@pytest.mark.parametrize("kind", ["texts", "timestamps", "numpy", "dates", "day first", "with points", "american"])
def test_a_date_is_the_same_however_it_is_given(kind: str) -> None:
    days = pd.date_range("2023-11-20", periods=60, freq="D")
    given: dict[str, list[Any]] = {
        "texts": [*days.strftime("%Y/%m/%d")],
        "timestamps": [*days],
        "numpy": [*days.to_numpy()],
        "dates": [day.date() for day in days],
        "day first": [*days.strftime("%d/%m/%Y")],
        "with points": [*days.strftime("%d.%m.%y")],
        "american": [*days.strftime("%m-%d-%Y")],
    }
    found, middle = find_dates(given[kind])
    assert (found.first[:10], middle[:10]) == ("2023-11-20", "2023-12-20")
    np.testing.assert_array_equal(found.numbers(given[kind], middle)[:, 3], np.arange(60))


def test_day_and_month_that_cannot_be_distinguished_are_refused(rng: np.random.Generator) -> None:
    with refused("day/month.*month/day"):
        find_dates(["01/02/2024", "03/04/2024"])
    assert find_dates(["01/02/2024"], ["25/12/2024"])[0].order == "dmy", "the target may tell"
    with pytest.raises(NotADateError) as caught_date:
        find_dates(["01/02/2024", "13/13/2024", "25/12/2024"])
    assert caught_date.value.value == "13/13/2024"
    with refused("25/12/2024.*12/31/2024"):
        find_dates(["01/02/2024", "25/12/2024"], ["12/31/2024"])
    frame = _frame(rng, seen=["01/02/2024", "03/04/2024"] * 30)
    with refused("'seen'.*01/02/2024") as caught:
        prepare(as_domain(frame), as_domain(frame), dates=(), text=())
    assert caught.value.remedy == {"drop": ("seen",)}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2024-02-29 23:59:30", "2024-02-29T23:59:30"),
        ("2024-02-29T12:00Z", "2024-02-29T12:00:00"),
        ("2024-02-29 12:00+05:30", "2024-02-29T06:30:00"),
        ("29.2.24 1:05 pm", "2024-02-29T13:05:00"),
        ("31.12.99", "1999-12-31T00:00:00"),
        ("9999-12-31", "9999-12-31T00:00:00"),
    ],
)
def test_times_and_zones(text: str, wanted: str) -> None:
    assert read_date(text, "dmy").isoformat() == wanted


@pytest.mark.parametrize("text", ["2023-02-29", "2024-13-01", "2024-01-01 25:00", "2024-01-01 soon", "x", "", 7])
def test_what_is_no_date_is_refused(text: Any) -> None:
    with pytest.raises(NotADateError):
        read_date(text, "ymd")


def test_hours_count_where_the_source_has_them(rng: np.random.Generator) -> None:
    stamps = pd.date_range("2024-01-01", periods=60, freq="90min")
    frame = _frame(rng, seen=stamps).drop(columns="note")
    here, _, format = _prepared(frame, frame, dates=("seen",))
    assert format.columns is not None
    assert format.columns.features[1:] == ("seen: year", "seen: month", "seen: weekday", "seen: days", "seen: hour")
    np.testing.assert_allclose(here[:, 4], np.arange(60) / 16, atol=1e-6)
    np.testing.assert_allclose(here[:, 5], np.arange(60) * 1.5 % 24)


def test_a_missing_date_is_the_median_and_a_damaged_one_is_named(rng: np.random.Generator) -> None:
    source, target = _frame(rng), _frame(rng)
    target.loc[3, "seen"] = None
    _, there, _ = _prepared(source, target, dates=("seen",), text=("note",))
    assert there[3, 1:5].tolist() == [2023, 12, 2, 30]
    target.loc[4, "seen"] = "2023-02-30"
    with refused("'2023-02-30'.*4") as caught:
        prepare(as_domain(source), as_domain(target), dates=("seen",), text=("note",))
    assert caught.value.remedy == {"drop": ("seen",)}


def test_dates_beyond_the_sources_are_remarked_on(rng: np.random.Generator) -> None:
    later = pd.date_range("2025-01-01", periods=60, freq="D").strftime("%Y-%m-%d")
    with pytest.warns(DataWarning, match="'seen'.*60.*60"):
        prepare(as_domain(_frame(rng)), as_domain(_frame(rng, seen=later)), dates=(), text=())


def test_text_is_a_truncated_decomposition_of_hashed_ngrams(rng: np.random.Generator) -> None:
    many = ["".join(rng.choice([*"abcdefghij"], 6)) for _ in range(200)]
    texts = [" ".join(rng.choice(many[: 100 + row], 8)) for row in range(60)]
    found = find_texts(texts)
    assert found is not None
    count = HashingVectorizer(
        n_features=BUCKETS, analyzer="char_wb", ngram_range=(3, 5), alternate_sign=False, norm=None
    )
    counted = count.transform(texts)
    weighted = TfidfTransformer(sublinear_tf=True).fit_transform(counted)
    exact = TruncatedSVD(30, algorithm="arpack", random_state=0).fit_transform(weighted)
    ours = found.numbers(texts)
    assert ours.shape == (60, 30)
    np.testing.assert_allclose(abs(ours), abs(exact), atol=2e-3)
    np.testing.assert_allclose(ours @ ours.T, exact @ exact.T, atol=2e-3)


def test_text_is_stored_as_numbers(rng: np.random.Generator) -> None:
    source, target = _frame(rng), _frame(rng)
    target.loc[5, "note"] = None
    _, there, format = _prepared(source, target, dates=("seen",), text=("note",))
    stored = json.dumps(asdict(format))
    assert not any(word in stored for word in WORDS), "no word of the texts is in the model"
    again = InputFormat.from_dict(json.loads(stored))
    np.testing.assert_array_equal(again.numbers(as_domain(target.drop(columns="label"))).batch(np.arange(60)), there)
    assert (there[5, 5:] == 0).all()


def test_nothing_is_encoded_unless_asked_for(rng: np.random.Generator) -> None:
    frame = _frame(rng)
    with refused("'seen'.*--dates") as caught:
        prepare(as_domain(frame), as_domain(frame))
    assert caught.value.remedy == {"dates": ("seen",), "text": ("note",)}
    with refused("'note'.*text:.*--text"):
        prepare(as_domain(frame), as_domain(frame), dates=("seen",))
    with refused("dates"):
        prepare(as_domain(frame), as_domain(frame), dates=("sean",), text=())
    with refused("dates"):
        prepare(as_domain(frame), as_domain(frame), dates=("seen",), text=("seen", "note"))
    with refused("dates"):
        prepare(as_domain((np.ones((4, 2)), [0, 1, 0, 1])), as_domain(np.ones((4, 2))), dates=())


def test_columns_by_name_or_all_of_a_kind(rng: np.random.Generator) -> None:
    frame = _frame(rng)
    by_name, _, named = _prepared(frame, frame, dates=("seen",), text=("note",))
    all_of_them, _, _ = _prepared(frame, frame, dates=(), text=())
    np.testing.assert_array_equal(by_name, all_of_them)
    assert named.columns is not None
    assert [column.encoded_as for column in named.columns.columns] == [None, "dates", "text"]
    ward = _frame(rng, note=["north", "south"] * 30)
    assert _prepared(ward, ward, dates=(), text=())[2].columns.columns[2].categories == ("north", "south")  # type: ignore[union-attr]
    assert _prepared(ward, ward, dates=(), text=("note",))[2].columns.columns[2].text is not None  # type: ignore[union-attr]


def test_an_array_has_neither_dates_nor_text(rng: np.random.Generator) -> None:
    frame = _frame(rng)
    _, _, format = _prepared(frame, frame, dates=(), text=())
    with refused("'seen'"):
        format.apply(as_domain(np.ones((3, 3))))


def test_dates_are_frozen_with_the_source() -> None:
    found = Dates("2024-01-01T00:00:00", "2024-12-31T00:00:00", "dmy")
    assert found.numbers(["02/01/2023"], "2024-01-01")[0].tolist() == [2023.0, 1.0, 0.0, -364.0]
