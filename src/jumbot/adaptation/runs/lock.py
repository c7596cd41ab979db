"""One writer per folder."""

from __future__ import annotations

import datetime
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jumbot.errors import ArgumentError, JumbotError, need
from jumbot.files import read_bytes

LOCK, HOLDER = ".lock", ".lock-holder"
OURS = (LOCK, HOLDER)
"""Names of files that say nothing about what else is in a folder."""


@contextmanager
def writing(folder: str | Path) -> Iterator[None]:
    """Holds `folder`, made where it is not there, for this process; another that would write to it is refused.

    The operating system holds the lock (filelock knows how on each) and drops it with the process, however that ends:
    what a kill left behind is no obstacle.  A folder that was made for nothing is removed again.
    """
    filelock = need("filelock", "writing a run", "adapt")
    folder = Path(folder)
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / LOCK)
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise ArgumentError(
            f"{folder}: {_holder(folder)} is writing there; wait until it ends, or give another name."
        ) from None
    except OSError as error:
        raise JumbotError(f"{folder}: cannot be written ({error}).") from error
    try:
        with suppress(OSError):  # who it is helps others; the lock does not depend on it
            since = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
            (folder / HOLDER).write_text(f"process {os.getpid()} on {socket.gethostname()} (since {since})\n", "utf-8")
        yield
    finally:
        with suppress(OSError):
            (folder / HOLDER).unlink(missing_ok=True)
        with suppress(OSError):  # Windows removes no file that is open
            (folder / LOCK).unlink()
        lock.release()
        with suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)
            if made:
                folder.rmdir()


def _holder(folder: Path) -> str:
    try:
        return read_bytes(folder / HOLDER).decode().strip() or "another process"
    except ValueError:  # an ArgumentError is one
        return "another process"
