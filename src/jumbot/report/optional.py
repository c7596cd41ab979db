"""Files of a run that it may lack, and the two of them that are no JSON: embeddings and predictions.

One that is there is whole, or refused by its name: a report that leaves out what it cannot read looks complete.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from jumbot.data.cells import unsafe
from jumbot.errors import ArgumentError
from jumbot.files import read_bytes
from jumbot.options import Portion, Weight, check

T = TypeVar("T")
_LARGEST = 2**30  # bytes of embeddings: a run keeps those of a thousand samples of each domain
_ARRAYS = {  # number of axes, kinds of numbers
    **{f"{when}_{domain}": (2, "f") for when in ("before", "after") for domain in ("source", "target")},
    **dict.fromkeys(("source_labels", "target_labels", "target_predictions"), (1, "iu")),
    **dict.fromkeys(("source_values", "true_values", "predicted_values"), (2, "f")),
}


@dataclass(frozen=True)
class Prediction:
    """One line of `predictions.csv`; `received_mass` is None where the method has no plan."""

    id: str
    label: str
    confidence: float | None
    received_mass: float | None


def optional(file: Path, use: Callable[[Path], T], absent: T) -> T:
    """What `use` makes of the file, or `absent` where there is none."""
    if not file.exists():
        return absent
    try:
        return use(file)
    except ArgumentError as error:
        raise ArgumentError(f"{error} Copy it again, or delete it: the report does without it.") from error


def read_embeddings(file: Path) -> dict[str, np.ndarray]:
    """Embeddings and labels of some samples, by the names that `_ARRAYS` has."""
    raw = io.BytesIO(read_bytes(file))
    try:
        with zipfile.ZipFile(raw) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > _LARGEST:
            raise ValueError(f"it would take {size:,} bytes")
        with np.load(raw, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    except Exception as error:  # a damaged archive raises any of ten types
        raise ArgumentError(f"{file}: is no archive of arrays, or was cut short ({error}).") from error
    for name, array in found.items():
        if name not in _ARRAYS:
            raise ArgumentError(f"{file}: {name}: is not known; there may be {', '.join(_ARRAYS)}.")
        axes, kinds = _ARRAYS[name]
        if array.ndim != axes or array.dtype.kind not in kinds:
            what = "numbers" if kinds == "f" else "whole numbers"
            raise ArgumentError(
                f"{file}: {name}: an array of shape {array.shape} ({array.dtype}) came in; it must hold {what} along "
                f"{axes} {'axes' if axes > 1 else 'axis'}."
            )
    for domain in ("source", "target"):
        lengths = {name: len(array) for name, array in found.items() if _domain(name) == domain}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ArgumentError(f"{file}: arrays of the {domain} must be of the same length; they are {shown}.")
    for when in ("before", "after"):
        widths = {array.shape[1] for name, array in found.items() if name.startswith(when)}
        if len(widths) > 1:
            raise ArgumentError(f"{file}: {when}_source and {when}_target must have the same width; they do not.")
    return found


def _domain(name: str) -> str:
    return "source" if "source" in name else "target"


def read_predictions(file: Path, count: int) -> list[Prediction]:
    """A prediction for each of the `count` samples of the target."""
    try:
        text = read_bytes(file).decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except (ValueError, csv.Error) as error:
        raise ArgumentError(f"{file}: is no table of text, or was cut short ({error}).") from error
    header = rows[0] if rows else []
    answer = next((name for name in header if name == "label" or name.startswith("prediction")), None)
    if header[:1] != ["id"] or answer is None or len(set(header)) < len(header):
        raise ArgumentError(f"{file}: line 1: must name the columns id and label, or id and prediction, each once.")
    if len(rows) - 1 != count:
        raise ArgumentError(f"{file}: holds {len(rows) - 1} rows where config.json tells of {count} target samples.")
    return [_prediction(dict(zip(header, row, strict=False)), len(header) == len(row), f"{file}: row {number}")
            for number, row in enumerate(rows[1:], 1)]  # fmt: skip


def _prediction(row: dict[str, str], is_whole: bool, where: str) -> Prediction:
    if not is_whole:
        raise ArgumentError(f"{where}: must have as many cells as the first line.")
    return Prediction(
        id=unsafe(row["id"]),
        label=unsafe(row.get("label", "")),
        confidence=_number(row, "confidence", Portion, where),
        received_mass=_number(row, "received_mass", Weight, where),
    )


def _number(row: dict[str, str], column: str, kind: Any, where: str) -> float | None:
    text = row.get(column, "")
    if not text:
        return None
    try:
        value: float = check(column, float(text), kind)
    except ValueError as error:  # an ArgumentError is one
        raise ArgumentError(f"{where}: {column}: {text[:40]!r} came in; it must be a number, at least 0.") from error
    return value
