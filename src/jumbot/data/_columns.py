"""The preprocessing of a table, as a value: columns matched by name, missing numbers filled, categories one-hot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from jumbot.data._column_kinds import few, in_blocks, kind_of_column, lacks, number_in, numbers_of, plain_columns
from jumbot.data._encoders import Dates, NotADateError, Texts
from jumbot.data._frames import Table, pandas
from jumbot.data._labels import plain_text
from jumbot.data._remarks import few_of_each, joined, one_error, remark, remark_on_column
from jumbot.errors import ArgumentError


@dataclass(frozen=True)
class Column:
    """The encoding of one column: its numbers with `fill` for missing ones, a feature for each of `categories`, or the
    numbers of `dates` or of free `text`.

    >>> Column("colour", categories=("blue", "red")).features
    ('colour=blue', 'colour=red')
    >>> Column("seen", dates=Dates("2024-01-01", "2024-12-31"), middle="2024-02-01").features
    ('seen: year', 'seen: month', 'seen: weekday', 'seen: days')
    """

    name: str
    fill: float | None = None
    """Median of the source."""
    categories: tuple[str, ...] | None = None
    """Those of the source, sorted; a value that is missing or not among them is zero in every feature."""
    dates: Dates | None = None
    middle: str | None = None
    """The median of the source's dates, which replaces missing ones."""
    text: Texts | None = None

    @property
    def features(self) -> tuple[str, ...]:
        if self.categories is not None:
            return tuple(f"{self.name}={category}" for category in self.categories)
        parts = self.dates or self.text
        return (self.name,) if parts is None else tuple(f"{self.name}: {part}" for part in parts.parts)

    @property
    def encoded_as(self) -> str | None:
        """What the column contains if not numbers."""
        held = {"categories": self.categories, "dates": self.dates, "text": self.text}
        return next((what for what, how in held.items() if how is not None), None)

    @property
    def fills(self) -> tuple[float | None, ...]:
        """What replaces a missing number of each feature; for categories and texts, 0."""
        if self.dates is not None:
            return tuple(self.dates.numbers([None], self.middle or self.dates.first)[0].tolist())
        return (self.fill,) if self.encoded_as is None else (0.0,) * len(self.features)

    def encode(self, table: Table, column: str, name: str) -> np.ndarray:
        """float32 `(n, features)` of a column of `table`, which belongs to the domain `name`."""
        values = table.frame[column]
        if self.dates is not None:
            return self._of_dates(table, column, name)
        if self.text is not None:
            return self.text.numbers(
                [plain_text(v) if k else None for v, k in zip(values, values.notna(), strict=True)]
            )
        if self.categories is not None:
            return _one_hot(values, self.categories, column, name)
        odd = None
        if kind_of_column(values) != "numbers":  # numbers may be stored as text, or declared as categories
            there = zip(values, values.notna(), strict=True)
            odd = next((i for i, (value, known) in enumerate(there) if known and number_in(value) is None), None)
        if odd is not None:
            raise ArgumentError(
                f"{name}: column {column!r} contains numbers in the source and {values.iloc[odd]!r} in "
                f"{table.where(odd)}; leave missing numbers empty.",
                remedy={"drop": (column,)},
            )
        if self.fill is not None and values.isna().all():
            remark_on_column(
                f"{name}: column {column!r} is empty; it is replaced by {self.fill:g}, the source's median.",
                "are empty",
            )
        return _finite(numbers_of(values), self.fill, table, column, name)[:, None]

    def _of_dates(self, table: Table, column: str, name: str) -> np.ndarray:
        assert self.dates is not None
        values = table.frame[column].astype(object)
        try:
            found = self.dates.numbers(values.tolist(), self.middle or self.dates.first)
        except NotADateError as error:
            row = next(i for i, value in enumerate(values) if value is error.value or value == error.value)
            raise ArgumentError(
                f"{name}: column {column!r} contains dates in the source and {error.value!r} in {table.where(row)}; "
                "leave missing dates empty.",
                remedy={"drop": (column,)},
            ) from None
        if problem := self.dates.beyond(found):
            text = f"{name}: column {column!r} {problem}; leave it out if this is a problem."
            remark_on_column(text, "have dates beyond the source's", stacklevel=3)
        return found.astype(np.float32)


@dataclass(frozen=True)
class Columns:
    """How the rows of a table become numbers: found on the source, part of the model and of its file.

    JSON-able with `dataclasses.asdict`, read back as a part of `InputFormat`.
    """

    columns: tuple[Column, ...]
    named: bool = True
    """Whether columns are matched by name; by place otherwise."""
    label: str | None = None
    """The column of the labels, which later data may lack."""
    id: str | None = None
    """The column that names the rows, which later data may lack."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns that must be there."""
        return tuple(column.name for column in self.columns)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the numbers that the network sees."""
        return tuple(feature for column in self.columns for feature in column.features)

    @classmethod
    def in_order(cls, width: int) -> Columns:
        """Numbers without names."""
        return cls(tuple(Column(str(i + 1)) for i in range(width)), named=False)

    def encode(self, table: Table, name: str) -> np.ndarray:
        """float32 `(n, d)` of the columns of `table`, found by name; other columns are ignored."""
        own = table.frame.columns.tolist()
        found: Sequence[str] = self.names
        if not (self.named and table.named):
            found = own
            if len(own) != len(self.columns):
                raise ArgumentError(
                    f"{name}: has {len(own)} features where {len(self.columns)} are expected "
                    f"({few(self.names) if self.named else 'without names'})."
                )
            if self.named != table.named:
                remark_by_place(name, self.names if self.named else own, self.named)
        there = set(own)
        missing = [column for column in found if column not in there]
        if missing:
            raise ArgumentError(f"{name}: {lacks(missing, own)}")
        ends = np.cumsum([len(one.features) for one in self.columns])
        encoded = np.empty((len(table.frame), int(ends[-1]) if len(ends) else 0), np.float32)
        easy = self._encode_plain(table, found, encoded, dict(zip(found, (ends - 1).tolist(), strict=True)))
        problems, remedy = list[str](), dict[str, Any]()
        with few_of_each(name):
            for one, column, end in zip(self.columns, found, ends.tolist(), strict=True):
                if column in easy:
                    continue
                try:
                    encoded[:, end - len(one.features) : end] = one.encode(table, column, name)
                except ArgumentError as error:
                    problems.append(str(error))
                    remedy = joined(remedy, error.remedy)
        if problems:
            raise one_error(name, problems, remedy)
        return encoded

    def _encode_plain(
        self, table: Table, found: Sequence[str], encoded: np.ndarray, places: Mapping[str, int]
    ) -> set[str]:
        """Write the columns of plain numbers to their `places`, many at once; return those that were written.

        Columns with infinity, without any number, or with missing numbers that nothing replaces are left to
        `Column.encode`, which raises the error.
        """
        plain = plain_columns(table.frame)
        fills = {
            column: math.nan if one.fill is None else one.fill
            for one, column in zip(self.columns, found, strict=True)
            if one.encoded_as is None and column in plain
        }
        written: set[str] = set()
        for names, block in in_blocks(table.frame, list(fills)):
            with np.errstate(over="ignore"):
                numbers = np.where(np.isnan(block), [fills[name] for name in names], block).astype(np.float32)
            usual = np.isfinite(numbers).all(0) & ~np.isnan(block).all(0)
            usual_names = list(compress(names, usual))
            encoded[:, [places[name] for name in usual_names]] = numbers[:, usual]
            written.update(usual_names)
        return written

    def check_array(self, width: int, name: str) -> None:
        """Refuse rows without column names that cannot be these columns in this order."""
        encoded = {column.name: column.encoded_as for column in self.columns if column.encoded_as is not None}
        if encoded:
            first, what = next(iter(encoded.items()))
            raise ArgumentError(
                f"{name}: got an array where column {first!r} contains {what}; pass a table or a frame with names."
            )
        if width != len(self.columns):
            raise ArgumentError(
                f"{name}: has {width} features where {len(self.columns)} are expected ({few(self.names)})."
            )
        if self.named:
            remark_by_place(name, self.names, True)


def _one_hot(values: Any, categories: tuple[str, ...], column: str, name: str) -> np.ndarray:
    """A feature for each category; zeros for a value that is missing or none of them."""
    codes, distinct = pandas().factorize(values)
    texts = [plain_text(value) for value in distinct]
    position = {category: i for i, category in enumerate(categories)}
    unknown = [text for text in texts if text not in position]
    if unknown:
        remark_on_column(
            f"{name}: column {column!r} has values that the source lacks ({few([repr(t) for t in unknown], 5)}); "
            "they are treated as none of its categories.",
            "have values that the source lacks",
            stacklevel=3,
        )
    places = np.array([*(position.get(text, -1) for text in texts), -1])[codes]
    encoded = np.zeros((len(values), len(categories)), np.float32)
    known = np.flatnonzero(places >= 0)
    encoded[known, places[known]] = 1
    return encoded


def _finite(numbers: np.ndarray, fill: float | None, table: Table, column: str, name: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        bad = np.flatnonzero(np.isinf(numbers.astype(np.float32)))
    if bad.size:
        raise ArgumentError(
            f"{name}: column {column!r} contains infinity or a number beyond float32 in {bad.size} rows, the first is "
            f"{table.where(int(bad[0]))}; drop or fill them first.",
            remedy={"drop": (column,)},
        )
    missing = np.isnan(numbers)
    if fill is None:
        if missing.any():
            where = table.where(int(missing.argmax()))
            raise ArgumentError(
                f"{name}: column {column!r} lacks {missing.sum()} numbers, the first in {where}; the source was an "
                f"array, so there are no values to fill them with. Fill them, or pass a table as source."
            )
        return numbers.astype(np.float32)
    return np.where(missing, fill, numbers).astype(np.float32)


def remark_by_place(name: str, columns: Sequence[str], model_named: bool) -> None:
    """Remark that columns are matched by their places, since one side has no names."""
    who = "it has no column names" if model_named else "the source had no column names"
    remark(
        f"{name}: {who}, so its columns are assumed to be, in order, {few(columns)}; name the columns on both sides to "
        "be sure.",
        stacklevel=3,
    )
