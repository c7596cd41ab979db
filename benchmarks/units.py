"""Columns of real shifts that the check of units names: false alarms, since nobody changed a unit there.

`python -m benchmarks.units` looks at every task of `../shared/data/shifts`, and at the same tables with one column at a
time in other units.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse

from jumbot.data._other_units import other_units

FACTORS = (2.2046, 0.62, 10.0, 12.0, 20.0, 100.0)
_ROWS = 4096


def tasks(root: Path) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Name, source and target of each task, numbers alone; signals as their channels."""
    for name, source, target, label in (
        *(("heart", "heart_cleveland", f"heart_{to}", "disease") for to in ("hungarian", "switzerland", "va")),
        ("adult", "adult_private", "adult_government", "income"),
        ("bike", "bike_2011", "bike_2012", "count"),
    ):
        frames = [pd.read_csv(root / f"{file}.csv").drop(columns=label) for file in (source, target)]
        yield name, *(frame.select_dtypes("number") for frame in frames)
    gas = np.load(root / "gas.npz")
    for month in (2, 3, 4):
        yield "gas", pd.DataFrame(gas["X1"]), pd.DataFrame(gas[f"X{month}"])
    reviews = [pd.DataFrame(sparse.load_npz(root / f"amazon_{of}_train.npz").toarray()) for of in ("books", "kitchen")]
    yield "amazon", *reviews
    yield "amazon", *reversed(reviews)
    watch = np.load(root / "watch.npz")
    first = np.isin(watch["subject"], np.unique(watch["subject"])[:5])
    for part in (watch["side"] == 1, first):
        yield "watch", *(pd.DataFrame(watch["X"][rows].transpose(0, 2, 1).reshape(-1, 6)) for rows in (part, ~part))


def _rows(frame: pd.DataFrame) -> np.ndarray:
    rows = np.unique(np.linspace(0, len(frame) - 1, min(len(frame), _ROWS)).round().astype(int))
    found: np.ndarray = frame.iloc[rows].to_numpy(float)
    return found


def count(root: Path, words: bool = False) -> tuple[int, int]:
    """Columns that are named, and columns; those of the reviews, 5,000 words that would hide the others, if asked."""
    alarms = columns = 0
    for name, source, target in tasks(root):
        if name == "amazon" and not words:
            continue
        said = other_units(_rows(source), _rows(target), [str(c) for c in source.columns])
        alarms, columns = alarms + len(said), columns + source.shape[1]
    return alarms, columns


def seen(root: Path) -> dict[str, dict[float, str]]:
    """Of columns with more than 20 different numbers, how many are named where they alone are in other units."""
    found: dict[str, dict[float, list[int]]] = {}
    for name, source, target in tasks(root):
        if name == "amazon":
            continue
        x, y, names = _rows(source), _rows(target), [str(c) for c in source.columns]
        for column in range(min(len(names), 16)):
            here, there = (z[np.isfinite(z[:, column]), column] for z in (x, y))
            if len(there) < 20 or len(np.unique(here)) <= 20 or np.ptp(there) == 0:
                continue
            for factor in FACTORS:
                other = y.copy()
                other[:, column] *= factor
                hits = found.setdefault(name, {}).setdefault(factor, [0, 0])
                hits[0] += any(said.startswith(f"column {names[column]} ") for said in other_units(x, other, names))
                hits[1] += 1
    return {name: {f: f"{a} of {b}" for f, (a, b) in hits.items()} for name, hits in found.items()}


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data/shifts")
    print("named: {} of {} columns".format(*count(place)))
    print("with the words of the reviews: {} of {} columns".format(*count(place, words=True)))
    for task, hits in seen(place).items():
        print(task, hits)
