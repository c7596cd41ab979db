"""What a path stands for: a folder of images, a picture, a list of pictures, a table, or digits by their name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from jumbot.data import digits, folders
from jumbot.data.domain import Domain
from jumbot.data.joined import join_domains
from jumbot.data.reading import Reading
from jumbot.data.roles import ALL_DOMAINS, Known, check_columns, check_kind
from jumbot.data.tables import read_file
from jumbot.errors import ArgumentError
from jumbot.files import check_regular


def from_path(text: str, name: str | None, reading: Reading, like: Known | None) -> Domain:
    """The Domain at a path; "PATH:DOMAIN" takes one domain of what is there."""
    path, _, selector = text.rpartition(":")
    if not Path(text).exists() and path:
        if path in digits.NAMES:
            check_kind(text, reading)
            check_columns(text, reading, like)
            return digits.load(path, selector, reading.root)
        if Path(path).exists():
            if reading.domain not in (None, selector):
                raise ArgumentError(f"{text}: came in beside domain={reading.domain!r}; give one of them.")
            text, reading = path, replace(reading, domain=selector)
    elif not Path(text).exists() and text in digits.NAMES:
        check_kind(text, reading)
        check_columns(text, reading, like)
        return digits.load(text, "train", reading.root)
    place = Path(text)
    if not place.exists():
        raise ArgumentError(f"{text}: there is no such file or folder.")
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
    """Every folder in `place` as a source of its own; their names stand before those of the files."""
    names = sorted(f.name for f in place.iterdir() if f.is_dir() and not f.name.startswith((".", "__MACOSX")))
    if len(names) < 2:
        raise ArgumentError(f"{place}: domain: 'all' came in, but it holds {len(names)} folders of domains.")
    parts = [folders.load_folder(place, name=name, corrupt=reading.corrupt, domain=name) for name in names]
    return join_domains([replace(p, ids=[f"{p.name}/{i}" for i in p.ids or ()]) for p in parts])
