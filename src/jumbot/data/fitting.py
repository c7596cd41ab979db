"""The preprocessing that fits a source: which columns, their medians, their categories; the rest refused by name."""

from __future__ import annotations

import re
import shlex
from typing import Any

import numpy as np

from jumbot.data._remarks import remark
from jumbot.data.column_kinds import few, kind_of_column, lacks, number_in, numbers_of, squeezed, too_fine
from jumbot.data.columns import Column, Columns
from jumbot.data.frames import Table
from jumbot.data.labels import plain_text
from jumbot.errors import ArgumentError

MOST_CATEGORIES = 1000
_ROWS = 10  # fewer rows say nothing about a column that counts them
_NAMES_ROWS = re.compile(r"(.*[\W_])?(id|ids|idx|index|uid|uuid|key|rownames?)|Unnamed: \d+", re.IGNORECASE)
_CAMEL = re.compile(r".*[a-z](Id|ID|Idx|Index)")  # PassengerId
_REMEDY = 'Leave columns out with drop (--drop), or take those that both have with columns="shared" (--columns shared).'


def find_columns(source: Table, target: Table | None, names: tuple[str, str], columns: str = "same") -> Columns:
    """The preprocessing that fits the source: its medians, its categories.

    The target must have the same columns, in any order; with `columns="shared"` those that one of the two lacks are
    left out. `names` are those of the two domains, for messages.
    """
    chosen = source.frame.columns.tolist()
    problems: list[str] = []
    remedies = _Remedies()
    if target is not None and source.named and target.named:
        chosen, problems = _matched(chosen, target.frame.columns.tolist(), names, columns, remedies)
    found = []
    for column in chosen:
        try:
            found.append(_find(source, column, names[0]))
        except ArgumentError as error:
            problems.append(str(error))
            remedies.take(column, source.frame[column])
    if len(problems) == 1:
        raise ArgumentError(problems[0])
    if problems:
        listed = "".join(f"\n- {problem}" for problem in problems)
        raise ArgumentError(f"{names[0]}: {len(problems)} things are in the way:{listed}\nThis would do: {remedies}")
    if not found:
        raise ArgumentError(f"{names[0]}: has no columns of features.")
    return Columns(tuple(found), source.named)


class _Remedies:
    """Options with which a table could be used that cannot be as it is."""

    def __init__(self) -> None:
        self.shared, self.id, self.drop = False, "", list[str]()

    def take(self, column: str, values: Any) -> None:
        """A column that cannot be a feature: the first that names the rows is the id, others are left out."""
        named = _NAMES_ROWS.fullmatch(column) or _CAMEL.fullmatch(column)
        if named and not self.id and values.nunique() == len(values):
            self.id = column
        else:
            self.drop.append(column)

    def __str__(self) -> str:
        words = ["--columns shared"] * self.shared + [f"--id {shlex.quote(self.id)}"] * bool(self.id)
        return " ".join([*words, *(["--drop", *map(shlex.quote, self.drop)] if self.drop else [])])


def _matched(
    source: list[str], target: list[str], names: tuple[str, str], columns: str, remedies: _Remedies
) -> tuple[list[str], list[str]]:
    """The columns that both have, and what is in the way of the others."""
    here, there = set(source), set(target)
    lacking, more = [c for c in source if c not in there], [c for c in target if c not in here]
    problems = []
    if columns == "same":
        if lacking:
            problems.append(f"{names[1]}: {lacks(lacking, target)} {_REMEDY}")
        if more:
            problems.append(f"{names[1]}: has columns that the source lacks: {few(more)}. {_REMEDY}")
        remedies.shared = bool(problems)
        return [c for c in source if c in there], problems
    for column in lacking:
        if same := [other for other in more if squeezed(other) == squeezed(column)]:
            raise ArgumentError(
                f"columns: {column!r} in {names[0]} and {same[0]!r} in {names[1]} seem to be one; give them one name."
            )
    return [c for c in source if c in there], problems


def _find(table: Table, column: str, name: str) -> Column:
    values = table.frame[column]
    kind = kind_of_column(values)
    leave_out = f"or leave it out with drop={column!r} (--drop {shlex.quote(column)})"
    if kind == "numbers":
        numbers = numbers_of(values)
        present = numbers[np.isfinite(numbers)]
        if np.isnan(numbers).all():
            raise ArgumentError(f"{name}: column {column!r} is empty; fill it, {leave_out}.")
        if names_rows(column, present):
            remark(
                f"{name}: column {column!r} looks like a row number, which says nothing about other rows; if it is "
                f"one, leave it out with drop={column!r} (--drop), or make it the id (--id {column!r}).",
                stacklevel=2,
            )
        if present.size and too_fine(present[:, None])[0]:
            warn_of_digits(name, repr(column), present)
        return Column(column, fill=float(np.median(present)) if present.size else None)
    if kind == "dates":
        raise ArgumentError(
            f"{name}: column {column!r} holds dates ({values.dropna().iloc[0]}); turn them into numbers first (days, "
            f"months, weekdays), {leave_out}."
        )
    if kind == "other":
        value = values.dropna().iloc[0]
        raise ArgumentError(
            f"{name}: column {column!r} holds {type(value).__name__} values; turn them into numbers first, {leave_out}."
        )
    distinct = sorted({plain_text(value) for value in values.dropna().unique()})
    rows = int(values.notna().sum())
    declared = kind == "categories"
    most = MOST_CATEGORIES if declared else min(max(min(20, rows / 2), rows / 10), MOST_CATEGORIES)
    if len(distinct) > most:
        if column in table.codes:
            code = next((text for text in distinct if text.startswith("0")), distinct[0])
            raise ArgumentError(
                f"{name}: column {column!r} holds codes that begin with a zero ({code!r}), {len(distinct)} different "
                f"ones in {rows} rows; write them without it if they are numbers, make the column the id (--id "
                f"{column!r}), {leave_out}."
            )
        numeric = sum(number_in(text) is not None for text in distinct)
        odd = next((text for text in distinct if number_in(text) is None), None)
        what = (
            "free text" if numeric < len(distinct) / 2 else f"numbers and text ({odd!r})" if odd else "numbers as text"
        )
        remedy = "turn it into numbers or a few categories" if what == "free text" else "leave missing numbers empty"
        if len(distinct) == rows:
            remedy = f"make it the id (--id {column!r}) if it names the rows, {remedy}"
        raise ArgumentError(
            f"{name}: column {column!r} holds {what}: {len(distinct)} different values in {rows} rows; {remedy}, "
            f"{leave_out}."
        )
    return Column(column, categories=tuple(distinct))


def warn_of_digits(name: str, column: str, numbers: np.ndarray) -> None:
    """Of a column that float32 would blur."""
    remark(
        f"{name}: column {column} goes from {numbers.min():.10g} to {numbers.max():.10g}, and networks see seven "
        "digits; subtract a number first, or leave it out.",
        stacklevel=3,
    )


def names_rows(column: str, numbers: np.ndarray) -> bool:
    """Whether a column seems to name or to count rows: whole numbers, all different, that grow from row to row or leave
    none out; or mostly different, in a column whose name says so.

    >>> shuffled = np.random.default_rng(0).permutation(100)[:80]
    >>> names_rows("patient_id", shuffled), names_rows("Unnamed: 0", shuffled), names_rows("weight", shuffled)
    (True, True, False)
    """
    if len(numbers) < _ROWS or (numbers % 1 != 0).any():
        return False
    steps, different = np.diff(numbers), len(np.unique(numbers))
    if bool((steps > 0).all()) or (numbers.max() - numbers.min() == len(numbers) - 1 and different == len(numbers)):
        return True
    named = _NAMES_ROWS.fullmatch(column) or _CAMEL.fullmatch(column)
    return named is not None and 2 * different > len(numbers)
