"""Pairs of labelled domains as rows of numbers, by family, for the study behind the estimate of accuracy.

Real shifts (hospitals, employers, months of a drifting sensor, products, wrists and persons, years), the photographs'
features and digits, in every direction that they allow, and tables of scikit-learn cut along one of their columns.
Families whose files are absent are left out.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DATA = Path(__file__).parents[2] / "shared" / "data"
Array = np.ndarray[Any, Any]


class Rows(NamedTuple):
    """A task: source rows and labels, target rows and labels, classes counted from 0."""

    family: str
    name: str
    X: Array
    y: Array
    X_target: Array
    y_target: Array


def tasks(data: Path = DATA, seed: int = 0, families: Sequence[str] | None = None) -> Iterator[Rows]:
    """Every task whose data are there; the seed draws subsets of what is large, and resampled classes."""
    for family, make in FAMILIES.items():
        if families is not None and family not in families:
            continue
        try:
            found = list(make(data, np.random.default_rng(seed)))
        except FileNotFoundError:
            continue
        for name, (X, y), (X_target, y_target) in found:
            yield coded(family, name, X, y, X_target, y_target)


Found = Iterator[tuple[str, tuple[Array, Array], tuple[Array, Array]]]


def coded(family: str, name: str, X: Array, y: Array, X_target: Array, y_target: Array) -> Rows:
    """Labels as places among the source's; target rows of other classes are left out."""
    classes = np.unique(y)
    kept = np.isin(y_target, classes)
    return Rows(
        family,
        name,
        np.asarray(X, np.float32),
        np.searchsorted(classes, y),
        np.asarray(X_target, np.float32)[kept],
        np.searchsorted(classes, y_target[kept]),
    )


def _some(X: Array, y: Array, rng: np.random.Generator, most: int = 2000) -> tuple[Array, Array]:
    index = np.sort(rng.permutation(len(y))[:most])
    return X[index], y[index]


def _skewed(X: Array, y: Array, rng: np.random.Generator, ratio: float = 3.0) -> tuple[Array, Array]:
    """With classes thinned to shares that fall from 1 to 1 / ratio, in a random order."""
    names = rng.permutation(np.unique(y))
    shares = dict(zip(names.tolist(), ratio ** -np.linspace(0, 1, len(names)), strict=True))
    kept = rng.random(len(y)) < np.array([shares[label] for label in y.tolist()])
    return X[kept], y[kept]


def scaled(X: Array, X_target: Array) -> tuple[Array, Array]:
    mean, std = X.mean(0), X.std(0)
    std[std < 1e-9] = np.inf
    return (X - mean) / std, (X_target - mean) / std


def encode(source: Any, target: Any, label: str) -> tuple[Array, Array]:
    """Columns of two frames as numbers: categories as 0 and 1, what is missing as the median, with a column for it."""
    import pandas

    found: list[list[Array]] = [[], []]
    for column in source.columns:
        if column == label:
            continue
        values = source[column]
        if pandas.api.types.is_numeric_dtype(values):
            fill = values.median() if values.notna().any() else 0.0
            for part, frame in zip(found, (source, target), strict=True):
                part.append(pandas.to_numeric(frame[column]).fillna(fill).to_numpy(float))
                if values.isna().any():
                    part.append(frame[column].isna().to_numpy(float))
        else:
            for category in values.dropna().unique():
                for part, frame in zip(found, (source, target), strict=True):
                    part.append((frame[column] == category).to_numpy(float))
    return scaled(np.stack(found[0], 1), np.stack(found[1], 1))


def _between(frames: dict[str, Any], label: str, pairs: Any, rng: np.random.Generator) -> Found:
    for a, b in pairs:
        X, X_target = encode(frames[a], frames[b], label)
        y, truth = (frames[name][label].to_numpy() for name in (a, b))
        yield f"{a} -> {b}", _some(X, y, rng, 3000), _some(X_target, truth, rng)


def _heart(data: Path, rng: np.random.Generator) -> Found:
    import pandas

    names = ("cleveland", "hungarian", "va", "switzerland")
    frames = {name: pandas.read_csv(data / f"shifts/heart_{name}.csv") for name in names}
    yield from _between(frames, "disease", [p for p in permutations(names, 2) if p[0] != "switzerland"], rng)


def _adult(data: Path, rng: np.random.Generator) -> Found:
    import pandas

    frames = {n: pandas.read_csv(data / f"shifts/adult_{n}.csv") for n in ("private", "government")}
    yield from _between(frames, "income", permutations(frames), rng)
    whole = pandas.concat(frames.values(), ignore_index=True)
    parts = {
        "men": whole[whole.sex == "Male"],
        "women": whole[whole.sex == "Female"],
        "young": whole[whole.age < 35],
        "old": whole[whole.age >= 35],
        "part-time": whole[whole.hours_per_week < 40],
        "full-time": whole[whole.hours_per_week >= 40],
        "school": whole[whole.education_num < 10],
        "college": whole[whole.education_num >= 10],
    }
    pairs = [
        ("men", "women"),
        ("women", "men"),
        ("old", "young"),
        ("full-time", "part-time"),
        ("school", "college"),
        ("college", "school"),
    ]
    yield from _between(parts, "income", pairs, rng)


def _gas(data: Path, rng: np.random.Generator) -> Found:
    with np.load(data / "shifts/gas.npz") as kept:
        parts = {i: (kept[f"X{i}"].astype(float), kept[f"y{i}"]) for i in (1, 2, 3, 4)}
    for a, b in permutations(parts, 2):
        X, X_target = scaled(parts[a][0], parts[b][0])
        yield f"{a} -> {b}", (X, parts[a][1]), (X_target, parts[b][1])
        if (a, b) in ((2, 3), (3, 2)):
            yield f"{a} -> {b} skewed", (X, parts[a][1]), _skewed(X_target, parts[b][1], rng)


def _amazon(data: Path, rng: np.random.Generator) -> Found:
    import scipy.sparse
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    for a, b in permutations(("books", "kitchen")):
        X, X_target = (scipy.sparse.load_npz(data / f"shifts/amazon_{n}.npz") for n in (f"{a}_train", f"{b}_test"))
        y, truth = (np.load(data / f"shifts/amazon_{n}_y.npy") for n in (f"{a}_train", f"{b}_test"))
        svd = TruncatedSVD(200, random_state=0).fit(normalize(X))
        rows = scaled(svd.transform(normalize(X)), svd.transform(normalize(X_target)))
        yield f"{a} -> {b}", (rows[0], y), _some(rows[1], truth, rng)
        yield f"{a} -> {b} skewed", (rows[0], y), _some(*_skewed(rows[1], truth, rng), rng)


def _watch(data: Path, rng: np.random.Generator) -> Found:
    with np.load(data / "shifts/watch.npz") as kept:
        X, y, side, subject = kept["X"].astype(float), kept["y"], kept["side"] == 1, kept["subject"]
    spectrum = np.log(np.abs(np.fft.rfft(X, axis=-1))[..., 1:33] + 1e-3)
    rows = np.concatenate([X.mean(-1), X.std(-1), X.min(-1), X.max(-1), spectrum.reshape(len(X), -1)], 1)
    masks = {
        "right": side,
        "left": ~side,
        "subjects 1-5": subject <= 5,
        "subjects 6-10": subject > 5,
        "odd": subject % 2 == 1,
        "even": subject % 2 == 0,
    }
    pairs = [
        ("right", "left"),
        ("left", "right"),
        ("subjects 1-5", "subjects 6-10"),
        ("subjects 6-10", "subjects 1-5"),
        ("odd", "even"),
    ]
    for a, b in pairs:
        A, B = scaled(rows[masks[a]], rows[masks[b]])
        yield f"{a} -> {b}", (A, y[masks[a]]), (B, y[masks[b]])


def _photographs(data: Path, rng: np.random.Generator) -> Found:
    with np.load(data / "office_caltech10/features.npz") as kept:
        X, y, domain = kept["features"].astype(float), kept["label"], kept["domain"]
    X = X / np.linalg.norm(X, axis=1, keepdims=True) * 20
    for a, b in permutations(np.unique(domain), 2):
        A, B = domain == a, domain == b
        yield f"{a} -> {b}", (X[A], y[A]), (X[B], y[B])
    A, B = domain == "amazon", domain == "caltech10"
    few = B & np.isin(y, np.unique(y)[:5])
    yield "amazon -> caltech10 partial", (X[A], y[A]), (X[few], y[few])
    yield "amazon -> caltech10 skewed", (X[A], y[A]), _skewed(X[B], y[B], rng)


def _digits(data: Path, rng: np.random.Generator) -> Found:
    folder = data / "digits"
    raw = gzip.decompress((folder / "mnist/t10k-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / "mnist/t10k-labels-idx1-ubyte.gz").read_bytes())
    mnist = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 28, 28) / 255.0
    mnist = mnist[:, 2:26, 2:26].reshape(-1, 8, 3, 8, 3).mean((2, 4)).reshape(len(mnist), -1)
    with np.load(folder / "usps/train.npz") as kept:
        usps, usps_y = kept["images"] / 255.0, kept["labels"]
    usps = usps.reshape(-1, 8, 2, 8, 2).mean((2, 4)).reshape(len(usps), -1)
    parts = {"mnist": (mnist, np.frombuffer(labels, np.uint8, offset=8).astype(int)), "usps": (usps, usps_y)}
    for a, b in permutations(parts):
        X, y = _some(*parts[a], rng)
        X_target, truth = _some(*parts[b], rng)
        yield f"{a} -> {b}", (X * 8, y), (X_target * 8, truth)
        yield f"{a} -> {b} skewed", (X * 8, y), _skewed(X_target * 8, truth, rng, 6.0)
        half = truth < 5
        yield f"{a} -> {b} partial", (X * 8, y), (X_target[half] * 8, truth[half])


def _bike(data: Path, rng: np.random.Generator) -> Found:
    import pandas

    years = [pandas.read_csv(data / f"shifts/bike_{year}.csv") for year in (2011, 2012)]
    middle = years[0]["count"].median()
    levels = [0, 50, 150, 300, np.inf]
    whole = pandas.concat(years, ignore_index=True)
    frames = {
        "2011": years[0],
        "2012": years[1],
        "summer": whole[whole.season.isin((2, 3))],
        "winter": whole[whole.season.isin((1, 4))],
        "work": whole[whole.workingday == 1],
        "free": whole[whole.workingday == 0],
    }
    pairs = [("2011", "2012"), ("2012", "2011"), ("summer", "winter"), ("winter", "summer"), ("work", "free")]
    for words, cut in (("above", lambda v: (v > middle).astype(int)), ("levels", lambda v: np.digitize(v, levels))):
        coded = {name: frame.assign(count=cut(frame["count"])) for name, frame in frames.items()}
        for name, *two in _between(coded, "count", pairs, rng):
            yield f"{name} {words}", *two  # type: ignore[misc]


def _sklearn(data: Path, rng: np.random.Generator) -> Found:
    from sklearn import datasets

    for name, column in (("breast_cancer", 1), ("breast_cancer", 4), ("wine", 10), ("digits", None)):
        made = getattr(datasets, f"load_{name}")()
        X, y = made.data.astype(float), made.target
        by = X[:, column] if column is not None else X[:, 32:].sum(1)
        low = by + 0.3 * by.std() * rng.normal(size=len(by)) < np.median(by)
        for words, a, b in (("low -> high", low, ~low), ("high -> low", ~low, low)):
            A, B = scaled(X[a], X[b])
            yield f"{name} {column} {words}", (A, y[a]), (B, y[b])


FAMILIES: dict[str, Callable[[Path, np.random.Generator], Found]] = {
    "heart": _heart,
    "adult": _adult,
    "gas": _gas,
    "amazon": _amazon,
    "watch": _watch,
    "photographs": _photographs,
    "digits": _digits,
    "bike": _bike,
    "scikit-learn": _sklearn,
}
