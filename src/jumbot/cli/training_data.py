"""The data of the commands that train."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from jumbot.adaptation.recipes import RECIPES
from jumbot.cli.arguments import Option
from jumbot.data.reading import Reading, ReadingOptions
from jumbot.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class TrainingData(Reading):
    """Sources, target, and target labels to evaluate or to train on; each command describes the first two itself."""

    source: str | None
    target: str | None
    more_sources: Annotated[tuple[str, ...], Option("SRC ...")] = ()
    """Further labelled sources beside SRC, in the same form."""
    labelled_target: str | None = None
    """A labelled part of the target to train on, beside the rest without labels; evaluation leaves its samples out."""
    evaluate_on: Annotated[str | None, Option(aliases=("--labelled",))] = None
    """Another, labelled part of the target, to evaluate on."""
    recipe: Annotated[str | None, Option("{" + ",".join(RECIPES) + "}")] = None
    """Settings that fit a kind of data; by default it follows the data."""

    def check_places(self) -> None:
        """Refuse a file or folder that is not there before anything heavy is imported."""
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
    """What can only be a path, by a separator in it or its ending, must be there; names of data sets pass.

    >>> check_places("mnist", None)
    >>> check_places("data/2023.csv:east")
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: data/2023.csv: there is no such file or folder.
    """
    for word in filter(None, words):
        path = Path(word) if Path(word).exists() else Path(word.rpartition(":")[0] or word)
        if (len(path.parts) > 1 or path.suffix) and not path.expanduser().exists():
            raise ArgumentError(f"{path}: there is no such file or folder.")
