"""Hyper-parameters of methods: frozen dataclasses whose fields are checked by their types."""

from __future__ import annotations

import typing
from dataclasses import dataclass

from jumbot.errors import ArgumentError
from jumbot.transport.problem import check_number


@dataclass(frozen=True)
class MethodOptions:
    """Base of the options of a method: numbers must be finite and not negative, counts at least 1, words known.

    >>> @dataclass(frozen=True)
    ... class Mine(MethodOptions):
    ...     weight: float = 1.0
    >>> Mine(weight=-1)
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: weight: -1 came in; it must be >= 0 and finite.
    """

    def __post_init__(self) -> None:
        for name, kind in typing.get_type_hints(type(self)).items():
            value = getattr(self, name)
            if typing.get_origin(kind) is typing.Literal:
                if value not in typing.get_args(kind):
                    words = " or ".join(map(repr, typing.get_args(kind)))
                    raise ArgumentError(f"{name}: {value!r} is not known; use {words}.")
            elif kind is bool:
                if not isinstance(value, bool):
                    raise ArgumentError(f"{name}: {value!r} came in; use True or False.")
            elif kind is int:
                if check_number(name, value, least=1) != int(value):
                    raise ArgumentError(f"{name}: {value!r} came in; it must be a whole number.")
            elif kind is float:
                check_number(name, value, least=0)
