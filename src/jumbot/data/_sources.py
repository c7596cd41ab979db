"""`as_domain`: any kind of data as a Domain of raw samples; `read_domains`: a source and the data that go with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from torch.utils.data import Dataset

from jumbot._settings.reading import Corrupt, Reading, TaskName, make_reading
from jumbot.data._arrays import SparseSamples, as_numbers, from_arrays, with_labels
from jumbot.data._column_kinds import few
from jumbot.data._datasets import from_huggingface, is_huggingface, is_stream, load_dataset, read_stream, refuse_source
from jumbot.data._domain import Domain
from jumbot.data._folders import load_files
from jumbot.data._frames import as_table, is_frame
from jumbot.data._images import OpenSamples, is_picture
from jumbot.data._inputs import kind_of
from jumbot.data._labels import match_classes
from jumbot.data._paths import from_path, join_domains, takes_root
from jumbot.data._readers import in_files
from jumbot.data._remarks import remark
from jumbot.data._roles import NO_DOMAINS, Known, Roles, check_columns, check_kind
from jumbot.data._tables import from_table
from jumbot.errors import ArgumentError

_AS_IT_IS = Reading()


def as_domain(
    data: Any,
    labels: Any = None,
    *,
    name: str | None = None,
    label: str | Sequence[str] | None = None,
    id: str | None = None,
    drop: str | Sequence[str] = (),
    domain: str | None = None,
    domain_column: str | None = None,
    corrupt: Corrupt = "refuse",
    root: str | Path | None = None,
    kind: str | None = None,
    task: TaskName | None = None,
    like: Known | None = None,
) -> Domain:
    """Read any data as a `Domain`; samples stay raw, and `prepare` makes two domains alike.

    Parameters
    ----------
    data
        One of:

        - a `Domain`: itself;
        - an array or tensor X, or a pair (X, y): `(n, d)` features, `(n, h, w)` or `(n, h, w, 3)` images;
        - a frame of pandas or polars, or a pyarrow.Table, with its labels in a column, or a pair (X, y);
        - a scipy.sparse matrix;
        - a torch Dataset of `x` or `(x, y)`, or a `datasets.Dataset` of Hugging Face, by the names of its columns;
        - a list of image files or of PIL images;
        - with `like`, also a DataLoader or an iterable, which is read once and kept;
        - a path: a folder of images (`class/name.jpg`, or flat and then without labels), a list of images (`.txt`), a
          table (`.csv`, `.tsv`, `.parquet`, `.xlsx`, `.npz`, `.npy`); "features.npz:amazon" takes one of its domains;
        - the name of a set of digits, "mnist" or "mnist:test".
    labels : array, optional
        The labels, where `data` does not contain them.
    name : str, optional
        What messages call it; by default the name of the file.
    label : str or sequence of str, optional
        Column of the labels, or several with numbers to predict.
    id : str, optional
        Column of the row names.
    drop : str or sequence of str
        Columns to leave out.
    domain : str, optional
        The domain of the data to use; "all" takes all of them, each as a separate source.
    domain_column : str, optional
        Column of the domains; by default `domain`.
    corrupt : {"refuse", "skip"}, default "refuse"
        What to do with damaged image files.
    root : path, optional
        Where the files of the digits are, see `load`.
    kind : {"signal", "raw"}, optional
        What arrays hold that are neither features nor images: "signal", `(n, channels, length)`, or "raw", which
        are passed unchanged to your own backbone.
    task : {"classification", "regression"}, optional
        Whether labels are classes or numbers to predict; by default classes, unless they have fractions.
    like : Roles or Columns, optional
        How the table was read that this one goes with (`domain.roles`); this one may then lack its columns of labels.

    Returns
    -------
    Domain
        The samples, with labels where there are any.

    Raises
    ------
    jumbot.ArgumentError
        If the data cannot be read, or an option has no effect on them.

    Examples
    --------
    >>> as_domain(([[0.0, 1.0], [1.0, 0.0]], ["cat", "dog"]), name="pets").classes
    ('cat', 'dog')
    """
    reading = make_reading(
        label=label,
        id=id,
        drop=drop,
        domain=domain,
        domain_column=domain_column,
        corrupt=corrupt,
        root=root,
        kind=kind,
        task=task,
    )
    found = _as_asked(_read(data, labels, name, reading, like), reading)
    if like is None:
        _check_dropped([found], reading)
    if like is None or kind_of(found) != "image":  # pictures that go with others may be arrays beside files
        check_used(reading, [data], [found])
    return found


def read_domains(
    source: Any,
    target: Any,
    evaluate_on: Any = None,
    reading: Reading = _AS_IT_IS,
    called: tuple[str, str] = ("source", "target"),
) -> tuple[Domain, Domain, Domain | None]:
    """The source, and the target and another, labelled part of it, both read as the source was.

    In tables these may lack the columns of labels and ids, and a column that is one of the source's features is never
    taken for their labels. A list is several sources, joined. `reading.domain` is the source's. Labels are of one kind:
    that of the source's. `called` are the names of what has none of its own, such as arrays.
    """
    if isinstance(source, list):  # a list is several sources: unlabelled samples are no source
        parts = [_read_part(one, f"{called[0]} {i}", reading) for i, one in enumerate(source, 1)]
        if len({part.values is None for part in parts}) > 1:
            raise ArgumentError("source: some sources have classes, others numbers to predict; pass task.")
        first = join_domains(parts)
    else:
        first = _read_part(source, called[0], reading)
    second = _read_part(target, called[1], reading, first)
    third = None if evaluate_on is None else _read_part(evaluate_on, "evaluate_on", reading, first)
    _check_dropped([first, second, *([] if third is None else [third])], reading)
    _check_apart(source, target, first)
    return first, second, third


def _read_part(data: Any, name: str, reading: Reading, source: Domain | None = None) -> Domain:
    """A source, or data that go with one; files and folders have names of their own."""
    own, like = reading, None
    if source is not None:
        task: TaskName = "classification" if source.values is None else "regression"
        own = replace(reading, domain=NO_DOMAINS if reading.domain == NO_DOMAINS else None, task=task)
        like = source.roles or Roles(())
    return _as_asked(_read(data, None, None if _is_path(data) else name, own, like), own)


class Given(NamedTuple):
    """The data of a call, as given."""

    source: Any
    target: Any
    evaluate_on: Any = None
    labelled_target: Any = None


class ReadData(NamedTuple):
    """The same, as they were read."""

    source: Domain
    target: Domain
    evaluate_on: Domain | None
    labelled_target: Domain | None


def read_data(given: Given, reading: Reading) -> ReadData:
    """All data of a call, unchanged from files or memory."""
    source, target, evaluated = read_domains(given.source, given.target, given.evaluate_on, reading)
    _remark_on_itself(given, target)
    labelled = None if given.labelled_target is None else _read_labelled(given.labelled_target, source, reading)
    return ReadData(source, target, evaluated, labelled)


def _read_labelled(data: Any, source: Domain, reading: Reading) -> Domain:
    """A labelled part of the target, read as the source was; every row must have a label that the source knows."""
    found = _read_part(data, "labelled_target", reading, source)
    if found.labels is None and found.values is None:
        raise ArgumentError(f"labelled_target: {found.name} has no labels; pass a pair (X, y), or leave it out.")
    strange = sorted(set(found.classes) - set(source.classes)) if source.values is None else []
    if strange:
        raise ArgumentError(f"labelled_target: got {few(strange)}, but the source has no such class; leave it out.")
    if not found.known.all():
        row = int(np.flatnonzero(~found.known)[0])
        raise ArgumentError(f"labelled_target: row {row} has no label; rows without one belong to the target alone.")
    return match_classes(found, source.classes)


def check_used(reading: Reading, given: Sequence[Any], domains: Sequence[Domain | None]) -> None:
    """Refuse options about files if none of the data, `given` and read as `domains`, come from such files."""
    if reading.corrupt != "refuse" and not any(in_files(domain.samples) for domain in domains if domain is not None):
        raise ArgumentError("corrupt has no effect without image files.")
    if reading.root is not None and not any(map(takes_root, given)):
        raise ArgumentError("root has no effect without digits given by name or a list of images (.txt).")


def _read(data: Any, labels: Any, name: str | None, reading: Reading, like: Known | None) -> Domain:
    if isinstance(data, Domain):
        return with_labels(data, labels, reading.task)
    if data is None:
        raise ArgumentError(f"{name or 'data'}: no data given; pass a folder, a table, an array or a Dataset.")
    if isinstance(data, str | Path):
        if not _is_path(data):
            raise ArgumentError(f"{name or 'data'}: got an empty text; pass a folder, a table or other data.")
        return with_labels(from_path(str(data), name, reading, like), labels, reading.task)
    name = name or "data"
    if is_picture(data):
        data = [data]
    if labels is None and isinstance(data, tuple) and len(data) == 2 and not _are(data, str | Path, is_picture):
        return _read(*data, name, reading, like)
    if is_huggingface(data):
        return from_huggingface(data, labels, name, reading, like)
    if is_frame(data):
        return from_table(as_table(data, name), labels, name, reading, like)
    check_columns(name, reading, like)
    if isinstance(data, list | tuple) and _are(data, str | Path, is_picture):
        check_kind(name, reading)
        return with_labels(_from_list(data, name, reading.corrupt), labels, reading.task)
    if isinstance(data, dict):
        raise ArgumentError(f"{name}: got a dict; pass pandas.DataFrame(data), or a pair (X, y).")
    if is_stream(data):
        if like is None:
            refuse_source(data, name)
        return read_stream(data, labels, name, reading.kind, reading.task)
    if isinstance(data, Dataset):
        return load_dataset(data, labels, name=name, kind=reading.kind, task=reading.task)
    if issparse(data):
        check_kind(name, reading)
        return with_labels(Domain(name, SparseSamples(data)), labels, reading.task)
    return from_arrays(data, labels, name=name, kind=reading.kind, task=reading.task)


def _as_asked(domain: Domain, reading: Reading) -> Domain:
    """Labels of the requested kind: names of folders may be numbers to predict."""
    if reading.task == "classification" and domain.values is not None:
        raise ArgumentError(f"{domain.name}: contains numbers to predict; they are not classes; see task='regression'.")
    return as_numbers(domain) if reading.task == "regression" else domain


def _is_path(data: Any) -> bool:
    return isinstance(data, Path) or (isinstance(data, str) and bool(data.strip()))


def _are(items: Sequence[Any], kind: Any, test: Callable[[Any], bool]) -> bool:
    return len(items) > 0 and (all(isinstance(item, kind) for item in items) or all(test(item) for item in items))


def _from_list(items: Sequence[Any], name: str, corrupt: str) -> Domain:
    if isinstance(items[0], str | Path):
        return load_files(items, name=name, corrupt=corrupt)
    return Domain(name, OpenSamples(list(items)))


def _check_apart(source: Any, target: Any, read: Domain) -> None:
    """Refuse a target that is one of the sources: its labels would be trained on."""
    if isinstance(source, str | Path) and isinstance(target, str | Path) and read.sources:
        file, _, domain = str(target).rpartition(":")
        between = ":"
        if Path(source).is_dir():  # a folder of domains, and one of them or a part of it
            inside = Path(target).resolve().is_relative_to(Path(source).resolve())
            within = Path(target).resolve().relative_to(Path(source).resolve()).parts if inside else ()
            file, domain, between = str(source), within[0] if within else "", "/"
        if Path(file) == Path(source) and domain in read.sources:
            others = [f"{file}{between}{name}" for name in read.sources if name != domain]
            raise ArgumentError(
                f"target: {domain} is also one of the sources, with its labels; pass {others} as source."
            )


def _remark_on_itself(given: Given, target: Domain) -> None:
    """Remark on a labelled target that is the source: no accuracy on it is one on unseen labels."""
    if not (_is_path(given.source) and _is_path(given.target)) or (target.labels is None and target.values is None):
        return
    if Path(given.source).resolve() == Path(given.target).resolve():
        remark(
            f"{target.name}: it is the source itself, so training sees its labels, and the accuracy on it says nothing "
            "about other data.",
            stacklevel=4,
        )


def _check_dropped(domains: list[Domain], reading: Reading) -> None:
    """Refuse columns to leave out that none of the domains has."""
    tables = [domain.roles for domain in domains if domain.roles is not None]
    for column in reading.drop:
        if not any(column in roles.dropped for roles in tables):
            known = few(list(dict.fromkeys(name for roles in tables for name in roles.names)), 12) or "none"
            raise ArgumentError(f"drop: column {column!r} does not exist; the data have {known}.")
