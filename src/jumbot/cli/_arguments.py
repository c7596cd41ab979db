"""Types of options for tyro: words are converted to numbers if possible, and checked elsewhere."""

from __future__ import annotations

import contextlib
import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypedDict, Union

from jumbot._base.options import Options


@dataclass(frozen=True)
class Argument:
    """In the type of a field: it is given by its place, not by its name."""

    metavar: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Option:
    """In the type of a field: the name of its value in the help, its aliases, and what a shell may complete."""

    metavar: str | None = None
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """One option of a dataclass."""

    kind: Any
    field: dataclasses.Field[Any]

    @property
    def required(self) -> bool:
        return self.field.default is dataclasses.MISSING and self.field.default_factory is dataclasses.MISSING

    @property
    def marker(self) -> Argument | Option:
        extras = getattr(self.kind, "__metadata__", ())
        return next((extra for extra in extras if isinstance(extra, Argument | Option)), Option())

    @property
    def is_flag(self) -> bool:
        return _single(self.kind)[0] is bool

    @property
    def metavar(self) -> str:
        """The name of its value in the help."""
        plain, several = _single(self.kind)
        return self.marker.metavar or _metavar(plain) + (" ..." if several else "")

    @property
    def choices(self) -> tuple[str, ...]:
        """The possible words, if they are few."""
        plain, shown = _single(self.kind)[0], self.metavar.removesuffix(" ...")
        if typing.get_origin(plain) is Literal:
            return tuple(map(str, typing.get_args(plain)))
        return self.marker.choices or (tuple(shown[1:-1].split(",")) if shown.startswith("{") else ())

    @property
    def several(self) -> bool:
        return _single(self.kind)[1]

    @property
    def shown(self) -> str:
        """Its name in errors."""
        return (
            self.metavar.strip("[]").removesuffix(" ...")
            if isinstance(self.marker, Argument)
            else flag(self.field.name)
        )


def entries(*classes: type[Options]) -> dict[str, Entry]:
    """Every option by name; if several have the same name, the first."""
    found: dict[str, Entry] = {}
    for cls in classes:
        kinds = typing.get_type_hints(cls, include_extras=True)
        for field in dataclasses.fields(cls):
            found.setdefault(field.name, Entry(kinds[field.name], field))
    return found


def flag(name: str) -> str:
    """
    >>> flag("batch_size")
    '--batch-size'
    """
    return "--" + name.replace("_", "-")


def annotated(tyro: Any, entry: Entry, doc: str = "", hint: str | None = None) -> Any:
    """The type for tyro, with what the help says."""
    plain, several = _single(entry.kind)
    if plain is bool:
        return Annotated[bool, tyro.conf.arg(help=doc, help_behavior_hint=hint)]
    marker = entry.marker
    optional = NoneType in typing.get_args(_bare(entry.kind)) and plain is not str
    metavar = entry.metavar
    spec = tyro.constructors.PrimitiveConstructorSpec(
        nargs="*" if several else 1,
        metavar=metavar,
        instance_from_str=lambda words: (
            tuple(_value(word, plain, False) for word in words) if several else _value(words[0], plain, optional)
        ),
        is_instance=lambda value: True,
        str_from_instance=lambda value: [],
    )
    aliases = marker.aliases if isinstance(marker, Option) else ()
    if doc and aliases:  # tyro would list them first
        doc, aliases = f"{doc} Also {', '.join(aliases)}.", ()
    named = tyro.conf.arg(help=doc, help_behavior_hint=hint, metavar=metavar, aliases=aliases or None)
    return Annotated[(object, spec, named, *([tyro.conf.Positional] if isinstance(marker, Argument) else []))]


def optional_keys(kinds: Mapping[str, Any]) -> Any:
    """A TypedDict whose keys are only known here; tyro leaves out those that are not given."""
    make: Any = TypedDict
    return make("Given", dict(kinds), total=False)


def _bare(kind: Any) -> Any:
    return kind.__origin__ if typing.get_origin(kind) is Annotated else kind


def _single(kind: Any) -> tuple[Any, bool]:
    """The type without bounds and None, and whether there may be several."""
    kind = _bare(kind)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, UnionType):
        return _single(next(k for k in inner if k is not NoneType))
    if origin is tuple:
        return _single(inner[0])[0], True
    return kind, False


def _metavar(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return "{" + ",".join(map(str, typing.get_args(kind))) + "}"
    return {int: "INT", float: "FLOAT", Path: "PATH"}.get(kind, "TEXT")


def _value(word: str, kind: Any, optional: bool) -> Any:
    """The value of the word, or the word itself: `jumbot._base.options.check` decides."""
    if typing.get_origin(kind) is Literal and word in (choices := {str(c): c for c in typing.get_args(kind)}):
        return choices[word]
    if word == "none" and optional:
        return None
    if kind in (int, float):
        with contextlib.suppress(ValueError):
            return int(word)
        with contextlib.suppress(ValueError):
            return float(word)
    return word
