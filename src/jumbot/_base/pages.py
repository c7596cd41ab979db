"""Pages about what was trained: one that cannot be drawn costs nothing that was trained."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

from jumbot.errors import JumbotError


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
