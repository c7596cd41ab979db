"""Tables in files, of every format, read by pandas."""

from __future__ import annotations

import csv
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from jumbot._base.files import first_line
from jumbot._settings.reading import TaskName
from jumbot.data._column_kinds import few
from jumbot.data._delimited import names_in, read_text
from jumbot.data._frames import NOTHING, Table, checked, pandas, unfold, words_of
from jumbot.data._remarks import remark
from jumbot.errors import ArgumentError, missing

TEXT = (".csv", ".tsv", ".tab")
_HEAD = 4096  # bytes of a part of a workbook, within which its markup begins
_PIECE = 2**20  # bytes of a sheet that are looked at together
_ERROR = re.compile(  # a cell whose value is an error; #N/A means that it is missing
    rb'<c (?=[^>]*\bt="e")[^>]*\br="([A-Z]+[0-9]+)"[^>]*>(?:(?!</c>).)*?<v>(?!#N/A)', re.DOTALL
)
FORMATS = (*TEXT, *(f"{ending}.gz" for ending in TEXT), ".parquet", ".xlsx")


def ending(path: str | Path) -> str:
    """The ending that gives the format, with ".csv.gz" as one."""
    parts = [suffix.lower() for suffix in Path(path).suffixes]
    return "".join(parts[-2:]) if parts[-1:] == [".gz"] else "".join(parts[-1:])


_kept: ContextVar[dict[tuple[Path, str | None], Table] | None] = ContextVar("kept", default=None)


@contextmanager
def tables_cached() -> Iterator[None]:
    """Within this block each file is read once."""
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def read_table(path: Path, sheet: str | None = None) -> Table:
    """The table in a file; `sheet` may name one of a workbook."""
    kept = _kept.get()
    if kept is None:
        return _read(path, sheet)
    if (path, sheet) not in kept:
        kept[path, sheet] = _read(path, sheet)
    return kept[path, sheet]


def _read(path: Path, sheet: str | None) -> Table:
    pd = pandas()
    kind = ending(path)
    try:
        if kind == ".parquet":
            frame = _parsed(path, pd.read_parquet)
            if frame.index.name is not None:  # pandas stores a named index beside the columns
                frame = frame.reset_index()
            frame = unfold(frame.set_axis([str(c) for c in frame.columns], axis=1))
            return Table(checked(frame, str(path)), True, str(path))
        if kind == ".xlsx":
            return _read_workbook(path, sheet)
        with _long_fields():
            return read_text(path, kind)
    except ArgumentError:
        raise
    except ImportError as error:
        raise missing(error, str(path), "adapt", "another package") from error
    except (OSError, EOFError, ValueError, KeyError, BadZipFile, csv.Error, zlib.error) as error:
        raise ArgumentError(f"{path}: cannot be read ({first_line(error)}).") from error


@contextmanager
def _long_fields() -> Iterator[None]:
    """Fields of any length: the limit of Python's csv is shorter than a line of 100,000 columns."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _parsed(path: Path, parse: Callable[..., Any], **options: Any) -> Any:
    """A file read by another package; any exception becomes an error about the file."""
    try:
        return parse(path, **options)
    except (ImportError, OSError):
        raise
    except Exception as error:
        raise ArgumentError(f"{path}: cannot be read ({first_line(error)}).") from error


def _check_markup(path: Path) -> None:
    """Refuse a workbook that defines entities: no program writes them, and ten lines of them can fill any memory.

    Cells with an error such as #DIV/0!, which are read as missing, are remarked on.
    """
    errors: list[str] = []
    with ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith((".xml", ".rels")):
                with archive.open(name) as part:
                    if b"<!DOCTYPE" in part.read(_HEAD):
                        raise ArgumentError(f"{path}: cannot be read ({name} defines entities, as no workbook does).")
            if name.startswith("xl/worksheets/"):
                with archive.open(name) as part:
                    errors += _cells_with_errors(part)
    if errors:
        remark(
            f"{path}: {len(errors)} cells contain an error such as #DIV/0! ({few(errors)}), which is read as missing.",
            stacklevel=4,
        )


def _cells_with_errors(sheet: IO[bytes]) -> list[str]:
    """Their names, such as C6."""
    found, kept = list[str](), b""
    while piece := sheet.read(_PIECE):
        whole, _, rest = (kept + piece).rpartition(b"<c ")
        found += [match[1].decode() for match in _ERROR.finditer(whole)]
        kept = b"<c " + rest if whole else kept + piece
    return found + [match[1].decode() for match in _ERROR.finditer(kept)]


def _read_workbook(path: Path, sheet: str | None) -> Table:
    _check_markup(path)
    sheets = _parsed(
        path,
        pandas().read_excel,
        sheet_name=None,
        header=None,
        dtype=object,
        engine="openpyxl",
        keep_default_na=False,
        na_values=[""],
    )
    filled = {str(key): rows.dropna(how="all") for key, rows in sheets.items()}
    filled = {key: rows for key, rows in filled.items() if len(rows)}
    if not filled:
        raise ArgumentError(f"{path}: contains no rows.")
    if sheet is None and len(filled) > 1:
        listed = ", ".join(filled)
        raise ArgumentError(f"{path}: has the sheets {listed}; choose one, e.g. {path.name}:{next(iter(filled))}.")
    if sheet is not None and len(filled) > 1 and sheet not in filled:
        raise ArgumentError(f"{path}: sheet {sheet!r} does not exist; the workbook has {', '.join(filled)}.")
    sheet = sheet if sheet in filled else None
    rows = next(iter(filled.values())) if sheet is None else filled[sheet]
    names = names_in(
        ["" if value is None or value != value else str(value) for value in rows.iloc[0]], False, str(path)
    )
    frame = rows.iloc[int(names is not None) :].set_axis(names or [str(i + 1) for i in range(rows.shape[1])], axis=1)
    written = frame.set_axis(frame.index + 1, axis=0)
    frame = written.mask(written.isin(NOTHING)).infer_objects()
    empty = [name for name in frame.columns if name.startswith("Unnamed: ") and frame[name].isna().all()]
    return Table(
        checked(frame.drop(columns=empty), str(path)),
        names is not None,
        str(path),
        sheet=sheet,
        words=words_of(frame, written),
    )


_PLAIN = re.compile(r"-?(0|[1-9]\d*)")
_CODE = re.compile(r"[-+]?0\d+")
_EXACT = 2**53  # float64 counts no further


def label_values(table: Table, column: str, task: TaskName | None) -> np.ndarray:
    """The labels in a column as numpy has them, None where one is missing.

    In a text file `1`, `01` and `2` are three classes, as they are where a column is declared to be text: labels that
    are whole numbers are read as such only if no two become equal and no zero or digit is lost.  Numbers to predict are
    always read as numbers.
    """
    values = table.frame[column]
    if isinstance(values.dtype, pandas().StringDtype):  # an object for each text, not for each row
        codes, distinct = pandas().factorize(values)
        return np.array([*distinct.tolist(), None], dtype=object)[codes]
    found: np.ndarray = values.to_numpy()
    if found.dtype.kind in "mM":
        return found
    if found.dtype.kind in "fiub":
        as_numbers = table.texts is None or task == "regression"
        texts = None if as_numbers else _texts_that_say_more(found, table, column)
        return found if texts is None else texts
    if table.texts is not None and values.map(lambda one: isinstance(one, bool), na_action="ignore").any():
        values = table.as_written(column).where(values.notna(), None)  # truth values beside missing ones
    return np.array([None if missing else v for v, missing in zip(values, values.isna(), strict=True)], dtype=object)


def _texts_that_say_more(numbers: np.ndarray, table: Table, column: str) -> np.ndarray | None:
    """The labels as written, if reading them as numbers would lose something."""
    if numbers.dtype.kind == "f" and (np.nan_to_num(numbers, posinf=0.5, neginf=0.5) % 1 != 0).any():
        return None  # fractions: numbers to predict
    assert table.texts is not None
    codes, distinct = pandas().factorize(table.texts(column).reindex(table.frame.index))
    names = [None if text == "" or text in NOTHING else text for text in distinct.tolist()]
    first = np.zeros(len(names), int)
    rows = np.flatnonzero(codes >= 0)[::-1]
    first[codes[rows]] = rows  # the first row of each text
    kept = {name: number for name, number in zip(names, numbers[first].tolist(), strict=True) if name is not None}
    merged = len({*kept.values()}) < len(kept)
    if numbers.dtype.kind == "b" or merged or any(_loses(text, number) for text, number in kept.items()):
        return np.array([*names, None], dtype=object)[codes]
    return None


def _loses(text: str, number: float) -> bool:
    if _CODE.fullmatch(text):
        return True
    return _PLAIN.fullmatch(text) is not None and (abs(number) > _EXACT or int(text) != number)


def with_codes(table: Table, columns: tuple[str, ...]) -> Table:
    """`table` with codes such as 007 as written, in these `columns`."""
    codes = {column: table.as_written(column) for column in columns if column in table.codes}
    codes = {column: written.where(table.frame[column].notna(), None) for column, written in codes.items()}
    return replace(table, frame=table.frame.assign(**codes)) if codes else table
