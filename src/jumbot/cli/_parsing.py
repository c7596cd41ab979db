"""From the arguments of a command to its `Options` dataclass.

tyro splits the arguments.  What a value may be is decided by the dataclasses alone, so that the command refuses what
Python refuses, in the same words.  What was not given stays absent: defaults are the dataclass's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from jumbot.cli._arguments import Entry, Option, annotated, entries, flag, optional_keys
from jumbot.cli._help import Command, Group, show_help
from jumbot.cli._run_options import every_option
from jumbot.errors import ArgumentError, need, suggest_option

T = TypeVar("T", bound=Command)


class UsageError(ArgumentError):
    """Invalid arguments; the help page of the command, `page`, lists the valid ones."""

    page = ""


def parse(command: type[T], arguments: Sequence[str]) -> T:
    """The options of a command that has no others."""
    return parse_with(command, arguments, lambda given: ())[0]


def parse_with(
    command: type[T], arguments: Sequence[str], shown: Callable[[Mapping[str, Any]], Sequence[Group]]
) -> tuple[T, dict[str, Any]]:
    """The command's own options, and those of a run that were given, if it trains.

    `shown` says which of the latter the help lists, from what else was given.  Help leaves by SystemExit.
    """
    tyro = need("tyro", "the command line", "adapt")
    known = entries(command, *(every_option() if command.trains else ()))
    words = [word for word in arguments if word not in ("-h", "--help")]
    if len(words) < len(arguments):
        given: dict[str, Any] = {}
        with contextlib.suppress(UsageError):
            given, _ = _split(tyro, known, words)
        with usage_errors(known):
            show_help(tyro, command, shown(given))
        raise SystemExit(0)
    with usage_errors(known):
        given, unknown = _split(tyro, known, words)
        if unknown:
            raise UsageError(_unknown(unknown, known))
        own = {field.name: given.pop(field.name) for field in dataclasses.fields(command) if field.name in given}
        for name, entry in entries(command).items():
            if entry.required and name not in own:
                raise UsageError(f"{entry.shown} is missing.")
        return command(**own), given


@contextlib.contextmanager
def usage_errors(names: Collection[str], page: str = "") -> Iterator[None]:
    """Errors about options, in the words of the command: `batch_size` is `--batch-size` there, `source` is SRC."""
    try:
        yield
    except UsageError:
        raise
    except ArgumentError as error:
        message, argument = str(error), error.argument or ""
        name = f"{argument}s" if argument not in names and f"{argument}s" in names else argument  # one of several
        shown = names[name].shown if isinstance(names, Mapping) and name in names else flag(name)
        if name in names and message.startswith(argument):
            message = shown + message.removeprefix(argument)
        usage = UsageError(message, argument=error.argument)
        usage.page = page
        raise usage from error


def _split(tyro: Any, known: Mapping[str, Entry], words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The given options by name, and words that belong to none."""
    everything = optional_keys({name: annotated(tyro, entry) for name, entry in known.items()})
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output):
            given, unknown = tyro.cli(everything, args=list(words), prog="", return_unknown_args=True)
    except SystemExit:
        raise UsageError(_one_line(output.getvalue())) from None
    return dict(given), list(unknown)


def _unknown(words: Sequence[str], known: Mapping[str, Entry]) -> str:
    word = next((word for word in words if word.startswith("-") and len(word) > 1), None)
    if word is None:
        return f"{words[0]!r} is an unexpected argument."
    word = word.partition("=")[0]
    names = [name for name, entry in known.items() if isinstance(entry.marker, Option)]
    near = re.match(r"did you mean '(\w+)'", suggest_option(word.strip("-").replace("-", "_"), names))
    return f"{word} is not an option" + (f"; did you mean {flag(near[1])}?" if near else ".")


def _one_line(output: str) -> str:
    """The message in tyro's box, on one line."""
    lines = [re.sub(r"[╭╮╰╯│─]+", " ", line).strip() for line in output.splitlines()[1:]]
    text = " ".join(lines[: lines.index("")] if "" in lines else lines)
    return text.replace("Expected 1 values", "Give one").replace("  ", " ")
