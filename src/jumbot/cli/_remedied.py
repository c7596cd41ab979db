"""The command that would work, at the end of an error that knows which options do."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from jumbot.data._problems import WOULD_DO


def with_command(error: BaseException, command: str, arguments: Sequence[str]) -> str:
    """What to print of an error.

    >>> from jumbot.errors import ArgumentError
    >>> error = ArgumentError("column 'my notes' contains free text.", remedy={"drop": ("my notes",)})
    >>> print(with_command(error, "adapt", ["a.csv", "b.csv", "--drop", "age", "--out", "run"]))
    column 'my notes' contains free text.
    Try: jumbot adapt a.csv b.csv --drop age 'my notes' --out run
    """
    message = str(error)
    remedy: Mapping[str, Any] = getattr(error, "remedy", {})
    if not remedy:
        return message
    words = shlex.join(["jumbot", command, *_changed(list(arguments), remedy)])
    return f"{message.partition(f'{chr(10)}{WOULD_DO}')[0]}\n{WOULD_DO}{words}"


def _changed(words: list[str], remedy: Mapping[str, Any]) -> list[str]:
    """The words of a command with the options of a remedy: more names for a list, another value for the rest."""
    for name, value in remedy.items():
        flag = f"--{name.replace('_', '-')}"
        several = value if isinstance(value, tuple) else (value,)
        found = next((place for place, word in enumerate(words) if word == flag or word.startswith(f"{flag}=")), None)
        if found is None:
            words = [*words, flag, *map(str, several)]
            continue
        given = words[found].partition("=")[2]
        own = [given] if given else []
        end = found + 1
        while not given and end < len(words) and not words[end].startswith("-"):
            own.append(words[end])
            end += 1
        kept = own if isinstance(value, tuple) else []
        words = [*words[:found], flag, *kept, *(str(one) for one in several if str(one) not in kept), *words[end:]]
    return words
