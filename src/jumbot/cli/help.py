"""The help of a command, printed by tyro from the dataclasses and the strings below their fields."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jumbot.cli.arguments import Entry, annotated, entries
from jumbot.cli.docstrings import field_docs
from jumbot.options import Options


@dataclass(frozen=True)
class Group:
    """Options that a command takes beside its own, with a title and what the help says of their defaults."""

    title: str
    cls: type[Options]
    defaults: Mapping[str, str]


def show_help(tyro: Any, command: type[Options], prog: str, groups: Sequence[Group]) -> None:
    """Print it and leave: what belongs to the command alone first, and its `epilog`, where it has one, last."""
    docs, own = field_docs(command), inspect.get_annotations(command)
    fields: list[tuple[str, Any, Any]] = []
    for name, entry in sorted(entries(command).items(), key=lambda item: item[0] not in own):
        if entry.required:
            fields.append((name, annotated(tyro, entry, docs.get(name, "")), dataclasses.field()))
            continue
        shown = _shown(tyro, entry, docs.get(name, ""), shown_default(entry.field.default))
        if entry.is_flag:  # one that is off has no use for its opposite
            shown = (tyro.conf.FlagCreatePairsOff[shown[0]], shown[1])
        fields.append((name, *shown))
    seen = {name for name, *_ in fields}  # methods share options: the first that has one shows it
    for group in groups:
        docs = field_docs(group.cls)
        inner = [
            (name, *_shown(tyro, entry, docs.get(name, ""), group.defaults.get(name, "")))
            for name, entry in entries(group.cls).items()
            if name not in seen
        ]
        seen |= {name for name, *_ in inner}
        title = group.title.replace("-", "_")
        part = dataclasses.make_dataclass(title, inner, kw_only=True, namespace={"__doc__": group.cls.__doc__})
        if inner:
            fields.append((title, part, dataclasses.field(default_factory=part)))
    whole = dataclasses.make_dataclass("Arguments", fields, kw_only=True)
    try:
        tyro.cli(whole, args=["--help"], prog=prog, description=command.__doc__, config=(tyro.conf.OmitArgPrefixes,))
    finally:
        print(getattr(command, "epilog", ""), end="")


def _shown(tyro: Any, entry: Entry, doc: str, default: str) -> tuple[Any, Any]:
    """Type and default of an option that need not be given; the help alone says what happens then."""
    kind = annotated(tyro, entry, doc, f"(default: {default})" if default else "")
    return kind, dataclasses.field(default=False if entry.is_flag else None)


def shown_default(value: Any) -> str:
    """A default as it would be typed; absent where the documentation says what happens without it."""
    if value is None or value is False or value == ():
        return ""
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "yes" if value is True else str(value)
