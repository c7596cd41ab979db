"""Checks of arguments and options: `check` compares a value with the type of its field.

The command, `jumbot.adapt` and the estimator make the same dataclasses, so that a wrong value raises the same error
everywhere, before any work.  Functions that are called for microseconds use `check_non_negative`, `check_positive` and
`check_whole`, which look at the usual value first.  Nothing heavy is imported here: the command prints its help from
these classes.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union

from jumbot.errors import ArgumentError, suggest


@dataclass(frozen=True)
class Bounds:
    """The range of a number.  Infinity and NaN are refused unless allowed."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    infinite: bool = False
    nan: bool = False

    def __str__(self) -> str:
        limits = {">=": self.at_least, ">": self.above, "<=": self.at_most, "<": self.below}
        return " and ".join(f"{sign} {limit:.15g}" for sign, limit in limits.items() if limit is not None)

    def holds(self, value: float) -> bool:
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )


MOST = 10**9  # of anything that is counted: a larger number is a typo
_COUNT = Bounds(at_least=1, at_most=MOST)
Count = Annotated[int, _COUNT]
Whole = Annotated[int, Bounds(at_least=0, at_most=MOST)]
Width = Annotated[int, Bounds(at_least=1, at_most=2**20)]
Seed = Annotated[int, Bounds(at_least=0, at_most=2**63 - 1)]
Weight = Annotated[float, Bounds(at_least=0)]
Positive = Annotated[float, Bounds(above=0)]
Share = Annotated[float, Bounds(at_least=0, below=1)]
Number = Annotated[float, Bounds()]
Measured = Annotated[float, Bounds(infinite=True, nan=True)]
Portion = Annotated[float, Bounds(at_least=0, at_most=1)]
Text = Annotated[str, Bounds()]  # any, where a bare `str` may not be blank


class Checked:
    """Base of dataclasses whose fields are what their types say: see `check`."""

    def __post_init__(self) -> None:
        for name, kind in _kinds(type(self)).items():  # type: ignore[arg-type]  # a class is hashable
            object.__setattr__(self, name, check(name, getattr(self, name), kind))


@dataclass(frozen=True)
class Options(Checked):
    """Base of everything that can be set.  A bare `int` is a `Count` and a bare `float` a `Weight`.

    >>> @dataclass(frozen=True)
    ... class Mine(Options):
    ...     weight: float = 1.0
    ...     words: Literal["few", "many"] = "few"
    >>> Mine(weight=-1)
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: weight must be a number >= 0, got -1.
    >>> Mine(words="may")
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: words: 'may' is not known; did you mean 'many'? Known: few, many.
    """


@cache
def _kinds(cls: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in fields(cls)}


def check(name: str, value: Any, kind: Any) -> Any:
    """`value` as a plain Python object of that type, or an error that names it.

    >>> check("steps", 20.0, Count), check("size", None, int | None), check("hidden", [8, 4], tuple[int, ...])
    (20, None, (8, 4))
    """
    bounds: Bounds | None = None
    if typing.get_origin(kind) is Annotated:
        bounds = next((extra for extra in kind.__metadata__ if isinstance(extra, Bounds)), None)
        kind = kind.__origin__
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, UnionType):
        return None if value is None else check(name, value, next(k for k in inner if k is not NoneType))
    if origin is Literal:
        if not any(type(value) is type(one) and value == one for one in inner):
            raise ArgumentError(f"{name}: {value!r} is not known; {suggest(value, map(str, inner))}")
    elif origin is tuple:
        if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
            raise ArgumentError(f"{name}: got {value!r}; pass several values.")
        if inner[1:] == (...,):
            return tuple(check(name, one, inner[0]) for one in value)
        if len(value) != len(inner):
            raise ArgumentError(f"{name}: got {len(value)} values; pass {len(inner)}.")
        return tuple(check(name, one, kind) for one, kind in zip(value, inner, strict=True))
    elif kind is bool:
        if not _is_flag(value):
            raise ArgumentError(f"{name}: got {_shown(value)}; use True or False.")
        return bool(value)
    elif kind in (int, float):
        return _number(name, value, kind, bounds or (_COUNT if kind is int else Bounds(at_least=0)))
    elif kind in (str, Path):
        if not isinstance(value, str | Path) or (bounds is None and not str(value).strip()):
            raise ArgumentError(f"{name} must be a {'word' if kind is str else 'path'}, got {value!r}.")
        return kind(value)
    return value


def check_non_negative(name: str, value: Any) -> float:
    """`value` as a finite float >= 0."""
    if type(value) is float and 0.0 <= value < math.inf:  # the usual case: microseconds matter here
        return value
    return float(_number(name, value, float, Bounds(at_least=0)))


def check_positive(name: str, value: Any, *, infinite: bool = False) -> float:
    """`value` as a float > 0, finite unless `infinite` is allowed."""
    if type(value) is float and 0.0 < value < math.inf:
        return value
    return float(_number(name, value, float, Bounds(above=0, infinite=infinite)))


def check_whole(name: str, value: Any, *, least: int, most: int = MOST) -> int:
    """`value` as an int within its range."""
    if type(value) is int and least <= value <= most:  # as it nearly always is
        return value
    return int(_number(name, value, int, Bounds(at_least=least, at_most=most)))


def check_word(name: str, value: Any, known: Collection[str], more: str = "") -> str:
    """`value` if it is one of the words that are `known`.

    >>> check_word("reference", "one", ("product", "ones"))
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: reference: 'one' is not known; did you mean 'ones'? Known: product, ones.
    """
    if not isinstance(value, str) or value not in known:
        raise ArgumentError(f"{name}: {value!r} is not known; {suggest(value, known)}{more}")
    return value


def check_flag(name: str, value: Any) -> bool:
    """`value` if it is True or False: anything else is ambiguous."""
    return bool(check(name, value, bool))


def _number(name: str, value: Any, kind: type, bounds: Bounds) -> int | float:
    """A number of any type, also an array without axes; strings and booleans are not numbers."""
    if getattr(value, "requires_grad", False) is True:
        raise ArgumentError(f"{name}: a tensor that requires a gradient, which it would not get; pass {name}.item().")
    try:
        if _is_flag(value) or isinstance(value, str | bytes):
            raise TypeError
        number: int | float = kind(value)
        if kind is int:
            allowed = number == value and bounds.holds(number)
        elif math.isnan(number):
            allowed = bounds.nan
        else:
            allowed = bounds.holds(number) and (bounds.infinite or not math.isinf(number))
        if not allowed:
            raise ValueError
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last is torch's for several numbers
        what = "a whole number" if kind is int else "a finite number" if _shown(value) == "inf" else "a number"
        raise ArgumentError(f"{name} must be {f'{what} {bounds}'.rstrip()}, got {_shown(value)}.") from None
    return number


def _is_flag(value: Any) -> bool:
    """Whether it is True or False, also NumPy's."""
    return isinstance(value, bool) or (type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"))


def _shown(value: Any) -> str:
    try:
        text = f"{value:.15g}" if isinstance(value, float) else repr(value)
    except ValueError:  # a whole number of too many digits to write
        text = "a whole number too large for a float"
    return text if len(text) <= 80 else f"{text[:80]}..."
