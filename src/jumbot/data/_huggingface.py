"""Data sets of Hugging Face's `datasets`, by the names of their columns."""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from jumbot._settings.reading import Reading
from jumbot.data._arrays import with_labels
from jumbot.data._column_kinds import few
from jumbot.data._datasets import Parts, bytes_of, check_size, refuse_source
from jumbot.data._domain import Domain
from jumbot.data._frames import as_table
from jumbot.data._images import OpenSamples
from jumbot.data._roles import ALL_DOMAINS, LABELS, Known, check_kind, find_one, find_roles, label_columns, rows_of
from jumbot.data._tables import from_table, of_all_domains
from jumbot.errors import ArgumentError


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
