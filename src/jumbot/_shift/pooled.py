"""Two data sets as one pool of rows, prepared independently of which row belongs to which set.

Whatever is learned here (medians, scales, categories, which rows are looked at) is a symmetric function of the pooled
units, so exchanging units between the sets does not change it: the permutation test on the pool is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jumbot.data._column_kinds import kind_of_column, number_in, numbers_of
from jumbot.data._columns import Column
from jumbot.data._domain import ArraySamples, Domain, SubsetSamples
from jumbot.data._fitting import find_columns
from jumbot.data._frames import pandas
from jumbot.data._inputs import PLURAL, SMALL, kind_of, largest_side
from jumbot.data._labels import match_classes, plain_text
from jumbot.data._pair import prepare
from jumbot.data._row_kinds import NARROW, ZEROS
from jumbot.data._tables import TableSamples
from jumbot.errors import ArgumentError
from jumbot.transport._checks import check_unmasked

MOST = 2000
"""Rows of each set that are used: more rows would only find irrelevant differences."""
FEWEST = 10
_LEVELS = 50  # categories that count by themselves
_KNEE = 3.0  # deviations up to which a number counts in full; beyond it grows like a logarithm
_SPECTRUM = 16  # bands of the spectrum of a signal
_PIXELS = 16  # side that small pictures are brought to
TOTAL = "row total"
"""Name of the column with the number of words of a row."""
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows of both sets, reference first, in comparable units."""

    rows: Array
    """(N, d) float64: robustly scaled numbers, categories as indicators, a mark where a number is missing."""
    current: Array
    """(N,) whether a row belongs to the current set."""
    numbers: Array
    """(N,) of each row in its own set."""
    units: Array
    """(N,) what is exchanged as a whole: of rows with the same number. Every row by itself, a group, or a block."""
    columns: tuple[str, ...]
    """Names of the columns; empty where rows are features of pictures or signals."""
    owners: Array
    """(d,) the column that a feature belongs to."""
    labels: Array | None
    """(N,) classes of the reference, -1 elsewhere."""
    classes: tuple[str, ...]
    names: tuple[str, str]
    sizes: tuple[int, int]
    """Rows of the whole sets."""
    ids: tuple[Sequence[str] | None, Sequence[str] | None]

    def only(self, kept: Array) -> Pool:
        """Of some of the rows."""
        rows = {name: getattr(self, name)[kept] for name in ("rows", "current", "numbers", "units")}
        return replace(self, labels=None if self.labels is None else self.labels[kept], **rows)

    def name_of(self, row: int) -> str:
        """The name of a row of the pool in its own set."""
        ids, number = self.ids[int(self.current[row])], int(self.numbers[row])
        return str(number) if ids is None else str(ids[number])


def make_pool(
    reference: Domain, current: Domain, groups: Any, blocks: int | None, columns: str, rng: np.random.Generator
) -> Pool:
    """The pool of two domains; `groups` and `blocks` say what is exchanged as a whole."""
    for domain in (reference, current):
        if len(domain) < FEWEST:
            raise ArgumentError(f"{domain.name}: {len(domain)} rows are too few to compare; pass at least {FEWEST}.")
    kinds = kind_of(reference), kind_of(current)
    if kinds[0] != kinds[1]:
        raise ArgumentError(
            f"{current.name}: contains {PLURAL[kinds[1]]}, but {reference.name} contains {PLURAL[kinds[0]]}; compare "
            "like with like."
        )
    domains = [reference, match_classes(current, reference.classes) if reference.classes else current]
    domains, units = find_units(domains, groups, blocks)
    taken = [_take(unit, max(len(np.unique(u)) for u in units), rng) for unit in units]
    some = [domain.subset(rows) for domain, rows in zip(domains, taken, strict=True)]
    rows, names, owners = _encode(domains, some, kinds[0], columns)
    labels = None
    if reference.labels is not None:
        labels = np.concatenate([reference.labels[taken[0]], np.full(len(taken[1]), -1)])
    return Pool(
        rows=rows,
        current=np.repeat([False, True], [len(rows) for rows in taken]),
        numbers=np.concatenate(taken),
        units=np.concatenate([unit[rows] for unit, rows in zip(units, taken, strict=True)]),
        columns=names,
        owners=owners,
        labels=labels,
        classes=reference.classes,
        names=(reference.name, current.name),
        sizes=(len(reference), len(current)),
        ids=(reference.ids, current.ids),
    )


def find_units(domains: list[Domain], groups: Any, blocks: int | None) -> tuple[list[Domain], list[Array]]:
    """The domains without the column of groups, and which rows are exchanged together, by a number for each row.

    The same value of `groups` in both sets is one group, as of a patient before and after.
    """
    sizes = [len(domain) for domain in domains]
    if groups is not None and blocks is not None:
        raise ArgumentError("groups must be left out if blocks are given.")
    if blocks is not None:
        first = np.arange(sizes[0]) // blocks
        return domains, [first, np.arange(sizes[1]) // blocks + int(first[-1]) + 1]
    if groups is None:
        return domains, [np.arange(sizes[0]), np.arange(sizes[1]) + sizes[0]]
    if isinstance(groups, str):
        domains, values = _cut_column(domains, groups)
    elif isinstance(groups, tuple | list) and len(groups) == 2:
        values = [_group_values(one) for one in groups]
    else:
        raise ArgumentError("groups must be the name of a column, or a pair of arrays: of the reference, of current.")
    for domain, found in zip(domains, values, strict=True):
        if len(found) != len(domain):
            raise ArgumentError(f"groups must have one value per row, got {len(found)} for {len(domain)} rows.")
    texts = [[plain_text(value) for value in found.tolist()] for found in values]
    number = {text: place for place, text in enumerate(dict.fromkeys([*texts[0], *texts[1]]))}
    return domains, [np.array([number[text] for text in found]) for found in texts]


def _group_values(groups: Any) -> Array:
    """One of the two arrays of `groups`."""
    check_unmasked(groups, "groups")
    found = np.asarray(groups).ravel()
    missing = np.flatnonzero(pandas().isna(found)) if found.dtype.kind in "fOmM" else np.empty(0, int)
    if missing.size:
        raise ArgumentError(f"groups: row {missing[0]} has no value; name the group of every row.")
    return found


def _cut_column(domains: list[Domain], column: str) -> tuple[list[Domain], list[Array]]:
    found, rest = [], []
    for domain in domains:
        if not isinstance(domain.samples, TableSamples) or not domain.samples.table.named:
            raise ArgumentError(f"groups: {domain.name} has no column names; pass a pair of arrays.")
        table = domain.samples.table
        if column not in table.frame.columns:
            raise ArgumentError(f"groups: {domain.name} has no column {column!r}.")
        values = table.frame[column]
        if values.isna().any():
            where = table.where(int(np.flatnonzero(values.isna())[0]))
            raise ArgumentError(f"groups: {domain.name} has no value in {where}; name the group of every row.")
        found.append(values.to_numpy(object))
        frame = table.frame[[name for name in table.frame.columns if name != column]]
        rest.append(domain.with_samples(TableSamples(replace(table, frame=frame))))
    return rest, found


def _take(units: Array, most_units: int, rng: np.random.Generator) -> Array:
    """Rows to look at: of at most `MOST` units, and of each no more than its share of `MOST` rows."""
    each = max(1, MOST // max(most_units, 1))
    order = rng.permutation(len(units))
    _, places, counts = np.unique(units[order], return_inverse=True, return_counts=True)
    # the rank of a row in its unit, in the drawn order
    by_unit = np.argsort(places, kind="stable")
    rank = np.empty(len(units), np.int64)
    rank[by_unit] = np.arange(len(units)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = order[rank < each]
    if len(counts) > MOST:
        chosen = rng.permutation(np.unique(units))[:MOST]
        kept = kept[np.isin(units[kept], chosen)]
    return np.sort(kept)


def _encode(whole: list[Domain], some: list[Domain], kind: str, columns: str) -> tuple[Array, tuple[str, ...], Array]:
    if kind == "image":
        return _anonymous(_features_of_pictures(some))
    if kind == "signal":
        return _anonymous(np.concatenate([_signal_features(domain) for domain in some]))
    if kind == "raw":
        raise ArgumentError("kind: raw tensors cannot be compared; pass rows of features computed from them.")
    if all(isinstance(domain.samples, TableSamples) for domain in whole):
        return _tables(whole, some, columns)
    if columns == "shared":
        raise ArgumentError("columns must be 'same' here: at least one of the sets has no column names.")
    numbers = [_numbers(domain) for domain in some]
    if numbers[0].shape[1] != numbers[1].shape[1]:
        raise ArgumentError(
            f"{whole[1].name}: has {numbers[1].shape[1]} columns, but {whole[0].name} has {numbers[0].shape[1]}; "
            f"pass the same columns."
        )
    pooled = np.concatenate(numbers)
    return _of_numbers(pooled, tuple(str(i + 1) for i in range(pooled.shape[1])))


def _of_numbers(values: Array, names: tuple[str, ...]) -> tuple[Array, tuple[str, ...], Array]:
    """Columns as they are, or counts of words as directions, with one more column for their number in a row."""
    found = squashed(values)
    if are_counts(values):
        found = np.concatenate([weighed(values), squashed(np.log1p(values.sum(1, keepdims=True)))], axis=1)
        names = (*names, TOTAL)
    return found, names, np.arange(len(names))


def _numbers(domain: Domain) -> Array:
    samples = domain.samples
    if isinstance(samples, TableSamples):
        frame = samples.table.frame
        return np.stack([numbers_of(frame[column]) for column in frame], axis=1)
    rows = np.arange(len(domain))
    while isinstance(samples, SubsetSamples):
        rows, samples = samples.indices[rows], samples.samples
    if isinstance(samples, ArraySamples):  # with all digits, of which a batch keeps seven
        return np.asarray(samples.array[rows], np.float64)
    found: Array = samples.batch(rows).double().numpy()
    return found


def _tables(whole: list[Domain], some: list[Domain], shared: str) -> tuple[Array, tuple[str, ...], Array]:
    """Columns as they are found in the reference; their categories and medians are those of the pool."""
    tables = [domain.samples.table for domain in whole]  # type: ignore[attr-defined]
    frames = [domain.samples.table.frame for domain in some]  # type: ignore[attr-defined]
    found = find_columns(tables[0], tables[1], (whole[0].name, whole[1].name), shared).columns
    if not (tables[0].named and tables[1].named):
        if tables[0].frame.shape[1] != tables[1].frame.shape[1]:
            raise ArgumentError(f"{whole[1].name}: has {tables[1].frame.shape[1]} columns, not {len(found)}.")
        frames[1] = frames[1].set_axis(frames[0].columns, axis=1)
        tables[1] = replace(tables[1], frame=tables[1].frame.set_axis(frames[0].columns, axis=1))
    if len(found) > NARROW and all(column.categories is None for column in found):
        numbers = np.stack(
            [np.concatenate([_as_numbers(frame[column.name]) for frame in frames]) for column in found], 1
        )
        if np.isfinite(numbers).all() and are_counts(numbers):
            return _of_numbers(numbers, tuple(column.name for column in found))
    parts, owners = [], []
    for place, column in enumerate(found):
        if column.categories is None:
            _check_numbers(column, tables[1], whole[1].name)
            made = _number_features(np.concatenate([_as_numbers(frame[column.name]) for frame in frames]), column.name)
        else:
            made = indicators([plain_text(value) for frame in frames for value in frame[column.name].tolist()])
        parts.append(made)
        owners += [place] * made.shape[1]
    return np.concatenate(parts, axis=1), tuple(column.name for column in found), np.array(owners)


def _check_numbers(column: Column, table: Any, name: str) -> None:
    """Refuse text where the reference contains numbers, by the row that holds it."""
    if kind_of_column(table.frame[column.name]) != "numbers":
        column.encode(table, column.name, name)


def _as_numbers(values: Any) -> Array:
    if kind_of_column(values) == "numbers":
        return numbers_of(values)
    return np.array([math.nan if (number := number_in(v)) is None else number for v in values.tolist()])


def _number_features(values: Array, name: str) -> Array:
    """A column of numbers, and where some are missing a mark for these."""
    if np.isinf(values).any():
        raise ArgumentError(f"column {name!r} contains infinity; leave such cells empty.")
    missing = np.isnan(values)
    filled = np.where(missing, np.median(values[~missing]) if (~missing).any() else 0.0, values)
    made = squashed(filled[:, None])
    return np.concatenate([made, _marks(missing)], axis=1) if missing.any() and not missing.all() else made


def _marks(here: Array) -> Array:
    share = here.mean()
    found: Array = ((here - share) / math.sqrt(max(share * (1 - share), 1e-12)))[:, None]
    return np.clip(found, -5.0, 5.0)  # a mark of one row in ten thousand must not outweigh all columns


def indicators(texts: Sequence[str]) -> Array:
    """One feature per category of the pool; two rows of different categories are as far apart as typical numbers.

    The mean squared distance of two rows is 2, as for a number of variance 1.

    >>> indicators(["a", "b", "a", "b"]).round(3).tolist()[:2]
    [[1.414, 0.0], [0.0, 1.414]]
    """
    names, codes, counts = np.unique(np.array(texts, dtype=object).astype(str), return_inverse=True, return_counts=True)
    if len(names) > _LEVELS:  # the rare ones are one category
        kept = np.sort(np.argsort(-counts, kind="stable")[: _LEVELS - 1])
        place = np.full(len(names), _LEVELS - 1)
        place[kept] = np.arange(_LEVELS - 1)
        codes = place[codes]
    made = np.eye(int(codes.max()) + 1)[codes]
    spread = 1 - float((made.mean(0) ** 2).sum())
    return made / math.sqrt(spread) if spread > 0 else np.zeros((len(texts), 1))


def squashed(values: Array) -> Array:
    """Columns around their medians in units of their robust deviation; beyond three of them they grow like a logarithm.

    >>> squashed(np.array([[0.0], [1.0], [2.0], [3.0], [1e9]])).ravel().round(1).tolist()
    [-1.3, -0.7, 0.0, 0.7, 60.7]
    """
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
    scale, plain = (high - low) / 1.349, values.std(0)
    scale = np.where(scale > 1e-9 * plain, scale, plain)
    z = (values - middle) / np.where(scale > 0, scale, 1.0)
    size = np.abs(z)
    grown: Array = np.sign(z) * np.where(size > _KNEE, _KNEE * (1 + np.log(np.maximum(size, _KNEE) / _KNEE)), size)
    return grown


def are_counts(values: Array) -> bool:
    """Whether wide rows are counts of what a sample has, such as words: never negative, and mostly zero."""
    return values.shape[1] > NARROW and float(values.min()) >= 0 and float((values == 0).mean()) >= ZEROS


def weighed(counts: Array) -> Array:
    """Counts of words as directions: log(1 + count), rare words more, long texts as much as short ones (tf-idf).

    A mean squared deviation of one column is about 1, as elsewhere.

    >>> weighed(np.array([[2.0, 0.0], [4.0, 0.0], [0.0, 1.0]])).round(2).tolist()
    [[1.41, 0.0], [1.41, 0.0], [0.0, 1.41]]
    """
    rare = 1 + np.log((1 + len(counts)) / (1 + (counts > 0).sum(0)))
    rows = np.log1p(counts) * rare
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    found: Array = rows * math.sqrt(counts.shape[1]) / np.where(lengths > 0, lengths, 1.0)
    return found


def _anonymous(features: Array) -> tuple[Array, tuple[str, ...], Array]:
    """Features without a name."""
    return squashed(features), (), np.zeros(features.shape[1], np.int64)


def _signal_features(domain: Domain) -> Array:
    """Mean, deviation, extremes and the logarithm of the spectrum in bands, of each channel."""
    x = domain.samples.batch(np.arange(len(domain))).double().numpy()
    bands = np.array_split(np.abs(np.fft.rfft(x - x.mean(-1, keepdims=True), axis=-1))[..., 1:], _SPECTRUM, axis=-1)
    spectrum = [np.log(band.mean(-1) + 1e-6) for band in bands if band.shape[-1]]
    return np.concatenate([x.mean(-1), x.std(-1), x.min(-1), x.max(-1), *spectrum], axis=1)


def _features_of_pictures(domains: list[Domain]) -> Array:
    """Of photographs those of a pretrained network, as `adapt` takes them; small pictures are their pixels."""
    small = max(map(largest_side, domains)) <= SMALL
    if small:
        first, second, _ = _prepared(domains, _PIXELS, None, "symmetric")
        return np.concatenate([d.samples.batch(np.arange(len(d))).flatten(1).double().numpy() for d in (first, second)])
    from jumbot.adaptation._networks.backbones import make_backbone
    from jumbot.adaptation._networks.features import Extractor

    backbone = make_backbone("efficientnet-lite0", "imagenet", freeze=True)
    extract = Extractor(backbone, "imagenet")
    first, second, _ = _prepared(domains, backbone.size, 3, backbone.pixels)
    rows = [extract(one) for one in (first, second)]
    return np.concatenate([d.samples.batch(np.arange(len(d))).double().numpy() for d in rows])


def _prepared(domains: list[Domain], size: int, channels: int | None, pixels: str) -> tuple[Domain, Domain, Any]:
    """`prepare` needs a labelled source; the labels do not affect the images."""
    any_label = np.arange(len(domains[0])) % 2
    source = Domain(domains[0].name, domains[0].samples, any_label, ("a", "b"), domains[0].ids)
    return prepare(source, Domain(domains[1].name, domains[1].samples), size, channels, pixels=pixels)
