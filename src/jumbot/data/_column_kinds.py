"""The kinds of columns of a frame, and their description in messages."""

from __future__ import annotations

import math
import numbers
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from jumbot.data._frames import pandas
from jumbot.errors import one_line

_FINE = 1e-5  # float32 distinguishes some hundred numbers in such a range
_BLOCK = 2**20  # numbers at once
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal", "boolean")
_DATES = ("datetime", "datetime64", "date", "time", "timedelta", "timedelta64", "period")
_DATE = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))([ T].*)?")


def kind_of_column(values: Any) -> str:
    """ "numbers", "text", "categories" (declared as such), "dates" or "other"."""
    types = pandas().api.types
    if isinstance(values.dtype, pandas().CategoricalDtype):
        return "categories"
    if types.is_complex_dtype(values.dtype):
        return "other"
    if types.is_numeric_dtype(values.dtype):
        return "numbers"
    inferred = types.infer_dtype(values, skipna=True)
    if inferred in _NUMBERS or inferred == "empty":
        return "numbers"
    if inferred in _DATES or types.is_datetime64_any_dtype(values.dtype):
        return "dates"
    present = values.dropna().tolist()
    if not all(isinstance(value, str | numbers.Real | Decimal) for value in present):
        return "other"
    return "dates" if all(isinstance(value, str) and _DATE.fullmatch(value) for value in present) else "text"


def plain_columns(frame: Any) -> set[str]:
    """Columns of numpy's own types of numbers: many of them can be looked at as one array."""
    kinds = zip(frame.columns, frame.dtypes, strict=True)
    return {name for name, kind in kinds if isinstance(kind, np.dtype) and kind.kind in "fiub"}


def in_blocks(frame: Any, columns: Sequence[str]) -> Iterator[tuple[Sequence[str], np.ndarray]]:
    """Some plain columns after the other as float64 `(n, some)`: pandas is slow where a table has 100,000 of them."""
    width = max(_BLOCK // max(len(frame), 1), 1)
    for start in range(0, len(columns), width):
        names = columns[start : start + width]
        yield names, frame[list(names)].to_numpy(np.float64)


def numbers_of(values: Any) -> np.ndarray:
    """float64, NaN where a value is missing."""
    plain = values if pandas().api.types.is_numeric_dtype(values.dtype) else values.astype(object)
    try:
        array: np.ndarray = pandas().to_numeric(plain).to_numpy(np.float64, na_value=np.nan)
    except (OverflowError, ValueError):  # whole numbers beyond all floats
        array = np.array([np.nan if (number := number_in(v)) is None else number for v in plain.tolist()])
    return array


def too_fine(numbers: np.ndarray) -> np.ndarray:
    """Which columns of `(n, d)` numbers vary so little relative to their size that float32, with seven digits, loses
    the differences.

    >>> too_fine(np.array([[1.7e9, 1.0, 5.0], [1.7e9 + 60, 2.0, 5.0]]))
    array([ True, False, False])
    """
    low, high = numbers.min(0).astype(np.float64), numbers.max(0).astype(np.float64)
    found: np.ndarray = (high > low) & (high - low < _FINE * np.maximum(abs(low), abs(high)))
    return found


def lacks(missing: Sequence[str], present: Sequence[str]) -> str:
    """A sentence on missing columns, with similar names."""
    lacking = set(missing)
    others = by_squeezed(other for other in present if other not in lacking)
    renamed = [f"{other!r} to {column!r}" for column in missing for other in others.get(squeezed(column), ())]
    meant = f" Rename {few(renamed)}." if renamed else ""
    one = len(missing) == 1
    return (
        f"lacks the column{'' if one else 's'} {few([repr(c) for c in missing])}; columns are matched by name, and "
        f"it has {few(present, 12)}.{meant}"
    )


def few(names: Sequence[str], at_most: int = 6) -> str:
    """The first names of a list."""
    return ", ".join(map(one_line, names[:at_most])) + (f", ... ({len(names)} in all)" if len(names) > at_most else "")


def number_in(value: Any) -> float | None:
    try:
        return float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return None


def by_squeezed(names: Iterable[str]) -> dict[str, list[str]]:
    """Names by what they have in common with others.

    >>> by_squeezed(["heart rate", "age", "Heart_rate"])
    {'heartrate': ['heart rate', 'Heart_rate'], 'age': ['age']}
    """
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(squeezed(name), []).append(name)
    return found


def squeezed(name: str) -> str:
    """A name without capitals, punctuation and the way that accents are encoded, to compare names."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", name)).casefold()
