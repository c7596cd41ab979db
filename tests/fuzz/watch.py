"""A call under watch: its time, its warnings, its exceptions, and whether it left its inputs alone."""

from __future__ import annotations

import signal
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import jumbot

LONGEST = 20.0  # seconds that one call may take
_GIVEN_UP = 15 * LONGEST  # when a call is broken off, however busy the machine and whatever it had to compile


class Refused(Exception):
    """The package said no, by an error of its own tree."""


class Fault(Exception):
    """Something that must never happen; the message says what."""


class _TooLong(BaseException):
    """Not an `Exception`, so that nothing on the way catches it."""


@contextmanager
def _interrupted() -> Iterator[None]:
    """Raise `_TooLong` when the call takes far too long; only the main thread can be told."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _GIVEN_UP)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Watch:
    """Makes the calls of one case and notes the longest."""

    longest: float = 0.0
    calls: int = 0
    faults: list[str] = field(default_factory=list)

    def __call__(self, function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, bool]:
        """(result, whether it warned of stopping short); a slow call is made again, it may have compiled something."""
        result, warned, seconds = self._timed(function, *args, **options)
        if seconds > LONGEST / 4:
            result, warned, again = self._timed(function, *args, **options)
            seconds = min(seconds, again)
        self.longest = max(self.longest, seconds)
        if seconds > LONGEST:
            self.faults.append(f"a call took {seconds:.1f} s")
        return result, warned

    def _timed(self, function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, bool, float]:
        before = [_bytes(x) for x in (*args, *options.values())]
        wall, cpu = time.perf_counter(), time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with _interrupted():
                    result = function(*args, **options)
            except _TooLong:
                raise Fault(f"a call took more than {_GIVEN_UP:g} s") from None
            except jumbot.JumbotError as error:
                raise Refused(f"{type(error).__name__}: {error}") from error
            except Exception as error:
                raise Fault(f"{type(error).__name__} is not ours: {str(error).splitlines()[0][:200]}") from error
        # on a busy machine the wall clock counts the others, with threads the other clock counts twice
        seconds = min(time.perf_counter() - wall, time.process_time() - cpu)
        self.calls += 1
        if before != [_bytes(x) for x in (*args, *options.values())]:
            self.faults.append("an input was written to")
        strange = [w for w in caught if not issubclass(w.category, jumbot.NotConvergedWarning)]
        self.faults += [f"{w.category.__name__}: {w.message}" for w in strange]
        return result, len(strange) < len(caught), seconds


def _bytes(x: Any) -> Any:
    if isinstance(x, torch.Tensor) and x.layout == torch.strided and x.device.type == "cpu":
        x = x.detach().numpy()
    if not isinstance(x, np.ndarray):
        return None
    return x.tobytes() if x.size < 1 << 16 else zlib.crc32(x.tobytes())
