"""Progress of the training loop, and how it is stopped."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

from jumbot._base.progress import Drawing, Stretch, alive, first_to_tell, in_notebook
from jumbot.errors import JumbotError, Stopped

Update = Callable[[dict[str, Any]], None]


@contextmanager
def training_bar(total: int, done: int, name: str, show: bool = True) -> Iterator[Update]:
    """A function that takes the records of the run as they are made; without `show` they are only logged."""
    with first_to_tell() as first:
        if not first:
            yield lambda record: None
        elif show and in_notebook():
            yield _notebook(total, done, name)
        elif show and sys.stderr.isatty():
            with _terminal(total, done, name) as update:
                yield update
        else:
            stretch = Stretch(name, total, done)
            with alive(stretch):
                yield _lines(stretch, show)


class _Facts:
    """The records in a few words; the result of an evaluation is shown until the next."""

    def __init__(self, name: str) -> None:
        self.name, self.outcome = name, ""

    def title(self, record: dict[str, Any]) -> str:
        return f"{self.name} ({record['phase']})"

    def __call__(self, record: dict[str, Any], speed: float | None = None) -> str:
        if record["event"] == "evaluation":
            self.outcome = _outcome(record)
        words = [f"{speed:.1f}/s"] if speed else []
        words += [f"mass {record['mass']:.2f}"] if "mass" in record else []
        words += [f"{term} {value:.3f}" for term, value in record.get("terms", {}).items()]
        return "  ".join([*words, self.outcome] if self.outcome else words)


def _notebook(total: int, done: int, name: str) -> Update:
    drawing, facts = Drawing(total, done), _Facts(name)

    def update(record: dict[str, Any]) -> None:
        nonlocal done
        words = facts(record)
        done += record["event"] != "evaluation"
        drawing.show(done, f"{facts.title(record)}  {done:,} of {total:,}  {words}", last=done == total)

    return update


@contextmanager
def _terminal(total: int, done: int, name: str) -> Iterator[Update]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    # on a narrow terminal the facts are cut, never the bar
    facts_column = TextColumn(
        "{task.fields[facts]}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    columns = (TextColumn("{task.description}"), BarColumn(12), MofNCompleteColumn(), TimeRemainingColumn(compact=True))
    facts = _Facts(name)
    with Progress(*columns, facts_column, console=Console(stderr=True), expand=True) as bar:
        task = bar.add_task(name, total=total, completed=done, facts="")

        def update(record: dict[str, Any]) -> None:
            words = facts(record, bar.tasks[0].speed)
            if record["event"] != "evaluation":
                bar.update(task, advance=1, description=facts.title(record), facts=words)

        yield update


def _lines(stretch: Stretch, show: bool) -> Update:
    def tell(record: dict[str, Any]) -> None:
        if record["event"] != "evaluation":
            stretch(1, record["phase"])
        elif show:
            print(
                f"step {record['step']}  {record['phase']}  {_outcome(record)}  {record['seconds']:.0f} s",
                file=sys.stderr,
                flush=True,
            )
            stretch.last = time.monotonic()

    return tell


def _outcome(record: dict[str, Any]) -> str:
    if record.get("accuracy") is not None:
        return f"target accuracy {100 * record['accuracy']:.1f} % (evaluation)"
    if record.get("rmse") is not None:
        return f"target RMSE {record['rmse']:.4g} (evaluation)"
    name, value = next(iter(record["scores"].items()), ("entropy", float("nan")))
    return f"target {name} {value:.3f}"


_DEADLINE = ContextVar("deadline", default=math.inf)


class TimeUpError(JumbotError):
    """The deadline of `pausing` has passed; the run has a checkpoint and continues when it is requested again."""


@contextmanager
def pausing(seconds: float) -> Iterator[None]:
    """Training in this block that is not done after so many seconds saves a checkpoint and raises `TimeUpError`.

    Unlike the budget of `adapt`, which returns what was learned: compared runs are complete or left out.
    """
    token = _DEADLINE.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def time_is_up() -> bool:
    """Whether the deadline of `pausing` has passed."""
    return time.monotonic() >= _DEADLINE.get()


@contextmanager
def stops() -> Iterator[Callable[[], int | None]]:
    """A function that returns the signal that requested a stop, if any; a second signal stops immediately.

    Other threads than the main one get no signals, and nothing changes for them.
    """
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if asked:
            raise Stopped("", number)
        asked.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked[0] if asked else None
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
