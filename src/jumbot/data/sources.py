"""`as_domain`: whatever a user has, as a Domain of raw samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from jumbot.data.arrays import from_arrays, with_labels
from jumbot.data.domain import Domain
from jumbot.errors import ArgumentError


def as_domain(
    data: Any,
    labels: Any = None,
    *,
    name: str | None = None,
    label: str | None = None,
    domain: str | None = None,
    corrupt: str = "refuse",
    root: str | Path | None = None,
) -> Domain:
    """A `Domain` of what `data` is; samples stay raw, `prepare` makes two domains alike.

    - a `Domain`: itself;
    - an array or tensor X, with `labels` or as a pair (X, y): `(n, d)` features, `(n, h, w)` or `(n, h, w, 3)` images;
    - a torch Dataset of `x` or `(x, y)`;
    - a path: a folder of images (`class/name.jpg`, or flat and then without labels), a list of images (`.txt`), a table
      (`.npz`, `.npy`, `.csv`, `.parquet`); "features.npz:amazon" or `domain="amazon"` takes one domain of a table;
    - the name of a set of digits, "mnist" or "mnist:test" (`root`: where its files are, see `load`).

    `label` names the column of labels in a table, `corrupt` says what to do with broken image files.

    >>> as_domain(([[0.0, 1.0], [1.0, 0.0]], ["cat", "dog"]), name="pets").classes
    ('cat', 'dog')
    """
    if isinstance(data, Domain):
        return data if labels is None else with_labels(data, labels)
    if data is None:
        raise ArgumentError(f"{name or 'data'}: no data came in; give a folder, a table, an array or a Dataset.")
    if isinstance(data, str | Path):
        found = _from_path(str(data), name, label, domain, corrupt, root)
        return found if labels is None else with_labels(found, labels)
    if isinstance(data, Dataset):
        from jumbot.data.datasets import load_dataset

        return load_dataset(data, labels, name=name or "data")
    if labels is None and isinstance(data, tuple) and len(data) == 2:
        data, labels = data
    return from_arrays(data, labels, name=name or "data")


def _from_path(
    text: str, name: str | None, label: str | None, domain: str | None, corrupt: str, root: str | Path | None
) -> Domain:
    from jumbot.data import digits, folders, tables

    path, _, selector = text.rpartition(":")
    if not Path(text).exists() and path:
        if path in digits.NAMES:
            return digits.load(path, selector, root)
        if Path(path).is_file():
            text, domain = path, domain or selector
    elif not Path(text).exists() and text in digits.NAMES:
        return digits.load(text, "train", root)
    place = Path(text)
    if place.is_dir():
        return folders.load_folder(place, name=name, corrupt=corrupt)
    if not place.exists():
        raise ArgumentError(f"{text}: there is no such file or folder.")
    if place.suffix == ".txt":
        return folders.from_list(place, root, name=name, corrupt=corrupt)
    return tables.load_table(place, label, domain=domain, name=name)
