"""Dates and free text as numbers: their parameters are found on the source and are part of the model, as medians and
categories are.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from jumbot.data._domain import even_rows
from jumbot.errors import ArgumentError, need

Order = Literal["ymd", "dmy", "mdy"]
_DATE = re.compile(r"\s*(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})(?:[ T]+(.*?))?\s*")
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?\s*([AaPp]\.?[Mm]\.?)?\s*(Z|[+-]\d{2}:?\d{2})?")
_PIVOT = 69  # two digits from here on are years of the last century, as in POSIX
_DAY = 86400.0

BUCKETS = 2048
"""Numbers of a text before they are reduced: the n-grams of a text are counted in so many buckets."""
COMPONENTS = 30
"""Numbers that a text becomes, at most."""
_NGRAMS = (3, 5)  # letters within words
_ROWS = 20_000  # of the source, taken evenly, by which the directions are found
_CHUNK = 4096  # texts counted together
_DIGITS = 5  # kept of the numbers that are stored


class NotADateError(ValueError):
    """A value that cannot be read as a date: `value`."""

    def __init__(self, value: object) -> None:
        super().__init__(f"{value!r} is not a date")
        self.value = value


@dataclass(frozen=True)
class Dates:
    """How the dates of a column become numbers: year, month, day of the week and days since the first of the source.

    >>> Dates("2024-01-01", "2024-12-31").numbers(["2024-03-05"], "2024-01-01").tolist()
    [[2024.0, 3.0, 1.0, 64.0]]
    """

    first: str
    """The earliest date of the source."""
    last: str
    """The latest."""
    order: Order = "ymd"
    """Of day, month and year where they are written as numbers."""
    times: bool = False
    """Whether the source has times of the day, so that the hour is a number, too."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the numbers; Monday is 0."""
        return ("year", "month", "weekday", "days", *(["hour"] * self.times))

    def numbers(self, values: Sequence[Any], fill: str) -> np.ndarray:
        """float64 `(n, parts)`; `fill` replaces missing dates."""
        first = read_date(self.first, "ymd")
        known: dict[Any, tuple[float, ...]] = {}

        def row(value: Any) -> tuple[float, ...]:
            if value not in known:
                date = read_date(fill, "ymd") if _is_missing(value) else read_date(value, self.order)
                clock = date.hour + date.minute / 60 + date.second / 3600
                found = date.year, date.month, date.weekday(), (date - first).total_seconds() / _DAY
                known[value] = tuple(map(float, (*found, *([clock] * self.times))))
            return known[value]

        return np.array([row(None if _is_missing(value) else value) for value in values]).reshape(-1, len(self.parts))

    def beyond(self, numbers: np.ndarray) -> str | None:
        """A sentence on dates of which most lie outside the source's."""
        last = (read_date(self.last, "ymd") - read_date(self.first, "ymd")).total_seconds() / _DAY
        for outside, where in ((numbers[:, 3] > last, "after the last"), (numbers[:, 3] < 0, "before the first")):
            if 2 * outside.sum() > len(outside):
                return (
                    f"is {where} date of the source in {outside.sum()} of {len(outside)} rows, where the model has "
                    f"learned nothing about its year and days"
                )
        return None


def find_dates(values: Sequence[Any], others: Sequence[Any] = ()) -> tuple[Dates, str]:
    """The `Dates` of the values of a source, and their median, which replaces missing ones.

    `others` are the target's: where day and month cannot be distinguished in the source, they may be in these.
    """
    present = [value for value in values if not _is_missing(value)]
    order = _order([*present, *(value for value in others if not _is_missing(value))])
    dates = sorted(read_date(value, order) for value in set(present))
    counted = sorted(read_date(value, order) for value in present)
    times = any(date.time() != datetime.time() for date in dates)
    return Dates(dates[0].isoformat(), dates[-1].isoformat(), order, times), counted[len(counted) // 2].isoformat()


def read_date(value: Any, order: Order) -> datetime.datetime:
    """A date of Python, numpy or pandas, or a text such as 2024-03-05 14:30, as a datetime without a time zone.

    Times with a zone are those of Greenwich.

    >>> read_date("5.3.24", "dmy").isoformat(), read_date("2024-03-05T23:30-05:00", "ymd").isoformat()
    ('2024-03-05T00:00:00', '2024-03-06T04:30:00')
    """
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[s]").item()
    if hasattr(value, "to_timestamp"):  # a period of pandas
        value = value.to_timestamp()
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime(warn=False)
    if isinstance(value, datetime.datetime):
        return _in_utc(value.replace(microsecond=0))
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)
    found = _DATE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise NotADateError(value)
    numbers = [found[1], found[3], found[4]]
    year, month, day = (numbers["ymd".index(p)] if len(found[1]) == 4 else numbers[order.index(p)] for p in "ymd")
    try:
        full = int(year) if len(year) > 2 else int(year) + (1900 if int(year) >= _PIVOT else 2000)
        return _in_utc(datetime.datetime(full, int(month), int(day)) + _clock(found[5] or "0:00"))
    except (ValueError, OverflowError):
        raise NotADateError(value) from None


def _clock(text: str) -> datetime.timedelta:
    """The time of day, to be added to its date."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    hour, minute, second = (int(part or 0) for part in found.groups()[:3])
    if found[4]:
        if not 1 <= hour <= 12:
            raise ValueError(text)
        hour = hour % 12 + 12 * (found[4][0] in "Pp")
    if hour > 24 or minute > 59 or second > 60:
        raise ValueError(text)
    zone = datetime.timedelta()
    if found[5] and found[5] != "Z":
        digits = found[5][1:].replace(":", "")
        zone = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:])) * (1 if found[5][0] == "+" else -1)
    return datetime.timedelta(hours=hour, minutes=minute, seconds=second) - zone


def _in_utc(date: datetime.datetime) -> datetime.datetime:
    return date if date.tzinfo is None else date.astimezone(datetime.UTC).replace(tzinfo=None)


def _order(values: Sequence[Any]) -> Order:
    """The order of day and month in texts, by a number above 12 or by points between them; otherwise an error.

    >>> _order(["03/04/2024", "25/12/2024"]), _order(["3.4.2024"]), _order(["2024-03-04"])
    ('dmy', 'dmy', 'ymd')
    """
    found = [match for value in values if isinstance(value, str) and (match := _DATE.fullmatch(value))]
    short = [match for match in found if len(match[1]) < 4]
    if not short:
        return "ymd"
    months: dict[Order, Literal[1, 3]] = {"dmy": 3, "mdy": 1}
    odd = {
        order: [m for m in short if not (1 <= int(m[place]) <= 12 and 1 <= int(m[4 - place]) <= 31)]
        for order, place in months.items()
    }
    fits = [order for order, some in odd.items() if not some]
    if len(fits) == 2 and all(match[2] == "." for match in short):
        fits = ["dmy"]
    if len(fits) == 2:
        raise ArgumentError(
            f"contains dates such as {short[0][0].strip()}, which may be day/month or month/day; write them as "
            "2024-12-31"
        )
    if not fits:
        if neither := [match for match in odd["dmy"] if match in odd["mdy"]]:
            raise NotADateError(neither[0][0])
        first, other = (odd[order][0][0].strip() for order in ("mdy", "dmy"))
        raise ArgumentError(
            f"contains dates with the day first ({first}) and with the month first ({other}) in source and target; "
            "write them as 2024-12-31"
        )
    return fits[0]


@dataclass(frozen=True)
class Texts:
    """How free text becomes numbers: counts of n-grams in buckets, weighted, turned to unit length, reduced.

    The n-grams are 3 to 5 letters within words, without regard to capitals; the bucket of each is its MurmurHash3.
    """

    weights: tuple[float, ...]
    """Of the buckets: the logarithm of how rare each is in the source (smoothed idf)."""
    directions: tuple[tuple[float, ...], ...]
    """Of the source's texts, the first right singular vectors, a number for each bucket."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the numbers."""
        return tuple(f"text {place + 1}" for place in range(len(self.directions)))

    def numbers(self, values: Sequence[Any]) -> np.ndarray:
        """float64 `(n, parts)`; zeros for a text that is missing or empty."""
        weights, onto = np.array(self.weights), np.array(self.directions).T
        parts = [_unit(counts, weights) @ onto for counts in _counts(values, len(weights))]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.directions)))


def find_texts(values: Sequence[Any]) -> Texts | None:
    """The `Texts` of the values of a source; None where they have no n-grams.

    >>> found = find_texts(["the engine is warm", "the brakes are worn", "engine and brakes"])
    >>> found.parts, found.numbers(["", "ENGINE"]).shape
    (('text 1', 'text 2', 'text 3'), (2, 3))
    """
    sparse = need("scipy.sparse", "text", "adapt")
    rows = even_rows(len(values), _ROWS)
    counts = sparse.vstack(list(_counts([values[row] for row in rows], BUCKETS)), format="csr")
    present = np.diff(counts.indptr) > 0
    if not present.any():
        return None
    among = np.bincount(counts.indices, minlength=BUCKETS)
    weights = _rounded(np.where(among > 0, 1 + np.log((1 + present.sum()) / (1 + among)), 0.0))
    decomposition = need("sklearn.decomposition", "text", "adapt")
    matrix = _unit(counts[present], weights)
    most = min(COMPONENTS, int(present.sum()), int((among > 0).sum()))
    exact = "arpack" if most < min(matrix.shape) else "randomized"  # which is exact, too, for all directions
    found = decomposition.TruncatedSVD(most, algorithm=exact, random_state=0).fit(matrix)
    kept = found.singular_values_ > 1e-6 * found.singular_values_[0]
    directions = tuple(tuple(_rounded(one).tolist()) for one in found.components_[kept])
    return Texts(tuple(weights.tolist()), directions)


def _counts(values: Sequence[Any], buckets: int) -> Iterator[Any]:
    """Sparse `(n, buckets)` of 1 + log(count), in parts."""
    text = need("sklearn.feature_extraction.text", "text", "adapt")
    count = text.HashingVectorizer(
        n_features=buckets, analyzer="char_wb", ngram_range=_NGRAMS, alternate_sign=False, norm=None, dtype=np.float64
    )
    for start in range(0, len(values), _CHUNK):
        some = ["" if _is_missing(value) else str(value) for value in values[start : start + _CHUNK]]
        found = count.transform(some)
        found.data = 1 + np.log(found.data)
        yield found


def _unit(counts: Any, weights: np.ndarray) -> Any:
    """Weighted rows of length 1; those without n-grams stay zero."""
    sparse = need("scipy.sparse", "text", "adapt")
    rows = counts @ sparse.diags(weights)
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(1)).ravel())
    return sparse.diags(1 / np.where(lengths > 0, lengths, 1.0)) @ rows


def _rounded(numbers: np.ndarray) -> np.ndarray:
    """Rounded to the stored digits, so that a saved model gives the same numbers."""
    return np.array([float(f"{number:.{_DIGITS}g}") for number in numbers])


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NaTType", "NAType") or value != value
