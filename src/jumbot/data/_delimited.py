"""Tables in text files: separators, names, decimal commas, lines that are too short."""

from __future__ import annotations

import csv
import gzip
import io
import re
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from jumbot.data._column_kinds import number_in
from jumbot.data._frames import NOTHING, Table, check_distinct, checked, may_hold_texts, pandas, words_of
from jumbot.data._remarks import remark
from jumbot.errors import ArgumentError

_SEPARATORS = ("\t", ";", ",")
_MANY = 512  # columns
_LOOKED_AT = 20  # lines by which the separator is found
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+(,\d+)?([eE][-+]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[-+]?(0|[1-9]\d{0,2}(,\d{3})?)\s*")
_TEXTS = 2**21  # cells that are held as texts at once
_CODE = re.compile(r"\s*0\d+\s*")
_MAY_BE_CODE = re.compile(r"[^\w.+-]0\d")  # in a whole file: quick to look for
_CHUNK = 2**20  # characters
_ROWS = 2**16  # that are parsed at once


def read_text(path: Path, kind: str) -> Table:
    """The table in a `.csv`, `.tsv` or `.tab` file, which may be a `.gz`.

    The file is read piece by piece, several times: its text and its numbers are never in memory at the same time.
    """
    opened = _opener(path, zipped=kind.endswith(".gz"))
    quoted, may_be_codes = _look_through(path, opened)
    separator = _separator(opened) if kind.startswith(".csv") else "\t"
    first, lines = _lines(path, _fields(opened, separator, quoted))
    _check_separator(first, path, opened)
    names = names_in(first, separator == ";", str(path))
    if not lines[names is not None :]:
        raise ArgumentError(f"{path}: contains no rows.")
    check_distinct(names or (), str(path))
    pd = pandas()
    skipped = lines[0] if names is not None else 0
    width = len(first)
    how = {"sep": separator, "skiprows": skipped, "names": names or [str(i + 1) for i in range(width)]}
    parse = partial(_parsed, opened, len(lines) > 2 * _ROWS and width <= _MANY, **how)
    frame = parse(na_values=["", *NOTHING])
    if frame.shape[1] > _MANY:
        frame = frame.copy()  # put columns of one type into one array
    lines = lines[names is not None :]
    if len(frame) != len(lines):
        raise ArgumentError(f"{path}: cannot be read ({len(lines)} lines gave {len(frame)} rows; look at its quotes).")
    texts = [name for name in frame.columns if may_hold_texts(frame[name])]
    words = words_of(frame, parse(usecols=texts, dtype=str)) if texts else {}
    gapless = lines[-1] - lines[0] + 1 == len(lines)
    frame.index = pd.RangeIndex(lines[0], lines[-1] + 1) if gapless else pd.Index(np.frombuffer(lines, np.int64))

    def written(column: str) -> Any:
        return parse(usecols=[column], dtype=str)[column].str.strip().set_axis(frame.index)

    words = {name: column.set_axis(frame.index[column.index]) for name, column in words.items()}
    if separator != ",":
        frame = _with_decimal_points(frame, path)
    empty = [name for name in frame.columns if name.startswith("Unnamed: ") and frame[name].isna().all()]
    frame = checked(frame.drop(columns=empty), str(path))
    codes = _codes(frame, parse) if may_be_codes else ()
    return Table(frame, names is not None, str(path), "line", None, words, written, frozenset(codes))


def _opener(path: Path, zipped: bool) -> Callable[..., io.TextIOWrapper]:
    """A function that opens the file as text; the caller closes it."""

    def as_bytes() -> Any:
        return gzip.open(path) if zipped else path.open("rb")

    with as_bytes() as file:
        encoding = "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return lambda newline="": io.TextIOWrapper(as_bytes(), encoding, newline=newline)


def _look_through(path: Path, opened: Callable[..., io.TextIOWrapper]) -> tuple[bool, bool]:
    """Whether anything is quoted, and whether a number may begin with a significant zero."""
    quoted = may_be_codes = False
    before = "\n"
    try:
        with opened() as text:
            while piece := text.read(_CHUNK):
                quoted = quoted or '"' in piece
                may_be_codes = may_be_codes or _MAY_BE_CODE.search(before + piece) is not None
                before = piece[-2:]
    except UnicodeDecodeError:
        raise ArgumentError(f'{path}: is not UTF-8; save it as such (in Excel: "CSV UTF-8").') from None
    return quoted, may_be_codes


def _parsed(opened: Callable[..., io.TextIOWrapper], in_pieces: bool, **options: Any) -> Any:
    """What pandas reads, with its `options`."""
    pd = pandas()
    with warnings.catch_warnings(), opened() as text:
        warnings.simplefilter("error", pd.errors.ParserWarning)
        found = pd.read_csv(
            text,
            header=None,
            index_col=False,
            low_memory=False,
            skipinitialspace=True,
            keep_default_na=False,
            chunksize=_ROWS if in_pieces else None,
            **options,
        )
        if not in_pieces:
            return found
        pieces = list(found)
    return _joined(pieces, lambda column: _parsed(opened, False, **{**options, "usecols": [column]})[column])


def _joined(pieces: list[Any], whole: Callable[[str], Any]) -> Any:
    """The pieces of a table, joined; a column whose type differs between pieces is read as a `whole`."""
    pd = pandas()
    columns = {}
    for name in pieces[0].columns.tolist():
        kinds = {piece.dtypes[name] for piece in pieces}
        alike = len(kinds) == 1 or kinds == {np.dtype(np.int64), np.dtype(np.float64)}
        columns[name] = pd.concat([piece.pop(name) for piece in pieces], ignore_index=True) if alike else whole(name)
    return pd.DataFrame(columns, copy=False)


def _codes(frame: Any, parse: Callable[..., Any]) -> Iterator[str]:
    """Columns of whole numbers with leading zeros."""
    whole = [
        name
        for name, values in frame.items()
        if values.dtype.kind in "iu" or (values.dtype.kind == "f" and bool((values.dropna() % 1 == 0).all()))
    ]
    width = max(_TEXTS // len(frame), 1)
    for start in range(0, len(whole), width):
        written = parse(usecols=whole[start : start + width], dtype=str)
        yield from (name for name, texts in written.items() if texts.str.fullmatch(_CODE).any())


def names_in(first: list[str], decimal_comma: bool, name: str) -> list[str] | None:
    """The column names, if the first line contains them."""
    fields = [field.strip() for field in first]
    numbers = [number_in((field.replace(",", ".") if decimal_comma else field) or "nan") for field in fields]
    counted = [field for field in fields if field] == [str(i) for i in range(len(fields) - (not fields[0]))]
    if None not in numbers and not (counted and len(fields) > 2):  # the default names of pandas
        return None
    fractional = [f for f, number in zip(fields, numbers, strict=True) if number is not None and number % 1 != 0 and f]
    if fractional:
        raise ArgumentError(
            f"{name}: the first line contains {fractional[0]!r} and text: is it a header or data? Add a line of "
            f"column names above the data."
        )
    return [field or f"Unnamed: {i}" for i, field in enumerate(fields)]


def _separator(opened: Callable[..., io.TextIOWrapper]) -> str:
    """The first of tab, ; and , that cuts every line into the same number of columns, two or more.

    In this order: commas may be decimal points between the others, the others are hardly ever data between commas.
    """
    with opened() as text:
        head = "".join(islice(text, _LOOKED_AT))
    most = {}
    for separator in _SEPARATORS:
        widths = [len(fields) for fields in csv.reader(io.StringIO(head), delimiter=separator) if fields]
        if len({*widths}) == 1 and widths[0] > 1:
            return separator
        most[separator] = max(widths, default=0)
    return max(reversed(_SEPARATORS), key=lambda separator: most[separator])


def _lines(path: Path, rows: Iterable[tuple[int, Sequence[str], int]]) -> tuple[list[str], array[int]]:
    """The first line, and the number of the last line of every row; pandas would fill short rows silently."""
    first: list[str] = []
    lines = array("q")
    for number, fields, width in rows:
        first = first or list(fields)
        lines.append(number)
        if width != len(first):
            raise ArgumentError(f"{path}: line {number} has {width} columns, but others have {len(first)}.")
    if not first:
        raise ArgumentError(f"{path}: contains no rows.")
    return first, lines


def _check_separator(first: Sequence[str], path: Path, opened: Callable[..., io.TextIOWrapper]) -> None:
    """Refuse a file whose columns are separated by a sign that is none of ours."""
    if len(first) > 1 or "|" not in first[0]:
        return
    with opened() as text:
        counts = {line.count("|") for line in islice(text, _LOOKED_AT) if line.strip()}
    if len(counts) == 1:
        raise ArgumentError(f"{path}: columns are separated by '|'; separate them by commas, semicolons or tabs.")


def _fields(
    opened: Callable[..., io.TextIOWrapper], separator: str, quoted: bool
) -> Iterator[tuple[int, Sequence[str], int]]:
    """For each row its last line, its fields (of the first row alone, where nothing is quoted), and their number."""
    with opened("" if quoted else None) as text:
        if quoted:
            reader = csv.reader(text, delimiter=separator, skipinitialspace=True)
            yield from ((reader.line_num, fields, len(fields)) for fields in reader if fields)
            return
        fields: list[str] = []
        for number, line in enumerate(text, 1):
            if line != "\n":
                fields = fields or line.rstrip("\n").split(separator)
                yield number, fields, line.count(separator) + 1


def _with_decimal_points(frame: Any, path: Path) -> Any:
    """ "1,5" as 1.5: files with ; or tab come from places where the comma is the decimal point.

    A warning says where it may separate thousands: if it is always followed by three digits, or other columns have
    decimal points.
    """
    texts = {name: frame[name].dropna().astype(str) for name in frame.columns if frame[name].dtype.kind not in "fiub"}
    commas = {
        name: column
        for name, column in texts.items()
        if column.str.contains(",").any() and column.str.fullmatch(_DECIMAL_COMMA).all()
    }
    points = [n for n in frame.columns if frame[n].dtype.kind == "f" and (frame[n].dropna() % 1 != 0).any()]
    if commas and (points or all(column.str.fullmatch(_THOUSANDS).all() for column in commas.values())):
        name, column = next(iter(commas.items()))
        text = column[column.str.contains(",")].iloc[0].strip()
        where = f" with decimal points in {points[0]!r}" if points else ""
        remark(
            f"{path}: {text!r} in column {name!r} is read as {text.replace(',', '.')}{where}; if the comma separates "
            f"thousands, write the numbers without it.",
            stacklevel=4,
        )
    numbers = {name: column.str.replace(",", ".").astype(float) for name, column in commas.items()}
    return frame.assign(**{name: column.reindex(frame.index) for name, column in numbers.items()})
