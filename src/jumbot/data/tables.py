"""Point clouds from `.npy`, `.npz`, `.csv` and `.parquet` files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from jumbot.errors import ArgumentError

FORMATS = (".npy", ".npz", ".csv", ".parquet")


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
