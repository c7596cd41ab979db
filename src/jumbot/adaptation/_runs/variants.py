"""Methods with options, `NAME:OPTION=VALUE`, as `jumbot compare --methods` takes them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jumbot._base.options import check
from jumbot.adaptation._config import check_changes, option_names
from jumbot.errors import ArgumentError, suggest, suggest_option
from jumbot.methods import METHODS

_WORDS = {"none": None, "true": True, "false": False}


@dataclass(frozen=True)
class Variant:
    """A method and changes to its options or training; `label` is its name in the table."""

    label: str
    method: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Its label as a folder name that is valid on every system."""
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
            raise ArgumentError(f"methods: got {text!r}; write NAME or NAME:OPTION=VALUE,OPTION=VALUE.")
        if name in changes:
            raise ArgumentError(f"methods: {text!r} gives {name} twice.")
        changes[name] = _value(value.strip())
    return Variant(text, method, changes)


def share_changes(
    methods: Sequence[str],
    recipe: str | None,
    common: Mapping[str, Any],
    own: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[tuple[Variant, dict[str, Any]]]:
    """The changes of each method: those of the `common` ones that it has (dann has no tau), its `own` by the names in
    `methods`, and those in its name.

    >>> [changes for _, changes in share_changes(["jumbot", "dann:weight=2"], "table", {"tau": 0.3, "steps": 9})]
    [{'tau': 0.3, 'steps': 9}, {'steps': 9, 'weight': 2}]
    """
    variants = [read_variant(check("methods", name, str)) for name in dict.fromkeys(methods)]
    known = [option_names(variant.method) for variant in variants]
    if not variants:
        raise ArgumentError(f"methods: none given; {suggest('', METHODS)}")
    for option in common:
        if not any(option in names for names in known):
            every = sorted(set().union(*known))
            raise ArgumentError(f"{option}: not an option of {', '.join(methods)}; {suggest_option(option, every)}")
    shared = []
    for variant, names in zip(variants, known, strict=True):
        changes = {option: value for option, value in common.items() if option in names}
        shared.append((variant, changes | dict((own or {}).get(variant.label, {})) | dict(variant.changes)))
        check_changes(variant.method, recipe, shared[-1][1])
    return shared


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
