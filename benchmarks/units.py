"""Columns of real shifts that the check of units names: false alarms, since nobody changed a unit there.

    python -m benchmarks.units [DATA] [--out results/units/named.json]

It looks at every task of DATA, a folder of real shifts, at tables that are cut in two by one of their columns, or lose
a class (there everything shifts that goes with that column), and at scikit-learn's tables split at random; and at them
with one column at a time in other units.  Then the thresholds are chosen without one family of tables, by the most
cases that are named with at most one false alarm in twenty columns, and counted on that family.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from benchmarks.origin import origin
from jumbot.data import _other_units
from jumbot.data._other_units import other_units

FACTORS = (2.2046, 0.62, 10.0, 12.0, 20.0, 100.0)
_ROWS = 4096
_SPLITS = 5
GRID = {
    "_PLAIN": (math.log(1.3), math.log(1.5), math.log(1.75), math.log(2.0)),
    "_NARROW": (math.log(1.25), math.log(1.4), math.log(1.6), math.log(1.8)),
    "_DEVIATIONS": (0.7, 1.0, 1.4),
}
"""Thresholds that are tried."""
MOST = 1 / 20
"""False alarms per column, at most."""


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


def splits() -> Iterator[Task]:
    """scikit-learn's tables, each cut in two at random several times: nothing has shifted there."""
    for name, loaded in (("wine", load_wine), ("cancer", load_breast_cancer), ("iris", load_iris)):
        yield from _split(name, loaded(as_frame=True).frame)
    yield from _split("diabetes", load_diabetes(as_frame=True, scaled=False).frame)


def _split(name: str, frame: pd.DataFrame) -> Iterator[Task]:
    for seed in range(_SPLITS):
        half = np.random.default_rng(seed).permutation(len(frame)) % 2 == 0
        yield _cut(name, frame, pd.Series(half, index=frame.index), [], "target")


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


class Scenes:
    """Every column of some tasks as it is and in other units, compared once: thresholds may then be tried quickly."""

    def __init__(self, found: Iterable[Task], factors: tuple[float, ...]) -> None:
        self.alarms: list[tuple[str, Callable[[], bool]]] = []
        self.cases: list[tuple[str, Callable[[], bool]]] = []
        for name, source, target, labels in found:
            if min(len(source), len(target)) >= 20:
                self._add(name.split(",")[0], _rows(source), _rows(target), _rows(labels), factors)

    def _add(self, family: str, x: np.ndarray, y: np.ndarray, labels: np.ndarray, factors: tuple[float, ...]) -> None:
        columns = [tuple(_other_units._finite(z[:, i]) for z in (x, y)) for i in range(x.shape[1])]
        plain = [_other_units._compare(*pair) for pair in columns]
        for place, (here, there) in enumerate(columns):
            self.alarms.append((family, _named(x, y, labels, place, plain, _other_units._other_zero(here, there))))
            if place >= 16 or len(there) < 20 or len(np.unique(here)) <= 20 or np.ptp(there) == 0:
                continue
            for factor in factors:
                other = y.copy()
                other[:, place] *= factor
                found = [*plain[:place], _other_units._compare(here, factor * there), *plain[place + 1 :]]
                zero = _other_units._other_zero(here, factor * there)
                self.cases.append((family, _named(x, other, labels, place, found, zero)))

    def counted(self) -> dict[str, tuple[int, int, int, int]]:
        """By family: false alarms, columns, cases named, cases; by the thresholds as they stand."""
        families = dict.fromkeys(family for family, _ in self.alarms)
        each: dict[str, tuple[int, int, int, int]] = {}
        for one in families:
            alarms, cases = ([said() for family, said in some if family == one] for some in (self.alarms, self.cases))
            each[one] = sum(alarms), len(alarms), sum(cases), len(cases)
        return each


def _named(
    x: np.ndarray,
    y: np.ndarray,
    labels: np.ndarray,
    place: int,
    found: list[Any],
    zero: tuple[str, float] | None,
) -> Callable[[], bool]:
    """Whether `other_units` names the column at `place`."""
    factors = np.array([one.factor for one in found if one is not None])
    many = len(factors) >= _other_units._MANY
    typical, deviation = (float(np.median(factors)), _other_units._deviation(factors)) if many else (0.0, 0.0)
    one = found[place]

    @cache
    def explained(narrow: float) -> bool:
        return _other_units._explained_by_proportions(x, y, labels, place, one.factor)

    def named() -> bool:
        if zero is not None:
            return True
        return one is not None and one.stands_out(typical, deviation) and not explained(_other_units._NARROW)

    return named


def leave_out(scenes: Scenes) -> dict[str, dict[str, Any]]:
    """For each family the thresholds that the others choose, and what they and the shipped ones name in it."""
    shipped = scenes.counted()
    tried = {}
    before = {name: getattr(_other_units, name) for name in GRID}
    try:
        for values in itertools.product(*GRID.values()):
            for name, value in zip(GRID, values, strict=True):
                setattr(_other_units, name, value)
            tried[values] = scenes.counted()
    finally:
        for name, value in before.items():
            setattr(_other_units, name, value)
    found = {}
    for family in shipped:
        others = [one for one in shipped if one != family]

        def gain(values: tuple[float, ...], others: list[str] = others) -> tuple[bool, int]:
            alarms, columns, cases, _ = (sum(tried[values][one][i] for one in others) for i in range(4))
            return alarms <= MOST * columns, cases

        chosen = max(tried, key=gain)
        found[family] = {
            "chosen": {name: round(value, 3) for name, value in zip(GRID, chosen, strict=True)},
            "by these": tried[chosen][family],
            "as shipped": shipped[family],
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=Path("../shared/data/shifts"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    every = {"shifts": [*tasks(options.data)], "cuts": [*cuts(options.data)], "splits": [*splits()]}
    seeds, settings = f"0 to {_SPLITS - 1}, of the random splits", {"factors": FACTORS, "splits": _SPLITS}
    record: dict[str, Any] = {**origin("units", ["DATA"]), "seed": seeds, "settings": settings}
    for what, found in every.items():
        counted = count(found)
        total = [sum(pair[i] for name, pair in counted.items() if name != "amazon") for i in (0, 1)]
        print(f"{what}: named {total[0]} of {total[1]} columns without the words of reviews; {counted}", flush=True)
        record[f"false alarms, {what}"] = counted
    narrow = {what: [one for one in found if one[0] != "amazon"] for what, found in every.items()}
    for what in ("shifts", "splits"):
        record[f"in other units, {what}"] = {}
        for task, hits in seen(narrow[what]).items():
            print(what, task, hits, flush=True)
            record[f"in other units, {what}"][task] = hits
    scenes = Scenes([one for found in narrow.values() for one in found], FACTORS)
    record["left out"] = leave_out(scenes)
    for family, said in record["left out"].items():
        print(family, said, flush=True)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
