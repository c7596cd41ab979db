"""Frames with strings, categories and missing values as rows of numbers, for the estimators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_X_y, validate_data

from jumbot._settings.training import Inputs
from jumbot.data._columns import Columns
from jumbot.data._domain import Domain
from jumbot.data._fitting import find_columns
from jumbot.data._frames import Table, as_table, is_frame, pandas
from jumbot.data._tables import TableSamples, check_same_rows
from jumbot.errors import ArgumentError
from jumbot.transport._checks import check_unmasked


class Taken(NamedTuple):
    """X and y of a `fit`, as numbers, with all that is needed to convert later rows in the same way."""

    X: np.ndarray
    y: np.ndarray
    columns: Columns | None
    """How frames become numbers; None if X was not a frame."""
    table: Table | None
    """X, if it is more than numbers."""

    def raw(self, is_source: np.ndarray, X_target: Any) -> tuple[Domain, Domain | None] | None:
        """Source and target as tables, for choosing the recipe and for remarks; the target only if it is a frame."""
        if self.table is None:
            return None
        target = self.table.rows(np.flatnonzero(~is_source)) if X_target is None else _table(X_target, "X_target")
        source = Domain("source", TableSamples(self.table.rows(np.flatnonzero(is_source))))
        return source, None if target is None or not len(target.frame) else Domain("target", TableSamples(target))


def take(estimator: Any, X: Any, y: Any, X_target: Any, is_source: np.ndarray | None, **how: Any) -> Taken:
    """Convert the arguments of `fit`; medians, categories, dates and texts are found on the source rows alone."""
    for name, given in (("X", X), ("y", y)):
        check_unmasked(given, name)
    check_same_rows(y, X, "y")
    y = _without_nullables(y)
    table, options = _table(X, "X"), estimator.options if isinstance(estimator.options, Mapping) else {}
    asked = Inputs(**{name: options[name] for name in ("dates", "text") if name in options})
    if table is None:
        for name in ("dates", "text"):
            if getattr(asked, name) is not None:
                raise ArgumentError(f"options: {name} needs a frame as X, whose columns have names.")
        X, y = validate_data(estimator, X, y, dtype=np.float64, **how)
        return Taken(X, y, None, None)
    source = table if is_source is None or is_source.all() else table.rows(np.flatnonzero(is_source))
    plain = _is_plain(table) and asked.dates is None and asked.text is None
    if plain:
        X, y = validate_data(estimator, X, y, dtype=np.float64, **how)
    there = _table(X_target, "X_target")
    same = there is not None and there.frame.columns.tolist() == table.frame.columns.tolist()
    columns = find_columns(source, there if same else None, ("X", "X_target"), dates=asked.dates, text=asked.text)
    if plain:
        return Taken(X, y, columns, None)
    numbers = columns.encode(table, "X").astype(np.float64)
    validate_data(estimator, X, skip_check_array=True)
    numbers, y = check_X_y(numbers, y, dtype=np.float64, estimator=estimator, **how)
    return Taken(numbers, y, columns, table)


def take_more(estimator: Any, X: Any, name: str = "X") -> np.ndarray:
    """Further rows like those of `fit`, as numbers."""
    check_unmasked(X, name)
    columns: Columns | None = getattr(estimator, "columns_", None)
    encoded = columns is not None and any(column.encoded_as for column in columns.columns)
    table = None if columns is None else _table(X, name)
    if columns is not None and encoded and table is None:
        columns.check_array(np.shape(X)[-1] if np.ndim(X) else 0, name)
    if columns is None or table is None or (not encoded and _is_plain(table)):
        found: np.ndarray = validate_data(estimator, X, dtype=np.float64, reset=False)
        return found
    validate_data(estimator, X, reset=False, skip_check_array=True)
    return columns.encode(table, name).astype(np.float64)


def _without_nullables(y: Any) -> Any:
    """Whole numbers and truth values of pandas' nullable types as numpy's; scikit-learn would make them floats."""
    dtype = getattr(y, "dtype", None)
    if isinstance(dtype, np.dtype) or getattr(dtype, "kind", "O") not in "iub":
        return y
    found = np.asarray(y)
    return found if found.dtype.kind in "iub" else y


def _table(X: Any, name: str) -> Table | None:
    return as_table(X, name) if is_frame(X) and type(X).__name__ != "Series" else None


def _is_plain(table: Table) -> bool:
    """Whether a frame contains only numbers, and none is missing."""
    numeric = pandas().api.types.is_numeric_dtype
    return all(numeric(dtype) for dtype in table.frame.dtypes) and not table.frame.isna().any().any()
