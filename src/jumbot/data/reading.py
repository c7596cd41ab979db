"""How data are read: the options that Python and the commands share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How data are read: the same in every command."""

    label: str | None = None
    """Column of the labels in a table; by default label, labels, y, target or class. The target may lack it."""
    id: str | None = None
    """Column that names the rows of a table; by default one named id."""
    drop: tuple[str, ...] = ()
    """Columns of a table to leave out."""
    domain: str | None = None
    """Domain to take from data that hold several, in a column `domain`; "none" if that is a column like others."""
    corrupt: str = "refuse"
    """What to do with image files that cannot be read: "refuse" or "skip"."""
    root: str | Path | None = None
    """Folder of the digits; by default that in JUMBOT_DATA."""


def as_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """One name, or several."""
    return (names,) if isinstance(names, str) else tuple(names)
