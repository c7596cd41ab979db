"""Pages about what was trained: one that cannot be drawn costs nothing that was trained."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path


def drawn(what: str, draw: Callable[[], Path]) -> Path | None:
    """The page that `draw` writes, or None and a warning where it fails, whatever the reason.

    >>> drawn("a page", lambda: Path("page.html")).name
    'page.html'
    """
    try:
        return draw()
    except Exception as error:  # a model that took hours is not lost to a name that no font has
        warnings.warn(
            f"{what} could not be written ({type(error).__name__}: {error}). The model and its predictions are "
            "complete; model.report() tries again.",
            stacklevel=3,
        )
        return None
