"""Differences of a target's columns from the source's: units, missing values, codes for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jumbot.data._column_kinds import in_blocks, kind_of_column, numbers_of, plain_columns
from jumbot.data._domain import Domain, even_rows
from jumbot.data._other_units import other_units
from jumbot.data._remarks import few_of_each, remark_on_column
from jumbot.data._tables import TableSamples

_ROWS = 4096  # looked at, taken evenly
_NUMBERS = 2**24  # at once: wide rows are looked at in fewer
_FEWEST = 20  # rows
_WIDE = 512  # columns
_CODES = (0.0, -1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0)
_RARE, _FEW = 0.01, 3  # share and number of rows with a code, from which it is named
_MISSING, _MORE = 0.5, 0.3  # share of a column that is missing, and how much more than in the source


def screen(source: Domain, target: Domain, names: Sequence[str] | None = None, filled: bool = True) -> None:
    """Remarks on the columns of the raw features of two domains; `names` are their names if they are arrays, and
    `filled` means that missing numbers are filled, as in a model.
    """
    here, there = _columns(source, names), _columns(target, names)
    if not all(name in there for name in here):
        there = dict(zip(here, there.values(), strict=False)) if len(here) == len(there) else {}
    numeric = [name for name in here if name in there and _is_numeric(here[name]) and _is_numeric(there[name])]
    units: list[str] = []
    odd: dict[str, str] = {}
    if numeric:
        x, y = (np.stack([_numbers(table[name]) for name in numeric], axis=1) for table in (here, there))
        odd = _codes({name: values for name, values in zip(numeric, y.T, strict=True)})
        for place in [numeric.index(name) for name in odd]:
            x[:, place], y[:, place] = (np.where(np.isin(z[:, place], _CODES), np.nan, z[:, place]) for z in (x, y))
        labels = source.labels if source.values is None else source.values[:, 0]
        labels = None if labels is None or not np.isfinite(labels).all() else labels[_rows(source)]
        units = other_units(x, y, numeric, labels)
    missing = {}
    if isinstance(source.samples, TableSamples) and isinstance(target.samples, TableSamples):
        missing = {name: _missing(here[name], there[name], filled) for name in here if name in there}
    with few_of_each(target.name):
        for text in units:
            remark_on_column(f"{target.name}: {text.removesuffix('.')}.", "differ in the same way", stacklevel=3)
        _remark_on_codes(target, odd)
        for name, absent in missing.items():
            if absent is not None:
                remark_on_column(f"{target.name}: column {name} {absent}.", "are missing in the same way", stacklevel=3)


def screen_source(source: Domain) -> None:
    """Remarks on codes for missing numbers in the source."""
    columns = {name: _numbers(values) for name, values in _columns(source, None).items() if _is_numeric(values)}
    with few_of_each(source.name):
        _remark_on_codes(source, _codes(columns))


def _remark_on_codes(domain: Domain, odd: Mapping[str, str]) -> None:
    for name, text in odd.items():
        remark_on_column(f"{domain.name}: column {name} {text}.", "contain such numbers", stacklevel=4)


def _codes(columns: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Columns with codes for missing numbers; a row of a thousand numbers was made by a program that needs none."""
    if len(columns) > _WIDE:
        return {}
    return {name: text for name, values in columns.items() if (text := _code(values))}


def _columns(domain: Domain, names: Sequence[str] | None) -> dict[str, Any]:
    """Series of a table, or arrays, by what messages call them."""
    rows = _rows(domain)
    if isinstance(domain.samples, TableSamples):
        frame = domain.samples.table.frame.iloc[rows]
        quoted, plain = domain.samples.table.named, plain_columns(frame)
        numbers = {
            name: values
            for names, block in in_blocks(frame, [column for column in frame.columns if column in plain])
            for name, values in zip(names, block.T, strict=True)
        }
        return {repr(n) if quoted else n: numbers[n] if n in numbers else frame[n] for n in frame.columns}
    array = domain.samples.batch(rows).double().numpy()
    called = [str(i + 1) for i in range(array.shape[1])] if names is None else [repr(str(name)) for name in names]
    return dict(zip(called, array.T, strict=True))


def _rows(domain: Domain) -> np.ndarray:
    """Those that are looked at."""
    most = max(min(_ROWS, _NUMBERS // max(domain.shape[0], 1)), _FEWEST)
    return even_rows(len(domain), most)


def _is_numeric(values: Any) -> bool:
    return isinstance(values, np.ndarray) or kind_of_column(values) == "numbers"


def _numbers(values: Any) -> np.ndarray:
    return values if isinstance(values, np.ndarray) else numbers_of(values)


def _code(values: np.ndarray) -> str | None:
    """A sentence on a number such as -9 or 999 that is far from the others, as a code for "missing" would be.

    >>> _code(np.r_[np.arange(50.0), [-9.0] * 4])
    'contains -9 in 4 of 54 rows, far from its other numbers; if it means "missing", leave those cells empty'
    """
    numbers = values[np.isfinite(values)]
    for code in _CODES:
        here = numbers == code
        others = numbers[~here]
        count = int(here.sum())
        enough = max(_FEW, _RARE * len(numbers)) <= count <= len(others)  # of which most are ordinary numbers
        if not enough or len(others) < _FEWEST or len(np.unique(others)) < 3:
            continue
        low, high = float(others.min()), float(others.max())
        spread = float(np.subtract(*np.quantile(others, (0.75, 0.25))))
        beyond = low - code if code < low else code - high if code > high else 0.0
        far = max(spread, (0.2 if code == 0 else 0.5) * (high - low))  # 0 is an ordinary number next to 1, 2, 3
        negative = code < -1 and low >= 0 and beyond > min(spread, 5.0)
        if negative or beyond > far:
            return (
                f"contains {code:g} in {count} of {len(numbers)} rows, far from its other numbers; if it means "
                '"missing", '
                "leave those cells empty"
            )
    return None


def _missing(here: Any, there: Any, filled: bool) -> str | None:
    """A sentence on a column that is mostly missing in the target, or contains nothing but a code for that."""
    lacking, before = _is_missing(there), float(_is_missing(here).mean())
    share = float(lacking.mean())
    numeric = _is_numeric(here)
    stands = "replaced by the source's median" if numeric else "treated as none of the source's categories"
    if share >= _MISSING and share >= before + _MORE and not (numeric and share == 1):  # reported elsewhere
        means = f" and {stands} there; leave it out if it carries no information" if filled else ""
        return f"is missing in {lacking.sum()} of {len(there)} rows ({100 * before:.0f} % in the source){means}"
    if numeric and _is_numeric(there) and share < 1 and before < 1 and len(there) >= _FEWEST:
        present, known = _numbers(there)[~lacking], _numbers(here)
        only = float(present[0])
        if only in _CODES and (present == only).all() and not np.nanmin(known) <= only <= np.nanmax(known):
            return f"is {only:g} in every row, where the source has {np.nanmin(known):g} to {np.nanmax(known):g}"
    return None


def _is_missing(values: Any) -> np.ndarray:
    found: np.ndarray = np.isnan(values) if isinstance(values, np.ndarray) else values.isna().to_numpy()
    return found
