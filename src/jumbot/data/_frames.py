"""Tables as pandas frames, also from frames of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jumbot.errors import ArgumentError, need

_FRAMES = {"pandas": ("DataFrame", "Series"), "polars": ("DataFrame", "LazyFrame", "Series"), "pyarrow": ("Table",)}
NOTHING = (
    "#N/A",
    "#N/A N/A",
    "#NA",
    "-1.#IND",
    "-1.#QNAN",
    "-NaN",
    "-nan",
    "1.#IND",
    "1.#QNAN",
    "<NA>",
    "N/A",
    "NA",
    "NULL",
    "NaN",
    "None",
    "n/a",
    "nan",
    "null",
)
"""The words that mean a missing value in files, as in pandas."""


@dataclass(frozen=True)
class Table:
    """A pandas frame with distinct texts as names; its index is the position of a row in its file."""

    frame: Any
    named: bool = True
    """Whether the columns have names; otherwise "1", "2", ... are used."""
    file: str | None = None
    """Where it was read from."""
    row: str = "row"
    """The word for a row in messages: "line" in text files."""
    sheet: str | None = None
    """The sheet of a workbook that was asked for."""
    words: Mapping[str, Any] = field(default_factory=dict)
    """Of columns of text, a Series of the words that are read as missing although they may be names."""
    texts: Callable[[str], Any] | None = None
    """A column of a text file as it is written, a Series of texts; None elsewhere, and where nobody needs it any more:
    it reads the file again."""
    codes: frozenset[str] = frozenset()
    """Columns of whole numbers in a text file some of which begin with a zero, as codes do: 007."""

    def where(self, row: int) -> str:
        """The description of a row in messages."""
        return f"{self.row} {self.frame.index[row]}" + ("" if self.file is None else f" of {self.file}")

    def as_written(self, column: str) -> Any:
        """A column with the words that are read as missing; of a text file, what is written there, None where nothing
        is."""
        values = self.frame[column]
        if self.texts is not None:
            texts = self.texts(column).reindex(values.index).astype(object)
            return texts.where(texts != "", None)
        words = self.words.get(column)
        return values if words is None else values.astype(object).where(values.notna(), words.reindex(values.index))

    def rows(self, chosen: np.ndarray) -> Table:
        """Some rows."""
        return replace(self, frame=self.frame.iloc[chosen])


def pandas() -> Any:
    """The module, which is imported when a table is."""
    return need("pandas", "reading tables", "adapt")


def is_frame(data: Any) -> bool:
    """Whether `data` is a frame of pandas or polars, or a table of pyarrow; none of them is imported."""
    kind = type(data)
    return kind.__name__ in _FRAMES.get(kind.__module__.partition(".")[0], ())


def as_table(data: Any, name: str) -> Table:
    """A frame of pandas or polars, or a table of pyarrow, as a Table."""
    if type(data).__name__ == "LazyFrame":
        raise ArgumentError(f"{name}: a polars LazyFrame contains no rows yet; pass data.collect().")
    if type(data).__name__ == "Series":
        raise ArgumentError(f"{name}: a Series is one row, or one column; pass a frame, such as frame.loc[[row]].")
    frame = data if type(data).__module__.startswith("pandas") else data.to_pandas()
    if frame.columns.nlevels > 1:
        raise ArgumentError(f"{name}: the columns have names of {frame.columns.nlevels} levels; use a single level.")
    width = frame.shape[1]
    if list(frame.columns) == list(range(width)):  # what pandas calls columns that were given no names
        frame = frame.set_axis([str(i + 1) for i in range(width)], axis=1)
        return Table(checked(frame, name), named=False)
    check_distinct(names := [str(column).strip() for column in frame.columns], name)
    return Table(checked(unfold(frame.set_axis(names, axis=1)), name))


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


def may_hold_texts(values: Any) -> bool:
    """Whether missing values of a column may be text: it contains text, or nothing at all."""
    return bool(values.isna().any()) and (values.dtype.kind not in "fiub" or bool(values.isna().all()))


def words_of(frame: Any, written: Any) -> dict[str, Any]:
    """`Table.words` of a frame whose columns of text were read from what is `written` in the same rows."""
    texts = {name: written[name][frame[name].isna()] for name in written.columns if may_hold_texts(frame[name])}
    words = {name: column[column.isin(NOTHING)] for name, column in texts.items()}
    return {name: column for name, column in words.items() if len(column)}


def checked(frame: Any, name: str) -> Any:
    """`frame`, if it has rows and its names differ."""
    check_distinct(frame.columns.tolist(), name)
    if not len(frame):
        raise ArgumentError(f"{name}: contains no rows.")
    return frame


def check_distinct(names: Sequence[str], whose: str) -> None:
    """Refuse columns with the same name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ArgumentError(f"{whose}: several columns are named {name!r}; names must differ.")
        seen.add(name)


_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def safe(text: str) -> str:
    """`text` behind an apostrophe if a spreadsheet would run it; numbers stay numbers.

    >>> safe("=1+1"), safe("-0.5"), safe("a=b"), safe("'=1")
    ("'=1+1", '-0.5', 'a=b', "''=1")
    """
    return "'" + text if text.lstrip("'").startswith(_FORMULAS) and not _number(text) else text


def unsafe(text: str) -> str:
    """The inverse of `safe`.

    >>> unsafe("'=1+1"), unsafe("'quoted'"), unsafe(safe("''@x"))
    ('=1+1', "'quoted'", "''@x")
    """
    return text[1:] if text.startswith("'") and text.lstrip("'").startswith(_FORMULAS) else text


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text[:1].isspace()
