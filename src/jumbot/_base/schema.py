"""JSON files with a schema: a frozen dataclass describes a file, and is used to read and to write it.

msgspec compares names and types: it has no dependencies, takes ordinary dataclasses, converts strictly ("3" is no
number), and runs `__post_init__`, where `_base.options.check` bounds the values.  pydantic would do the same with its
own kind of models and five times the code to install.  To add a field to a file, add it to the dataclass, with a
default if older files lack it.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from jumbot._base.files import read_bytes, write_text
from jumbot._base.options import Checked, Text
from jumbot.errors import ArgumentError, need, suggest

FORMAT = 2
"""The format of the files that this version writes; jumbot 0.1 wrote format 1."""
T = TypeVar("T")
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Record(Checked):
    """Base of everything that is stored in a file."""


@dataclass(frozen=True)
class Versioned(Record):
    """A file that says which version wrote it; `upgrades[n]` brings what format n held to format n + 1."""

    format: int
    jumbot: Text
    upgrades: ClassVar[Mapping[int, Upgrade]] = {}


def read(path: str | Path, cls: type[T]) -> T:
    """The JSON file at `path` as a `cls`; an error names the file, the field and what was expected."""
    path = Path(path)
    return convert(parse(read_bytes(path), path), cls, path)


def parse(raw: bytes, where: str | Path) -> Any:
    """JSON, in which NaN and Infinity are allowed as Python writes them."""
    try:
        return json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        what = "not text" if isinstance(error, UnicodeDecodeError) else "not JSON"
        raise ArgumentError(f"{where}: is {what}, or is incomplete ({error}).") from error


def write(path: str | Path, record: Any) -> Path:
    """Write a record to a JSON file atomically."""
    return write_text(path, json.dumps(to_builtins(record), indent=1) + "\n")


def to_builtins(record: Any) -> Any:
    """A record as dictionaries, lists, texts and numbers."""
    return json.loads(json.dumps(_msgspec().to_builtins(record)))


def convert(content: Any, cls: type[T], where: str | Path) -> T:
    """Dictionaries and lists as a `cls`; `where` is their name in errors.

    >>> @dataclass(frozen=True)
    ... class Point(Record):
    ...     x: float
    ...     kind: Literal["round", "square"] = "round"
    >>> convert({"x": 2}, Point, "point.json")
    Point(x=2.0, kind='round')
    >>> convert({"x": "2"}, Point, "point.json")
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: point.json: x must be a number, got text.
    >>> convert({"x": 2, "kimd": "round"}, Point, "point.json")
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: point.json: kimd is not known to this version of jumbot; did you mean 'kind'? ...
    """
    msgspec = _msgspec()
    if isinstance(cls, type) and issubclass(cls, Versioned):
        content = _upgraded(content, cls, where)
    try:
        found = msgspec.convert(content, cls)
    except msgspec.ValidationError as error:
        raise ArgumentError(f"{where}: {_explained(str(error), cls)}") from error
    _check_known(content, msgspec.to_builtins(found), where, "")
    return found


def _msgspec() -> Any:
    return need("msgspec", "reading and writing runs and models", "adapt")


def check_header(path: Path) -> None:
    """Refuse a file that is not JSON, or whose format this version cannot read; `read` checks all of it."""
    if isinstance(content := parse(read_bytes(path), path), dict):
        _check_format(content, path)


def _upgraded(content: Any, cls: type[Versioned], where: str | Path) -> Any:
    if not isinstance(content, dict):
        return content
    for old in range(_check_format(content, where), FORMAT):
        content = cls.upgrades.get(old, dict)(content) | {"format": old + 1}
    return content


def _check_format(content: Mapping[str, Any], where: str | Path) -> int:
    made, format = str(content.get("jumbot", "unknown"))[:40], content.get("format")
    if "format" not in content:
        raise ArgumentError(f"{where}: format: is missing; it must be a whole number from 1 to {FORMAT}.")
    if not isinstance(format, int) or isinstance(format, bool) or not 1 <= format <= FORMAT:
        raise ArgumentError(
            f"{where}: format: got {str(format)[:40]}; jumbot {made} wrote it in a format that this version cannot "
            f"read (it reads 1 to {FORMAT}). Use that version, or adapt again."
        )
    return format


_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "object": "an object",
    "array": "a list",
    "bool": "true or false",
    "null": "null",
}


def _explained(error: str, cls: Any) -> str:
    """The message of msgspec or a dataclass, as field, expected and found."""
    text, _, place = error.rpartition(" - at `") if error.endswith("`") and " - at `" in error else (error, "", "")
    place = place.removeprefix("key in `").strip("`").removeprefix("$").removeprefix(".")
    if lacking := re.fullmatch(r"Object missing required field `(.*)`", text):
        return f"{_join(place, lacking[1])}: is missing."
    if expected := re.fullmatch(r"Expected (.*), got (.*)", text):
        wanted, got = (" or ".join(_word(one) for one in side.split(" | ")) for side in expected.groups())
        return f"{place or 'its content'} must be {wanted}, got {got}."
    if unknown := re.fullmatch(r"Invalid enum value (.*)", text, re.S):
        return f"{place}: {unknown[1][:80]} is not known; {suggest(unknown[1].strip(chr(39)), _choices(cls, place))}"
    return _join(place, text)


def _join(place: str, rest: str) -> str:
    return f"{place}.{rest}" if place else rest


def _word(shown: str) -> str:
    name = re.match(r"`(\w+)`(.*)", shown)
    return f"{_WORDS.get(name[1], name[1])}{name[2]}" if name else shown


def _choices(cls: Any, place: str) -> list[str]:
    """The words that the field at that place may hold."""
    kinds = _within(cls)
    for name in re.findall(r"\w+", re.sub(r"\[.*?\]", "", place)):
        holder = next((kind for kind in kinds if dataclasses.is_dataclass(kind)), None)
        hints = typing.get_type_hints(holder, include_extras=True) if holder is not None else {}
        kinds = _within(hints.get(name))
    return [str(word) for kind in kinds if typing.get_origin(kind) is Literal for word in typing.get_args(kind)]


def _within(kind: Any) -> list[Any]:
    """A type and those that it is made of."""
    if typing.get_origin(kind) is Literal:
        return [kind]
    return [kind, *(one for inner in typing.get_args(kind) for one in _within(inner))]


def _check_known(content: Any, kept: Any, where: str | Path, place: str) -> None:
    """Refuse unknown names, which may mean something in a later version."""
    if isinstance(content, dict) and isinstance(kept, dict):
        for name, value in content.items():
            if name not in kept:
                hint = suggest(name, map(str, kept))
                raise ArgumentError(f"{where}: {_join(place, name)} is not known to this version of jumbot; {hint}")
            _check_known(value, kept[name], where, _join(place, name))
    elif isinstance(content, list | tuple) and isinstance(kept, list | tuple):
        if content and not isinstance(content[0], dict | list | tuple):
            return
        for number, (one, other) in enumerate(zip(content, kept, strict=False)):
            _check_known(one, other, where, f"{place}[{number}]")
