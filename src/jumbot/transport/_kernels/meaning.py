"""`meaning`: a digest of what a compiled function computes, blind to words, comments and lines."""

from __future__ import annotations

import hashlib
from enum import Enum
from types import CodeType, ModuleType
from typing import Any

import numpy as np
from numba import types


def meaning(dispatcher: Any, closure: bool = True) -> str:
    """A digest of what a function computes: options, code without docstring, defaults, constants and functions used."""
    function = _python(dispatcher) or dispatcher
    known = dict(function.__globals__)
    if closure and function.__closure__:
        known |= zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__), strict=True)
    options = getattr(dispatcher, "targetoptions", {})
    flags = [(name, sorted(flag) if isinstance(flag, set) else flag) for name, flag in sorted(options.items())]
    defaults = [_value(x, ()) for x in (function.__defaults__, *(function.__kwdefaults__ or {}).items())]
    return hashlib.sha256(repr((flags, defaults, _parts(function.__code__, known))).encode()).hexdigest()


def _python(value: Any) -> Any:
    """The Python function of a compiled one or of an intrinsic, or None."""
    return getattr(value, "py_func", None) or getattr(value, "_defn", None)


def _parts(code: CodeType, known: dict[str, Any]) -> list[Any]:
    has_docstring = bool(code.co_consts) and isinstance(code.co_consts[0], str | None)  # or None without one
    constants = [_parts(x, known) if isinstance(x, CodeType) else x for x in code.co_consts[has_docstring:]]
    names = (*code.co_names, *code.co_freevars)
    used = [(name, _value(known[name], code.co_names)) for name in names if name in known]
    return [code.co_code, code.co_varnames, code.co_names, constants, used]


def _value(value: Any, names: tuple[str, ...]) -> str:
    """What a name stands for in compiled code, which may ask a module for any of `names`."""
    if _python(value) is not None:
        return meaning(value)
    if isinstance(value, np.ndarray):
        return repr((value.dtype, value.shape, value.tobytes()))
    if isinstance(value, tuple):
        return repr([_value(x, names) for x in value])
    if isinstance(value, ModuleType) and value.__name__ not in ("math", "numpy"):  # of these the names are enough
        return repr([(name, _value(getattr(value, name), ())) for name in names if hasattr(value, name)])
    plain = isinstance(value, bool | int | float | str | frozenset | np.generic | np.dtype | Enum | types.Type | type)
    return repr(value) if plain else type(value).__name__
