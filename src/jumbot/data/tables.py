"""Point clouds and labelled feature tables from `.npy`, `.npz`, `.csv` and `.parquet` files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from jumbot.data.arrays import from_arrays
from jumbot.data.domain import Domain
from jumbot.errors import ArgumentError, MissingPackageError

FORMATS = (".npy", ".npz", ".csv", ".parquet")
FEATURES = ("features", "x", "images", "data")
LABELS = ("label", "labels", "y", "target", "class")
DOMAINS = ("domain", "domains")
IDS = ("id", "ids")


def load_table(
    path: str | Path, label: str | None = None, *, domain: str | None = None, name: str | None = None
) -> Domain:
    """A Domain of a table: features (float16 and wider; float32 at the batch), labels if the file has them.

    `.npz`: arrays `features`, `X` or `images`, and `label`, `labels` or `y`. `.csv` and `.parquet`: every column of
    numbers is a feature; the labels are the column `label`, by default the one named label, labels, y, target or
    class. In both, `domain` (a text a row) chooses rows by the argument of that name, and `id` names the samples.
    A column of text that is none of these is refused. `.npy`: features alone, memory-mapped.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "pets.csv").write_text("weight,length,label\\n4,46,cat\\n30,90,dog\\n")
    ...     pets = load_table(Path(folder) / "pets.csv")
    >>> pets.shape, pets.classes
    ((2,), ('cat', 'dog'))
    """
    path = Path(path)
    if not path.is_file():
        raise ArgumentError(f"{path}: there is no such file.")
    if path.suffix not in FORMATS:
        raise ArgumentError(f"{path}: {path.suffix or 'no ending'} is not known; use {', '.join(FORMATS)}.")
    if path.suffix == ".npy":
        if label is not None or domain is not None:
            raise ArgumentError(f"{path}: a .npy file has neither labels nor domains; use .npz, .csv or .parquet.")
        return from_arrays(_load_numpy(path), name=name or path.stem)
    columns = _read_columns(path)
    labels = _take(path, columns, LABELS, label)
    domains = _take(path, columns, DOMAINS)
    ids = _take(path, columns, IDS)
    if path.suffix == ".npz":
        features = _take(path, columns, FEATURES)
        if features is None and len(columns) == 1:
            features = next(iter(columns.values()))
        if features is None:
            raise ArgumentError(f"{path}: has no array `features`; it holds {', '.join(columns) or 'nothing else'}.")
    else:
        features = _stack(path, columns)
    lengths = {what: len(v) for what, v in (("labels", labels), ("domains", domains), ("ids", ids)) if v is not None}
    for what, length in lengths.items():
        if length != len(features):
            raise ArgumentError(f"{path}: {length} {what} for {len(features)} rows.")
    rows = _rows_of(path, domains, domain)
    if rows is not None:
        features, labels, ids = (None if v is None else v[rows] for v in (features, labels, ids))
    offset = 2 if path.suffix == ".csv" else 0  # lines of a .csv count from 1, and the first holds the names
    place = "line" if offset else "row"
    return from_arrays(
        features,
        labels,
        name=name or (domain if domain is not None else path.stem),
        ids=ids,
        where=lambda row: f"{place} {(row if rows is None else int(rows[row])) + offset} of {path}",
    )


def domains_of(path: str | Path) -> list[str]:
    """The domains that a table's column `domain` names, sorted."""
    path = Path(path)
    domains = _take(path, _read_columns(path), DOMAINS)
    if domains is None:
        raise ArgumentError(f"{path}: the file has no column `domain`; give a source and a target.")
    return sorted({str(value) for value in domains.tolist()})


def _take(path: Path, columns: dict[str, np.ndarray], names: tuple[str, ...], asked: str | None = None) -> Any:
    """The column that is meant, taken out of `columns`; None if there is none and none was asked for."""
    if asked is not None:
        if asked not in columns:
            raise ArgumentError(f"{path}: label: there is no column {asked!r}; there are {', '.join(columns)}.")
        return columns.pop(asked)
    found = [column for column in columns if column.lower() in names]
    if len(found) > 1:
        raise ArgumentError(f"{path}: columns {' and '.join(found)} could both be meant; name one, drop the other.")
    return columns.pop(found[0]) if found else None


def _rows_of(path: Path, domains: np.ndarray | None, domain: str | None) -> np.ndarray | None:
    if domains is None:
        if domain is not None:
            raise ArgumentError(f"{path}: domain: {domain!r} came in, but the file has no column `domain`.")
        return None
    texts = np.array([str(value) for value in domains.tolist()])
    present = sorted(set(texts.tolist()))
    if domain is None:
        if len(present) > 1:
            which = f"{len(present)} domains ({', '.join(present)})"
            raise ArgumentError(f"{path}: holds {which}; choose one, e.g. {path.name}:{present[0]}.")
        return None
    if domain not in present:
        raise ArgumentError(f"{path}: domain: {domain!r} came in; the file holds {', '.join(present)}.")
    return np.flatnonzero(texts == domain)


def _stack(path: Path, columns: dict[str, np.ndarray]) -> np.ndarray:
    text = [name for name, column in columns.items() if column.dtype.kind not in "fiub"]
    if text:
        raise ArgumentError(f"{path}: column {text[0]!r} is not made of numbers; drop it or name it as the label.")
    if not columns:
        raise ArgumentError(f"{path}: has no columns of features.")
    return np.stack([column.astype(np.float32) for column in columns.values()], 1)


def _load_numpy(path: Path) -> Any:
    try:
        if path.suffix == ".npy":
            return np.load(path, mmap_mode="r")
        with np.load(path) as archive:
            return {key: archive[key] for key in archive.files}
    except (OSError, EOFError, ValueError, BadZipFile) as error:
        raise ArgumentError(f"{path}: cannot be read ({error}).") from error


def _read_columns(path: Path) -> dict[str, np.ndarray]:
    """Columns (arrays of a `.npz`) by name; a `.csv` whose first line holds numbers has columns 1, 2, ..."""
    if path.suffix == ".npz":
        arrays: dict[str, np.ndarray] = _load_numpy(path)
        return arrays
    try:
        from pyarrow import ArrowException, parquet
        from pyarrow import csv as arrow_csv
    except ImportError:
        raise MissingPackageError(f"{path}: reading tables needs pyarrow; install jumbot[adapt].") from None
    try:
        if path.suffix == ".parquet":
            table = parquet.read_table(path)
        else:
            with path.open(newline="", encoding="utf-8-sig") as file:
                first = next(csv.reader(file), [])
            named = any(_number(field) is None for field in first)
            names = None if named else [str(i + 1) for i in range(len(first))]
            table = arrow_csv.read_csv(path, read_options=arrow_csv.ReadOptions(column_names=names))
    except (ArrowException, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path}: cannot be read ({error}).") from error
    doubled = {column for column in table.column_names if table.column_names.count(column) > 1}
    if doubled:
        raise ArgumentError(f"{path}: several columns are named {sorted(doubled)[0]!r}; names must differ.")
    if table.num_rows == 0:
        raise ArgumentError(f"{path}: holds no rows.")
    columns = {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
    return {name.strip().removeprefix("\ufeff"): column for name, column in columns.items()}


def load_points(path: str | Path) -> np.ndarray:
    """`(n, d)` numbers; `.npy` files are memory-mapped, a first line of names in a `.csv` is skipped.

    Whatever is wrong (no such file, text, lines of different length, NaN) raises an `ArgumentError` of one line.
    """
    path = Path(path)
    if not path.is_file():
        raise ArgumentError(f"{path}: there is no such file.")
    if path.suffix not in FORMATS:
        raise ArgumentError(f"{path}: {path.suffix or 'no ending'} is not known; use {', '.join(FORMATS)}.")
    try:
        if path.suffix == ".npy":
            points = np.load(path, mmap_mode="r")
        elif path.suffix == ".npz":
            with np.load(path) as archive:
                points = archive[archive.files[0]]
        else:
            points = _read_csv(path) if path.suffix == ".csv" else _read_parquet(path)
    except (OSError, EOFError, IndexError) as error:
        raise ArgumentError(f"{path}: cannot be read ({error}).") from error
    except ValueError as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"{path}: cannot be read ({error}).") from error
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.size == 0 or points.dtype.kind not in "fiub":
        raise ArgumentError(f"{path}: holds {points.dtype} of shape {points.shape}; points must be rows of numbers.")
    bad = np.flatnonzero(~np.isfinite(points).all(1)) if points.dtype.kind == "f" else np.empty(0)
    if bad.size:
        raise ArgumentError(
            f"{path}: {bad.size} rows hold NaN or infinity, the first is row {bad[0]}; drop them first."
        )
    return points if points.dtype.kind == "f" else points.astype(np.float64)


def _read_csv(path: Path) -> np.ndarray:
    rows: list[list[float]] = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        for number, fields in enumerate(csv.reader(file), 1):
            if not fields:
                continue
            values = [_number(field) for field in fields]
            if None in values:
                if not rows and number == 1:
                    continue  # names of the columns
                column = values.index(None)
                raise ArgumentError(
                    f"{path}: line {number}, column {column + 1} is text, {fields[column]!r}; drop it first."
                )
            if rows and len(values) != len(rows[0]):
                raise ArgumentError(
                    f"{path}: line {number} has {len(values)} columns where others have {len(rows[0])}."
                )
            rows.append([v for v in values if v is not None])
    if not rows:
        raise ArgumentError(f"{path}: holds no rows of numbers.")
    return np.array(rows)


def _number(field: str) -> float | None:
    try:
        return float(field) if field.strip() else float("nan")
    except ValueError:
        return None


def _read_parquet(path: Path) -> np.ndarray:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ArgumentError(f"{path}: reading .parquet needs pyarrow; install jumbot[adapt].") from None
    try:
        table = parquet.read_table(path)
    except ArrowException as error:
        raise ArgumentError(f"{path}: cannot be read ({error}).") from error
    columns = []
    for name in table.column_names:
        column = table.column(name).to_numpy(zero_copy_only=False)
        if column.dtype.kind not in "fiub":
            raise ArgumentError(f"{path}: column {name!r} is not made of numbers; drop it first.")
        columns.append(column.astype(np.float64))
    return np.stack(columns, 1)
