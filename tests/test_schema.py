"""What a file may hold is said once, and whatever differs is named by file, field and what was expected."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from jumbot._base.options import Count, Share
from jumbot._base.schema import FORMAT, Record, Versioned, convert, read, to_builtins, write
from jumbot.errors import ArgumentError
from tests.refusals import refused


@dataclass(frozen=True)
class Part(Record):
    size: Count
    words: tuple[Literal["few", "many"], ...] = ()


@dataclass(frozen=True)
class Whole(Versioned):
    part: Part
    share: Share = 0.5
    parts: dict[str, Part] | None = None
    colour: str | None = None
    upgrades: ClassVar = {
        1: lambda old: {"part": {"size": old["size"]}} | {k: v for k, v in old.items() if k != "size"}
    }


GOOD: dict[str, Any] = {
    "format": FORMAT,
    "jumbot": "0",
    "part": {"size": 3, "words": ["few"]},
    "parts": {"a": {"size": 1}},
}


def test_a_way_through_a_file(tmp_path: Path) -> None:
    found = convert(GOOD, Whole, "x")
    assert read(write(tmp_path / "whole.json", found), Whole) == found
    assert to_builtins(found)["part"] == GOOD["part"]
    assert to_builtins(found)["share"] == 0.5


def test_an_older_file_is_upgraded(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(json.dumps({"format": 1, "jumbot": "0.1", "size": 4}))
    found = read(tmp_path / "old.json", Whole)
    assert (found.format, found.part.size) == (FORMAT, 4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"part": {}}, "part.size: is missing"),
        ({"part": {"size": "3"}}, "part.size must be a whole number"),
        ({"part": {"size": -3}}, "part.size must be a whole number >= 1"),
        ({"part": {"size": 10**12}}, "part.size must be"),
        ({"part": {"size": 1, "words": ["mny"]}}, "did you mean 'many'"),
        ({"part": [1]}, "part must be an object"),
        ({"share": float("nan")}, "share must be"),
        ({"share": None}, "share must be a number"),
        ({"parts": {"a": {"size": 0}}}, "size must be"),
        ({"part": {"size": 1, "siz": 1}}, "part.siz is not known to this version of jumbot; did you mean 'size'"),
        ({"colour": ""}, "colour must be"),
        ({"format": FORMAT + 1}, "format: got"),
        ({"format": "2"}, "format: got"),
        ({"format": True}, "format: got"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    (tmp_path / "bad.json").write_text(json.dumps(GOOD | change))
    with pytest.raises(ArgumentError) as error:
        read(tmp_path / "bad.json", Whole)
    assert str(error.value).startswith(f"{tmp_path / 'bad.json'}: ")
    assert words in str(error.value)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe{\x00}\x00", b"\x00\x01\x80", b"[" * 100_000, b"1" * 5000])
def test_what_is_no_json_is_named(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "bad.json").write_bytes(raw)
    with refused(r"bad\.json: is not (JSON|text)"):
        read(tmp_path / "bad.json", Whole)


@pytest.mark.parametrize("content", [[], None, 3, "x", True])
def test_what_is_no_object_is_named(tmp_path: Path, content: Any) -> None:
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with refused(r"bad\.json:"):
        read(tmp_path / "bad.json", Whole)


def test_a_folder_in_its_place_is_named(tmp_path: Path) -> None:
    with refused("cannot be read"):
        read(tmp_path, Whole)
