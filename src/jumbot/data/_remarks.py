"""Remarks about the data, given as warnings and kept for the report, the model card and `results.json`; and all
problems in reading them, in one error, with the options that solve them.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from jumbot.errors import ArgumentError, DataWarning

_noted: ContextVar[list[str] | None] = ContextVar("noted", default=None)
_counted: ContextVar[dict[str, int] | None] = ContextVar("counted", default=None)
_EACH = 8  # columns that are named one by one, of a kind


def remark(text: str, stacklevel: int = 2) -> None:
    """Warn about a problem in the data: a `DataWarning`, which a surrounding `noting` also keeps."""
    noted = _noted.get()
    if noted is not None and text not in noted:
        noted.append(text)
    warnings.warn(text, DataWarning, stacklevel=stacklevel + 1)


@contextmanager
def noting() -> Iterator[list[str]]:
    """Collect the remarks made in this block, each once.

    >>> with noting() as noted, warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     remark("column 'age' is empty.")
    >>> noted
    ["column 'age' is empty."]
    """
    noted: list[str] = []
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def remark_on_column(text: str, what: str, stacklevel: int = 2) -> None:
    """A remark on one column, of which there may be many in a `few_of_each`; `what` says what its kind do."""
    counted = _counted.get()
    if counted is not None:
        counted[what] = counted.get(what, 0) + 1
        if counted[what] > _EACH:
            return
    remark(text, stacklevel=stacklevel + 1)


@contextmanager
def few_of_each(name: str) -> Iterator[None]:
    """Of the columns of a table that are alike the first few are remarked on, and then how many more there are.

    >>> with noting() as noted, warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     with few_of_each("pets"):
    ...         for i in range(99):
    ...             remark_on_column(f"pets: column {i} is empty.", "are empty")
    >>> len(noted), noted[-1]
    (9, 'pets: 91 more columns are empty.')
    """
    token = _counted.set({})
    try:
        yield
        for what, count in (_counted.get() or {}).items():
            if count > _EACH:
                remark(f"{name}: {count - _EACH} more columns {what}.", stacklevel=3)
    finally:
        _counted.reset(token)


WOULD_DO = "Try: "
_LISTED = 30  # problems of one error
_ORDER = ("label", "task", "domain", "columns", "id", "dates", "text", "drop")


def problems_in(error: ArgumentError) -> list[str]:
    """The problems listed in an error."""
    listed: list[str] = getattr(error, "problems", [])
    return listed or [str(error)]


def one_error(name: str, problems: Sequence[str], remedy: Mapping[str, Any], solved: bool = True) -> ArgumentError:
    """An error that lists `problems`; `solved` means that the options of `remedy` solve all of them.

    >>> remedy = {"drop": ("notes",), "dates": ("born",)}
    >>> print(one_error("pets", ["'born' contains dates.", "'notes' is empty."], remedy))
    pets: 2 problems:
    - 'born' contains dates.
    - 'notes' is empty.
    Try: --dates born --drop notes
    """
    if len(problems) == 1:
        error = ArgumentError(problems[0], remedy=remedy)
    else:
        lines = [f"{name}: {len(problems)} problems:", *(f"- {problem}" for problem in problems[:_LISTED])]
        lines += [f"- {len(problems) - _LISTED} more"] * (len(problems) > _LISTED)
        how = WOULD_DO if solved else "For the others, try: "
        error = ArgumentError("\n".join([*lines, *([how + flags(remedy)] if remedy else [])]), remedy=remedy)
    error.problems = list(problems)  # type: ignore[attr-defined]
    if not solved:
        error.remedy = {}
    return error


def joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both remedies: lists of columns are joined, of single values the later is used.

    >>> joined({"drop": ("a",), "label": "x"}, {"drop": ("b", "a"), "label": "y"})
    {'drop': ('a', 'b'), 'label': 'y'}
    """
    several = {
        name: tuple(dict.fromkeys([*first.get(name, ()), *value]))
        for name, value in second.items()
        if isinstance(value, tuple)
    }
    return {**first, **second, **several}


def flags(remedy: Mapping[str, Any]) -> str:
    """A remedy as options of a command."""
    words = []
    for name in sorted(remedy, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER)):
        value = remedy[name]
        several = value if isinstance(value, tuple) else (value,)
        words.append(" ".join([f"--{name.replace('_', '-')}", *(shlex.quote(str(one)) for one in several)]))
    return " ".join(words)
