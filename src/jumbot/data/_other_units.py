"""Columns that seem to be in other units in the target than in the source: by what factor, or from which zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

_FEWEST = 20  # numbers of each domain, below which quantiles say little
_CODES = 20  # different numbers up to which a column may be one of codes or counts
_PLAIN, _NARROW = math.log(1.5), math.log(1.4)  # factors from which a column is named: wide ones, narrow ones
_WHOLE = math.log(5)  # factor from which all columns together are named: the gain of a sensor may double
_APART = 15  # times the spread: what medians are apart by where zero is another one
_ELSEWHERE = 2.0  # times the spread, where it is a zero that is known
_DEVIATIONS = 1.0  # by which a narrow column has left its place
_OUTLYING = 3.0  # deviations of the other columns' factors: if all drift, none stands out
_LEAST = 0.1  # deviation of the other columns' factors (of their logarithms), at least
_MANY = 8  # columns that define what is typical
_ALIKE = 0.5  # of the logarithm of the factor: what quantiles of a wide column may disagree by
_SHAPE = 0.7  # by which the logarithm of the spread of logarithms may differ: units do not change the shape
_NOISE = 0.25  # by which it differs between samples of some hundred
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_OF_DEVIATIONS = (0.3, 0.5, 0.7, 0.85, 0.95)
_LARGEST = 1e150  # squares of larger numbers overflow
_WIDE = 512  # columns above which only those are looked at whose means differ
ASKED = "does it use other units than the source?"
"""In every sentence on units."""
_GROUPS = 5  # of numbers to predict, in the place of classes
_OF_CLASS = 5  # numbers of a class, below which it cannot represent more of its kind
_TOO_FEW = 4  # columns, up to which the one in question is also used to find the proportions
_OTHERS = 64  # columns used to find the class proportions
_DRAWN = 2000  # numbers that a source with other proportions has
_KNOWN = {
    1.609: "kilometres for miles",
    2.2046: "pounds for kilograms",
    2.54: "centimetres for inches",
    3.2808: "feet for metres",
    4.184: "kilojoules for kilocalories",
    7.5006: "mmHg for kilopascals",
    10: "a power of ten",
    12: "inches for feet, or months for years",
    18.016: "mg/dL for mmol/L of glucose",
    24: "hours for days",
    28.35: "grams for ounces",
    30.48: "centimetres for feet",
    38.67: "mg/dL for mmol/L of cholesterol",
    60: "minutes for hours",
    88.42: "umol/L for mg/dL of creatinine",
    100: "per cent for shares, or centimetres for metres",
    365.25: "days for years",
    1000: "grams for kilograms",
    3600: "seconds for hours",
}
_ZEROS = ((1.0, 273.15, "kelvins for degrees Celsius"), (1.8, 32.0, "degrees Fahrenheit for degrees Celsius"))


@dataclass(frozen=True)
class _Found:
    """How the numbers of a column differ between two domains; logarithms of factors."""

    factor: float
    noise: float
    """Standard error of `factor`."""
    disagreement: float
    """Of the factors at several quantiles."""
    deviations: float = 0.0
    """By how many of its spreads a column of one sign has left its place."""
    shape: float = 0.0
    """Of the spreads of logarithms, of a column of one sign."""

    def stands_out(self, typical: float, deviation: float) -> bool:
        """Whether the factor indicates a unit, given that of the other columns."""
        sure, own = abs(self.factor) - 2 * self.noise, abs(self.factor - typical)
        shape = min(max(_NOISE, abs(self.factor) / 2), _SHAPE)  # a column that is moved by a number also has a factor
        if own < max(_NARROW, _OUTLYING * max(deviation, _LEAST)) or abs(self.shape) > shape:
            return False
        alike = sure >= _PLAIN and self.disagreement <= _ALIKE * abs(self.factor)
        return alike or (sure >= _NARROW and self.deviations >= _DEVIATIONS)


def other_units(
    source: np.ndarray, target: np.ndarray, names: Sequence[str], labels: np.ndarray | None = None
) -> list[str]:
    """Sentences on the columns of `(n, d)` numbers that seem to be in other units; NaN is a missing number.

    `labels` are those of the source: a column that different class proportions would move as far is not reported.

    A column of one sign is compared by its logarithms, which another unit shifts as a whole.  One that is narrow
    compared with the shift is reported from a factor of 1.4, a wide one from 1.5 and if all quantiles are shifted
    equally; a column of both signs likewise, by the distances from its median.  Columns are also compared with each
    other: if all sensors drift by a factor of 2 to 4, none stands out.  Different zeros, of kelvins and of degrees, are
    recognised by medians that are far apart compared with the spread.  Not seen: fewer than 20 numbers, factors below
    1.4, wide columns that have changed their shape too, codes and counts that keep to the source's numbers.

    >>> rows = np.random.default_rng(0).normal(70, 10, size=(100, 2))
    >>> other_units(rows, rows * [1, 2.2046], ["height", "weight"])[0][:68]
    'column weight varies 2.2 times as much in the target as in the sourc'
    >>> other_units(rows, rows + 5, ["height", "weight"])
    []
    """
    columns = [(_finite(source[:, i]), _finite(target[:, i])) for i in range(len(names))]
    found = [
        _compare(here, there)
        if len(names) <= _WIDE or abs(quick := _means_apart(here, there)) > _NARROW / 2
        else _Found(quick, 0.0, 0.0)
        for here, there in columns
    ]
    factors = np.array([one.factor for one in found if one is not None])
    typical, deviation = (float(np.median(factors)), _deviation(factors)) if len(factors) >= _MANY else (0.0, 0.0)
    if abs(typical) >= _WHOLE and deviation <= _LEAST * abs(typical):
        return [f"nearly every column {_times(typical)}; {ASKED}{_known(typical)}"]
    remarks = []
    for place, (name, (here, there), one) in enumerate(zip(names, columns, found, strict=True)):
        odd = one is not None and one.stands_out(typical, deviation)
        if odd and one is not None and labels is not None:
            odd = not _explained_by_proportions(source, target, labels, place, one.factor)
        zero, misfit = _other_zero(here, there) or ("", math.inf)
        if one is not None and odd and abs(one.shape) <= max(misfit, _NOISE):
            how = f"{_times(one.factor)}; {ASKED}{_known(one.factor)}"
        elif zero:
            how = f"{zero}; {ASKED}"
        else:
            continue
        remarks.append(f"column {name} {how} Its median is {np.median(there):.4g} instead of {np.median(here):.4g}.")
    return remarks


def _explained_by_proportions(
    source: np.ndarray, target: np.ndarray, labels: np.ndarray, place: int, factor: float
) -> bool:
    """Whether a column has moved as the class proportions that the other columns suggest would move it.

    If there are at most four columns, it is also used to find the proportions, and may be like a single class.  Numbers
    to predict are taken in five groups.  The proportions are those of least squares between the distribution functions
    of these columns, at 9 quantiles each.
    """
    if labels.dtype.kind == "f":
        labels = np.searchsorted(np.quantile(labels, np.arange(1, _GROUPS) / _GROUPS), labels)
    groups = [labels == one for one in np.unique(labels) if (labels == one).sum() >= _OF_CLASS]
    few = source.shape[1] <= _TOO_FEW
    others = [column for column in range(source.shape[1]) if few or column != place]
    others = [others[i] for i in np.unique(np.linspace(0, len(others) - 1, min(len(others), _OTHERS)).astype(int))]
    shares, wanted = [], []
    for column in others:
        parts = [np.sort(_finite(source[group, column])) for group in groups]
        there = np.sort(_finite(target[:, column]))
        if min(map(len, [*parts, there])) < _OF_CLASS:
            continue
        at = np.quantile(np.concatenate([*parts, there]), np.arange(1, 10) / 10)
        shares.append(np.stack([np.searchsorted(part, at, side="right") / len(part) for part in parts], axis=1))
        wanted.append(np.searchsorted(there, at, side="right") / len(there))
    if len(groups) < 2 or not shares:
        return False
    sure = 1e3  # by which the proportions add up to 1
    weights, _ = nnls(np.vstack([*shares, np.full((1, len(groups)), sure)]), np.append(np.concatenate(wanted), sure))
    own = [np.sort(_finite(source[group, place])) for group in groups]
    drawn = [
        part[np.linspace(0, len(part) - 1, round(_DRAWN * float(weight))).round().astype(int)]
        for part, weight in zip(own, weights, strict=True)
        if len(part)
    ]
    there = _finite(target[:, place])
    tried = [_compare(numbers, there) for numbers in [np.concatenate(drawn), *(own if few else [])]]
    return any(one is not None and abs(one.factor) < max(_NARROW, abs(factor) / 2) for one in tried)


def _finite(numbers: np.ndarray) -> np.ndarray:
    kept: np.ndarray = numbers[abs(numbers) < _LARGEST]  # NaN is not
    return kept


def _means_apart(here: np.ndarray, there: np.ndarray) -> float:
    """The logarithm of the ratio of the means of what is not zero."""
    means = [float(abs(x).sum()) / max(int(np.count_nonzero(x)), 1) for x in (here, there)]
    return math.log(means[1] / means[0]) if min(means) > 0 else 0.0


def _compare(here: np.ndarray, there: np.ndarray) -> _Found | None:
    """None if they cannot be compared."""
    if min(len(here), len(there)) < _FEWEST:
        return None
    values = np.unique(here)
    if len(values) <= _CODES and np.isin(there, values).mean() > 0.5:
        return None
    if all(max((x >= 0).mean(), (x <= 0).mean()) > 0.99 for x in (here, there)) and here.mean() * there.mean() > 0:
        return _of_one_sign(abs(here[here != 0]), abs(there[there != 0]))
    x, y = (np.quantile(abs(v - np.median(v)), _OF_DEVIATIONS) for v in (here, there))
    if min(x.min(), y.min()) <= 0:
        return None
    moved = np.log(y) - np.log(x)
    return _Found(
        float(np.median(moved)), 1.2 * math.hypot(len(here) ** -0.5, len(there) ** -0.5), float(np.ptp(moved))
    )


def _of_one_sign(here: np.ndarray, there: np.ndarray) -> _Found | None:
    if min(len(here), len(there)) < _FEWEST or (np.ptp(here) > 0) != (np.ptp(there) > 0):
        return None
    u, v = np.log(here), np.log(there)
    moved = np.quantile(v, _QUANTILES) - np.quantile(u, _QUANTILES)
    wide, wide_there = (max(float(np.subtract(*np.quantile(x, (0.84, 0.16)))) / 2, 1e-9) for x in (u, v))
    factor = float(np.median(v) - np.median(u))
    return _Found(
        factor,
        1.25 * math.hypot(wide / len(u) ** 0.5, wide_there / len(v) ** 0.5),
        float(np.ptp(moved)),
        abs(factor) / math.sqrt((wide**2 + wide_there**2) / 2),
        0.0 if min(wide, wide_there) <= 1e-9 else math.log(wide_there / wide),
    )


def _deviation(values: np.ndarray) -> float:
    return 1.4826 * float(np.median(abs(values - np.median(values))))


def _other_zero(here: np.ndarray, there: np.ndarray) -> tuple[str, float] | None:
    """The zero that the target seems to use, and how far the spreads are from that (a logarithm)."""
    if min(len(here), len(there)) < _FEWEST:
        return None
    middle, other = (float(np.median(x)) for x in (here, there))
    if abs(other - middle) <= _ELSEWHERE * max(here.std(), there.std()):  # quickly, for tables of many columns
        return None
    (low, high), (low_there, high_there) = (np.quantile(x, (0.25, 0.75)) for x in (here, there))
    spread, spread_there = float(high - low), float(high_there - low_there)
    if min(spread, spread_there) <= 0:
        return None
    ratio, widest = spread_there / spread, max(spread, spread_there, here.std(), there.std())
    apart, medians = abs(other - middle) / widest, "has medians in the two domains"
    for factor, zero, words in _ZEROS:
        for factor_, zero_ in ((factor, zero), (1 / factor, -zero / factor)):
            near = abs(other - factor_ * middle - zero_) < 0.5 * max(spread_there, 0.02 * abs(zero_))
            misfit = abs(math.log(ratio / factor_))
            if apart > _ELSEWHERE and near and misfit < 0.3:
                description = (
                    f"{medians} that are {apart:.0f} times as far apart as it varies, as {words} or the reverse"
                )
                return description, misfit
    if apart >= _APART and abs(math.log(ratio)) < math.log(3):
        return f"{medians} that are {apart:.0f} times as far apart as it varies", math.inf
    return None


def _times(factor: float) -> str:
    where = ("source", "target") if factor < 0 else ("target", "source")
    size = math.exp(abs(factor))
    return (
        f"varies {float(f'{size:.{2 if size < 100 else 3}g}'):g} times as much in the {where[0]} as in the {where[1]}"
    )


def _known(factor: float) -> str:
    """What the factor may mean."""
    size = math.exp(abs(factor))
    known, words = min(_KNOWN.items(), key=lambda item: abs(math.log(item[0] / size)))
    return f" {known:g} is {words}." if abs(math.log(known / size)) < 0.1 else ""
