"""Labels, names of rows and codes of a text file are what is written, unless nothing is lost by reading numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jumbot
from jumbot.data import as_domain, prepare
from jumbot.data._tablefiles import label_values, read_table
from jumbot.data._tables import domains_of, read_points
from tests.refusals import refused


def _csv(path: Path, labels: list[str], **columns: list[str]) -> Path:
    """Each label ten times, beside a number."""
    rows = [label for label in labels for _ in range(10)]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"u": rng.normal(size=len(rows)).round(3).astype(str)})
    for name, values in columns.items():
        frame[name] = [value for value in values for _ in range(len(rows) // len(values))]
    frame.assign(label=rows).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("written", "classes"),
    [
        (["1", "01", "2"], ("01", "1", "2")),
        (["1e2", "100", "7"], ("7", "100", "1e2")),
        (["007", "008"], ("007", "008")),
        (["1", "1.0", "2"], ("1", "2", "1.0")),
        (["12345678901234567890", "12345678901234567891"], ("12345678901234567890", "12345678901234567891")),
        (["9007199254740993", "9007199254740992", ""], ("9007199254740992", "9007199254740993")),
        (["true", "True", "false"], ("True", "false", "true")),
        (["true", "false", ""], ("false", "true")),
        # numbers in every row, and nothing is lost
        (["1.0", "2.0", ""], ("1", "2")),
        (["1", "2", "NA"], ("1", "2")),
        (["-1", "10", "9"], ("-1", "9", "10")),
    ],
)
@pytest.mark.parametrize("separator", [",", ";"])
def test_labels_stay_apart(tmp_path: Path, written: list[str], classes: tuple[str, ...], separator: str) -> None:
    path = _csv(tmp_path / "x.csv", written)
    path.write_text(path.read_text().replace(",", separator))
    read = as_domain(path)
    assert read.classes == classes
    assert read.labels is not None
    assert len({*read.labels.tolist()} - {-1}) == len(classes)


def test_every_format_has_the_same_classes(tmp_path: Path) -> None:
    frame = pd.DataFrame({"u": np.arange(9.0), "id": [f"{i:04}" for i in range(9)], "label": ["1", "01", "2"] * 3})
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_excel(tmp_path / "x.xlsx", index=False)
    read = [as_domain(tmp_path / f"x.{ending}") for ending in ("csv", "parquet", "xlsx")]
    assert len({domain.classes for domain in read}) == 1
    assert all(list(domain.ids) == frame["id"].tolist() for domain in read)


def test_the_two_spellings_of_a_number_are_named(tmp_path: Path) -> None:
    read = as_domain(_csv(tmp_path / "x.csv", ["1", "01", "2"]))
    with pytest.warns(UserWarning, match="'01' and '1' are two classes; pass them one name if they are the same"):
        prepare(read, read)


def test_names_of_rows_are_as_written(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,u,label\n0000,1,a\n0001,2,b\n1e3,3,a\n,4,b\n")
    assert as_domain(path).ids == ["0000", "0001", "1e3", ""]
    pd.DataFrame({"id": [7, None, 9], "u": [1, 2, 3]}).to_excel(tmp_path / "x.xlsx", index=False)
    assert as_domain(tmp_path / "x.xlsx").ids == ["7", "", "9"]


def test_names_of_rows_join_predictions_to_the_file(tmp_path: Path) -> None:
    source = _csv(tmp_path / "s.csv", ["a", "b"], id=[f"{i:04}" for i in range(20)])
    frame = pd.DataFrame({"id": [f"{i:04}" for i in range(12)], "u": np.arange(12.0)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    jumbot.adapt(
        source, tmp_path / "t.csv", id="id", steps=2, out=tmp_path / "run", report=False, method="jumbot", judge=False
    )
    written = pd.read_csv(tmp_path / "run" / "predictions.csv", dtype={"id": str})
    assert written["id"].tolist() == frame["id"].tolist()


def test_domains_are_as_written(tmp_path: Path) -> None:
    path = _csv(tmp_path / "x.csv", ["a", "b"], domain=["1", "01"])
    assert domains_of(path) == ["01", "1"]
    assert len(as_domain(path, domain="01")) == 10


def test_codes_are_categories(tmp_path: Path) -> None:
    path = _csv(tmp_path / "x.csv", ["a", "b"], ward=["007", "7", "12", ""])
    source, _, format = prepare(as_domain(path), as_domain(path))
    assert format.columns is not None
    assert format.columns.features == ("u", "ward=007", "ward=12", "ward=7")
    assert source.shape == (4,)
    # what the source has as a number is one in the target however it is written
    plain = as_domain(_csv(tmp_path / "y.csv", ["a", "b"], ward=["5", "7", "12", "8"]))
    _, target, format = prepare(plain, as_domain(path), standardise="none")
    assert target.samples.batch(np.array([0, 5]))[:, 1].tolist() == [7.0, 7.0]
    (tmp_path / "z.csv").write_text("v,w\n01,3\n02,4\n")
    assert read_points(tmp_path / "z.csv")[0].tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_many_codes_are_asked_about(tmp_path: Path) -> None:
    path = _csv(tmp_path / "x.csv", ["a", "b", "c", "d"], zip=[f"{i:05}" for i in range(40)])
    with refused(r"column 'zip' contains codes that begin with a zero \('00000'\)"):
        prepare(as_domain(path), as_domain(path))


def test_numbers_to_predict_are_numbers_however_they_are_written(tmp_path: Path) -> None:
    path = _csv(tmp_path / "x.csv", ["1", "01", "1e2"])
    values = as_domain(path, task="regression").values
    assert values is not None
    assert sorted({*values.ravel().tolist()}) == [1.0, 100.0]


_LATE = ["7"] * 8


@pytest.mark.parametrize(
    "values",
    [
        [str(i) for i in range(9)],
        [*_LATE, "1.5"],
        [*_LATE, "x"],
        [*_LATE, "NA"],
        [*_LATE, ""],
        [*_LATE, "18446744073709551615"],
        ["", *_LATE],
        ["", "NA", "None", "", "", "", "red", "blue", "red"],
        ["True"] * 8 + ["None"],
        ["True"] * 3 + ["1"] * 6,
        ["True"] * 9,
        ["01", "1", "2", "3", "4", "5", "6", "7", "8"],
        ["1,5", *_LATE],
        ['"a, b"', "c", "d"] * 3,
        ["-0.1"] * 3 + ["1e3"] * 3 + ["1"] * 3,
    ],
)
@pytest.mark.parametrize("separator", [",", ";"])
def test_a_file_read_piece_by_piece_is_read_as_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: list[str], separator: str
) -> None:
    if separator == "," and "1,5" in values:
        values = [value.replace(",", ".") for value in values]
    rows = [f"{i}{separator}{value}{separator}{value}" for i, value in enumerate(values)]
    (tmp_path / "x.csv").write_text("\n".join(["u" + separator + "v" + separator + "label", *rows]) + "\n")
    table, labels = [], []
    for size in (10**6, 2):
        monkeypatch.setattr("jumbot.data._delimited._ROWS", size)
        table.append(read_table(tmp_path / "x.csv"))
        labels.append(label_values(table[-1], "label", None))
    pd.testing.assert_frame_equal(table[0].frame, table[1].frame, check_exact=True)
    assert [repr(one) for one in labels[0].tolist()] == [repr(one) for one in labels[1].tolist()]
    assert table[0].codes == table[1].codes
    for name in ("v", "label"):
        pd.testing.assert_series_equal(table[0].as_written(name), table[1].as_written(name))
        assert {**table[0].words}.keys() == {**table[1].words}.keys()
