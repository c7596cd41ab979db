"""Remarks about the data: warned of at once, and kept for the report, the model card and `results.json`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from jumbot.errors import DataWarning

_noted: ContextVar[list[str] | None] = ContextVar("noted", default=None)


def remark(text: str, stacklevel: int = 2) -> None:
    """Warn about a problem in the data: a `DataWarning`, which a surrounding `noting` also keeps."""
    noted = _noted.get()
    if noted is not None and text not in noted:
        noted.append(text)
    warnings.warn(text, DataWarning, stacklevel=stacklevel + 1)


@contextmanager
def noting() -> Iterator[list[str]]:
    """The remarks that are made in this block, each once.

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
