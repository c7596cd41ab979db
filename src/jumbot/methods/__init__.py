"""Methods, one file each; `METHODS` names them, and a file is imported when its method is first used."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from jumbot.errors import ArgumentError
from jumbot.methods.base import Method

METHODS = {
    "source-only": "source_only:SourceOnly",
    "deepjdot": "deepjdot:DeepJDOT",
    "jumbot": "jumbot:Jumbot",
    "dann": "dann:DANN",
    "cdan-e": "cdan:CDAN",
    "alda": "alda:ALDA",
    "rot": "rot:ROT",
    "mcc": "mcc:MCC",
    "pada": "pada:PADA",
    "etn": "etn:ETN",
    "ba3us": "ba3us:BA3US",
}


def method_class(name: str) -> type[Method]:
    """The class of the method with this name.

    >>> method_class("jumbot").Options().tau
    0.5
    """
    if name not in METHODS:
        near = difflib.get_close_matches(str(name), METHODS, n=1, cutoff=0.3)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ArgumentError(f"method: {name!r} is not known; {hint}Known: {', '.join(METHODS)}.")
    file, attribute = METHODS[name].split(":")
    found: type[Method] = getattr(import_module(f"jumbot.methods.{file}"), attribute)
    return found


def method_options(name: str, options: Mapping[str, Any]) -> Any:
    """The options of a method: its defaults with these changes."""
    cls = method_class(name).Options
    known = [field.name for field in dataclasses.fields(cls)]
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1, cutoff=0.3)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ArgumentError(f"{option}: not an option of {name}; {hint}Known: {', '.join(known) or 'none'}.")
    return cls(**options)


def make_method(name: str, options: Any = None, *, features: int, classes: int) -> Method:
    """A method for a network with that width of embedding; `options` is its dataclass, a mapping, or None."""
    cls = method_class(name)
    if options is None or isinstance(options, Mapping):
        options = method_options(name, options or {})
    return cls(options, features=features, classes=classes)
