"""One reader for every format: what is read equals what pandas wrote, and odd files are refused by name."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jumbot.data import as_domain, load_table
from jumbot.data._tablefiles import read_table
from jumbot.data._tables import domains_of, read_points
from tests.refusals import refused

FRAME = pd.DataFrame(
    {
        "age": [31.5, np.nan, 47.0, 52.25],
        "visits": [1, 2, 3, 40],
        "ward": ["east; wing", "west", None, "west, old"],
        "label": ["yes", "no", "no", "yes"],
    }
)


def _write(path: Path, frame: pd.DataFrame = FRAME) -> Path:
    separators = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".xlsx":
        frame.to_excel(path, index=False)
    else:
        frame.to_csv(path, index=False, sep=separators[path.with_suffix("").suffix or path.suffix])
    return path


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.tab", "x.csv.gz", "x.tsv.gz", "x.parquet", "x.xlsx", "X.CSV"])
def test_every_format_gives_the_same_table(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    _write(path if name != "X.CSV" else tmp_path / "x.csv")
    if name == "X.CSV":
        (tmp_path / "x.csv").rename(path)
    table = read_table(path)
    assert table.named
    read = table.frame.reset_index(drop=True)
    pd.testing.assert_frame_equal(
        read.astype({"ward": object, "label": object}),
        FRAME.astype({"ward": object, "label": object}),
        check_dtype=False,
    )
    domain = load_table(path)
    assert (domain.name.lower(), domain.classes, domain.roles.features) == (
        "x",
        ("no", "yes"),
        ("age", "visits", "ward"),
    )


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_separator_of_a_csv_is_found(tmp_path: Path, separator: str) -> None:
    FRAME.to_csv(tmp_path / "x.csv", index=False, sep=separator)
    assert read_table(tmp_path / "x.csv").frame.columns.tolist() == ["age", "visits", "ward", "label"]


def test_decimal_commas(tmp_path: Path) -> None:
    frame = pd.DataFrame({"u": [1.5, -2.25, np.nan], "v": [1.0, 2.0, 3.0], "label": ["a", "b", "a"]})
    frame.to_csv(tmp_path / "x.csv", sep=";", decimal=",", index=False)
    read = read_table(tmp_path / "x.csv").frame
    np.testing.assert_array_equal(read[["u", "v"]].to_numpy(float), frame[["u", "v"]].to_numpy())
    (tmp_path / "y.csv").write_text("1,5;2\n3;4,25\n")
    np.testing.assert_array_equal(read_points(tmp_path / "y.csv")[0], [[1.5, 2], [3, 4.25]])


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a\tb\n1,234\t3\n999\t4\n", r"'1,234' in column 'a' is read as 1\.234; if the comma separates thousands"),
        ("a;b\n0,5;1.234\n1,5;999\n", r"'0,5' in column 'a' is read as 0\.5 with decimal points in 'b'"),
        ("a;b\n1,234;0,5\n999;4\n", None),  # one column tells of the other
        ("a;b\n0,123;3\n1,234;4\n", None),
    ],
)
def test_commas_that_may_part_thousands(tmp_path: Path, text: str, read: str | None) -> None:
    (tmp_path / "x.csv").write_text(text)
    if read is None:
        read_points(tmp_path / "x.csv")[0]
    else:
        with pytest.warns(UserWarning, match=read):
            read_points(tmp_path / "x.csv")[0]


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_labels_that_say_none_are_named_and_ids_stand_as_written(tmp_path: Path, ending: str) -> None:
    frame = pd.DataFrame(
        {
            "u": ["NA", "2", "3", "4"],
            "id": ["NA", "b", "c", "d"],
            "domain": ["NA", "EU", "NA", "NA"],
            "kind": ["null", "red", "red", "red"],
            "label": ["None", "cat", "", "cat"],
        }
    )
    path = tmp_path / f"x.{ending}"
    (frame.to_csv if ending == "csv" else frame.to_excel)(path, index=False)
    with pytest.warns(UserWarning, match="'label'.*'None'.*1"):
        read = as_domain(path, domain="NA")
    assert (read.classes, read.ids) == (("cat",), ["NA", "c", "d"])
    assert read.labels is not None
    assert read.labels.tolist() == [-1, -1, 0]
    assert domains_of(path) == ["EU", "NA"]
    assert read.samples.table.frame.isna().sum().tolist() == [1, 1]
    # beside numbers it can only be missing
    frame.assign(label=["NA", "0", "1", "1"]).to_csv(tmp_path / "y.csv", index=False)
    assert as_domain(tmp_path / "y.csv", domain="NA").labels.tolist() == [-1, 0, 0]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "x.csv").write_bytes("größe,label\r\n1,ä\r\n2,b\r\n".encode(encoding))
    domain = load_table(tmp_path / "x.csv")
    assert (domain.roles.features, domain.classes) == (("größe",), ("b", "ä"))


def test_a_table_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes("größe,label\n1,ä\n".encode("latin-1"))
    with refused("UTF-8"):
        load_table(tmp_path / "x.csv")


def test_blank_lines_and_quoted_line_breaks_keep_their_place(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('a,note\n\n1,"two\nlines"\n\n2,b\n')
    table = read_table(tmp_path / "x.csv")
    assert table.frame["note"].tolist() == ["two\nlines", "b"]
    assert table.where(1) == f"line 6 of {tmp_path / 'x.csv'}"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a,b\n1,2\n3\n", "line 3 has 1 columns, but others have 2"),
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 columns, but others have 2"),
        ("a,a\n1,2\n", "several columns are named 'a'"),
        ("5.1,3.5,setosa\n4.9,3.0,virginica\n", "the first line contains '5.1'"),
        ("a,b\n", "contains no rows"),
        ("a|b|label\n1|2|x\n3|4|y\n", "separated by '|'"),
        ("", "contains no rows"),
        ('a,b\n1,"2\n', "line 3 has|cannot be read|has 1 columns"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, text: str, match: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    with refused(match):
        load_table(tmp_path / "x.csv")


def test_names_that_pandas_gives(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(4, 3) + 0.5
    pd.DataFrame(values).to_csv(tmp_path / "x.csv", index=False)
    np.testing.assert_array_equal(read_points(tmp_path / "x.csv")[0], values)  # 0,1,2 is no row
    pd.DataFrame(values).assign(label=[0, 1, 0, 1]).to_csv(tmp_path / "y.csv")
    domain = load_table(tmp_path / "y.csv")
    assert domain.roles.features == ("Unnamed: 0", "0", "1", "2")
    (tmp_path / "z.csv").write_text("a,b,\n1,2,\n3,4,\n")  # separators at the ends of lines
    assert load_table(tmp_path / "z.csv").roles.features == ("a", "b")


def test_sheets_of_a_workbook(tmp_path: Path) -> None:
    path = tmp_path / "two.xlsx"
    with pd.ExcelWriter(path) as writer:
        FRAME.to_excel(writer, sheet_name="2023", index=False)
        FRAME[:2].to_excel(writer, sheet_name="2024", index=False)
    with refused(r"2023, 2024.*e\.g\. two\.xlsx:2023"):
        as_domain(path)
    later = as_domain(f"{path}:2024")
    assert (later.name, len(later)) == ("2024", 2)
    with refused("'2025'"):
        as_domain(f"{path}:2025")


def test_domains_of_a_workbook_with_one_sheet(tmp_path: Path) -> None:
    FRAME.assign(domain=["a", "a", "b", "b"]).to_excel(tmp_path / "x.xlsx", index=False)
    assert as_domain(f"{tmp_path / 'x.xlsx'}:b").labels.tolist() == [0, 1]


def test_a_named_index_in_parquet_is_a_column(tmp_path: Path) -> None:
    FRAME.set_index("visits").to_parquet(tmp_path / "x.parquet")
    assert load_table(tmp_path / "x.parquet").roles.features == ("visits", "age", "ward")


@pytest.mark.parametrize("name", ["x.parquet", "x.xlsx", "x.csv.gz"])
def test_rubbish_cannot_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"rubbish")
    with refused(name):
        load_table(tmp_path / name)
    if name.endswith(".gz"):
        whole = gzip.compress(b"a,b\n" + b"1,2\n" * 9)
        flipped = [whole[:i] + bytes([whole[i] ^ 255]) + whole[i + 1 :] for i in range(10, len(whole))]
        for damaged in (whole[:-6], *flipped):
            (tmp_path / name).write_bytes(damaged)
            with refused(re.escape(name)):
                load_table(tmp_path / name)


def test_a_column_domain_that_is_an_ordinary_one(tmp_path: Path) -> None:
    FRAME.assign(domain=["web", "mail", "web", "mail"]).to_csv(tmp_path / "x.csv", index=False)
    assert len(as_domain(f"{tmp_path / 'x.csv'}:web")) == 2
    assert as_domain(tmp_path / "x.csv", domain="none").roles.features == ("age", "visits", "ward", "domain")
