"""The cache of compiled functions on disk: identified by their meaning, with a checksum; errors are never fatal.

numba caches a function under its line number and the time stamp of its file: after a change in another file it uses
outdated inlined code, and after a change of a docstring it compiles everything below it again.  Here the key is a
digest of the bytecode of the function and of all that it uses, so docstrings, comments and line numbers do not matter,
and only changed functions and their callers are compiled again.

Every file begins with a digest of the rest, because machine code with a flipped bit would still run.  A file that is
damaged or cannot be read is ignored and written again; a file that cannot be written is left out.  Both give one
warning.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
import weakref
from functools import cached_property
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl
from numba.core.serialize import dumps

from jumbot._base.files import replacing
from jumbot.errors import CacheWarning, JumbotError
from jumbot.transport._kernels.meaning import meaning

_HEAD = f"jumbot 1, numba {numba.__version__}\n".encode()
_VERSION = 1  # to be raised with what changes in `linked.py`: functions of another one are compiled again
_SEAL = hashlib.sha256().digest_size


class CodeCache:
    """The cache of one function, as numba's dispatchers use it."""

    def __init__(self, dispatcher: Any) -> None:
        self._function = dispatcher.py_func
        self._dispatcher = weakref.proxy(dispatcher)
        self._enabled = True

    @cached_property
    def _files(self) -> _Files | None:
        try:
            return _Files(self._function)
        except (RuntimeError, OSError):  # neither the installation nor the user's cache folder can be written
            return None

    @property
    def cache_path(self) -> str | None:
        return None if self._files is None else self._files.locator.get_cache_path()

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        if self._files is not None:
            self._index.unlink(missing_ok=True)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled function for this signature, or None."""
        context.refresh()
        if not self._enabled or self._files is None:
            return None
        key = self._key(signature, context.codegen())
        try:
            number = self._numbers().get(key)
            stored = None if number is None else _unsealed(self._data(number))
            # two processes at once may both have taken a number; the last to write has it
            if stored is None or stored[0] != key:
                return None
            return self._files.rebuild(context, stored[1])
        except (ImportError, AttributeError):  # of a version in which something had another name
            return None
        except Exception as error:  # a damaged file may raise anything
            _warn(f"A compiled function in {self.cache_path} cannot be read ({_short(error)}) and is compiled again.")
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Store the compiled function, if possible."""
        if not self._enabled:
            return
        if self._files is None:
            _warn(f"Compiled functions cannot be stored: no folder is writable. {_ADVICE}")
            return
        if not self._files.check_cachable(compiled):
            return
        key = self._key(signature, compiled.codegen)
        try:
            try:
                numbers = self._numbers()
            except Exception:  # damaged, with a warning when it was loaded
                numbers = {}
            free = set(range(1, len(numbers) + 2)) - set(numbers.values())
            numbers[key] = number = numbers.get(key) or min(free)
            _seal(self._data(number), (key, self._files.reduce(compiled)))  # first: the index lists existing files
            _seal(self._index, (self._own, numbers))
        except (OSError, JumbotError) as error:
            _warn(f"A compiled function cannot be stored in {self.cache_path} ({_short(error)}). {_ADVICE}")

    def _key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        return signature, codegen.magic_tuple(), meaning(self._dispatcher), _VERSION

    @property
    def _own(self) -> str:
        """A file holds one function for all of its closures; when its own code changes, what it held is dropped."""
        return meaning(self._dispatcher, closure=False)

    def _numbers(self) -> dict[Any, int]:
        own, numbers = _unsealed(self._index) or (None, {})
        return numbers if own == self._own else {}

    @property
    def _index(self) -> Path:
        assert self._files is not None
        return Path(self._files.locator.get_cache_path(), f"{self._files.filename_base}.nbi")

    def _data(self, number: int) -> Path:
        return self._index.with_suffix(f".{number}.nbc")


class _Files(CompileResultCacheImpl):
    """Names of files without the line that a function begins at."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        named = super().get_filename_base(fullname, abiflags)
        return named.replace(f"-{self.locator.get_disambiguator()}.py", ".py")


def _seal(path: Path, content: Any) -> None:
    body = dumps(content)
    with replacing(path) as part:
        part.write_bytes(_HEAD + hashlib.sha256(body).digest() + body)


def _unsealed(path: Path) -> Any:
    """The content of a file, None where there is none for this version; raises where it is damaged."""
    if not path.exists():
        return None
    if not path.is_file():  # reading from a pipe may wait forever
        raise OSError(f"{path.name} is not a regular file")
    data = path.read_bytes()
    if not data.startswith(_HEAD):
        if data.startswith(b"\x80") or (data.startswith(b"jumbot ") and b"\n" in data[:80]):
            return None  # of numba itself, or of another version: stale, and written again
        raise ValueError(f"{path.name} is damaged")
    seal, body = data[len(_HEAD) : len(_HEAD) + _SEAL], data[len(_HEAD) + _SEAL :]
    if hashlib.sha256(body).digest() != seal:
        raise ValueError(f"{path.name} is damaged")
    return pickle.loads(body)


_ADVICE = (
    "Each new process compiles again, which takes seconds; to store it, set NUMBA_CACHE_DIR to a folder that can be"
    " written."
)
_warned: list[str] = []


def _warn(text: str) -> None:
    """Warn once per process, not for every function."""
    if not _warned:
        _warned.append(text)
        warnings.warn(text, CacheWarning, stacklevel=2)


def _short(error: Exception) -> str:
    return f"{error.__cause__ or error}"
