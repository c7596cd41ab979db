"""The data beside one source and one target, for the commands that train."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from jumbot.cli.arguments import Option
from jumbot.errors import ArgumentError
from jumbot.options import Options


@dataclass(frozen=True, kw_only=True)
class MoreData(Options):
    """Further sources, and target labels to train on."""

    source: str | None = None
    more_sources: Annotated[tuple[str, ...], Option("SRC ...")] = ()
    """Further labelled sources beside SRC, in the same form."""
    labelled_target: str | None = None
    """A labelled part of the target to train on, beside the rest without labels; evaluation leaves its samples out."""

    def check_places(self, *others: str | None) -> None:
        """Refuse a file or folder that is not there before anything heavy is imported."""
        check_places(self.source, *self.more_sources, self.labelled_target, *others)

    @property
    def sources(self) -> str | list[str] | None:
        """One source, or the list of several, as `jumbot.adapt` takes it."""
        if not self.more_sources or self.source is None:
            return self.source
        return [self.source, *self.more_sources]


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
