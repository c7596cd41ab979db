"""Datasets as samples: those of torch, and those of Hugging Face by the names of their columns."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, Subset

from jumbot._settings.reading import Reading, TaskName
from jumbot.data._arrays import array_of, as_tensors, check_shape, from_arrays, with_labels
from jumbot.data._column_kinds import few
from jumbot.data._domain import Domain, Samples
from jumbot.data._frames import as_table
from jumbot.data._images import OpenSamples, is_picture
from jumbot.data._roles import ALL_DOMAINS, LABELS, Known, check_kind, find_one, find_roles, label_columns, rows_of
from jumbot.data._tables import from_table, of_all_domains
from jumbot.errors import ArgumentError


class DatasetSamples:
    """The first part of each item of a map-style Dataset; items are read when a batch needs them and must have the same
    shape.

    Bytes become numbers in [0, 1]; float tensors stay as the Dataset's own transform made them. With a `kind` ("raw" or
    "signal") all do, as in `TensorSamples`.
    """

    def __init__(self, dataset: Dataset[Any], kind: str | None = None) -> None:
        self.dataset, self.kind = dataset, kind
        self.shape = tuple(self.batch(np.arange(1)).shape[1:])
        if kind is not None:
            check_shape(self.shape, kind)

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def batch(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        items = [self._tensor(_first(self.dataset[int(i)])) for i in indices]
        shapes = {tuple(item.shape) for item in items}
        if len(shapes) > 1:
            raise ArgumentError(f"data: items of shapes {sorted(shapes)}; let the Dataset's transform resize to one.")
        return torch.stack(items)

    def _tensor(self, value: Any) -> Tensor:
        if self.kind is None:
            return _tensor(value)
        return as_tensors(array_of(value)[None], self.kind)[0]


def load_dataset(
    dataset: Dataset[Any],
    labels: Any = None,
    *,
    name: str = "data",
    kind: str | None = None,
    task: TaskName | None = None,
) -> Domain:
    """A Domain of a Dataset whose items are `x` or `(x, y, ...)`.

    Labels come from `labels`, else from the Dataset's `targets` or `labels`, else from one pass over its items; their
    names from its `classes` where it has them. A `Subset` has those of the Dataset that it is a part of. Items that are
    PIL images may differ in size.

    >>> from torch.utils.data import TensorDataset
    >>> load_dataset(TensorDataset(torch.zeros(3, 2), torch.tensor([7, 5, 7]))).classes
    ('5', '7')
    """
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise ArgumentError(f"{name}: the Dataset lacks __len__ or __getitem__; pass one with both.")
    if len(dataset) == 0:
        raise ArgumentError(f"{name}: the Dataset is empty.")
    pictures = kind is None and is_picture(_first(dataset[0]))
    samples: Samples = OpenSamples(Parts(dataset, _first)) if pictures else DatasetSamples(dataset, kind)
    labels = _labels(dataset) if labels is None else labels
    if labels is None:
        return Domain(name, samples)
    values = array_of(labels)
    named = values if task == "regression" else named_labels(values, classes_of(dataset))
    return with_labels(Domain(name, samples), named, task)


def named_labels(values: np.ndarray, names: Any) -> np.ndarray:
    """Numbers of classes as their names, where these are known."""
    if names is None or values.dtype.kind not in "iu" or values.max() >= len(names) or values.min() < 0:
        return values
    return np.array([_without_word(names[i], i) for i in values.tolist()])


class Parts:
    """What `take` takes of each item, by index; items are asked for when it is."""

    def __init__(self, items: Any, take: Callable[[Any], Any]) -> None:
        self.items, self.take = items, take

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.take(self.items[index])


def _labels(dataset: Any) -> Any:
    stored = _stored_labels(dataset)
    if stored is not None:
        return stored
    if not isinstance(dataset[0], tuple | list) or len(dataset[0]) < 2:
        return None
    return [_scalar(dataset[i][1]) for i in range(len(dataset))]


def _stored_labels(dataset: Any) -> Any:
    """Labels that are known without reading items; of a Subset, those of its rows."""
    if isinstance(dataset, Subset):
        whole = _stored_labels(dataset.dataset)
        return None if whole is None else [_scalar(whole[int(i)]) for i in dataset.indices]
    for attribute in ("targets", "labels"):
        values = getattr(dataset, attribute, None)
        if values is not None and len(values) == len(dataset):
            return values
    return None


def classes_of(dataset: Any) -> Any:
    """Names of the classes, of a Dataset or of what a Subset or DataLoader takes its samples from."""
    if isinstance(dataset, Subset | DataLoader):
        return classes_of(dataset.dataset)
    return getattr(dataset, "classes", None)


def _scalar(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor | np.generic | np.ndarray) else value


def _without_word(name: str, index: int) -> str:
    """torchvision calls the digit 3 "3 - three"; other digits are called "3"."""
    found = re.fullmatch(r"(\d+) - \w+", str(name))
    return found[1] if found and int(found[1]) == index else str(name)


def _first(item: Any) -> Any:
    return item[0] if isinstance(item, tuple | list) else item


def _tensor(value: Any) -> Tensor:
    array = array_of(value)
    if array.dtype.kind not in "fiub":
        raise ArgumentError(
            f"data: an item of {array.dtype} was returned by the Dataset; items must be images or numbers."
        )
    # Bytes of PIL and numpy have their channels last, tensors have them first.
    if array.ndim == 2:
        array = array[None]
    elif array.ndim == 3 and not isinstance(value, Tensor) and array.shape[2] in (1, 3):
        array = array.transpose(2, 0, 1)
    scale = 255.0 if array.dtype == np.uint8 and array.ndim == 3 else 1.0
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32)) / scale


MOST_BYTES = 4 << 30
"""Read from a stream before it is considered infinite."""


def is_stream(data: Any) -> bool:
    """Whether `data` can only be iterated over."""
    return isinstance(data, DataLoader | IterableDataset | Iterator)


def refuse_source(data: Any, name: str) -> None:
    """Refuse a stream as the source: minibatches of the source are drawn by class and need random access."""
    what = (
        "a DataLoader" if isinstance(data, DataLoader) else f"an iterable ({type(data).__name__}), which has no length,"
    )
    instead = "its .dataset" if isinstance(data, DataLoader) else "a Dataset with __len__ and __getitem__"
    raise ArgumentError(
        f"{name}: {what} yields its samples once, in its own order, but minibatches of the source are drawn by class; "
        f"pass {instead}, or arrays."
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
            raise ArgumentError(f"{name}: samples of shapes {sorted(shapes)[:3]}; give them the same shape first.")
        domain = from_arrays(np.concatenate(samples) if batched else np.stack(samples), name=name, kind=kind)
    if labels is None and found:
        labels = np.concatenate(found) if batched else np.array(found)
        if task != "regression":
            labels = named_labels(labels, classes_of(stream))
    return with_labels(domain, labels, task)


def bytes_of(value: Any) -> int:
    """The approximate memory of a sample."""
    if is_picture(value):
        return 3 * int(value.width * value.height)
    if isinstance(value, dict | list | tuple):
        return sum(bytes_of(part) for part in (value.values() if isinstance(value, dict) else value))
    return int(value.nbytes) if isinstance(value, np.ndarray | Tensor) else sys.getsizeof(value)


def check_size(size: int, name: str) -> None:
    """Refuse a stream that does not end."""
    if size > MOST_BYTES:
        raise ArgumentError(
            f"{name}: more than {MOST_BYTES / 2**30:g} GiB were read from the stream, which may be infinite; pass a "
            f"Dataset "
            "with a length, or a memory-mapped .npy file."
        )


def _check_order(loader: DataLoader[Any], name: str) -> None:
    if isinstance(loader.sampler, RandomSampler):
        raise ArgumentError(
            f"{name}: the DataLoader shuffles, so predictions cannot be matched to samples; give "
            "one with shuffle=False, or its .dataset."
        )
    if loader.drop_last:
        raise ArgumentError(f"{name}: the DataLoader leaves out samples (drop_last=True); pass one that does not.")


def _collect(stream: Any, name: str, batched: bool) -> tuple[list[Any], list[Any]]:
    samples: list[Any] = []
    labels: list[Any] = []
    size = 0
    for item in stream:
        if isinstance(item, dict):
            raise ArgumentError(f"{name}: got items with names ({', '.join(map(str, item))}); pass x or (x, y).")
        x, *rest = item if isinstance(item, tuple | list) else [item]
        if batched and is_picture(x):
            raise ArgumentError(f"{name}: the DataLoader yields lists of images; pass its .dataset.")
        part: Any = x if is_picture(x) else array_of(x)
        size += bytes_of(part)
        check_size(size, name)
        samples.append(part)
        if rest:
            y = rest[0]
            labels.append(array_of(y) if batched or isinstance(y, Tensor) else y)
    return samples, labels


def is_huggingface(data: Any) -> bool:
    """Whether `data` is from `datasets`, without importing it."""
    return type(data).__module__.partition(".")[0] == "datasets" and hasattr(data, "column_names")


def from_huggingface(data: Any, labels: Any, name: str, reading: Reading, like: Known | None) -> Domain:
    """A Domain of a `datasets.Dataset`: its pictures if a column holds any, otherwise its columns as a table.

    The labels are the column `label`, by default the one named so or the only one of classes; if there are images,
    columns that are not label, id or domain are ignored.
    """
    check_kind(name, reading)
    if isinstance(data, dict):
        raise ArgumentError(
            f"{name}: contains the splits {few(list(data))}; pass one, e.g. data[{next(iter(data))!r}]."
        )
    if not hasattr(data, "__len__"):
        if like is None:
            refuse_source(data, name)
        data = _read_whole(data, name)
    if not len(data):
        raise ArgumentError(f"{name}: the Dataset is empty.")
    data = data.with_format(None)
    kinds = {column: type(feature).__name__ for column, feature in data.features.items()}
    if reading.label is None and labels is None and find_one(list(kinds), LABELS, name) is None:
        classes = [column for column, kind in kinds.items() if kind == "ClassLabel"]
        if len(classes) == 1 and (like is None or classes[0] not in like.names):
            reading = replace(reading, label=classes[0])
    pictures = [column for column, kind in kinds.items() if kind == "Image" and column not in reading.drop]
    if not pictures:
        return from_table(as_table(_frame(data, kinds), name), labels, name, reading, like)
    if len(pictures) > 1:
        raise ArgumentError(f"{name}: {few(pictures)} all contain images; leave out all but one with drop.")
    roles = find_roles(list(kinds), name, reading, like, labels is not None)
    origins = None
    if roles.domain is not None:
        rows = rows_of(np.array(data[roles.domain], dtype=object), name, reading.domain)
        data = data if rows is None else data.select(rows)
        if reading.domain == ALL_DOMAINS:
            origins = np.array(data[roles.domain], dtype=object)
    ids = None if roles.id is None else [str(value) for value in data[roles.id]]
    column = pictures[0]
    images = Parts(data.select_columns([column]), itemgetter(column))
    domain = Domain(name, OpenSamples(images), ids=ids, roles=replace(roles, features=()))
    if origins is not None:
        domain = of_all_domains(domain, origins, name)
    if labels is None and roles.label is not None:
        columns = [_names(data, column, kinds) for column in label_columns(roles.label, list(kinds))]
        labels = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
    return with_labels(domain, labels, reading.task)


def _frame(data: Any, kinds: dict[str, str]) -> Any:
    """The columns as a frame, numbers of classes as their names."""
    frame = data.to_pandas()
    for column in (column for column, kind in kinds.items() if kind == "ClassLabel"):
        frame[column] = _names(data, column, kinds)
    return frame


def _names(data: Any, column: str, kinds: dict[str, str]) -> list[Any]:
    values = list(data[column])
    if kinds[column] != "ClassLabel":
        return values
    names = data.features[column].names
    return [None if value is None or value < 0 else names[value] for value in values]


def _read_whole(stream: Any, name: str) -> Any:
    from datasets import Dataset

    items, size = [], 0
    for item in stream:
        items.append(item)
        size += bytes_of(item)
        check_size(size, name)
    return Dataset.from_list(items, features=stream.features)
