"""The data beside one source and one target, for the commands that train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from jumbot.cli.arguments import Option
from jumbot.options import Options


@dataclass(frozen=True, kw_only=True)
class MoreData(Options):
    """Further sources, and target labels to train on."""

    source: str | None = None
    more_sources: Annotated[tuple[str, ...], Option("SRC ...")] = ()
    """Further labelled sources beside SRC, in the same form."""
    labelled_target: str | None = None
    """A labelled part of the target to train on, beside the rest without labels; evaluation leaves its samples out."""

    @property
    def sources(self) -> str | list[str] | None:
        """One source, or the list of several, as `jumbot.adapt` takes it."""
        if not self.more_sources or self.source is None:
            return self.source
        return [self.source, *self.more_sources]
