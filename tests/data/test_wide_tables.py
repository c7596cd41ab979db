"""Tables of very many columns are looked at in blocks: nothing is different from one column after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jumbot.data import (
    _column_kinds,
    _columns,
    _delimited,
    _fitting,
    _row_kinds,
    _screening,
    _tables,
    as_domain,
    prepare,
)
from jumbot.data._remarks import noting
from jumbot.errors import ArgumentError

WIDTHS = [600, pytest.param(20_000, marks=pytest.mark.slow)]


def tables(width: int, rows: int = 30) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Columns of numbers, among them some of every kind that is looked at by itself."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(2, rows, width))
    here, there = (pd.DataFrame(block, columns=[f"g{i}" for i in range(width)]) for block in numbers)
    odd: dict[str, tuple[Any, Any]] = {
        "counts rows": (np.arange(rows), np.arange(rows) + 3),
        "patient_id": (rng.permutation(5 * rows)[:rows],) * 2,
        "too fine": (1.7e9 + np.arange(rows)[::-1] / 100, 1.7e9 + np.arange(rows) / 100),
        "some missing": (np.where(np.arange(rows) % 3, 1.5, np.nan), np.where(np.arange(rows) % 4, 2.5, np.nan)),
        "whole and missing": (np.where(np.arange(rows) % 3, np.arange(rows), np.nan),) * 2,
        "an even number of fractions": (np.where(np.arange(rows) % 5, rng.normal(size=rows), np.nan),) * 2,
        "empty there": (np.linspace(0, 1, rows) ** 2, np.full(rows, np.nan)),
        "mostly empty there": (np.linspace(0, 1, rows) ** 2, np.where(np.arange(rows) < 2, 0.5, np.nan)),
        "a code there": (np.linspace(1, 2, rows) ** 2, np.full(rows, -9.0)),
        "kelvins": (rng.normal(20, 2, rows), rng.normal(293.15, 2, rows)),
        "pounds": (rng.normal(70, 5, rows), rng.normal(154, 11, rows)),
        "small whole": (rng.integers(0, 5, rows).astype(np.int8), rng.integers(0, 5, rows).astype(np.int64)),
        "truth": (np.arange(rows) % 2 == 0, np.arange(rows) % 3 == 0),
        "place": (np.array(["north", "south"])[np.arange(rows) % 2], np.array(["north", "west"])[np.arange(rows) % 2]),
        "declared": (pd.array([1, 2, None] * (rows // 3), dtype="Int64"),) * 2,
    }
    for at, (name, (first, second)) in enumerate(odd.items()):
        here.insert(at * (width // len(odd)), name, first)
        there.insert(at, name, second)
    return here.assign(kind=np.array(["a", "b", "c"])[np.arange(rows) % 3]), there


def prepared(frames: tuple[pd.DataFrame, pd.DataFrame]) -> tuple[Any, ...]:
    with noting() as remarks, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source, target = as_domain(frames[0], label="kind"), as_domain(frames[1])
        here, there, format = prepare(source, target)
        rows = np.arange(len(source))
        return format, here.samples.batch(rows), there.samples.batch(rows), list(remarks)


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def patch() -> None:
        for module in (_columns, _fitting, _row_kinds, _screening, _tables):
            monkeypatch.setattr(module, "plain_columns", lambda frame: set())

    return patch


@pytest.mark.parametrize("width", WIDTHS)
def test_blocks_of_columns_are_as_columns_one_by_one(width: int, one_by_one: Callable[[], None]) -> None:
    frames = tables(width)
    format, here, there, remarks = prepared(frames)
    one_by_one()
    slow_format, slow_here, slow_there, slow_remarks = prepared(frames)
    assert format == slow_format
    assert remarks == slow_remarks
    for name in (
        "counts rows",
        "whole and missing",
        "patient_id",
        "too fine",
        "empty there",
        "mostly empty there",
        "kelvins",
        "place",
    ):
        assert any(name in remark for remark in remarks), name
    assert here.equal(slow_here)
    assert there.equal(slow_there)


def test_columns_with_missing_numbers_are_looked_at_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in most tables of measurements: a call of pandas for each of 100,000 columns takes a minute."""
    here = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 50))).rename(columns=str)
    here = here.mask(here > 1)
    looked_at: list[str] = []
    monkeypatch.setattr(_fitting, "_find", lambda table, column, *_: looked_at.append(column))
    columns = _fitting.find_columns(as_domain(here).samples.table, None, ("here", "there"))  # type: ignore[attr-defined]
    assert not looked_at
    assert [column.fill for column in columns.columns] == here.median().tolist()


@pytest.mark.parametrize(
    "renamed",
    [lambda i: f"h{i}", lambda i: f"G {i}"],
    ids=["other names", "other spelling"],
)
def test_many_columns_of_other_names_are_named_at_once(renamed: Callable[[int], str]) -> None:
    """Each with each would be 900 million comparisons."""
    width = 30_000
    here, there = (
        pd.DataFrame(np.zeros((2, width)), columns=[name(i) for i in range(width)]) for name in ("g{}".format, renamed)
    )
    for columns in ("same", "shared"):
        with pytest.raises(ArgumentError) as caught:
            prepare(as_domain((here, [0, 1])), as_domain(there), columns=columns)
        assert ("Rename" in str(caught.value) or "seem to be the same" in str(caught.value)) == (renamed(0) == "G 0")


@pytest.mark.parametrize(("value", "block"), [(np.inf, 2**20), (1e39, 50), (-np.inf, 1)])
def test_infinity_in_a_block_is_named(
    value: float, block: int, monkeypatch: pytest.MonkeyPatch, one_by_one: Callable[[], None]
) -> None:
    monkeypatch.setattr(_column_kinds, "_BLOCK", block)
    here, there = tables(40)
    there.loc[7, "g30"] = value
    with pytest.raises(ArgumentError) as caught:
        prepared((here, there))
    assert "column 'g30' contains infinity or a number beyond float32 in 1 rows" in str(caught.value)
    one_by_one()
    with pytest.raises(ArgumentError) as again:
        prepared((here, there))
    assert str(caught.value) == str(again.value)


@pytest.mark.parametrize("cells", [1, 60, 2**21])
def test_codes_are_found_among_many_columns(cells: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many columns are read again at once; a time of day makes the file look as if it held codes."""
    monkeypatch.setattr(_delimited, "_TEXTS", cells)
    rows = [[str(10 + i), f"{i:03}", f"12:{i:02}", "1.5", str(i % 2)] for i in range(20)]
    file = tmp_path / "codes.csv"
    file.write_text("\n".join(",".join(row) for row in [["plain", "code", "time", "size", "kind"], *rows]) + "\n")
    table = as_domain(str(file), label="kind").samples.table  # type: ignore[attr-defined]
    assert table.codes == {"code"}
    assert table.frame["code"].tolist() == [f"{i:03}" for i in range(20)]
    assert table.frame["plain"].tolist() == [10 + i for i in range(20)]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_files_are_read_piece_by_piece_in_every_encoding(encoding: str, newline: str, tmp_path: Path) -> None:
    signs = ["b", "\N{SNOWMAN}"]
    lines = ["größe,'k\N{SNOWMAN}'", *(f"{i / 8},{signs[i % 2]}" for i in range(3000))]
    (tmp_path / "t.csv").write_bytes((newline.join(lines) + newline).encode(encoding))
    frame = as_domain(str(tmp_path / "t.csv")).samples.table.frame  # type: ignore[attr-defined]
    assert frame.columns.tolist() == ["größe", "'k\N{SNOWMAN}'"]
    assert frame["größe"].tolist() == [i / 8 for i in range(3000)]
    assert frame.iloc[:2, 1].tolist() == signs
    assert frame.index.tolist() == list(range(2, 3002))


def test_many_columns_with_the_same_problem_are_counted() -> None:
    """A report of a thousand remarks would be read by nobody."""
    rng = np.random.default_rng(0)
    here = pd.DataFrame({f"g{i}": rng.choice(["north", "south"], 30) for i in range(300)})
    there = here.replace("south", "west")
    with noting() as remarks, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepare(as_domain((here, [0, 1] * 15)), as_domain(there))
    own = [remark for remark in remarks if "values that the source lacks" in remark]
    assert len(own) == 9
    assert "292 more columns" in own[-1]
