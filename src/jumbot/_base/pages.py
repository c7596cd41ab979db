"""Pages about what was trained: one that cannot be drawn costs nothing that was trained."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from jumbot.errors import JumbotError

_PAGE = 5.0  # seconds that a page takes


def time_for_a_page(begun: float, seconds: float) -> bool:
    """Whether a budget of so many seconds, begun at this time of `time.monotonic`, leaves time for a page.

    Where much was trained, a page takes longer: a twentieth of the budget is kept for it.

    >>> time_for_a_page(time.monotonic() - 16, 20), time_for_a_page(time.monotonic() - 14, 20)
    (False, True)
    """
    return math.isinf(seconds) or time.monotonic() + max(_PAGE, seconds / 20) < begun + seconds


def drawn(what: str, draw: Callable[[], Path]) -> Path | None:
    """The page that `draw` writes, or None and a warning where it fails.

    Errors of this package pass: they name a file that is damaged, or a disk that is full, and what to do.

    >>> drawn("a page", lambda: Path("page.html")).name
    'page.html'
    """
    try:
        return draw()
    except JumbotError:
        raise
    except Exception as error:  # a model that took hours is not lost to a name that no font has
        warnings.warn(
            f"{what} could not be written ({type(error).__name__}: {error}). The model and its predictions are "
            "complete; model.report() tries again.",
            stacklevel=3,
        )
        return None
