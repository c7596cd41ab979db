"""Methods with changes, in one word: what `jumbot compare --methods` takes."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jumbot.errors import ArgumentError

_WORDS = {"none": None, "true": True, "false": False}


@dataclass(frozen=True)
class Variant:
    """A method and changes to its options or training; `label` is how the table calls it."""

    label: str
    method: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Its label as the name of a folder, on every system."""
        return self.label.replace(":", "-").replace(" ", "-")


def read_variant(text: str) -> Variant:
    """NAME, or NAME:OPTION=VALUE,OPTION=VALUE.

    >>> read_variant("dann:reversal_steps=none,weight=0.5").changes
    {'reversal_steps': None, 'weight': 0.5}
    """
    method, colon, rest = text.partition(":")
    changes: dict[str, Any] = {}
    for one in rest.split(",") if colon else ():
        name, equals, value = one.partition("=")
        name = name.strip().replace("-", "_")
        if not name or not equals or not value.strip():
            raise ArgumentError(f"methods: {text!r} came in; write NAME or NAME:OPTION=VALUE,OPTION=VALUE.")
        if name in changes:
            raise ArgumentError(f"methods: {text!r} gives {name} twice.")
        changes[name] = _value(value.strip())
    return Variant(text, method, changes)


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
