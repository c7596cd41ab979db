"""DataLoaders and iterables: read once, whole, as a target or for predictions; never as a source."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, RandomSampler

from jumbot.data.arrays import from_arrays, with_labels
from jumbot.data.datasets import classes_of, named_labels
from jumbot.data.domain import Domain
from jumbot.data.images import OpenSamples, is_picture
from jumbot.data.reading import TaskName
from jumbot.data.tensors import array_of
from jumbot.errors import ArgumentError

MOST_BYTES = 4 << 30
"""Read from a stream before it is taken for endless."""


def is_stream(data: Any) -> bool:
    """Whether `data` gives its samples one after the other and no other way."""
    return isinstance(data, DataLoader | IterableDataset | Iterator)


def refuse_source(data: Any, name: str) -> None:
    """Minibatches of the source are drawn by class, any row at any time, which a stream cannot give."""
    what = (
        "a DataLoader" if isinstance(data, DataLoader) else f"an iterable ({type(data).__name__}), which has no length,"
    )
    instead = "its .dataset" if isinstance(data, DataLoader) else "a Dataset with __len__ and __getitem__"
    raise ArgumentError(
        f"{name}: {what} gives its samples once, in its own order, and minibatches of the source are drawn by class; "
        f"give {instead}, or arrays."
    )


def read_stream(stream: Any, labels: Any, name: str, kind: str | None, task: TaskName | None = None) -> Domain:
    """All samples of a stream of `x` or `(x, y, ...)`, kept in memory; a DataLoader's are minibatches of them."""
    batched = isinstance(stream, DataLoader) and stream.batch_size is not None
    if isinstance(stream, DataLoader):
        _check_order(stream, name)
    samples, found = _collect(stream, name, batched)
    if not samples:
        raise ArgumentError(f"{name}: the stream is empty.")
    if is_picture(samples[0]):
        domain = Domain(name, OpenSamples(samples))
    else:
        shapes = {part.shape[1:] if batched else part.shape for part in samples}
        if len(shapes) > 1:
            raise ArgumentError(f"{name}: samples of shapes {sorted(shapes)[:3]}; bring them to one shape first.")
        domain = from_arrays(np.concatenate(samples) if batched else np.stack(samples), name=name, kind=kind)
    if labels is None and found:
        labels = np.concatenate(found) if batched else np.array(found)
        if task != "regression":
            labels = named_labels(labels, classes_of(stream))
    return with_labels(domain, labels, task)


def bytes_of(value: Any) -> int:
    """About how much memory a sample takes."""
    if is_picture(value):
        return 3 * int(value.width * value.height)
    if isinstance(value, dict | list | tuple):
        return sum(bytes_of(part) for part in (value.values() if isinstance(value, dict) else value))
    return int(value.nbytes) if isinstance(value, np.ndarray | Tensor) else sys.getsizeof(value)


def check_size(size: int, name: str) -> None:
    """Refuse a stream that does not end."""
    if size > MOST_BYTES:
        raise ArgumentError(
            f"{name}: more than {MOST_BYTES / 2**30:g} GiB came from the stream, which may be endless; give a Dataset "
            "with a length, or a memory-mapped .npy file."
        )


def _check_order(loader: DataLoader[Any], name: str) -> None:
    if isinstance(loader.sampler, RandomSampler):
        raise ArgumentError(
            f"{name}: the DataLoader shuffles, and nobody could tell which prediction belongs to which sample; give "
            "one with shuffle=False, or its .dataset."
        )
    if loader.drop_last:
        raise ArgumentError(f"{name}: the DataLoader leaves out samples (drop_last=True); give one that does not.")


def _collect(stream: Any, name: str, batched: bool) -> tuple[list[Any], list[Any]]:
    samples: list[Any] = []
    labels: list[Any] = []
    size = 0
    for item in stream:
        if isinstance(item, dict):
            raise ArgumentError(f"{name}: items with names ({', '.join(map(str, item))}) came in; give x or (x, y).")
        x, *rest = item if isinstance(item, tuple | list) else [item]
        if batched and is_picture(x):
            raise ArgumentError(f"{name}: the DataLoader gives lists of pictures; give its .dataset.")
        part: Any = x if is_picture(x) else array_of(x)
        size += bytes_of(part)
        check_size(size, name)
        samples.append(part)
        if rest:
            y = rest[0]
            labels.append(array_of(y) if batched or isinstance(y, Tensor) else y)
    return samples, labels
