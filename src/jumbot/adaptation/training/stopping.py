"""Ctrl-C, SIGTERM and a deadline during training: the step is finished and a checkpoint saved before it ends."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

from jumbot.errors import JumbotError, Stopped

_DEADLINE = ContextVar("deadline", default=math.inf)


class TimeUpError(JumbotError):
    """The deadline of `pausing` passed; the run has a checkpoint and goes on when it is asked for again."""


@contextmanager
def pausing(seconds: float) -> Iterator[None]:
    """Training inside that is not done after so many seconds saves a checkpoint and raises `TimeUpError`.

    Unlike the budget of `adapt`, which hands over what was learned: runs that are compared are whole, or not there.
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
    """A function that says which signal has asked to stop, if one has; the second is obeyed at once.

    Threads other than the first get no signals, and nothing changes for them.
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
