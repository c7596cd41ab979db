"""Options that several commands share: of runs, and of the data they are trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from jumbot._base.options import Options
from jumbot._settings.reading import Reading, ReadingOptions
from jumbot._settings.recipes import RECIPES
from jumbot.adaptation._config import DEFAULTS, PARTS, make_config
from jumbot.cli._arguments import Option
from jumbot.cli._help import Group, shown_default
from jumbot.errors import ArgumentError
from jumbot.methods import METHODS, options_class

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


@dataclass(frozen=True, kw_only=True)
class DataOptions(Reading):
    """Sources, target, and target labels to evaluate or to train on; each command describes the first two itself."""

    source: str | None
    target: str | None
    more_sources: Annotated[tuple[str, ...], Option("SRC ...")] = ()
    """Further labelled sources in addition to SRC, in the same form."""
    labelled_target: str | None = None
    """A labelled part of the target to train on, in addition to the unlabelled rest; excluded from evaluation."""
    evaluate_on: Annotated[str | None, Option(aliases=("--labelled",))] = None
    """Another labelled part of the target to evaluate on."""
    recipe: Annotated[str | None, Option("{" + ",".join(RECIPES) + "}")] = None
    """Default settings for a kind of data; by default chosen from the data."""

    def check_places(self) -> None:
        """Refuse a file or folder that does not exist before anything heavy is imported."""
        check_places(self.source, *self.more_sources, self.target, self.evaluate_on, self.labelled_target)

    @property
    def sources(self) -> str | list[str] | None:
        """One source, or the list of several, as `jumbot.adapt` takes it."""
        if not self.more_sources or self.source is None:
            return self.source
        return [self.source, *self.more_sources]


def reading(wanted: ReadingOptions, cls: type[ReadingOptions] = ReadingOptions) -> dict[str, Any]:
    """The options of reading alone, as the functions take them."""
    return {field.name: getattr(wanted, field.name) for field in fields(cls)}


def check_places(*words: str | None) -> None:
    """Anything that can only be a path, by its separator or ending, must exist; names of data sets are accepted.

    >>> check_places("mnist", None)
    >>> check_places("data/2023.csv:east")
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: data/2023.csv: does not exist.
    """
    for word in filter(None, words):
        path = Path(word) if Path(word).exists() else Path(word.rpartition(":")[0] or word)
        if (len(path.parts) > 1 or path.suffix) and not path.expanduser().exists():
            raise ArgumentError(f"{path}: does not exist.")
