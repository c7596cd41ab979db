"""Cells of a csv that a spreadsheet would run as a formula, written so that it does not."""

from __future__ import annotations

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def safe(text: str) -> str:
    """`text` behind an apostrophe if a spreadsheet would run it; numbers stay numbers.

    >>> safe("=1+1"), safe("-0.5"), safe("a=b"), safe("'=1")
    ("'=1+1", '-0.5', 'a=b', "''=1")
    """
    return "'" + text if text.lstrip("'").startswith(_FORMULAS) and not _number(text) else text


def unsafe(text: str) -> str:
    """What `safe` was given.

    >>> unsafe("'=1+1"), unsafe("'quoted'"), unsafe(safe("''@x"))
    ('=1+1', "'quoted'", "''@x")
    """
    return text[1:] if text.startswith("'") and text.lstrip("'").startswith(_FORMULAS) else text


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text[:1].isspace()
