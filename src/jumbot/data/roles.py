"""What each column of a table is for: features, labels, names of the rows, domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from jumbot.data.column_kinds import few
from jumbot.data.reading import Reading
from jumbot.errors import ArgumentError

FEATURES = ("features", "x", "images", "data")
LABELS = ("label", "labels", "y", "target", "class")
DOMAINS = ("domain", "domains")
IDS = ("id", "ids")
NO_DOMAINS = "none"


class Known(Protocol):
    """What a table that was read before says about one that goes with it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of its features."""
        ...

    @property
    def label(self) -> str | None: ...

    @property
    def id(self) -> str | None: ...


@dataclass(frozen=True)
class Roles:
    """Names of columns.

    >>> find_roles(["age", "outcome", "id"], "patients", Reading(label="outcome"))
    Roles(features=('age',), label='outcome', id='id', domain=None, dropped=())
    """

    features: tuple[str, ...]
    label: str | None = None
    id: str | None = None
    domain: str | None = None
    dropped: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.features


def find_roles(
    columns: Sequence[str], whose: str, reading: Reading, like: Known | None = None, labelled: bool = False
) -> Roles:
    """The roles of `columns`; without `like` what is asked for must be there, with it it may lack.

    `labelled` says that the labels come from elsewhere, so that no column is taken for them.
    """
    label, id, drop = reading.label, reading.id, reading.drop
    for role, asked in (("label", label), ("id", id)):
        if asked is not None and asked in drop:
            raise ArgumentError(f"{whose}: column {asked!r} cannot be both the {role} and left out; see drop.")
        if asked is not None and like is None and asked not in columns:
            raise ArgumentError(f"{whose}: {role}: there is no column {asked!r}; there are {few(columns, 12)}.")
    if labelled and label is not None:
        raise ArgumentError(f"{whose}: label: {label!r} came in beside labels of their own; give one of them.")
    rest = [column for column in columns if column not in drop]
    free = [column for column in rest if like is None or column not in like.names]

    def take(asked: str | None, known: str | None, guesses: tuple[str, ...]) -> str | None:
        wanted = asked if asked is not None else known if known in rest else find_one(free, guesses, whose)
        for names in (rest, free):
            if wanted in names:
                names.remove(wanted)
        return wanted if wanted in columns else None

    found_label = None if labelled else take(label, None if like is None else like.label, LABELS)
    found_id = take(id, None if like is None else like.id, IDS)
    found_domain = None
    if reading.domain != NO_DOMAINS:
        found_domain = take(None, None, DOMAINS)
        if reading.domain is not None and found_domain is None:
            raise ArgumentError(f"{whose}: domain: {reading.domain!r} came in, but the file has no column `domain`.")
    if label is not None and like is None and (other := [c for c in rest if c.lower() in ("label", "labels")]):
        raise ArgumentError(
            f"{whose}: label: {label!r} came in, and there is a column {other[0]!r} too, which may tell the answer; "
            f"leave it out with drop={other[0]!r} (--drop), or rename it."
        )
    return Roles(
        tuple(rest), found_label, found_id, found_domain, tuple(column for column in drop if column in columns)
    )


def find_one(columns: Sequence[str], names: tuple[str, ...], whose: str) -> str | None:
    """The column that has one of `names`, if there is one."""
    found = [column for column in columns if column.lower() in names]
    if len(found) > 1:
        raise ArgumentError(f"{whose}: columns {' and '.join(found)} could both be meant; name one, drop the other.")
    return found[0] if found else None


def check_columns(name: str, reading: Reading, like: Known | None) -> None:
    """Refuse names of columns for a source that has none; what goes with a source may lack them."""
    for what, asked in (("label", reading.label), ("id", reading.id)):
        if asked is not None and like is None:
            raise ArgumentError(f"{name}: {what}: {asked!r} came in, but there are no columns with names.")
    if reading.domain not in (None, NO_DOMAINS):
        raise ArgumentError(f"{name}: domain: {reading.domain!r} came in, but the data name no domains.")


def check_kind(name: str, reading: Reading) -> None:
    """Refuse a kind of tensors for data that are no arrays."""
    if reading.kind is not None:
        raise ArgumentError(f"{name}: kind: {reading.kind!r} came in, which is for arrays and Datasets of tensors.")


def rows_of(domains: np.ndarray, whose: str, domain: str | None) -> np.ndarray | None:
    """The rows of `domain`; None for all of them, where there is one domain only."""
    texts = np.array([str(value) for value in domains.tolist()])
    present = sorted(set(texts.tolist()))
    if domain is None:
        if len(present) > 1:
            which = f"{len(present)} domains ({few(present)})"
            file = Path(whose)
            one = f"{file.name}:{present[0]}" if file.suffix else f"the rows whose domain is {present[0]!r}"
            raise ArgumentError(
                f"{whose}: holds {which}; choose one, e.g. {one}, or say domain={NO_DOMAINS!r} if it is a column like "
                "others."
            )
        return None
    if domain not in present:
        raise ArgumentError(f"{whose}: domain: {domain!r} came in; the file holds {few(present)}.")
    return np.flatnonzero(texts == domain)
