"""How samples are identified: a key for the content of each, and a hash for all of a domain."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import is_dataclass
from functools import partial

import numpy as np

from jumbot.data._domain import ArraySamples, Domain, JoinedSamples, Samples, SubsetSamples
from jumbot.data._images import PictureSamples
from jumbot.data._inputs import FormattedSamples
from jumbot.data._tables import TableSamples

KEY = np.dtype("V20")
_TOGETHER = 256  # samples that are read at once
_UNREAD = bytes(KEY.itemsize)
_PART = 2**14  # samples whose digests are listed at once


def content_keys(samples: Samples) -> np.ndarray:
    """`(n,)` keys of 20 bytes, equal for samples of equal content and input format."""
    found = bytearray()  # which grows with the samples, where a list of digests would take four times as much
    for start in range(0, len(samples), _PART):
        for one in _digests(samples, np.arange(start, min(start + _PART, len(samples)))):
            found += one
    return np.frombuffer(found, KEY)


def domain_hash(domain: Domain) -> str | None:
    """40 hexadecimal digits for the samples of a domain, in their order, with their classes.

    None for Datasets, whose items may differ from call to call and take long to read.

    >>> small = Domain("a", ArraySamples(np.zeros((3, 2))), np.array([0, 0, 1]), ("cat", "dog"))
    >>> domain_hash(small) == domain_hash(small.unlabelled()), len(domain_hash(small) or "")
    (False, 40)
    """
    samples = domain.samples
    while isinstance(samples, SubsetSamples):
        samples = samples.samples
    if isinstance(samples, JoinedSamples):
        hashes = [domain_hash(Domain(name, part)) for name, part in zip(samples.names, samples.parts, strict=True)]
        if None in hashes:
            return None
    elif not isinstance(samples, ArraySamples | PictureSamples | TableSamples):
        return None
    labels = b"" if domain.labels is None else domain.labels.astype("<i8").data
    values = [] if domain.values is None else [domain.values.astype("<f8").tobytes()]
    # names of folders that are not valid UTF-8 contain surrogates
    classes = "\n".join(domain.classes).encode("utf-8", "surrogatepass")
    return digest(content_keys(domain.samples).view(np.uint8).data, labels, classes, *values).hex()


def digest(*parts: bytes | memoryview) -> bytes:
    """20 bytes for these."""
    found = hashlib.blake2b(digest_size=KEY.itemsize)
    for part in parts:
        found.update(part)
    return found.digest()


def _digests(samples: Samples, rows: np.ndarray) -> Iterator[bytes]:
    if isinstance(samples, JoinedSamples):
        for p, row in zip(*samples.locate(rows), strict=True):
            yield from _digests(samples.parts[p], np.array([row]))
    elif isinstance(samples, SubsetSamples):
        yield from _digests(samples.samples, samples.indices[rows])
    elif isinstance(samples, FormattedSamples) and (samples.transform is None or is_dataclass(samples.transform)):
        how = f"{samples.format}{samples.transform}".encode()
        for raw in _digests(samples.raw, rows):
            yield digest(raw, how)
    elif isinstance(samples, PictureSamples):
        with ThreadPoolExecutor(4) as pool:
            for start in range(0, len(rows), 1024):
                yield from pool.map(partial(_of_picture, samples), rows[start : start + 1024].tolist())
    elif isinstance(samples, ArraySamples):
        how = f"{samples.array.dtype.str}{samples.array.shape[1:]}".encode()
        for row in rows:
            yield digest(how, np.ascontiguousarray(samples.array[row]).tobytes())
    elif isinstance(samples, TableSamples):
        frame = samples.table.frame
        how = "\n".join(f"{name} {kind}" for name, kind in frame.dtypes.items()).encode("utf-8", "surrogatepass")
        for row in frame.iloc[rows].itertuples(index=False, name=None):
            yield digest(how, repr(row).encode())
    else:  # other samples are identified by what the network gets
        for start in range(0, len(rows), _TOGETHER):
            batch = samples.batch(rows[start : start + _TOGETHER]).cpu()
            how = f"{batch.dtype}{tuple(batch.shape[1:])}".encode()
            for row in batch:
                yield digest(how, row.contiguous().numpy().tobytes())


def _of_picture(samples: PictureSamples, row: int) -> bytes:
    """The key of a picture, whose file is only read the first time."""
    if samples.digests[row].tobytes() == _UNREAD:
        samples.digests[row] = np.void(digest(samples.content(row)))
    return samples.digests[row].tobytes()
