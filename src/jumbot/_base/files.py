"""Atomic writing of files, and reading of regular files only."""

from __future__ import annotations

import math
import os
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jumbot.errors import ArgumentError, JumbotError

_PAGE = 5.0  # seconds that a page takes


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary name next to `path` to write to: it replaces `path` if the block succeeds, and is removed otherwise.

    If the process is killed or the disk is full, the previous file remains.  Several processes may write the same path.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "new" / "a.txt") as part:
    ...         _ = part.write_text("whole")
    ...     (Path(folder) / "new" / "a.txt").read_text()
    'whole'
    """
    path = Path(path)
    # not the process id, which may be the same in two containers that share a folder
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
        mode = part.stat().st_mode & 0o777  # what the user's umask allows; some writers make private files
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.chmod(mode)
        part.replace(path)
    except BaseException as error:
        with suppress(OSError):  # the folder itself may be the problem
            part.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        kept = " The previous version is kept; make room and try again." if path.is_file() else ""
        raise JumbotError(f"{path}: cannot be written ({error}).{kept}") from error


def check_regular(path: str | Path) -> None:
    """Refuse anything that is neither a file nor a folder: reading from a pipe may wait forever.

    >>> check_regular("/dev/null")
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: /dev/null: is not a regular file; save its content to one first.
    """
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise ArgumentError(f"{path}: is not a regular file; save its content to one first.")


def read_bytes(path: str | Path) -> bytes:
    """The content of a file; an error names a file that cannot be read."""
    check_regular(path)
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ArgumentError(f"{path}: cannot be read ({error.strerror or error}).") from error


def read_arrays(path: Path) -> Any:
    """The array in a `.npy` file, which stays on disk, or a dictionary of those in a `.npz` file."""
    import numpy as np

    check_regular(path)
    try:
        if path.suffix.lower() == ".npy":
            return np.load(path, mmap_mode="r")
        with np.load(path) as archive:
            return {key: archive[key] for key in archive.files}
    except Exception as error:  # damaged files raise any of ten types, too large sizes MemoryError
        raise ArgumentError(f"{path}: cannot be read ({error}).") from error


def array_of_points(arrays: Mapping[str, Any], whose: str) -> Any:
    """The array of points in a `.npz` file: the only one, or the only one that has rows of numbers."""
    if not arrays:
        raise ArgumentError(f"{whose}: contains no array.")
    found = [key for key, array in arrays.items() if len(arrays) == 1 or array.ndim > 1]
    if len(found) != 1:
        raise ArgumentError(
            f"{whose}: contains the arrays {', '.join(arrays)}, and {', '.join(found) or 'none'} of them have rows; "
            "save the points alone."
        )
    return arrays[found[0]]


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file atomically; return its path."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
    return Path(path)


def drawn(what: str, draw: Callable[[], Path]) -> Path | None:
    """The page that `draw` writes, or None and a warning if it fails: the trained model is not lost.

    Errors of this package are raised: they name a damaged file or a full disk, and say what to do.

    >>> drawn("a page", lambda: Path("page.html")).name
    'page.html'
    """
    try:
        return draw()
    except JumbotError:
        raise
    except Exception as error:  # a model that took hours must not be lost because no font has a character
        warnings.warn(
            f"{what} could not be written ({type(error).__name__}: {error}). The model and its predictions are "
            "complete; model.report() tries again.",
            stacklevel=3,
        )
        return None


def time_for_a_page(begun: float, seconds: float) -> bool:
    """Whether a budget of so many seconds, begun at this time of `time.monotonic`, leaves time for a page.

    After much training a page takes longer: a twentieth of the budget is reserved for it.

    >>> time_for_a_page(time.monotonic() - 16, 20), time_for_a_page(time.monotonic() - 14, 20)
    (False, True)
    """
    return math.isinf(seconds) or time.monotonic() + max(_PAGE, seconds / 20) < begun + seconds


def first_line(error: BaseException) -> str:
    r"""The reason of an error of another package, which may be a page, or nothing but its type.

    >>> first_line(ValueError("no such column\n  at line 3")), first_line(EOFError())
    ('no such column', 'EOFError')
    """
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
