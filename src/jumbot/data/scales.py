"""Features in units of their own: one column in dollars among others in metres."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from jumbot.data.domain import Domain

_LARGE = 100  # times the others
_ROWS = 4096
_SOME, _NUMBERS = 1024, 2**24  # rows whose spreads are compared, and numbers where rows are wide
_FEWEST = 30  # rows of each domain below which quartiles say little
_APART = 15  # times the distance of the quartiles: degrees Celsius and kelvins are 20 apart in a climate


def outsize(domain: Domain) -> str | None:
    """A sentence on the feature whose numbers dwarf the others, if there is one.

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


def warn_of_units(source: Domain, target: Domain, names: Sequence[str] | None = None) -> None:
    """A warning where the numbers of a feature differ between two domains as they do in other units."""
    if found := other_units(source, target, names):
        warnings.warn(f"{target.name}: {found}; are its units others than the source's?", stacklevel=3)


def other_units(source: Domain, target: Domain, names: Sequence[str] | None = None) -> str | None:
    """A sentence on the feature whose numbers differ most between two domains, if it may be one of units; `names` are
    those of the features, where they are not those of the table's columns.

    >>> from jumbot.data import as_domain
    >>> rows = np.random.default_rng(0).normal(size=(50, 2))
    >>> other_units(as_domain(rows), as_domain(rows * [1, 1000]))
    'column 2 varies 1000 times as much in the target as in the source'
    >>> other_units(as_domain(rows), as_domain(rows + 1.0)) is None
    True
    """
    if min(len(source), len(target)) < _FEWEST:
        return None
    here, there = _spreads(source), _spreads(target)
    with np.errstate(divide="ignore", invalid="ignore"):  # what is mostly alike in one domain has no scale to compare
        ratios = np.nan_to_num(np.stack([there[1] / here[1], there[2] / here[2]]), nan=1.0, posinf=1.0)
        apart = np.nan_to_num(abs(there[0] - here[0]) / np.maximum(here[1:], there[1:]).max(0), posinf=0.0)
    ratios[ratios == 0] = 1.0
    # quartiles alone differ in features that few rows use, deviations alone where there is an outlier
    size, less = np.maximum(ratios.min(0), 1 / ratios.max(0)), ratios.max(0) < 1
    if size.max() >= _LARGE:
        worst = int(size.argmax())
        where = ("source", "target") if less[worst] else ("target", "source")
        how = f"varies {float(f'{size[worst]:.3g}'):g} times as much in the {where[0]} as in the {where[1]}"
    elif apart.max() >= _APART:
        worst = int(apart.argmax())
        how = f"has medians in the two domains that are {apart[worst]:.0f} times as far apart as it varies"
    else:
        return None
    columns = getattr(getattr(source.samples, "format", None), "columns", None)
    names = columns.features if columns is not None and columns.named else names
    which = worst + 1 if names is None else repr(str(names[worst]))
    return f"column {which} {how}"


def _spreads(domain: Domain) -> np.ndarray:
    """Median, distance between the quartiles and deviation `(3, d)` of features, in rows taken evenly."""
    most = max(min(_SOME, _NUMBERS // domain.shape[0]), _FEWEST)
    rows = np.unique(np.linspace(0, len(domain) - 1, min(most, len(domain))).round().astype(int))
    numbers = domain.samples.batch(rows).double().numpy()
    low, middle, high = np.quantile(numbers, (0.25, 0.5, 0.75), axis=0)
    return np.stack([middle, high - low, numbers.std(0)])
