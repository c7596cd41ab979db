"""The options of a run, for the commands that train: those of method, training, network and inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from jumbot.adaptation.config import DEFAULTS, PARTS, make_config
from jumbot.cli.help import Group, shown_default
from jumbot.methods import METHODS, options_class
from jumbot.options import Options

METHOD = "{" + ",".join(METHODS) + "}"


def every_option() -> list[type[Options]]:
    """All classes whose options a run may have, whatever its method."""
    return [*(options_class(name) for name in METHODS), *PARTS.values()]


def groups(
    methods: Sequence[str], recipe: str | None, changes: Mapping[str, Mapping[str, Any]] | None = None
) -> list[Group]:
    """What the help lists, with the defaults of these methods in this recipe, or in those that data are given to.

    `changes` are what a method has in the place of its defaults.
    """
    own = changes or {}
    parts: dict[str, type[Options]] = {name: options_class(name) for name in methods} | PARTS
    configs = {
        r: {m: make_config(None, m, r, own.get(m, {})) for m in methods} for r in ([recipe] if recipe else DEFAULTS)
    }
    found = []
    for title, cls in parts.items():
        method = title if title in methods else methods[0]
        values = {
            r: asdict(getattr(by_method[method], "options" if title in methods else title))
            for r, by_method in configs.items()
        }
        names = [field.name for field in fields(cls)]
        found.append(Group(title, cls, {name: _words({r: v[name] for r, v in values.items()}) for name in names}))
    return found


def _words(by_recipe: Mapping[str, Any]) -> str:
    """One default, or that of each recipe where they differ."""
    shown = {recipe: shown_default(value) for recipe, value in by_recipe.items()}
    if len(set(shown.values())) == 1:
        return next(iter(shown.values()))
    return ", ".join(f"{recipe} {word or 'none'}" for recipe, word in shown.items())
