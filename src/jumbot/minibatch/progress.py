"""A progress bar on long runs; silent where there is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_FROM = 2000  # shorter runs are over before a bar could be read


@contextmanager
def progress(total: int, what: str, least: int = _FROM) -> Iterator[Callable[[int], None]]:
    """A function that moves the bar on; there is none for fewer than `least` steps."""
    if total < least or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
