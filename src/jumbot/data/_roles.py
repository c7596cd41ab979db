"""What each column of a table is for: features, labels, names of the rows, domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from jumbot._settings.reading import Reading
from jumbot.data._column_kinds import few, squeezed
from jumbot.errors import ArgumentError

FEATURES = ("features", "x", "images", "data")
LABELS = ("label", "labels", "y", "target", "class")
DOMAINS = ("domain", "domains")
IDS = ("id", "ids")
NO_DOMAINS, ALL_DOMAINS = "none", "all"


class Known(Protocol):
    """The roles of an earlier table, for one that goes with it."""

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
    """The roles of `columns`; without `like`, requested columns must exist; with it, they may be missing.

    `labelled` says that the labels come from elsewhere, so that no column is used for them.
    """
    label, id, drop = reading.label, reading.id, reading.drop
    wanted_labels = label_columns(label, columns)
    if len(set(wanted_labels)) < len(wanted_labels):
        raise ArgumentError(f"{whose}: label: got {label!r}, which names a column twice.")
    if reading.domain_column is not None and reading.domain == NO_DOMAINS:
        raise ArgumentError("domain_column cannot be given with domain='none', which means that there are no domains.")
    asked_for = [*(("label", name) for name in wanted_labels), ("id", id), ("domain_column", reading.domain_column)]
    for role, asked in asked_for:
        if asked is not None and asked in drop:
            raise ArgumentError(f"{whose}: column {asked!r} cannot be both the {role} and left out; see drop.")
        if asked is not None and like is None and asked not in columns:
            near = [column for column in columns if squeezed(column) == squeezed(asked)]
            raise ArgumentError(
                f"{whose}: {role}: column {asked!r} does not exist; the table has {few(columns, 12)}.",
                remedy={role: near[0]} if len(near) == 1 and len(wanted_labels) < 2 else {},
            )
    if labelled and label is not None:
        raise ArgumentError(f"{whose}: label: got {label!r} but the data have labels already; pass only one of them.")
    dropped, taken = set(drop), set() if like is None else set(like.names)
    rest = [column for column in columns if column not in dropped]
    free = [column for column in rest if column not in taken]

    def take(asked: str | None, known: str | None, guesses: tuple[str, ...]) -> str | None:
        wanted = asked if asked is not None else known if known in rest else find_one(free, guesses, whose)
        for names in (rest, free):
            if wanted in names:
                names.remove(wanted)
        return wanted if wanted in columns else None

    found_label = None if labelled else _take_label(label, None if like is None else like.label, rest, free, whose)
    found_id = take(id, None if like is None else like.id, IDS)
    found_domain = None
    if reading.domain != NO_DOMAINS:
        found_domain = take(reading.domain_column, None, DOMAINS)
        if reading.domain is not None and found_domain is None:
            which = reading.domain_column or "domain"
            raise ArgumentError(f"{whose}: domain: got {reading.domain!r}, but the file has no column {which!r}.")
    if label is not None and like is None and (other := [c for c in rest if c.lower() in ("label", "labels")]):
        raise ArgumentError(
            f"{whose}: label: got {label!r}, and there is a column {other[0]!r} too, which may reveal the answer; "
            f"leave it out with drop={other[0]!r} (--drop), or rename it.",
            remedy={"drop": tuple(other)},
        )
    return Roles(
        tuple(rest), found_label, found_id, found_domain, tuple(column for column in drop if column in columns)
    )


def label_columns(label: str | None, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that `label` names: itself, or the parts between its commas.

    >>> label_columns("height, weight", ["height", "weight"]), label_columns("a,b", ["a,b"])
    (('height', 'weight'), ('a,b',))
    """
    if label is None or label in columns or "," not in label:
        return () if label is None else (label,)
    return tuple(part.strip() for part in label.split(","))


def _take_label(asked: str | None, known: str | None, rest: list[str], free: list[str], whose: str) -> str | None:
    """The label, requested, known or guessed, whose columns are removed from the others; None if there is none."""
    if asked is None and any(column in rest for column in label_columns(known, rest)):
        asked = known
    wanted = asked if asked is not None else find_one(free, LABELS, whose)
    columns = label_columns(wanted, rest)
    present = [column for column in columns if column in rest]
    if present and len(present) < len(columns):
        lacking = few([column for column in columns if column not in rest])
        raise ArgumentError(f"{whose}: label: has {few(present)} and lacks {lacking}; pass all of {wanted!r}, or none.")
    for names in (rest, free):
        names[:] = [name for name in names if name not in present]
    return wanted if present else None


def find_one(columns: Sequence[str], names: tuple[str, ...], whose: str) -> str | None:
    """The column that has one of `names`, if there is one."""
    found = [column for column in columns if column.lower() in names]
    if len(found) > 1:
        option = {LABELS: "label", IDS: "id", DOMAINS: "domain_column"}.get(names)
        raise ArgumentError(
            f"{whose}: columns {' and '.join(found)} are ambiguous; name one and drop the other.",
            remedy={option: found[0], "drop": tuple(found[1:])} if option else {},
        )
    return found[0] if found else None


def check_columns(name: str, reading: Reading, like: Known | None) -> None:
    """Refuse names of columns for a source that has none; data that go with a source may lack them."""
    for what, asked in (("label", reading.label), ("id", reading.id), ("domain_column", reading.domain_column)):
        if asked is not None and like is None:
            raise ArgumentError(f"{name}: {what}: got {asked!r}, but the data have no column names.")
    if reading.domain not in (None, NO_DOMAINS):
        raise ArgumentError(f"{name}: domain: got {reading.domain!r}, but the data have no domains.")


def check_kind(name: str, reading: Reading) -> None:
    """Refuse a kind of tensors for data that are not arrays."""
    if reading.kind is not None:
        raise ArgumentError(f"{name}: kind: got {reading.kind!r}, which is for arrays and Datasets of tensors.")


def origins_of(domains: np.ndarray, whose: str) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Which of the domains, and their names, for each row; none where there is one domain only.

    >>> origins_of(np.array(["north", "south", "north"]), "table")
    (array([0, 1, 0]), ('north', 'south'))
    """
    missing = [i for i, value in enumerate(domains.tolist()) if value is None or value != value or value == ""]
    if missing:
        raise ArgumentError(f"{whose}: row {missing[0]} has no domain; add it, or leave the row out.")
    names, origins = np.unique([str(value) for value in domains.tolist()], return_inverse=True)
    return (origins, tuple(names.tolist())) if len(names) > 1 else (None, ())


def rows_of(
    domains: np.ndarray, whose: str, domain: str | None, remedy: Mapping[str, Any] | None = None
) -> np.ndarray | None:
    """The rows of `domain`; None for all of them, if these were requested or there is only one domain.

    `remedy` is the option to pass if there are several.
    """
    if domain == ALL_DOMAINS:
        return None
    texts = np.array([str(value) for value in domains.tolist()])
    present = sorted(set(texts.tolist()))
    if domain is None:
        if len(present) > 1:
            which = f"{len(present)} domains ({few(present)})"
            file = Path(whose)
            one = f"{file.name}:{present[0]}" if file.suffix else f"the rows whose domain is {present[0]!r}"
            raise ArgumentError(
                f"{whose}: contains {which}; choose one, e.g. {one}, or pass domain={ALL_DOMAINS!r} if each is a "
                f"separate source, or domain={NO_DOMAINS!r} if it is a column like others.",
                remedy=remedy,
            )
        return None
    if domain not in present:
        raise ArgumentError(f"{whose}: domain: got {domain!r}; the file contains {few(present)}.")
    return np.flatnonzero(texts == domain)
