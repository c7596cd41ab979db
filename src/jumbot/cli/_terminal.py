"""What a command says on a terminal: names from data are shown, never obeyed, and a warning is one line, said once."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from jumbot.errors import escaped


def say(text: object, file: TextIO | None = None, end: str = "\n") -> None:
    """Print text that may hold names from data."""
    print(escaped(text), file=sys.stdout if file is None else file, end=end, flush=file is not None)


class Screen(io.TextIOBase):
    """Standard output for a table: as it is to another program, shown as `say` does on a terminal."""

    def write(self, text: str) -> int:
        shown = escaped(text) if sys.stdout.isatty() else text.encode("utf-8", "backslashreplace").decode()
        return sys.stdout.write(shown)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record))


@contextmanager
def telling() -> Iterator[None]:
    """What the package logs, on standard error, and warnings without the place in the code."""
    log, handler = logging.getLogger("jumbot"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    before, written = log.level, warnings.formatwarning
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    warnings.formatwarning = _once()  # not showwarning: filters, and whoever collects warnings, stay as they are
    try:
        yield
    finally:
        warnings.formatwarning = written
        log.removeHandler(handler)
        log.setLevel(before)


class _once:
    """`warnings.formatwarning` for a person at a terminal: each warning the first time that it comes."""

    def __init__(self) -> None:
        self.said: set[str] = set()

    def __call__(
        self, message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        text = f"warning: {escaped(message)}\n"
        if text in self.said:
            return ""
        self.said.add(text)
        return text
