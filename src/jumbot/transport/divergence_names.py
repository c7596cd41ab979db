"""The names of divergences and their arguments, as texts; nothing heavy is imported to refuse a wrong one."""

from __future__ import annotations

import re

from jumbot.errors import ArgumentError, suggest

NAMES = ("kl", "tv", "chi2", "range", "power", "balanced")
_SHOWN = ("kl", "tv", "chi2", "range(lo,hi)", "power(p)", "balanced")


def read_divergence(text: str) -> tuple[str, list[float]]:
    """Name and arguments.

    >>> read_divergence("range(0.8, 1.25)")
    ('range', [0.8, 1.25])
    """
    match = re.fullmatch(r"\s*([\w-]+)\s*(?:\(([^()]*)\))?\s*", text)
    name = match[1].lower() if match else ""
    if match is None or name not in NAMES:
        raise ArgumentError(f"divergence: {text!r} is not known; {suggest(text, _SHOWN)}")
    try:
        return name, [float(part) for part in match[2].split(",")] if match[2] else []
    except ValueError as error:
        raise do_not_fit(text) from error


def do_not_fit(text: str) -> ArgumentError:
    """What to say of arguments that a divergence does not take."""
    return ArgumentError(
        f"divergence: {text!r} has arguments that do not fit; write for example 'range(0.8,1.25)' or 'kl'."
    )
