"""Labels and codes of a text file: numbers where nothing is lost by reading them so, what is written otherwise."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from jumbot.data.frames import NOTHING, Table
from jumbot.data.reading import TaskName

_PLAIN = re.compile(r"-?(0|[1-9]\d*)")
_CODE = re.compile(r"[-+]?0\d+")
_EXACT = 2**53  # float64 counts no further


def label_values(table: Table, column: str, task: TaskName | None) -> np.ndarray:
    """The labels in a column as numpy has them, None where one is missing.

    In a text file `1`, `01` and `2` are three classes, as they are where a column is declared to be text: labels that
    are whole numbers are read as such only where no two of them become one and no zero or digit is lost.  Numbers to
    predict are numbers however they are written.
    """
    values = table.frame[column]
    found: np.ndarray = values.to_numpy()
    if found.dtype.kind in "fiub":
        as_numbers = table.texts is None or task == "regression"
        texts = None if as_numbers else _texts_that_say_more(found, table.as_written(column))
        return found if texts is None else texts
    if table.texts is not None and values.map(lambda one: isinstance(one, bool), na_action="ignore").any():
        values = table.as_written(column).where(values.notna(), None)  # truth values beside missing ones
    return np.array([None if missing else v for v, missing in zip(values, values.isna(), strict=True)], dtype=object)


def _texts_that_say_more(numbers: np.ndarray, written: Any) -> np.ndarray | None:
    """The labels as they are written, if something is lost where they are read as numbers."""
    missing = written.isna() | written.isin(NOTHING)
    texts: np.ndarray = written.mask(missing, None).to_numpy(object)
    if numbers.dtype.kind == "b":
        return texts
    if numbers.dtype.kind == "f" and (np.nan_to_num(numbers, posinf=0.5, neginf=0.5) % 1 != 0).any():
        return None  # fractions: numbers to predict
    kept = dict(zip(written[~missing], numbers[~missing.to_numpy()].tolist(), strict=True))
    merged = len({*kept.values()}) < len(kept)
    if merged or any(_loses(text, number) for text, number in kept.items()):
        return texts
    return None


def _loses(text: str, number: float) -> bool:
    if _CODE.fullmatch(text):
        return True
    return _PLAIN.fullmatch(text) is not None and (abs(number) > _EXACT or int(text) != number)


def with_codes(table: Table, columns: tuple[str, ...]) -> Table:
    """`table` with codes such as 007 as they are written, where they are among these `columns`."""
    codes = {column: table.as_written(column) for column in columns if column in table.codes}
    codes = {column: written.where(table.frame[column].notna(), None) for column, written in codes.items()}
    return replace(table, frame=table.frame.assign(**codes)) if codes else table
