"""`compiled`: numba, and a cache on disk that is asked for what a function means.

numba caches a function under its line number and the time stamp of its file: after a change in another file it goes on
with what was inlined before, and after a longer docstring it compiles all that stands below.  Here the key is a digest
of the bytecode of the function and of all that it uses, so that words, comments and lines count for nothing, and what
is compiled again is what changed and what holds it.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache

from jumbot.errors import UnsupportedError
from jumbot.transport.compiled.linked import Linked

if getattr(numba.config, "DISABLE_JIT", False):
    raise UnsupportedError(
        "NUMBA_DISABLE_JIT is set, and what this package compiles does not run as Python; unset it, or set it to 0."
    )

_F = TypeVar("_F", bound=Callable[..., Any])

#: No `reassoc`: it would undo the rounding constant in `exp`.
EXACT = frozenset({"contract", "nnan", "ninf", "nsz"})


def compiled(fastmath: Any = EXACT, allocates: bool = False, **options: Any) -> Callable[[_F], _F]:
    """`numba.njit` without the GIL, cached on disk where some folder is writable.

    A function that does not say that it `allocates` works in memory of its caller: numba then counts no references,
    which takes a seventh less.  Calls from Python and from compiled functions are compiled apart, each when it is
    needed: the former with all that they call, which is what is cached, the latter as `linked.py` says, but for
    closures: two of one name in two cached callers would be taken for each other.
    """
    flags = fastmath if isinstance(fastmath, bool) else set(fastmath)
    keywords: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": flags, "no_cfunc_wrapper": True}
    keywords |= {"_nrt": allocates, **options}
    linked = {**keywords, "no_cpython_wrapper": True, "pipeline_class": Linked}

    def decorate(function: _F) -> _F:
        dispatcher: Any = numba.njit(**keywords)(function)
        with contextlib.suppress(RuntimeError):  # neither the installation nor the user's cache folder can be written
            dispatcher._cache = _Cache(dispatcher)
        dispatcher.compile = _uncollected(dispatcher.compile)
        if function.__closure__ is None:
            called: Any = numba.njit(**linked)(function)
            dispatcher.get_call_template, dispatcher.get_overload = called.get_call_template, called.get_overload
        return dispatcher

    return decorate


def _uncollected(compile: Callable[..., Any]) -> Callable[..., Any]:
    """Without looking for garbage: numba makes millions of objects that stay, and going through them takes a sixth."""

    def compile_uncollected(signature: Any) -> Any:
        enabled = gc.isenabled()
        gc.disable()
        try:
            return compile(signature)
        finally:
            if enabled:
                gc.enable()

    return compile_uncollected


class _Files(CompileResultCacheImpl):
    """Names of files without the line that a function begins at."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        named = super().get_filename_base(fullname, abiflags)
        return named.replace(f"-{self.locator.get_disambiguator()}.py", ".py")


class _Cache(FunctionCache):
    _impl_class = _Files

    def __init__(self, dispatcher: Any) -> None:
        super().__init__(dispatcher.py_func)
        self._dispatcher = weakref.proxy(dispatcher)

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        # a file holds one function for all of its closures; when its own code changes, what it held is thrown away
        self._cache_file._source_stamp = meaning(self._dispatcher, closure=False)
        return signature, codegen.magic_tuple(), meaning(self._dispatcher), Linked.version


def meaning(dispatcher: Any, closure: bool = True) -> str:
    """A digest of what a function computes: options, code without docstring, constants and functions used."""
    function = getattr(dispatcher, "py_func", None) or dispatcher._defn  # compiled, or an intrinsic
    known = dict(function.__globals__)
    if closure and function.__closure__:
        known |= zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__), strict=True)
    options = getattr(dispatcher, "targetoptions", {})
    flags = [(name, sorted(flag) if isinstance(flag, set) else flag) for name, flag in sorted(options.items())]
    return hashlib.sha256(repr((flags, _parts(function.__code__, known))).encode()).hexdigest()


def _parts(code: CodeType, known: dict[str, Any]) -> list[Any]:
    told = bool(code.co_consts) and isinstance(code.co_consts[0], str | None)  # the docstring, or None without one
    constants = [_parts(x, known) if isinstance(x, CodeType) else x for x in code.co_consts[told:]]
    used = [(name, _value(known[name])) for name in (*code.co_names, *code.co_freevars) if name in known]
    return [code.co_code, code.co_varnames, code.co_names, constants, used]


def _value(value: Any) -> str:
    """What a name stands for in compiled code."""
    if hasattr(value, "py_func") or hasattr(value, "_defn"):
        return meaning(value)
    if isinstance(value, np.ndarray):
        return repr((value.dtype, value.shape, value.tobytes()))
    plain = isinstance(value, bool | int | float | str | tuple | frozenset | np.generic)
    return repr(value) if plain else type(value).__name__
