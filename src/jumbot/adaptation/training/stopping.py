"""Ctrl-C and SIGTERM during training: the step is finished and a checkpoint saved before the process goes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from jumbot.errors import Stopped


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
