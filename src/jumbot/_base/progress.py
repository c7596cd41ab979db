"""Progress of long tasks: a bar on a terminal and in a notebook, elsewhere a line of `logging` at least every ten
seconds, which the commands print.
"""

from __future__ import annotations

import html
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from jumbot.errors import one_line

log = logging.getLogger("jumbot")
_EVERY = 10.0  # seconds
_FROM = 2000  # shorter runs are over before a bar could be read
_shown = threading.local()  # a task inside another leaves the reporting to it


class Stretch:
    """Progress of a long task: reports finished parts at least every ten seconds."""

    def __init__(self, what: str, total: int | None, done: int = 0) -> None:
        self.what, self.total, self.done, self.part = what, total, done, ""
        self.start = self.last = time.monotonic()
        self.draw: Callable[[], None] = self.beat

    def __call__(self, count: int = 1, part: str = "") -> None:
        """Report that so many more are done; `part` is the next one."""
        self.done += count
        self.part = part
        self.draw()

    def beat(self) -> None:
        now = time.monotonic()
        if now - self.last >= _EVERY:
            self.last = now
            log.info("%s, %.0f s", str(self), now - self.start)

    def __str__(self) -> str:
        far = "" if not self.total or self.total == 1 else f"{self.done:,} of {self.total:,}"
        return one_line(": ".join(filter(None, [self.what, ", ".join(filter(None, [far, self.part]))])))


@contextmanager
def progress(
    total: int | None, what: str, least: int = _FROM, *, bar: bool = True, slow: bool = False
) -> Iterator[Stretch]:
    """Call what is yielded as parts get done; there is no bar for fewer than `least`, or with `bar=False`.

    `slow` is for parts that may take longer than ten seconds each: a thread reports meanwhile.
    """
    stretch = Stretch(what, total)
    drawn = bar and (total is None or total >= least) and (in_notebook() or sys.stderr.isatty())
    with first_to_tell() as first:
        if not first:
            stretch.draw = lambda: None
            yield stretch
            return
        with (_bar if drawn else alive if slow else nullcontext)(stretch):
            yield stretch


@contextmanager
def first_to_tell() -> Iterator[bool]:
    """Whether no other task is reporting."""
    first = not getattr(_shown, "now", False)
    _shown.now = True
    try:
        yield first
    finally:
        _shown.now = not first


def in_notebook() -> bool:
    """Whether this is a kernel of Jupyter, which can show a drawing and change it later."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


@contextmanager
def alive(stretch: Stretch) -> Iterator[None]:
    """Also report while no part is finished."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(_EVERY / 10):
            stretch.beat()

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _bar(stretch: Stretch) -> Iterator[None]:
    if in_notebook():
        drawing = Drawing(stretch.total)
        stretch.draw = lambda: drawing.show(stretch.done, str(stretch))
        yield
        drawing.show(stretch.total or 1, str(stretch), last=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    # without markup: names of files may hold brackets
    columns = TextColumn("{task.description}", markup=False), BarColumn(20), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(str(stretch), total=stretch.total)
        stretch.draw = lambda: bar.update(task, completed=stretch.done, description=str(stretch))
        yield


class Drawing:
    """A bar in the output of a notebook's cell; it needs no widgets, so that every frontend shows it."""

    _APART = 0.25  # seconds between two updates

    def __init__(self, total: int | None, done: int = 0) -> None:
        self.total, self.last = total, -self._APART
        self.handle: Any = sys.modules["IPython"].display.display(self._html(done, ""), display_id=True)

    def show(self, done: int, text: str, last: bool = False) -> None:
        now = time.monotonic()
        if last or now - self.last >= self._APART:
            self.last = now
            self.handle.update(self._html(done, text))

    def _html(self, done: int, text: str) -> Any:
        far = "" if self.total is None else f' value="{done}" max="{self.total}"'
        return sys.modules["IPython"].display.HTML(
            f'<div style="font-family:monospace"><progress{far}></progress> {html.escape(text)}</div>'
        )
