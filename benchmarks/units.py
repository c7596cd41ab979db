"""Columns of real shifts that the check of units names: false alarms, since nobody changed a unit there.

`python -m benchmarks.units` looks at every task of `../shared/data/shifts`, at the same tables with one column at a
time in other units, and at tables that are cut in two by one of their columns, or lose a class: there everything shifts
that goes with that column.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from jumbot.data._other_units import other_units

FACTORS = (2.2046, 0.62, 10.0, 12.0, 20.0, 100.0)
_ROWS = 4096


Task = tuple[str, pd.DataFrame, pd.DataFrame, np.ndarray]


def tasks(root: Path) -> Iterator[Task]:
    """Name, source, target and labels of the source of each task, numbers alone; signals as their channels."""
    for name, source, target, label in (
        *(("heart", "heart_cleveland", f"heart_{to}", "disease") for to in ("hungarian", "switzerland", "va")),
        ("adult", "adult_private", "adult_government", "income"),
        ("bike", "bike_2011", "bike_2012", "count"),
    ):
        frames = [pd.read_csv(root / f"{file}.csv") for file in (source, target)]
        codes = frames[0][label].to_numpy(float) if label == "count" else pd.factorize(frames[0][label])[0]
        here, there = (frame.drop(columns=label).select_dtypes("number") for frame in frames)
        yield name, here, there, codes
    gas = np.load(root / "gas.npz")
    for month in (2, 3, 4):
        yield "gas", pd.DataFrame(gas["X1"]), pd.DataFrame(gas[f"X{month}"]), gas["y1"]
    reviews = [pd.DataFrame(sparse.load_npz(root / f"amazon_{of}_train.npz").toarray()) for of in ("books", "kitchen")]
    labels_of = [np.load(root / f"amazon_{of}_train_y.npy") for of in ("books", "kitchen")]
    yield "amazon", reviews[0], reviews[1], labels_of[0]
    yield "amazon", reviews[1], reviews[0], labels_of[1]
    watch = np.load(root / "watch.npz")
    first = np.isin(watch["subject"], np.unique(watch["subject"])[:5])
    for part in (watch["side"] == 1, first):
        here, there = (pd.DataFrame(watch["X"][rows].transpose(0, 2, 1).reshape(-1, 6)) for rows in (part, ~part))
        yield "watch", here, there, np.repeat(watch["y"][part], watch["X"].shape[2])


def cuts(root: Path) -> Iterator[Task]:
    """Tables cut at the median of a column, or at a category, and tables whose target lacks a class."""
    for name, loaded in (("wine", load_wine), ("cancer", load_breast_cancer), ("iris", load_iris)):
        frame = loaded(as_frame=True).frame
        columns = [c for c in frame if c != "target"]
        for column in columns[:: max(1, len(columns) // 6)]:
            yield _cut(name, frame, frame[column] <= frame[column].median(), [column], "target")
        for one in frame["target"].unique():
            kept = frame[frame["target"] != one]
            yield f"{name}, a class less", frame[columns], kept[columns], frame["target"].to_numpy()
    diabetes = load_diabetes(as_frame=True, scaled=False).frame
    for column in ("age", "sex", "bmi", "bp", "s5"):
        yield _cut("diabetes", diabetes, diabetes[column] <= diabetes[column].median(), [column], "target")
    for name, files, label in (
        ("adult", ("adult_private", "adult_government"), "income"),
        ("bike", ("bike_2011", "bike_2012"), "count"),
        ("heart", ("heart_cleveland", "heart_hungarian", "heart_va"), "disease"),
    ):
        frame = pd.concat([pd.read_csv(root / f"{file}.csv") for file in files], ignore_index=True)
        for column in frame.columns.drop(label):
            for value in frame[column].value_counts().index[:3] if frame[column].nunique() < 30 else ():
                yield _cut(name, frame, frame[column] == value, [column], label)


def _cut(name: str, frame: pd.DataFrame, here: pd.Series, without: list[str], label: str) -> Task:
    numbers = frame.drop(columns=[*without, label]).select_dtypes("number")
    labels = frame[label].to_numpy(float) if frame[label].nunique() > 20 else pd.factorize(frame[label])[0]
    return name, numbers[here], numbers[~here], labels[here.to_numpy()]


def _rows(frame: pd.DataFrame | np.ndarray) -> np.ndarray:
    rows = np.unique(np.linspace(0, len(frame) - 1, min(len(frame), _ROWS)).round().astype(int))
    found: np.ndarray = np.asarray(frame)[rows]
    return found if found.ndim == 1 else found.astype(float)


def count(found: Iterable[Task]) -> dict[str, tuple[int, int]]:
    """Columns that are named, and columns, by the name of the task."""
    counted: dict[str, tuple[int, int]] = {}
    for name, source, target, labels in found:
        if min(len(source), len(target)) < 20:
            continue
        remarks = other_units(_rows(source), _rows(target), [str(c) for c in source.columns], _rows(labels))
        alarms, columns = counted.get(name, (0, 0))
        counted[name] = alarms + len(remarks), columns + source.shape[1]
    return counted


def seen(found: Iterable[Task]) -> dict[str, dict[float, str]]:
    """Of columns with more than 20 different numbers, how many are named where they alone are in other units."""
    hits: dict[str, dict[float, list[int]]] = {}
    for name, source, target, labels in found:
        x, y, labels_of, names = _rows(source), _rows(target), _rows(labels), [str(c) for c in source.columns]
        for column in range(min(len(names), 16)):
            here, there = (z[np.isfinite(z[:, column]), column] for z in (x, y))
            if len(there) < 20 or len(np.unique(here)) <= 20 or np.ptp(there) == 0:
                continue
            for factor in FACTORS:
                other = y.copy()
                other[:, column] *= factor
                remarks = other_units(x, other, names, labels_of)
                tally = hits.setdefault(name, {}).setdefault(factor, [0, 0])
                tally[0] += any(one.startswith(f"column {names[column]} ") for one in remarks)
                tally[1] += 1
    return {name: {f: f"{a} of {b}" for f, (a, b) in by.items()} for name, by in hits.items()}


def main(root: Path) -> None:
    for what, found in (("shifts", [*tasks(root)]), ("cuts", [*cuts(root)])):
        counted = count(found)
        total = [sum(pair[i] for name, pair in counted.items() if name != "amazon") for i in (0, 1)]
        print(f"{what}: named {total[0]} of {total[1]} columns without the words of reviews; {counted}")
    for task, hits in seen(one for one in tasks(root) if one[0] != "amazon").items():
        print(task, hits, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data/shifts"))
