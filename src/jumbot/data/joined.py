"""Several sources as one domain that knows where each sample comes from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jumbot.data._remarks import remark
from jumbot.data.column_kinds import few
from jumbot.data.domain import Domain, JoinedSamples, Samples
from jumbot.data.frames import Table, pandas
from jumbot.data.inputs import PLURAL, kind_of
from jumbot.data.labels import encode_labels, match_classes, shift_of
from jumbot.data.tables import TableSamples
from jumbot.errors import ArgumentError


def join_domains(parts: Sequence[Domain]) -> Domain:
    """One domain of several labelled ones; their classes are matched by name, and all of them are classes of it.

    >>> from jumbot.data import as_domain
    >>> cats, dogs = as_domain(([[0.0]], ["cat"]), name="a"), as_domain(([[1.0], [2.0]], ["dog", "cat"]), name="b")
    >>> both = join_domains([cats, dogs])
    >>> both.labels.tolist(), both.origins.tolist(), both.sources
    ([0, 1, 0], [0, 1, 1], ('a', 'b'))
    """
    if not parts:
        raise ArgumentError("source: an empty list came in; give at least one source.")
    if len(parts) == 1:
        return parts[0]
    for part in parts:
        if part.labels is None and part.values is None:
            raise ArgumentError(f"{part.name}: has no labels; each source needs them, e.g. as a pair (X, y).")
    kinds = {part.name: kind_of(part) for part in parts}
    if len(set(kinds.values())) > 1:
        raise ArgumentError(
            "source: " + ", ".join(f"{n} holds {PLURAL[k]}" for n, k in kinds.items()) + "; join alike."
        )
    names = tuple(_distinct([name for part in parts for name in part.sources or (part.name,)]))
    classes: tuple[str, ...] = ()
    if parts[0].labels is not None:
        classes = encode_labels([name for part in parts for name in part.classes])[1]
        _check_common(parts)
        parts = [match_classes(part, classes) for part in parts]
    ids = None
    if any(part.ids is not None for part in parts):
        ids = [str(i) for part in parts for i in (part.ids if part.ids is not None else range(len(part)))]
    return Domain(
        " + ".join(names),
        _joined(parts, kinds[parts[0].name]),
        None if parts[0].labels is None else np.concatenate([part.labels for part in parts if part.labels is not None]),
        classes,
        ids,
        parts[0].roles,
        _origins(parts),
        names,
        _values(parts),
        parts[0].label_dtype if len({part.label_dtype for part in parts}) == 1 else None,
    )


def _check_common(parts: Sequence[Domain]) -> None:
    """Warn of a source whose classes no other has, or has shifted by one: they may be the same under other names."""
    first = parts[0]
    for part in parts[1:]:
        if len(part.classes) == len(first.classes) > 1 and (how := shift_of(part.classes, first.classes)):
            remark(
                f"{part.name}: all of its classes {how} are those of {first.name}; count both from the same number if "
                "they are shifted.",
                stacklevel=4,
            )
    for part in parts:
        others = {name for other in parts if other is not part for name in other.classes}
        if not others & set(part.classes):
            remark(
                f"{part.name}: its classes ({few(part.classes, 4)}) are none of the other sources' "
                f"({few(sorted(others), 4)}); give the same ones the same names.",
                stacklevel=4,
            )
            return


def _origins(parts: Sequence[Domain]) -> np.ndarray:
    """Which source each sample is from; a part may be made of several."""
    found, first = [], 0
    for part in parts:
        found.append(first + (np.zeros(len(part), np.int64) if part.origins is None else part.origins))
        first += len(part.sources) or 1
    return np.concatenate(found)


def _values(parts: Sequence[Domain]) -> np.ndarray | None:
    found = [part.values for part in parts if part.values is not None]
    if len({values.shape[1] for values in found}) > 1:
        raise ArgumentError("source: the sources have different counts of numbers to predict; give the same of each.")
    return np.concatenate(found) if found else None


def _joined(parts: Sequence[Domain], kind: str) -> Samples:
    tables = [part.samples.table for part in parts if isinstance(part.samples, TableSamples)]
    if not tables:
        shapes = {part.name: part.shape for part in parts}
        if kind != "image" and len(set(shapes.values())) > 1:
            raise ArgumentError(
                "source: " + ", ".join(f"{n} has samples of shape {s}" for n, s in shapes.items()) + "."
            )
        return JoinedSamples([part.samples for part in parts], kind)
    if len(tables) < len(parts):
        raise ArgumentError("source: some sources are tables with names of columns, others arrays; give one kind.")
    first = tables[0].frame.columns.tolist()
    for part, table in zip(parts, tables, strict=True):
        if odd := set(first) ^ set(table.frame.columns.tolist()):
            raise ArgumentError(
                f"{part.name}: its columns differ from those of {parts[0].name} in {few(sorted(odd))}; leave out what "
                "not all sources have, with drop (--drop)."
            )
    frame = pandas().concat([table.frame[first] for table in tables], ignore_index=True)
    return TableSamples(Table(frame, named=tables[0].named))


def _distinct(names: Sequence[str]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name} {i + 1}" for i, name in enumerate(names)]
