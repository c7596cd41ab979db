"""Rows of numbers brought to one scale, by what is learned on the source alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jumbot._base.options import check_word
from jumbot.data._domain import Domain

STANDARDISE = ("auto", "source", "none")
_CHUNK = 4096  # rows looked at together
_NUMBERS = 2**24  # and numbers: wide rows that are stored sparse do not fit in memory all at once
_FEW, _AT_MOST, _MOST = 0.1, 20, 0.8  # a tenth of the columns, 20 at most, that carry four fifths of the distances
_ALIKE = 0.01  # deviations of standardised columns, with room for float32 and another estimator
_TAILS = 6.0  # the kurtosis above which the tails of a column determine its scale
_DEVIATION = 10.0  # of 2,048 columns together: see `one_scale`


class Scaling(NamedTuple):
    """x -> scale (x - mean) / std, column by column; a column whose std is 0 is constant on the source and left out."""

    mean: tuple[float, ...]
    std: tuple[float, ...] | None
    """None: the columns keep their relative scale."""
    scale: float


def learn_scaling(source: Domain | np.ndarray, standardise: str = "auto") -> Scaling | None:
    """The scaling of a source of rows, a domain or an array; None if nothing must be changed.

    "source" brings each column to mean 0 and deviation 1, "auto" does so only where a few columns carry most of the
    squared distances (other units) or if the user has done it before, so that a scaler in front has the same effect as
    "source".  Both then multiply by one number, so that common units do not matter.

    A column whose values are mostly equal and sometimes far off, such as a feature that few rows use, has a deviation
    much smaller than the values that are far off: divided by it, a rare 1 among zeros becomes 10 or 30.  So a column of
    kurtosis k above 6 (a normal one has 3) is divided by std sqrt(k / 6), which grows with its tails, and has less
    weight than the others.  Constant columns are left out.

    >>> from jumbot.data._domain import ArraySamples
    >>> rows = np.array([[0.0, 0.0], [1.0, 90000.0], [0.0, 90000.0], [1.0, 0.0]])
    >>> found = learn_scaling(Domain("people", ArraySamples(rows)))
    >>> found.mean, found.std
    ((0.5, 45000.0), (0.5, 45000.0))
    >>> learn_scaling(Domain("pixels", ArraySamples(rows / [1.0, 60000.0]))).std is None
    True
    """
    if check_word("standardise", standardise, STANDARDISE) == "none":
        return None
    mean = sum(rows.sum(0) for rows in _rows(source)) / len(source)
    std = np.sqrt(sum(((rows - mean) ** 2).sum(0) for rows in _rows(source)) / len(source))
    # a domain gives its rows in float32
    std[std <= (1e-12 if isinstance(source, np.ndarray) else 1e-7) * np.abs(mean)] = 0.0
    if standardise == "auto" and not few_dominate(std**2) and not all_alike(std):
        used = None if (std > 0).all() else tuple((std > 0).astype(float).tolist())
        return Scaling(tuple(mean.tolist()), used, one_scale(std))
    safe = np.where(std > 0, std, 1.0)
    kurtosis = sum((((rows - mean) / safe) ** 4).sum(0) for rows in _rows(source)) / len(source)
    tails = np.sqrt(np.maximum(kurtosis / _TAILS, 1.0))
    return Scaling(tuple(mean.tolist()), tuple((std * tails).tolist()), one_scale((std > 0) / tails))


def few_dominate(variance: np.ndarray) -> bool:
    """Whether a few columns account for most of the squared distances, for example because of their units.

    >>> few_dominate(np.ones(5)), few_dominate(np.array([1.0, 1.0, 1e6]))
    (False, True)
    """
    total = variance.sum()
    few = min(max(1, math.ceil(_FEW * len(variance))), _AT_MOST)
    return bool(total > 0 and len(variance) > 1 and np.sort(variance)[-few:].sum() > _MOST * total)


def all_alike(std: np.ndarray) -> bool:
    """Whether all columns except constant ones have the same deviation, as after a `StandardScaler`.

    >>> all_alike(np.array([1.0, 0.0, 1.001])), all_alike(np.array([1.0, 1.2])), all_alike(np.array([1.0]))
    (True, False, False)
    """
    used = std[std > 0]
    return len(used) > 1 and bool(np.ptp(used) < _ALIKE * used.mean())


def one_scale(std: np.ndarray) -> float:
    """The number that brings rows with these deviations to the scale on which the recipes train.

    A Xavier-normal layer from d columns to 256 multiplies squared distances by 512 / (d + 256).  So rows of d columns
    get a total deviation of 10 sqrt((d + 256) / 2304): embeddings then start with the same size for every d, and
    ResNet's 2,048 features with a deviation of 10, at which source-only is best.
    """
    total = math.sqrt(float((std**2).sum()))
    return total_deviation(len(std)) / total if total > 0 else 1.0


def total_deviation(width: int) -> float:
    """What `one_scale` brings the deviation of rows of that many columns to, all columns together."""
    return _DEVIATION * math.sqrt((width + 256) / (2048 + 256))


def _rows(source: Domain | np.ndarray) -> Iterator[np.ndarray]:
    width = source.shape[1] if isinstance(source, np.ndarray) else source.shape[0]
    chunk = min(_CHUNK, max(_NUMBERS // width, 1))
    for rows in np.array_split(np.arange(len(source)), len(source) // chunk + 1):
        yield source[rows] if isinstance(source, np.ndarray) else source.samples.batch(rows).double().numpy()


_LARGE = 100  # times the others
_ROWS = 4096


def outsize(domain: Domain) -> str | None:
    """A sentence on a feature whose numbers are much larger than the others, if there is one.

    >>> from jumbot.data import as_domain
    >>> outsize(as_domain([[1.0, 30_000.0], [2.0, 80_000.0]]))
    "Column 2 goes up to 80000 and the others to 2; scale the columns with standardise='source'"
    """
    if len(domain.shape) != 1 or domain.shape[0] < 2:
        return None
    largest = domain.samples.batch(np.arange(min(len(domain), _ROWS))).abs().amax(0).double().numpy()
    worst = int(largest.argmax())
    others = float(np.median(np.delete(largest, worst)))
    if not largest[worst] > _LARGE * max(others, 1e-30):
        return None
    columns = getattr(getattr(domain.samples, "format", None), "columns", None)
    which = f"Column {worst + 1}"
    if columns is not None and columns.named:
        which = f"Column {columns.features[worst]!r}"
    return (
        f"{which} goes up to {largest[worst]:g} and the others to {others:g}; scale the columns with "
        "standardise='source'"
    )
