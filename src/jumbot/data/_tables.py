"""Tables as domains: files (`.csv`, `.tsv`, `.parquet`, `.xlsx`, `.npz`, `.npy`) and frames, columns by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot._base.files import check_regular, read_arrays
from jumbot._settings.reading import Reading, make_reading
from jumbot.data import _tablefiles as tablefiles
from jumbot.data._arrays import from_arrays, is_sparse, read_sparse, with_labels
from jumbot.data._column_kinds import few, kind_of_column, lacks, numbers_of, plain_columns
from jumbot.data._domain import Domain
from jumbot.data._fitting import names_rows
from jumbot.data._frames import Table
from jumbot.data._labels import plain_text
from jumbot.data._remarks import remark
from jumbot.data._roles import (
    ALL_DOMAINS,
    DOMAINS,
    FEATURES,
    IDS,
    LABELS,
    NO_DOMAINS,
    Known,
    check_columns,
    check_kind,
    find_one,
    find_roles,
    label_columns,
    origins_of,
    rows_of,
)
from jumbot.data._tablefiles import label_values, read_table, with_codes
from jumbot.errors import ArgumentError

FORMATS = (".npy", ".npz", *tablefiles.FORMATS)


class TableSamples:
    """Rows of a table, its features as read; `prepare` fills missing numbers and encodes categories."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return len(self.table.frame)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.table.frame.shape[1],)

    def subset(self, indices: np.ndarray) -> TableSamples:
        return TableSamples(self.table.rows(indices))

    def batch(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        """For tables of numbers; missing ones are NaN."""
        rows = self.table.frame.iloc[np.asarray(indices)]
        plain = plain_columns(rows)
        if len(plain) == rows.shape[1]:
            return torch.from_numpy(rows.to_numpy(np.float64).astype(np.float32))
        text = [column for column in rows if column not in plain and kind_of_column(rows[column]) != "numbers"]
        if text:
            raise ArgumentError(f"data: column {text[0]!r} is not made of numbers; `prepare` encodes it.")
        stacked = np.stack([numbers_of(rows[column]) for column in rows], axis=1)
        return torch.from_numpy(stacked.astype(np.float32))


def load_table(
    path: str | Path,
    label: str | None = None,
    *,
    domain: str | None = None,
    name: str | None = None,
    id: str | None = None,
    drop: str | Sequence[str] = (),
    like: Known | None = None,
) -> Domain:
    """A table in a file: features, and labels if the file has them.

    `.csv` (with , ; or tab), `.tsv`, both also as `.gz`, `.parquet`, `.xlsx`: every column is a feature except those
    of labels, row names and domains and those in `drop`. `.npz`: arrays `features`, `X` or `images`, and `label`,
    `labels` or `y`, `domain`, `id`, or what `scipy.sparse.save_npz` writes, features alone. `.npy`: features alone,
    memory-mapped.

    Parameters
    ----------
    path : path
        The file.
    label : str, optional
        Column of the labels; by default the one named label, labels, y, target or class.
    domain : str, optional
        The value of the column `domain` to use.
    name : str, optional
        What messages call it; by default the name of the file.
    id : str, optional
        Column of the row names; by default one named id.
    drop : str or sequence of str
        Columns to leave out.
    like : Roles or Columns, optional
        How another table was read, for one that goes with it.

    Returns
    -------
    Domain
        The rows.

    Raises
    ------
    jumbot.ArgumentError
        If the file cannot be read, or a column is missing.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "pets.csv").write_text("weight,length,label\\n4,46,cat\\n30,90,dog\\n")
    ...     pets = load_table(Path(folder) / "pets.csv")
    >>> pets.shape, pets.classes
    ((2,), ('cat', 'dog'))
    """
    return read_file(Path(path), name, make_reading(label=label, id=id, drop=drop, domain=domain), like)


def read_file(path: Path, name: str | None, reading: Reading, like: Known | None) -> Domain:
    """What `load_table` returns."""
    kind = _kind(path)
    if kind == ".npy":
        check_columns(str(path), reading, like)
        return from_arrays(read_arrays(path), name=name or path.stem, kind=reading.kind)
    if kind == ".npz":
        return _from_archive(path, name, reading, like)
    table = read_table(path, None if reading.domain == NO_DOMAINS else reading.domain)
    if table.sheet is not None:
        name, reading = name or table.sheet, replace(reading, domain=None)
    return from_table(table, None, name or path.name[: -len(kind)], reading, like, str(path))


def from_table(
    table: Table, labels: Any, name: str, reading: Reading, like: Known | None = None, whose: str | None = None
) -> Domain:
    """A Domain of a Table; `whose` is what messages call it."""
    whose = whose or name
    check_kind(whose, reading)
    roles = find_roles(table.frame.columns.tolist(), whose, reading, like, labels is not None)
    rows = None
    if roles.domain is not None:
        several: dict[str, Any] = {"domain": ALL_DOMAINS} if like is None else {"drop": (roles.domain,)}
        if like is not None and reading.domain_column is not None:  # a column with a role cannot be left out
            several = {}
        rows = rows_of(table.as_written(roles.domain).to_numpy(object), whose, reading.domain, several)
    if rows is not None:
        table, name = table.rows(rows), reading.domain or name
    frame = table.frame
    if not roles.features:
        raise ArgumentError(f"{whose}: has no columns of features.")
    features = with_codes(table, roles.features)
    samples = TableSamples(replace(features, frame=features.frame[list(roles.features)], texts=None))
    ids = None if roles.id is None else _names_of_rows(table, roles.id)
    if ids is None and table.file is None and frame.index.tolist() != list(range(len(frame))):
        ids = [str(value) for value in frame.index]  # the index of a frame
    made = Domain(name, samples, ids=ids, roles=roles)
    if roles.domain is not None and reading.domain == ALL_DOMAINS:
        made = of_all_domains(made, table.as_written(roles.domain).to_numpy(object), whose)
    if labels is not None:
        _check_leak(labels, frame[list(roles.features)], whose)
        return with_labels(made, _aligned(labels, frame, whose), reading.task)
    if roles.label is None:
        return made
    columns = label_columns(roles.label, frame.columns)
    for column in columns:
        _warn_of_words(table, column, whose)
    by_column = [label_values(table, column, reading.task) for column in columns]
    values = by_column[0] if len(by_column) == 1 else np.stack(by_column, axis=1)
    made = with_labels(made, values, reading.task)
    # numbers in a file are also text
    return made if table.file is None else replace(made, label_dtype=None, given_labels={})


def of_all_domains(domain: Domain, column: np.ndarray, whose: str) -> Domain:
    """`domain` as several sources, as its column of domains says."""
    origins, sources = origins_of(column, whose)
    return replace(domain, name=" + ".join(sources) or domain.name, origins=origins, sources=sources)


def domains_of(path: str | Path, column: str | None = None) -> list[str]:
    """The domains that a column of a table names, by default `domain`, sorted."""
    path = Path(path)
    kind = _kind(path)
    table = None if kind in (".npz", ".npy") else read_table(path)
    columns = table.frame if table is not None else read_arrays(path) if kind == ".npz" else {}
    found = find_one(list(columns), DOMAINS, str(path)) if column is None else column
    if found is None or found not in columns:
        raise ArgumentError(f"{path}: the file has no column {column or 'domain'!r}; pass a source and a target.")
    values = columns[found] if table is None else table.as_written(found)
    return sorted({str(value) for value in np.asarray(values).tolist()})


def load_pair(x: str | Path, y: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """The points of two files; columns are matched by name where both have names, and must then be the same."""
    (points_x, names_x), (points_y, names_y) = read_points(Path(x)), read_points(Path(y))
    if names_x is None or names_y is None:
        return points_x, points_y
    places = {name: place for place, name in enumerate(names_y)}
    if missing := [name for name in names_x if name not in places]:
        raise ArgumentError(f"{y}: {lacks(missing, names_y)}")
    known = set(names_x)
    if more := [name for name in names_y if name not in known]:
        raise ArgumentError(f"{y}: has columns that {x} lacks: {few(more)}; leave them out first.")
    return points_x, points_y[:, [places[name] for name in names_x]]


def read_points(path: Path) -> tuple[np.ndarray, list[str] | None]:
    """`(n, d)` numbers and the names of their columns; `.npy` is memory-mapped, of a `.npz` the first array is taken.

    Any problem (no such file, text, lines of different length, NaN) raises an `ArgumentError` with one line.
    """
    kind = _kind(path)
    names = None
    if kind in (".npy", ".npz"):
        points = read_arrays(path)
        points = points if kind == ".npy" else next(iter(points.values()), np.empty(0))
    else:
        table = read_table(path)
        names = table.frame.columns.tolist() if table.named else None
        for column in table.frame:
            values = table.frame[column]
            if kind_of_column(values) != "numbers":
                raise ArgumentError(f"{path}: column {column!r} is text ({values.dropna().iloc[-1]}); drop it first.")
            if names is not None and (column.lower() in (*IDS, "label") or names_rows(column, numbers_of(values))):
                remark(
                    f"{path}: column {column!r} is used as a coordinate; leave it out if it contains names of rows "
                    f"or classes.",
                    stacklevel=4,
                )
        points = np.stack([numbers_of(table.frame[column]) for column in table.frame], axis=1)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.size == 0 or points.dtype.kind not in "fiub":
        raise ArgumentError(f"{path}: contains {points.dtype} of shape {points.shape}; points must be rows of numbers.")
    bad = np.flatnonzero(~np.isfinite(points).all(1)) if points.dtype.kind == "f" else np.empty(0)
    if bad.size:
        raise ArgumentError(
            f"{path}: {bad.size} rows contain NaN or infinity, the first is row {bad[0]}; drop them first."
        )
    return points if points.dtype.kind == "f" else points.astype(np.float64), names


def _kind(path: Path) -> str:
    check_regular(path)
    if not path.is_file():
        raise ArgumentError(f"{path}: does not exist.")
    kind = tablefiles.ending(path)
    if kind not in FORMATS:
        raise ArgumentError(f"{path}: {kind or 'no ending'} is not known; use {', '.join(FORMATS)}.")
    return kind


def _from_archive(path: Path, name: str | None, reading: Reading, like: Known | None) -> Domain:
    arrays = read_arrays(path)
    if is_sparse(arrays):
        check_columns(str(path), reading, like)
        return Domain(name or path.stem, read_sparse(path))
    roles = find_roles(list(arrays), str(path), reading, like)
    rest = list(roles.features)
    found = find_one(rest, FEATURES, str(path)) or (rest[0] if len(rest) == 1 else None)
    if found is None:
        raise ArgumentError(f"{path}: has no array `features`; it contains {', '.join(rest) or 'nothing else'}.")
    features = arrays[found]
    label_names = label_columns(roles.label, list(arrays))
    named = {"labels": label_names, "domains": (roles.domain,), "ids": (roles.id,)}
    for what, key in ((what, key) for what, keys in named.items() for key in keys if key is not None):
        if not arrays[key].ndim or not features.ndim:
            single = found if not features.ndim else key
            raise ArgumentError(f"{path}: {single} is a single value; pass an array with an entry for each sample.")
        if len(arrays[key]) != len(features):
            raise ArgumentError(f"{path}: {len(arrays[key])} {what} for {len(features)} rows.")
    domains, ids = (None if r is None else arrays[r] for r in (roles.domain, roles.id))
    by_column = [arrays[key] for key in label_names]
    labels = None if not by_column else by_column[0] if len(by_column) == 1 else np.stack(by_column, axis=1)
    rows = None if domains is None else rows_of(domains, str(path), reading.domain)
    if rows is not None:
        features, labels, ids = (None if v is None else v[rows] for v in (features, labels, ids))
    made = from_arrays(
        features,
        labels,
        name=name or (path.stem if rows is None else reading.domain) or "data",
        ids=ids,
        where=lambda row: f"row {row if rows is None else int(rows[row])} of {path}",
        kind=reading.kind,
        task=reading.task,
    )
    if domains is not None and reading.domain == ALL_DOMAINS:
        made = of_all_domains(made, domains, str(path))
    return replace(made, roles=replace(roles, features=()))  # the array has columns without names


def _warn_of_words(table: Table, column: str, whose: str) -> None:
    """Of labels such as None and NA, which may be missing or a class."""
    found = table.words.get(column)
    words = () if found is None else found[found.index.isin(table.frame.index)]
    if len(words):
        quoted = " and ".join(repr(word) for word in sorted(set(words)))
        remark(
            f"{whose}: column {column!r} says {quoted} in {len(words)} rows, which is read as a missing label; if it "
            "is a class, give it another name.",
            stacklevel=5,
        )


def _names_of_rows(table: Table, column: str) -> list[str]:
    """As written, so that predictions can be joined with the file by them."""
    written = table.as_written(column)
    whole = written.dtype.kind == "f" and (written.dropna() % 1 == 0).all()  # whole numbers, some of them missing
    texts = [str(int(name) if whole and name == name else name) for name in written]
    return ["" if missing else text for text, missing in zip(texts, written.isna(), strict=True)]


def _check_leak(labels: Any, features: Any, whose: str) -> None:
    """Refuse labels that are also a feature column: the network would read the answer."""
    suspects = [c for c in features if c == str(getattr(labels, "name", None)) or c.lower() in LABELS]
    for column in suspects:
        feature_texts, given = (
            [plain_text(value) for value in values] for values in (features[column], np.asarray(labels).ravel())
        )
        if feature_texts == given:
            raise ArgumentError(
                f"{whose}: the labels are the column {column!r} of the features too; pass the frame alone, with "
                f"label={column!r}, or leave the column out."
            )


def check_same_rows(labels: Any, frame: Any, whose: str) -> None:
    """Raise an error if `labels` are a Series whose index has the rows of the frame in another order."""
    index, own = getattr(labels, "index", None), getattr(frame, "index", None)
    if index is None or own is None or callable(index) or callable(own) or len(index) != len(own):
        return
    if index.tolist() != own.tolist() and {*index.tolist()} == {*own.tolist()}:
        raise ArgumentError(
            f"{whose}: the index of the labels has the rows in another order than the frame; pass y.loc[X.index]."
        )


def _aligned(labels: Any, frame: Any, whose: str) -> Any:
    """`labels` unchanged; an error if they are a Series whose index belongs to other rows."""
    check_same_rows(labels, frame, whose)
    index = getattr(labels, "index", None)
    if index is None or callable(index) or len(index) != len(frame):
        return labels
    if not hasattr(labels, "isna") or labels.ndim != 1:
        return labels
    return label_values(Table(labels.to_frame("labels")), "labels", None)
