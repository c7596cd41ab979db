"""The keywords that a type checker knows are the options that the functions take."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jumbot
from jumbot._settings import keywords
from jumbot._settings.reading import Reading
from jumbot._settings.training import Inputs, NetworkOptions, Training
from jumbot.data import Reading as PublicReading
from jumbot.errors import ArgumentError
from jumbot.methods import METHODS, options_class

METHOD_OPTIONS = [options_class(name) for name in METHODS]
#: The options classes of each, and what they have that is a parameter of the functions.
SAME: dict[type, tuple[list[type], set[str]]] = {
    keywords.ReadingKeywords: ([Reading], {"task"}),
    keywords.TrainingKeywords: ([Training], set()),
    keywords.NetworkKeywords: ([NetworkOptions], {"backbone"}),
    keywords.InputKeywords: ([Inputs], set()),
    keywords.MethodKeywords: (METHOD_OPTIONS, set()),
}
#: Where the functions take more than the options class holds.
WIDER: dict[str, Any] = {
    "label": str | Sequence[str] | None,
    "drop": str | Sequence[str],
    "root": str | Path | None,
    "weights": str | Path | None,
    "dates": bool | str | Sequence[str] | None,
    "text": bool | str | Sequence[str] | None,
}


def taken(name: str, hint: Any) -> Any:
    """The type that a caller may give for an option of this type."""
    if name in WIDER:
        return WIDER[name]
    return Sequence[typing.get_args(hint)[0]] if typing.get_origin(hint) is tuple else hint  # type: ignore[misc]


@pytest.mark.parametrize("cls", SAME)
def test_the_keywords_are_those_of_the_options_class(cls: type) -> None:
    found: dict[str, Any] = {}
    for options in SAME[cls][0]:
        hints = typing.get_type_hints(options)
        for name in {field.name for field in fields(options)} - SAME[cls][1]:  # type: ignore[arg-type]
            hint = taken(name, hints[name])
            assert found.setdefault(name, hint) == hint, f"{name}: two methods have it with two types"
    assert typing.get_type_hints(cls) == found


@pytest.mark.parametrize("function", [jumbot.adapt, jumbot.tune])
def test_no_parameter_is_a_keyword_too(function: Any) -> None:
    options = typing.get_args(typing.get_type_hints(function)["options"])[0]
    assert not set(options.__annotations__) & set(inspect.signature(function).parameters)
    assert options.__total__ is False
    assert len(inspect.signature(function).parameters) <= 18


X, Y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2


class Reached(Exception):
    """Raised in the place of reading."""


@pytest.mark.parametrize("place", ["_adapt", "_tune"])
def test_reading_is_one_value_or_keywords(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[Reading] = []

    def read(*args: Any) -> Any:
        got.append(args[-1])
        raise Reached

    monkeypatch.setattr(f"jumbot.adaptation.{place}.read_data", read)
    call: Any = {"_adapt": jumbot.adapt, "_tune": jumbot.tune}[place]
    wanted = PublicReading(label="a,b", drop=("c",), task="regression")
    for ways in (
        {"reading": wanted},
        {"reading": {"label": ["a", "b"], "drop": "c"}, "task": "regression"},
        {"label": ["a", "b"], "drop": "c", "task": "regression"},
        {"reading": {"label": "a,b", "task": "regression"}, "drop": ["c"]},
        {"reading": wanted, "label": "a,b"},
    ):
        with pytest.raises(Reached):
            call((X, Y), X, **ways)
    assert got == [wanted] * 5
    for wrong, argument in (
        ({"reading": {"label": "a"}, "label": "b"}, "label"),
        ({"reading": PublicReading(task="regression"), "task": "classification"}, "task"),
        ({"reading": {"lable": "a"}}, "reading"),
        ({"reading": "a"}, "reading"),
        ({"lable": "a"}, "lable"),
    ):
        with pytest.raises(ArgumentError) as caught:
            call((X, Y), X, **wrong)
        assert caught.value.argument == argument
        if "lable" in str(wrong):
            assert "'label'" in str(caught.value)
    assert len(got) == 5
