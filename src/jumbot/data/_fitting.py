"""The preprocessing that fits a source: its columns, medians and categories; columns that do not fit raise errors."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from jumbot.data._column_kinds import (
    by_squeezed,
    few,
    in_blocks,
    kind_of_column,
    lacks,
    number_in,
    numbers_of,
    plain_columns,
    squeezed,
    too_fine,
)
from jumbot.data._columns import Column, Columns
from jumbot.data._encoders import NotADateError, find_dates, find_texts
from jumbot.data._frames import Table
from jumbot.data._labels import plain_text
from jumbot.data._remarks import few_of_each, joined, one_error, remark_on_column
from jumbot.errors import ArgumentError

MOST_CATEGORIES = 1000
_ROWS = 10  # with fewer rows, any column may seem to count them
_NAMES_ROWS = re.compile(r"(.*[\W_])?(id|ids|idx|index|uid|uuid|key|rownames?)|Unnamed: \d+", re.IGNORECASE)
_CAMEL = re.compile(r".*[a-z](Id|ID|Idx|Index)")  # PassengerId
_SIGNS = re.compile(r"[\s,'%$\u00a3\u00a5\u20ac\u2019\u2212]")
_REMEDY = 'Leave columns out with drop (--drop), or use only shared ones with columns="shared" (--columns shared).'


def find_columns(
    source: Table,
    target: Table | None,
    names: tuple[str, str],
    columns: str = "same",
    *,
    dates: Sequence[str] | None = None,
    text: Sequence[str] | None = None,
) -> Columns:
    """The preprocessing that fits the source: its medians, its categories, its dates and texts.

    The target must have the same columns, in any order; with `columns="shared"` those that one of the two lacks are
    left out. `names` are those of the two domains, for messages. `dates` and `text` are the columns to make numbers of,
    which are refused otherwise: an empty list is all that are such, None is none.
    """
    chosen = source.frame.columns.tolist()
    problems: list[str] = []
    remedy: dict[str, Any] = {}
    if target is not None and source.named and target.named:
        chosen, problems = _matched(chosen, target.frame.columns.tolist(), names, columns)
        remedy = {"columns": "shared"} if problems else {}
    _check_asked(chosen, names[0], dates=dates, text=text)
    found = []
    by_name = target is not None and source.named and target.named
    places = {} if target is None else dict(zip(source.frame.columns, target.frame.columns, strict=False))
    asked = {*(dates or ()), *(text or ())}
    easy = _plain_numbers(source, [column for column in chosen if column not in asked])
    with few_of_each(names[0]):
        for column in chosen:
            if column in easy:
                found.append(easy[column])
                continue
            others = None if target is None else target.frame.get(column if by_name else places.get(column))
            try:
                found.append(_find(source, column, names[0], others, dates, text))
            except ArgumentError as error:
                problems.append(str(error))
                more = error.remedy
                if "id" in more and "id" in remedy:  # the first that names the rows is the id, others are left out
                    more = {"drop": (column,)}
                remedy = joined(remedy, more)
    if problems:
        raise one_error(names[0], problems, remedy)
    if not found:
        raise ArgumentError(f"{names[0]}: has no columns of features.")
    return Columns(tuple(found), source.named)


def _check_asked(columns: Sequence[str], name: str, **asked: Sequence[str] | None) -> None:
    """Refuse to convert columns that do not exist, or that are requested as both dates and text."""
    for option, wanted in asked.items():
        for column in wanted or ():
            if column not in columns:
                raise ArgumentError(
                    f"{option}: {name} has no column {column!r} of features; the table has {few(columns, 12)}."
                )
    if both := [column for column in asked["dates"] or () if column in (asked["text"] or ())]:
        raise ArgumentError(f"dates: column {both[0]!r} cannot be both dates and text; list it only once.")


def _matched(source: list[str], target: list[str], names: tuple[str, str], columns: str) -> tuple[list[str], list[str]]:
    """The columns that both have, and the problems with the others."""
    here, there = set(source), set(target)
    lacking, more = [c for c in source if c not in there], [c for c in target if c not in here]
    problems = []
    if columns == "same":
        if lacking:
            problems.append(f"{names[1]}: {lacks(lacking, target)} {_REMEDY}")
        if more:
            problems.append(f"{names[1]}: has columns that the source lacks: {few(more)}. {_REMEDY}")
        return [c for c in source if c in there], problems
    others = by_squeezed(more)
    for column in lacking:
        if same := others.get(squeezed(column)):
            raise ArgumentError(
                f"columns: {column!r} in {names[0]} and {same[0]!r} in {names[1]} seem to be the same; use the same "
                "name.",
                remedy={"drop": (column, same[0])},
            )
    return [c for c in source if c in there], problems


def _plain_numbers(table: Table, columns: Sequence[str]) -> dict[str, Column]:
    """What `_find` returns for columns of numbers, some of them missing, that there is nothing to say of."""
    plain = plain_columns(table.frame)
    found: dict[str, Column] = {}
    for names, block in in_blocks(table.frame, [column for column in columns if column in plain]):
        missing = np.isnan(block)
        usable = ~np.isinf(block).any(0) & ~missing.all(0)
        names, block, missing = list(compress(names, usable)), block[:, usable], missing[:, usable]
        medians = _medians(block)
        whole = ((block % 1 == 0) | missing).all(0)
        block[missing] = np.broadcast_to(medians, block.shape)[missing]
        usual = ~too_fine(block) & ~np.where(missing.any(0), whole, _may_name_rows(names, block))
        found |= {
            name: Column(name, fill=fill) for name, fill in compress(zip(names, medians.tolist(), strict=True), usual)
        }
    return found


def _medians(numbers: np.ndarray) -> np.ndarray:
    """Of the numbers that are there in each of these columns, which is one at least."""
    counts = (~np.isnan(numbers)).sum(0)
    ordered, every = np.sort(numbers, axis=0), np.arange(numbers.shape[1])  # NaN comes last
    found: np.ndarray = (ordered[(counts - 1) // 2, every] + ordered[counts // 2, every]) / 2
    return found


def _find(
    table: Table, column: str, name: str, others: Any, dates: Sequence[str] | None, text: Sequence[str] | None
) -> Column:
    """The encoding of a column; `others` is the target's, if there is one."""
    values = table.frame[column]
    kind = kind_of_column(values)
    if values.isna().all():
        raise ArgumentError(
            f"{name}: column {column!r} is empty; fill it, {_leave_out(column)}.", remedy={"drop": (column,)}
        )
    if column in (dates or ()) or (kind == "dates" and dates is not None and not dates):
        return _of_dates(table, column, name, others)
    if column in (text or ()):
        return _of_text(table, column, name)
    if kind == "numbers":
        return _of_numbers(values, column, name)
    if kind == "dates":
        _of_dates(table, column, name, others)  # which says what is wrong with them
        raise ArgumentError(
            f"{name}: column {column!r} contains dates ({values.dropna().iloc[0]}); convert them to numbers with "
            f"dates={column!r} (--dates {shlex.quote(column)}), {_leave_out(column)}.",
            remedy={"dates": (column,)},
        )
    if kind == "other":
        value = values.dropna().iloc[0]
        raise ArgumentError(
            f"{name}: column {column!r} contains {type(value).__name__} values; turn them into numbers first, "
            f"{_leave_out(column)}.",
            remedy={"drop": (column,)},
        )
    distinct = sorted({plain_text(value) for value in values.dropna().unique()})
    rows = int(values.notna().sum())
    most = MOST_CATEGORIES if kind == "categories" else min(max(min(20, rows / 2), rows / 10), MOST_CATEGORIES)
    if len(distinct) <= most:
        text = next((value for value in values.dropna() if isinstance(value, str)), None)
        if kind == "text" and all(number_in(one) is not None for one in distinct) and not _are_texts(values):
            remark_on_column(
                f"{name}: column {column!r} contains numbers, some of them as text ({text!r}), and is treated as "
                f"categories; convert all of them to numbers if they are quantities.",
                "contain numbers as text",
                stacklevel=3,
            )
        if kind == "text" and len(distinct) > 2 and all(map(_is_decorated, distinct)):
            remark_on_column(
                f"{name}: column {column!r} contains formatted numbers ({distinct[0]!r}) and is taken as "
                "categories; write them as plain numbers, without thousands separators, currency or percent signs, if "
                "their size matters.",
                "contain formatted numbers",
                stacklevel=3,
            )
        return Column(column, categories=tuple(distinct))
    error = _too_many(table, column, name, distinct, rows)
    if text is not None and not text and "text" in error.remedy:
        return _of_text(table, column, name)
    raise error


def _are_texts(values: Any) -> bool:
    return all(isinstance(value, str) for value in values.dropna())


def _is_decorated(text: str) -> bool:
    """Whether a text is a number except for thousands separators, currency or percent signs.

    >>> [_is_decorated(text) for text in ("1,234.5", "7 %", "1.234,5", "\N{MINUS SIGN}3", "12", "20-30", "")]
    [True, True, True, True, False, False, False]
    """
    return number_in(text) is None and number_in(_SIGNS.sub("", text)) is not None


def _leave_out(column: str) -> str:
    return f"or leave it out with drop={column!r} (--drop {shlex.quote(column)})"


def _of_numbers(values: Any, column: str, name: str) -> Column:
    numbers = numbers_of(values)
    present = numbers[np.isfinite(numbers)]
    if names_rows(column, present):
        remark_on_column(
            f"{name}: column {column!r} looks like a row number, which says nothing about other rows; if it is "
            f"one, leave it out with drop={column!r} (--drop), or make it the id (--id {column!r}).",
            "look like row numbers",
            stacklevel=3,
        )
    if present.size and too_fine(present[:, None])[0]:
        warn_of_digits(name, repr(column), present)
    return Column(column, fill=float(np.median(present)) if present.size else None)


def _of_dates(table: Table, column: str, name: str, others: Any) -> Column:
    values = table.frame[column].astype(object)
    there = [] if others is None else others.astype(object).tolist()
    try:
        dates, middle = find_dates(values.tolist(), there)
    except NotADateError as error:
        row = next((i for i, value in enumerate(values) if value is error.value or value == error.value), None)
        where = "the target" if row is None else table.where(row)
        raise ArgumentError(
            f"{name}: column {column!r} contains {error.value!r} in {where}, which is not a readable date; write "
            f"dates as 2024-12-31, {_leave_out(column)}.",
            remedy={"drop": (column,)},
        ) from None
    except ArgumentError as error:
        raise ArgumentError(
            f"{name}: column {column!r} {error}, {_leave_out(column)}.", remedy={"drop": (column,)}
        ) from None
    return Column(column, dates=dates, middle=middle)


def _of_text(table: Table, column: str, name: str) -> Column:
    values = table.frame[column]
    known = zip(values, values.notna(), strict=True)
    found = find_texts([plain_text(value) if there else None for value, there in known])
    if found is None:
        raise ArgumentError(
            f"{name}: column {column!r} contains no words; {_leave_out(column).removeprefix('or ')}.",
            remedy={"drop": (column,)},
        )
    return Column(column, text=found)


def _too_many(table: Table, column: str, name: str, distinct: list[str], rows: int) -> ArgumentError:
    """The error for text with more values than a category may have."""
    names_them = len(distinct) == rows and (_has_name_of_rows(column) or not any(" " in text for text in distinct))
    counted = f"{len(distinct)} different values in {rows} rows"
    as_id = f"make it the id (--id {shlex.quote(column)})"
    if column in table.codes:
        code = next((text for text in distinct if text.startswith("0")), distinct[0])
        return ArgumentError(
            f"{name}: column {column!r} contains codes that begin with a zero ({code!r}), {counted}; write them "
            f"without it if they are numbers, {as_id}, {_leave_out(column)}.",
            remedy={"id": column} if len(distinct) == rows else {"drop": (column,)},
        )
    numeric = sum(number_in(one) is not None for one in distinct)
    odd = next((one for one in distinct if number_in(one) is None), None)
    if numeric >= len(distinct) / 2:
        what = f"numbers and text ({odd!r})" if odd else "numbers as text"
        return ArgumentError(
            f"{name}: column {column!r} contains {what}: {counted}; leave missing numbers empty, {_leave_out(column)}.",
            remedy={"id": column} if names_them else {"drop": (column,)},
        )
    if all(map(_is_decorated, distinct)):
        return ArgumentError(
            f"{name}: column {column!r} contains formatted numbers ({distinct[0]!r}): {counted}; write "
            f"them as plain numbers, without thousands separators, currency or percent signs, {_leave_out(column)}.",
            remedy={"drop": (column,)},
        )
    remedy = f"convert it to numbers with text={column!r} (--text {shlex.quote(column)})"
    if len(distinct) == rows:
        remedy = f"{as_id} if it identifies the rows, {remedy}"
    return ArgumentError(
        f"{name}: column {column!r} contains free text: {counted}; {remedy}, {_leave_out(column)}.",
        remedy={"id": column} if names_them else {"text": (column,)},
    )


def warn_of_digits(name: str, column: str, numbers: np.ndarray) -> None:
    """Warn of a column that float32 cannot represent."""
    remark_on_column(
        f"{name}: column {column} has values from {numbers.min():.10g} to {numbers.max():.10g}, but float32 has "
        "only seven digits; subtract a constant first, or leave it out.",
        "have more digits than float32",
        stacklevel=3,
    )


def names_rows(column: str, numbers: np.ndarray) -> bool:
    """Whether a column seems to name or to count rows: whole numbers, all different, that grow from row to row or leave
    none out; or mostly different, in a column whose name says so.

    >>> shuffled = np.random.default_rng(0).permutation(100)[:80]
    >>> names_rows("patient_id", shuffled), names_rows("Unnamed: 0", shuffled), names_rows("weight", shuffled)
    (True, True, False)
    """
    if not len(numbers) or not _may_name_rows([column], numbers[:, None])[0]:
        return False
    steps, different = np.diff(numbers), len(np.unique(numbers))
    if bool((steps > 0).all()) or (numbers.max() - numbers.min() == len(numbers) - 1 and different == len(numbers)):
        return True
    return _has_name_of_rows(column) and 2 * different > len(numbers)


def _may_name_rows(columns: Sequence[str], numbers: np.ndarray) -> np.ndarray:
    """Which columns of `(n, d)` numbers `names_rows` has to look at: whole numbers that grow, leave none out, or have
    such a name."""
    if len(numbers) < _ROWS:
        return np.zeros(len(columns), bool)
    whole = (numbers % 1 == 0).all(0)
    low, high = numbers.min(0), numbers.max(0)
    named = np.array([_has_name_of_rows(column) for column in columns], bool)
    found: np.ndarray = whole & ((high - low == len(numbers) - 1) | (np.diff(numbers, axis=0) > 0).all(0) | named)
    return found


def _has_name_of_rows(column: str) -> bool:
    return (_NAMES_ROWS.fullmatch(column) or _CAMEL.fullmatch(column)) is not None
