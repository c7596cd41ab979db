"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jumbot.errors import JumbotError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A name beside `path` to write to: it takes the place of `path` when the block ends well, and is gone otherwise.

    A kill or a full disk leaves the file that was there before.  Several processes may write the same path.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "new" / "a.txt") as part:
    ...         _ = part.write_text("whole")
    ...     (Path(folder) / "new" / "a.txt").read_text()
    'whole'
    """
    path = Path(path)
    # not by the number of the process: in two containers that share a folder it may be the same
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
        with suppress(OSError):  # the folder itself may be the trouble
            part.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        kept = " The one before it is kept; make room and try again." if path.is_file() else ""
        raise JumbotError(f"{path}: cannot be written ({error}).{kept}") from error


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file so; returns its path."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
    return Path(path)
