"""Signatures of every public name and options of every command, as plain text."""

from __future__ import annotations

import dataclasses
import inspect
import re
from importlib import import_module
from pathlib import PurePath
from typing import Any

from jumbot.cli._app import COMMANDS
from jumbot.cli._arguments import entries
from jumbot.cli._help import Command
from jumbot.cli._run_options import every_option

MODULES = ("jumbot", "jumbot.minibatch.bounds", "jumbot.data", "jumbot.methods", "jumbot.report")


def signatures() -> dict[str, str]:
    """`{name: signature}` of all functions, classes and their public methods."""
    found: dict[str, str] = {}
    for place in MODULES:
        module = import_module(place)
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if inspect.isfunction(value):
                found[f"{place}.{name}"] = _text(value)
            elif inspect.isclass(value):
                found |= _of_class(f"{place}.{name}", value)
    return found


def options() -> dict[str, dict[str, str]]:
    """`{command: {option: default}}`, and the options of training that several commands share."""
    found = {"(training)": _defaults(entries(*every_option()))}
    for command in COMMANDS:
        module = import_module(f"jumbot.cli._{command}")
        own = [x for x in vars(module).values() if inspect.isclass(x) and issubclass(x, Command) and x is not Command]
        for cls in own:
            if cls.__module__ == module.__name__:
                found[command] = _defaults(entries(cls))
    return found


def _defaults(known: dict[str, Any]) -> dict[str, str]:
    return {name: _default(entry.field) for name, entry in sorted(known.items())}


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return str(field.default) if isinstance(field.default, PurePath) else repr(field.default)
    return "required" if field.default_factory is dataclasses.MISSING else repr(field.default_factory())


def _of_class(name: str, cls: type) -> dict[str, str]:
    if issubclass(cls, BaseException):
        return {name: ", ".join(base.__name__ for base in cls.__mro__[1:-1])}
    found = {name: _text(cls)}
    for key, value in sorted(vars(cls).items()):
        if key.startswith("_"):
            continue
        if inspect.isfunction(value):
            found[f"{name}.{key}"] = _text(value)
        elif isinstance(value, property) or type(value).__name__ == "cached_property":
            found[f"{name}.{key}"] = "property"
    return found


def _text(value: Any) -> str:
    """Names, kinds and defaults; annotations are the type checker's."""
    signature = inspect.signature(value)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+", "", text)
