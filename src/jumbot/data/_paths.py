"""What a path refers to: a folder of images, a picture, a list of pictures, a table, or digits by their name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jumbot._base.files import check_regular
from jumbot._settings.reading import Reading
from jumbot.data import _digits as digits
from jumbot.data import _folders as folders
from jumbot.data._column_kinds import few
from jumbot.data._domain import Domain, JoinedSamples, Samples
from jumbot.data._frames import Table, pandas
from jumbot.data._inputs import PLURAL, kind_of
from jumbot.data._labels import encode_labels, joined_dtype, match_classes, shift_of
from jumbot.data._remarks import remark
from jumbot.data._roles import ALL_DOMAINS, Known, check_columns, check_kind
from jumbot.data._tables import TableSamples, read_file
from jumbot.errors import ArgumentError


def join_domains(parts: Sequence[Domain]) -> Domain:
    """One domain made of several labelled ones; classes are matched by name, and all of them are kept.

    >>> from jumbot.data import as_domain
    >>> cats, dogs = as_domain(([[0.0]], ["cat"]), name="a"), as_domain(([[1.0], [2.0]], ["dog", "cat"]), name="b")
    >>> both = join_domains([cats, dogs])
    >>> both.labels.tolist(), both.origins.tolist(), both.sources
    ([0, 1, 0], [0, 1, 1], ('a', 'b'))
    """
    if not parts:
        raise ArgumentError("source: got an empty list; pass at least one source.")
    if len(parts) == 1:
        return parts[0]
    for part in parts:
        if part.labels is None and part.values is None:
            raise ArgumentError(f"{part.name}: has no labels; each source needs them, e.g. as a pair (X, y).")
    kinds = [kind_of(part) for part in parts]
    if len(set(kinds)) > 1:
        each = ", ".join(f"{part.name} contains {PLURAL[kind]}" for part, kind in zip(parts, kinds, strict=True))
        raise ArgumentError(f"source: {each}; pass sources of the same kind.")
    names = tuple(_distinct([name for part in parts for name in part.sources or (part.name,)]))
    classes: tuple[str, ...] = ()
    if parts[0].labels is not None:
        classes = encode_labels([name for part in parts for name in part.classes])[1]
        _check_common(parts)
        parts = [match_classes(part, classes) for part in parts]
    ids = None
    if any(part.ids is not None for part in parts):
        ids = [str(i) for part in parts for i in (part.ids if part.ids is not None else range(len(part)))]
    return Domain(
        " + ".join(names),
        _joined(parts, kinds[0]),
        None if parts[0].labels is None else np.concatenate([part.labels for part in parts if part.labels is not None]),
        classes,
        ids,
        parts[0].roles,
        _origins(parts),
        names,
        _values(parts),
        joined_dtype([part.label_dtype for part in parts]),
        {name: label for part in reversed(parts) for name, label in part.given_labels.items()},
    )


def _check_common(parts: Sequence[Domain]) -> None:
    """Warn of a source whose classes no other source has, or has with numbers shifted by one: the names may differ."""
    first = parts[0]
    for part in parts[1:]:
        if len(part.classes) == len(first.classes) > 1 and (how := shift_of(part.classes, first.classes)):
            remark(
                f"{part.name}: all of its classes {how} are classes of {first.name}; if one counts from 0 and the "
                f"other from 1, renumber one of them.",
                stacklevel=4,
            )
    for part in parts:
        others = {name for other in parts if other is not part for name in other.classes}
        if not others & set(part.classes):
            remark(
                f"{part.name}: its classes ({few(part.classes, 4)}) are none of the other sources' "
                f"({few(sorted(others), 4)}); use the same name for the same class.",
                stacklevel=4,
            )
            return


def _origins(parts: Sequence[Domain]) -> np.ndarray:
    """The source of each sample; a part may itself have several."""
    found, first = [], 0
    for part in parts:
        found.append(first + (np.zeros(len(part), np.int64) if part.origins is None else part.origins))
        first += len(part.sources) or 1
    return np.concatenate(found)


def _values(parts: Sequence[Domain]) -> np.ndarray | None:
    found = [part.values for part in parts if part.values is not None]
    if len({values.shape[1] for values in found}) > 1:
        raise ArgumentError(
            "source: the sources have different numbers of values to predict; pass the same values for each."
        )
    return np.concatenate(found) if found else None


def _joined(parts: Sequence[Domain], kind: str) -> Samples:
    tables = [part.samples.table for part in parts if isinstance(part.samples, TableSamples)]
    if not tables:
        if kind != "image" and len({part.shape for part in parts}) > 1:
            each = ", ".join(f"{part.name} has samples of shape {part.shape}" for part in parts)
            raise ArgumentError(f"source: {each}.")
        return JoinedSamples([part.samples for part in parts], [part.name for part in parts], kind)
    if len(tables) < len(parts):
        raise ArgumentError("source: some sources are tables with column names, others are arrays; pass only one kind.")
    first = tables[0].frame.columns.tolist()
    for part, table in zip(parts, tables, strict=True):
        if odd := set(first) ^ set(table.frame.columns.tolist()):
            raise ArgumentError(
                f"{part.name}: its columns differ from those of {parts[0].name} in {few(sorted(odd))}; leave out what "
                "not all sources have, with drop (--drop)."
            )
    frame = pandas().concat([table.frame[first] for table in tables], ignore_index=True)
    return TableSamples(Table(frame, named=tables[0].named))


def _distinct(names: Sequence[str]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name} {i + 1}" for i, name in enumerate(names)]


def from_path(text: str, name: str | None, reading: Reading, like: Known | None) -> Domain:
    """The Domain at a path; "PATH:DOMAIN" takes one domain of what is there."""
    path, _, selector = text.rpartition(":")
    if not Path(text).exists():
        if (path or text) in digits.NAMES:
            check_kind(text, reading)
            check_columns(text, reading, like)
            return digits.load(path or text, selector if path else "train", reading.root)
        if path and Path(path).exists():
            if reading.domain not in (None, selector):
                raise ArgumentError(f"{text}: names a domain, and so does domain={reading.domain!r}; pass one.")
            text, reading = path, replace(reading, domain=selector)
    place = Path(text)
    if not place.exists():
        raise ArgumentError(f"{text}: does not exist.")
    check_regular(place)
    if place.is_file() and not text.lower().endswith((*folders.ENDINGS, ".txt")):
        return read_file(place, name, reading, like)
    check_kind(text, reading)
    if place.is_dir():
        check_columns(text, replace(reading, domain=None), like)
        if reading.domain == ALL_DOMAINS:
            return _all_folders(place, reading)
        return folders.load_folder(place, name=name, corrupt=reading.corrupt, domain=reading.domain)
    check_columns(text, reading, like)
    if place.suffix.lower() != ".txt":
        return folders.load_files([text], name=name or place.name, corrupt=reading.corrupt)
    return folders.from_list(place, reading.root, name=name, corrupt=reading.corrupt)


def takes_root(data: Any) -> bool:
    """Whether some of `data` lie below a root: digits by their name, and the images that a list names.

    >>> takes_root("mnist:test"), takes_root(["photos", "list.txt"]), takes_root("table.csv")
    (True, True, False)
    """
    if isinstance(data, list | tuple):
        return any(map(takes_root, data))
    if not isinstance(data, str | Path):
        return False
    text = str(data)
    named = not Path(text).exists() and (text in digits.NAMES or text.rpartition(":")[0] in digits.NAMES)
    return named or text.lower().endswith(".txt")


def _all_folders(place: Path, reading: Reading) -> Domain:
    """Every folder in `place` as a separate source; its name is the prefix of those of the files."""
    names = sorted(f.name for f in place.iterdir() if f.is_dir() and not f.name.startswith((".", "__MACOSX")))
    if len(names) < 2:
        raise ArgumentError(f"{place}: domain: got 'all', but it contains {len(names)} folders of domains.")
    parts = [folders.load_folder(place, name=name, corrupt=reading.corrupt, domain=name) for name in names]
    return join_domains([replace(p, ids=[f"{p.name}/{i}" for i in p.ids or ()]) for p in parts])
