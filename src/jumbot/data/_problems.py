"""All that is in the way of reading data, in one error, with the options that would do."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from jumbot.errors import ArgumentError

WOULD_DO = "Try: "
_ORDER = ("label", "task", "domain", "columns", "id", "dates", "text", "drop")


def problems_in(error: ArgumentError) -> list[str]:
    """What an error says, one by one."""
    listed: list[str] = getattr(error, "problems", [])
    return listed or [str(error)]


def one_error(name: str, problems: Sequence[str], remedy: Mapping[str, Any], solved: bool = True) -> ArgumentError:
    """An error that lists `problems`; `solved` says that nothing else is in the way with the options of `remedy`.

    >>> remedy = {"drop": ("notes",), "dates": ("born",)}
    >>> print(one_error("pets", ["'born' contains dates.", "'notes' is empty."], remedy))
    pets: 2 problems:
    - 'born' contains dates.
    - 'notes' is empty.
    Try: --dates born --drop notes
    """
    if len(problems) == 1:
        error = ArgumentError(problems[0], remedy=remedy)
    else:
        lines = [f"{name}: {len(problems)} problems:", *(f"- {problem}" for problem in problems)]
        how = WOULD_DO if solved else "For the others, try: "
        error = ArgumentError("\n".join([*lines, *([how + flags(remedy)] if remedy else [])]), remedy=remedy)
    error.problems = list(problems)  # type: ignore[attr-defined]
    if not solved:
        error.remedy = {}
    return error


def joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both remedies: several columns are put together, of one value the later is taken.

    >>> joined({"drop": ("a",), "label": "x"}, {"drop": ("b", "a"), "label": "y"})
    {'drop': ('a', 'b'), 'label': 'y'}
    """
    several = {
        name: tuple(dict.fromkeys([*first.get(name, ()), *value]))
        for name, value in second.items()
        if isinstance(value, tuple)
    }
    return {**first, **second, **several}


def flags(remedy: Mapping[str, Any]) -> str:
    """A remedy as options of a command."""
    words = []
    for name in sorted(remedy, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER)):
        value = remedy[name]
        several = value if isinstance(value, tuple) else (value,)
        words.append(" ".join([f"--{name.replace('_', '-')}", *(shlex.quote(str(one)) for one in several)]))
    return " ".join(words)
