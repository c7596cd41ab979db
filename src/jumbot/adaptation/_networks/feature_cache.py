"""Features on disk, which several processes can write and read at the same time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from jumbot._base.files import replacing
from jumbot._base.progress import Stretch, progress
from jumbot.data._content import KEY, content_keys, digest
from jumbot.data._domain import Domain
from jumbot.errors import ArgumentError, JumbotError, need

SHARD = 256  # samples per file of the cache, the most that an interruption can lose

Compute = Callable[[np.ndarray], Iterator[np.ndarray]]
"""Rows of a domain -> their features, batch by batch."""


class FeatureCache:
    """Features of one backbone: files of up to 256 samples, each with the keys of its rows, each written atomically.

    Processes that need the same features share the work: one that computes a part holds a lock of the operating system
    for it, which is released when the process ends, however it ends, and the others compute other parts first.  Files
    are written atomically, so without locks the worst that can happen is that a part is computed twice.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def complete(self, domain: Domain, batch_size: int, compute: Compute) -> tuple[np.ndarray, np.ndarray | None]:
        """Features of every different sample of `domain`, and the row of each sample among them."""
        keys, first, rows = np.unique(content_keys(domain.samples), return_index=True, return_inverse=True)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ArgumentError(
                f"cache: {self.folder} cannot be created ({error.strerror}); choose another one."
            ) from error
        found = _Found(self.folder, keys)
        found.look()
        missing = np.flatnonzero(~found.known)
        missing = missing[np.argsort(first[missing])]  # in the order of the files, which is faster on disks
        shard = max(SHARD // batch_size, 1) * batch_size
        parts = [missing[start : start + shard] for start in range(0, len(missing), shard)]
        with progress(len(missing), f"features of {domain.name}", least=SHARD, slow=True) as advance:
            taken = []
            for wait in (False, True):
                for part in parts:
                    with self._claim(keys[part], wait) as mine:
                        if mine:
                            self._fill(found, part, first, compute, advance)
                        else:
                            taken.append(part)
                parts, taken = taken, []
        assert found.features is not None
        return found.features, None if np.array_equal(rows, np.arange(len(rows))) else rows

    def _fill(self, found: _Found, part: np.ndarray, first: np.ndarray, compute: Compute, advance: Stretch) -> None:
        """Compute the samples of a part that no other process has written meanwhile."""
        found.look()
        missing = part[~found.known[part]]
        advance(len(part) - len(missing))
        computed = []
        for batch in compute(first[missing]) if len(missing) else ():
            computed.append(batch)
            advance(len(batch))
        if computed:
            features = np.concatenate(computed)
            self._write(found.keys[missing], features)
            found.add(missing, features)

    @contextmanager
    def _claim(self, keys: np.ndarray, wait: bool) -> Iterator[bool]:
        """Whether this process computes these samples; with `wait`, it does so once no other process does."""
        filelock = need("filelock", "the cache of features", "adapt")
        lock = filelock.FileLock(self.folder / f"{_name(keys)}.lock")
        try:
            lock.acquire(timeout=-1 if wait else 0)
        except filelock.Timeout:
            yield False
            return
        except (OSError, NotImplementedError):  # a file system without locks, or one that cannot be written
            yield True
            return
        try:
            yield True
        finally:
            with suppress(OSError):  # Windows cannot remove an open file, and the folder may be gone
                Path(lock.lock_file).unlink()
            lock.release()

    def _write(self, keys: np.ndarray, features: np.ndarray) -> None:
        """Write a file named by its content, atomically."""
        plain = np.ascontiguousarray(keys).view(np.uint8).reshape(len(keys), KEY.itemsize)
        try:
            with replacing(self.folder / f"{_name(keys)}.npz") as part, part.open("wb") as file:
                np.savez(file, keys=plain, features=features)
        except JumbotError as error:
            raise ArgumentError(f"cache: {error} Choose another one.") from error


class _Found:
    """Which of the sorted `keys` the files of a folder hold, and an array of features with their rows filled in."""

    def __init__(self, folder: Path, keys: np.ndarray) -> None:
        self.folder, self.keys = folder, keys
        self.known = np.zeros(len(keys), bool)
        self.features: np.ndarray | None = None
        self.read: set[str] = set()

    def look(self) -> None:
        """Read the files that have come since the last look."""
        for file in sorted(self.folder.glob("*.npz")):
            if file.name in self.read or not file.is_file():  # reading from a pipe may wait forever
                continue
            self.read.add(file.name)
            try:
                with file.open("rb") as opened, np.load(opened) as shard:
                    held = shard["keys"].view(KEY).reshape(-1)
                    place = np.minimum(np.searchsorted(self.keys, held), len(self.keys) - 1)
                    hit = self.keys[place] == held
                    if hit.any():
                        self.add(place[hit], shard["features"][hit])
            except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
                warnings.warn(f"{file}: is damaged ({error}); recomputing its features.", stacklevel=5)

    def add(self, places: np.ndarray, features: np.ndarray) -> None:
        """Record that these rows are known."""
        if self.features is None:
            self.features = np.empty((len(self.keys), features.shape[1]), np.float32)
        self.features[places] = features
        self.known[places] = True


def _name(keys: np.ndarray) -> str:
    return digest(np.ascontiguousarray(keys).tobytes()).hex()
