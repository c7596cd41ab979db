"""`compiled`: `numba.njit` without the GIL, stored on disk by the meaning of a function.

Two features use private parts of numba: our own cache (`code_cache.py`) and callees that are compiled once
(`linked.py`). Both save seconds, neither changes a result.  Each is left out with a numba that lacks these names, and
both with an untested numba on which a trial fails; what remains is `numba.njit(cache=True)`.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np

import jumbot
from jumbot.errors import UnsupportedError
from jumbot.transport._kernels.meaning import meaning

if getattr(numba.config, "DISABLE_JIT", False):
    raise UnsupportedError(
        "NUMBA_DISABLE_JIT is set, but the kernels of this package cannot run as plain Python; unset it, or set it "
        "to 0."
    )

_F = TypeVar("_F", bound=Callable[..., Any])
_TRIED = (0, 60), (0, 69)  # numba from the former to below the latter, the bounds of pyproject.toml

#: No `reassoc`: it would undo the rounding constant in `exp`.
EXACT = frozenset({"contract", "nnan", "ninf", "nsz"})


def compiled(fastmath: Any = EXACT, allocates: bool = False, **options: Any) -> Callable[[_F], _F]:
    """`numba.njit` without the GIL, cached on disk where some folder is writable.

    A function without `allocates` works in memory of its caller: numba then counts no references, which saves a seventh
    of the time.
    """
    flags = fastmath if isinstance(fastmath, bool) else set(fastmath)
    keywords: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": flags, **options}
    return lambda function: _build(function, keywords, allocates)


def _build(function: Any, keywords: dict[str, Any], allocates: bool) -> Any:
    """Calls from Python and from compiled functions are compiled apart, each when it is needed.

    The former hold all that they call, which is what is cached; the latter are as `linked.py` says, but for closures:
    two of one name in two cached callers would be confused.
    """
    if CACHE is None:
        return _by_public_numba(function, keywords)
    keywords = {**keywords, "no_cfunc_wrapper": True, "_nrt": allocates}
    dispatcher: Any = numba.njit(**keywords)(function)
    dispatcher._cache = CACHE(dispatcher)
    dispatcher.compile = _uncollected(dispatcher.compile)
    if LINKED is not None and function.__closure__ is None:
        keywords |= {"no_cpython_wrapper": True, "pipeline_class": LINKED}
        called: Any = numba.njit(**keywords)(function)
        dispatcher.get_call_template, dispatcher.get_overload = called.get_call_template, called.get_overload
    return dispatcher


def _by_public_numba(function: Any, keywords: dict[str, Any]) -> Any:
    """By numba's public interface, under a name that says what the function means: numba asks for names.

    Of what the function calls, some may be defined later: all sources of the package are part of the name.  Closures
    are not stored.  numba takes those over compiled functions for new ones in each process, and would add a
    file each time.
    """
    function.__qualname__ += f"_{meaning(numba.njit(**keywords)(function))[:16]}{_sources()[:16]}"
    try:
        return numba.njit(cache=function.__closure__ is None, **keywords)(function)
    except RuntimeError:  # neither the installation nor the user's cache folder can be written
        return numba.njit(**keywords)(function)


@lru_cache(maxsize=1)
def _sources() -> str:
    """A digest of every file of the package."""
    found = hashlib.sha256()
    for path in sorted(Path(jumbot.__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


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


def _private() -> None:
    """Fill in what there is of numba's private names; on a numba that was not tried, what works."""
    global CACHE, LINKED
    with contextlib.suppress(ImportError, AttributeError):
        CACHE = import_module("jumbot.transport._kernels.code_cache").CodeCache
    with contextlib.suppress(ImportError, AttributeError):
        LINKED = import_module("jumbot.transport._kernels.linked").Linked
    version = tuple(int(part) for part in re.findall(r"\d+", numba.__version__)[:2])
    if not _TRIED[0] <= version < _TRIED[1]:
        try:
            _trial()
        except Exception:  # another numba may raise anything
            CACHE = LINKED = None


def _trial() -> None:
    """One compiled function calls another, and is stored."""

    def total(x: Any) -> float:
        found = 0.0
        for i in range(x.shape[0]):
            found += x[i]
        return found

    inner = _build(total, {"nogil": True}, False)

    def mean(x: Any) -> float:
        return inner(x) / x.shape[0]

    if _build(mean, {"nogil": True}, False)(np.arange(4.0)) != 1.5:
        raise ArithmeticError("compiled functions are wrong")


CACHE: Any = None
LINKED: Any = None
_private()
