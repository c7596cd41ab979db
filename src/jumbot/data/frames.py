"""Tables as pandas frames: files of every kind, and frames of other libraries."""

from __future__ import annotations

import csv
import gzip
import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from jumbot.errors import ArgumentError, MissingPackageError, need

TEXT = (".csv", ".tsv", ".tab")
FORMATS = (*TEXT, *(f"{ending}.gz" for ending in TEXT), ".parquet", ".xlsx")
_SEPARATORS = ("\t", ";", ",")
_LOOKED_AT = 20  # lines by which the separator is found
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+(,\d+)?([eE][-+]?\d+)?\s*")


@dataclass(frozen=True)
class Table:
    """A pandas frame with distinct texts as names; its index says where a row stands in what it was read from."""

    frame: Any
    named: bool = True
    """Whether the columns have names of their own; "1", "2", ... stand for them otherwise."""
    place: str = "row {}"
    """How a row is called in messages: `place.format(frame.index[row])`."""
    sheet: str | None = None
    """The sheet of a workbook that was asked for."""

    def where(self, row: int) -> str:
        return self.place.format(self.frame.index[row])

    def rows(self, chosen: np.ndarray) -> Table:
        """Some of the rows."""
        return replace(self, frame=self.frame.iloc[chosen])


def pandas() -> Any:
    """The module, which is imported when a table is."""
    return need("pandas", "reading tables", "adapt")


def ending(path: str | Path) -> str:
    """The ending that says what a file is, ".csv.gz" whole."""
    parts = [suffix.lower() for suffix in Path(path).suffixes]
    return "".join(parts[-2:]) if parts[-1:] == [".gz"] else "".join(parts[-1:])


def is_frame(data: Any) -> bool:
    """Whether `data` is a frame of pandas or polars; neither is imported."""
    kind = type(data)
    return kind.__module__.partition(".")[0] in ("pandas", "polars") and kind.__name__ in ("DataFrame", "LazyFrame")


def as_table(data: Any, name: str) -> Table:
    """A frame of pandas or polars as a Table."""
    if type(data).__name__ == "LazyFrame":
        raise ArgumentError(f"{name}: a polars LazyFrame holds no rows yet; give data.collect().")
    frame = data.to_pandas() if type(data).__module__.startswith("polars") else data
    if frame.columns.nlevels > 1:
        raise ArgumentError(f"{name}: the columns have names of {frame.columns.nlevels} levels; give them one each.")
    width = frame.shape[1]
    if list(frame.columns) == list(range(width)):  # what pandas calls columns that were given no names
        frame = frame.set_axis([str(i + 1) for i in range(width)], axis=1)
        return Table(_checked(frame, name), named=False)
    _check_distinct(names := [str(column).strip() for column in frame.columns], name)
    return Table(_checked(unfold(frame.set_axis(names, axis=1)), name))


def unfold(frame: Any) -> Any:
    """`frame` with columns of lists of numbers, all of one length, as columns of numbers: embedding[0], ..."""
    parts = []
    for column in frame.columns:
        values = frame[column]
        if values.dtype == object and isinstance(next(iter(values), None), list | tuple | np.ndarray):
            lengths = {np.shape(value) for value in values}
            stacked = np.array(values.tolist()) if len(lengths) == 1 else np.empty(0, object)
            if stacked.ndim == 2 and stacked.dtype.kind in "fiub":
                names = [f"{column}[{i}]" for i in range(stacked.shape[1])]
                parts.append(pandas().DataFrame(stacked, index=frame.index, columns=names))
                continue
        parts.append(values.to_frame())
    return frame if len(parts) == frame.shape[1] == sum(p.shape[1] for p in parts) else pandas().concat(parts, axis=1)


def read_table(path: Path, sheet: str | None = None) -> Table:
    """The table in a file; `sheet` may name one of a workbook."""
    pd = pandas()
    kind = ending(path)
    try:
        if kind == ".parquet":
            frame = pd.read_parquet(path)
            if frame.index.name is not None:  # pandas stores a named index beside the columns
                frame = frame.reset_index()
            frame = unfold(frame.set_axis([str(c) for c in frame.columns], axis=1))
            return Table(_checked(frame, str(path)), True, _of(path))
        return _read_workbook(path, sheet) if kind == ".xlsx" else _read_text(path, kind)
    except ArgumentError:
        raise
    except ImportError as error:
        raise MissingPackageError(f"{path}: {error}; pip install 'jumbot[adapt]'.") from None
    except (OSError, EOFError, ValueError, KeyError, BadZipFile, csv.Error) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ArgumentError(f"{path}: cannot be read ({reason}).") from error


def _of(path: Path, row: str = "row") -> str:
    return f"{row} {{}} of {path}".replace("{}", "\0").replace("{", "{{").replace("}", "}}").replace("\0", "{}")


def _checked(frame: Any, name: str) -> Any:
    _check_distinct(frame.columns.tolist(), name)
    if not len(frame):
        raise ArgumentError(f"{name}: holds no rows.")
    return frame


def _check_distinct(names: Sequence[str], whose: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ArgumentError(f"{whose}: several columns are named {name!r}; names must differ.")
        seen.add(name)


def _read_text(path: Path, kind: str) -> Table:
    content = gzip.decompress(path.read_bytes()) if kind.endswith(".gz") else path.read_bytes()
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        raise ArgumentError(f'{path}: is not UTF-8; save it as such (in Excel: "CSV UTF-8").') from None
    separator = _separator(text) if kind.startswith(".csv") else "\t"
    first, lines = _lines(path, text, separator)
    names = _names(first, separator == ";", str(path))
    if not lines[names is not None :]:
        raise ArgumentError(f"{path}: holds no rows.")
    _check_distinct(names or (), str(path))
    pd = pandas()
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame = pd.read_csv(
            io.StringIO(text), sep=separator, header=None, skiprows=lines[0] if names is not None else 0,
            names=names or [str(i + 1) for i in range(len(first))], index_col=False, low_memory=False,
            skipinitialspace=True,
        )  # fmt: skip
    lines = lines[names is not None :]
    if len(frame) != len(lines):
        raise ArgumentError(f"{path}: cannot be read ({len(lines)} lines gave {len(frame)} rows; look at its quotes).")
    frame.index = pd.Index(lines)
    if separator != ",":
        frame = frame.apply(_with_decimal_point)
    empty = [name for name in frame.columns if name.startswith("Unnamed: ") and frame[name].isna().all()]
    return Table(_checked(frame.drop(columns=empty), str(path)), names is not None, _of(path, "line"))


def _separator(text: str) -> str:
    """The first of tab, ; and , that cuts every line into the same number of columns, two or more.

    In this order: commas may be decimal points between the others, the others are hardly ever data between commas.
    """
    head = "\n".join(text.splitlines()[:_LOOKED_AT])
    most = {}
    for separator in _SEPARATORS:
        widths = [len(fields) for fields in csv.reader(io.StringIO(head), delimiter=separator) if fields]
        if len({*widths}) == 1 and widths[0] > 1:
            return separator
        most[separator] = max(widths, default=0)
    return max(reversed(_SEPARATORS), key=lambda separator: most[separator])


def _lines(path: Path, text: str, separator: str) -> tuple[list[str], list[int]]:
    """The first line, and the number of the last line of every row; pandas would fill short rows without a word."""
    first: list[str] = []
    lines: list[int] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    for fields in reader:
        if not fields:
            continue
        first = first or fields
        lines.append(reader.line_num)
        if len(fields) != len(first):
            raise ArgumentError(
                f"{path}: line {reader.line_num} has {len(fields)} columns where others have {len(first)}."
            )
    if not first:
        raise ArgumentError(f"{path}: holds no rows.")
    return first, lines


def _names(first: list[str], decimal_comma: bool, name: str) -> list[str] | None:
    """Names of the columns, if that is what the first line holds."""
    fields = [field.strip() for field in first]
    numbers = [_number(field.replace(",", ".") if decimal_comma else field) for field in fields]
    counted = [field for field in fields if field] == [str(i) for i in range(len(fields) - (not fields[0]))]
    if None not in numbers and not (counted and len(fields) > 2):  # 0, 1, 2, ... is what pandas calls columns
        return None
    broken = [f for f, number in zip(fields, numbers, strict=True) if number is not None and number % 1 != 0 and f]
    if broken:
        raise ArgumentError(
            f"{name}: the first line holds {broken[0]!r} beside texts: names of columns or data? Put a line of names "
            "above the data."
        )
    return [field or f"Unnamed: {i}" for i, field in enumerate(fields)]


def _number(field: str) -> float | None:
    try:
        return float(field) if field else float("nan")
    except ValueError:
        return None


def _with_decimal_point(column: Any) -> Any:
    """ "1,5" as 1.5: files with ; or tab come from places where the comma is the decimal point."""
    if column.dtype.kind in "fiub":
        return column
    texts = column.dropna().astype(str)
    if not texts.str.contains(",").any() or not texts.str.fullmatch(_DECIMAL_COMMA).all():
        return column
    return texts.str.replace(",", ".").astype(float).reindex(column.index)


def _read_workbook(path: Path, sheet: str | None) -> Table:
    pd = pandas()
    sheets = pd.read_excel(path, sheet_name=None, header=None, dtype=object, engine="openpyxl")
    filled = {str(key): rows.dropna(how="all") for key, rows in sheets.items()}
    filled = {key: rows for key, rows in filled.items() if len(rows)}
    if not filled:
        raise ArgumentError(f"{path}: holds no rows.")
    if sheet is None and len(filled) > 1:
        listed = ", ".join(filled)
        raise ArgumentError(f"{path}: has the sheets {listed}; choose one, e.g. {path.name}:{next(iter(filled))}.")
    if sheet is not None and len(filled) > 1 and sheet not in filled:
        raise ArgumentError(f"{path}: there is no sheet {sheet!r}; there are {', '.join(filled)}.")
    sheet = sheet if sheet in filled else None
    rows = next(iter(filled.values())) if sheet is None else filled[sheet]
    names = _names(["" if value is None or value != value else str(value) for value in rows.iloc[0]], False, str(path))
    frame = rows.iloc[int(names is not None) :].set_axis(names or [str(i + 1) for i in range(rows.shape[1])], axis=1)
    frame = frame.set_axis(frame.index + 1, axis=0).infer_objects()
    empty = [name for name in frame.columns if name.startswith("Unnamed: ") and frame[name].isna().all()]
    return Table(_checked(frame.drop(columns=empty), str(path)), names is not None, _of(path), sheet)
