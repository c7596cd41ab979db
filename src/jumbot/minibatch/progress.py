"""Long stretches: a bar on a terminal, elsewhere a line of `logging` every ten seconds, which the commands print."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger("jumbot")
_EVERY = 10.0  # seconds
_FROM = 2000  # shorter runs are over before a bar could be read


class Pace:
    """Told of each part that is done; says how far it is where ten seconds have passed since the last line."""

    def __init__(self, total: int, what: str) -> None:
        self.total, self.what, self.done = total, what, 0
        self.start = self.last = time.monotonic()

    def __call__(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if now - self.last >= _EVERY:
            self.last = now
            log.info("%s: %s of %s, %.0f s", self.what, f"{self.done:,}", f"{self.total:,}", now - self.start)


@contextmanager
def progress(total: int, what: str, least: int = _FROM) -> Iterator[Callable[[int], None]]:
    """A function that moves the bar on; there is none for fewer than `least` steps."""
    if total < least or not sys.stderr.isatty():
        yield Pace(total, what)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
