"""Labels of any kind as whole numbers and their names."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from jumbot.data._column_kinds import few, number_in
from jumbot.data._domain import Domain, Label
from jumbot.data._remarks import remark
from jumbot.errors import ArgumentError


def encode_labels(values: Any, name: str = "labels") -> tuple[np.ndarray, tuple[str, ...]]:
    """`(labels, classes)`: position of each value in the sorted names; -1 where a value is missing (None, NaN, "").

    Names that are numbers come first, in the order of the numbers; then the others, as text. -1 is an ordinary class;
    leave missing labels empty. Times are named in the same way whatever their unit.

    >>> encode_labels(["dog", "cat", "dog", None])
    (array([ 1,  0,  1, -1]), ('cat', 'dog'))
    >>> encode_labels([10, 9, 9.0])[1]
    ('9', '10')
    >>> encode_labels(np.array(["2020-01-01", "2020-01-01T12", "NaT"], "M8[ns]"))
    (array([ 0,  1, -1]), ('2020-01-01', '2020-01-01T12:00:00'))
    """
    array = np.asarray(values)
    if isinstance(values, list | tuple) and array.dtype.kind == "U" and array.ndim == 1:
        array = np.array(values, dtype=object)  # numpy has written numbers and NaN beside texts as texts
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ArgumentError(f"{name}: labels of shape {array.shape}; pass one per sample.")
    if array.dtype.kind in "fiu":
        named, missing = _from_numbers(array, name)
    elif array.dtype.kind in "mM":
        named, missing = np.array([_time_name(v) for v in array], dtype=object), np.isnat(array)
    else:
        named = np.array(["" if _missing(v) else _class_name(v, name) for v in array.tolist()], dtype=object)
        missing = named == ""
    present = sorted({*named[~missing].tolist()}, key=class_order)
    index = {text: i for i, text in enumerate(present)}
    return np.array([index.get(text, -1) for text in named], dtype=np.int64), tuple(present)


def _from_numbers(array: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    missing = np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), bool)
    distinct, inverse = np.unique(np.where(missing, array.dtype.type(0), array), return_inverse=True)
    texts = np.array([_class_name(v, name) for v in distinct.tolist()], dtype=object)
    return np.where(missing, "", texts[inverse]) if len(texts) else array.astype(object), missing


def _time_name(value: np.datetime64 | np.timedelta64) -> str:
    """As short as it can be: a day without its hours, a time without zeros after the comma."""
    if np.isnat(value):
        return ""
    if isinstance(value, np.timedelta64):
        return str(value)
    units = ("D", "s", "ms", "us", "ns")
    return str(next((short for unit in units if (short := value.astype(f"M8[{unit}]")) == value), value))


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value) or str(value).strip() == ""


def _class_name(value: Any, name: str) -> str:
    if isinstance(value, float) and not value.is_integer():
        raise ArgumentError(f"{name}: got {value!r}; labels are names or whole numbers.")
    if isinstance(value, Mapping | Set | list | tuple | np.ndarray):
        raise ArgumentError(f"{name}: got {value!r}; labels are names or whole numbers, one per sample.")
    try:
        return plain_text(value)
    except UnicodeDecodeError:
        raise ArgumentError(f"{name}: got {value!r}, which is not UTF-8; pass labels as text.") from None


def plain_text(value: Any) -> str:
    """The text by which values are compared: 3, 3.0 and "3" are the same.

    >>> plain_text(3.0), plain_text(" red "), plain_text(b"red")
    ('3', 'red', 'red')
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return value.decode() if isinstance(value, bytes) else str(value).strip()


def as_given(labels: Any) -> tuple[str | None, dict[str, Label]]:
    """The numpy type that predictions shall have, and the labels of classes whose name does not say what was given:
    of times, how many units they are from the first.

    None where labels are missing, or are no texts, numbers and truth values: then names are all that is known of them.

    >>> as_given(np.array(["1", "2"])), as_given(np.array([1.0, 2.0])), as_given([1, None])
    (('<U1', {}), ('<f8', {}), (None, {}))
    >>> as_given(np.array([" <=50K", " >50K"])), as_given(np.array([7, "a"], dtype=object))
    (('<U6', {'<=50K': ' <=50K', '>50K': ' >50K'}), ('|O', {'7': 7, 'a': 'a'}))
    >>> as_given(np.array(["1970-01-03"], "M8[D]"))
    ('<M8[D]', {'1970-01-03': 2})
    """
    array = np.asarray(labels)
    if array.dtype.kind in "biufS":
        return array.dtype.str, {}
    if array.dtype.kind in "mM":
        present = np.unique(array[~np.isnat(array)])
        return array.dtype.str, {_time_name(time): int(time.astype(np.int64)) for time in present}
    if array.dtype.kind not in "UOT":
        return None, {}
    each = (label.item() if isinstance(label, np.generic) else label for label in array.ravel().tolist())
    distinct = list({(type(label), str(label)): label for label in each}.values())
    if array.dtype.kind == "O" and all(isinstance(label, bytes) for label in distinct):
        return "|S0", {}
    if not all(isinstance(label, str | int | float) and not _missing(label) for label in distinct):
        return None, {}
    own = {plain_text(label): label for label in distinct}
    if array.dtype.kind == "O":
        return "|O", own
    dtype = array.dtype.str if array.dtype.kind == "U" else "<U0"
    return dtype, {name: label for name, label in own.items() if name != label}


def joined_dtype(dtypes: Sequence[str | None]) -> str | None:
    """That of the labels of several sources; None where they are of different kinds.

    >>> joined_dtype(["<U1", "<U2"]), joined_dtype(["|i1", "<f8"]), joined_dtype(["<i8", "<U1"])
    ('<U2', '<f8', None)
    >>> joined_dtype(["<M8[D]", "<M8[D]"]), joined_dtype(["<M8[D]", "<M8[s]"])
    ('<M8[D]', None)
    """
    known = [np.dtype(one) for one in dtypes if one is not None]
    kinds = {one.kind for one in known}
    if kinds & {*"mM"} and len(set(known)) > 1:  # `as_given` counts in units
        return None
    if len(known) < len(dtypes) or not (len(kinds) == 1 or kinds <= {*"iuf"} or kinds <= {*"UO"}):
        return None
    return np.result_type(*known).str


def class_order(name: str) -> tuple[int, int, str]:
    """By which classes are sorted: numbers first."""
    try:
        return (0, int(name), name)
    except ValueError:
        return (1, 0, name)


def match_classes(domain: Domain, classes: Sequence[str]) -> Domain:
    """Match the labels of a domain to other classes by name.

    Parameters
    ----------
    domain : Domain
        The domain to relabel.
    classes : sequence of str
        Names of the classes, those of a source.

    Returns
    -------
    Domain
        The same samples, with labels as positions in `classes`; -1 for a class that is not among them, with a warning.
        Labels that have no name in common with `classes` are dropped, with a warning.

    Examples
    --------
    >>> from jumbot.data._domain import ArraySamples
    >>> target = Domain("target", ArraySamples(np.zeros((2, 1))), np.array([0, -1]), ("dog",))
    >>> match_classes(target, ("cat", "dog")).labels
    array([ 1, -1])
    """
    classes = tuple(classes)
    if domain.labels is None or domain.classes == classes:
        return replace(domain, classes=classes)
    position = {name: i for i, name in enumerate(classes)}
    strange = [name for name, n in zip(domain.classes, domain.counts(), strict=True) if n and name not in position]
    spelt: dict[str, list[str]] = {}
    for c in classes if strange else ():
        spelt.setdefault(_spelt(c), []).append(c)
    same = [f"{name!r} for {c!r}" for name in strange for c in spelt.get(_spelt(name), ())]
    meant = f" Rename {few(same)} if they are the same." if same else _shifted(domain, classes) if strange else ""
    if not any(name in position for name in domain.classes):
        remark(
            f"{domain.name}: its labels ({few(domain.classes, 4)}) have no name in common with the source's "
            f"({few(classes, 4)}); it is treated as unlabelled.{meant}",
            stacklevel=3,
        )
        return replace(domain, labels=None, classes=classes)
    table = np.array([*(position.get(name, -1) for name in domain.classes), -1], dtype=np.int64)
    labels = table[domain.labels]
    if strange:
        lost = int(((labels < 0) & domain.known).sum())
        remark(
            f"{domain.name}: {lost} samples have labels that the source lacks ({few(strange, 4)}); accuracies leave "
            f"them out.{meant}",
            stacklevel=3,
        )
    return replace(domain, labels=labels, classes=classes)


def shift_of(names: Sequence[str], classes: Sequence[str]) -> str | None:
    """ "minus 1" or "plus 1" if that turns all names into classes, as if one side counts from 0 and the other from 1.

    >>> shift_of(["1", "2", "3"], ["0", "1", "2"]), shift_of(["1", "7"], ["0", "1", "2"])
    ('minus 1', None)
    """
    if not all(name.isdecimal() for name in (*names, *classes)):
        return None
    known = {int(name) for name in classes}
    steps = {"minus 1": -1, "plus 1": 1}
    return next((how for how, step in steps.items() if {int(name) + step for name in names} <= known), None)


def _shifted(domain: Domain, classes: Sequence[str]) -> str:
    """A sentence on labels that seem to be counted from 1 where the source's are from 0, or the other way round."""
    how = shift_of([name for name, n in zip(domain.classes, domain.counts(), strict=True) if n], classes)
    if how is None:
        return ""
    return (
        f" All of its labels {how} are labels of the source. If one side counts from 0 and the other from 1, "
        f"renumber one of them, or every accuracy is wrong."
    )


def _spelt(name: str) -> str:
    """A name without capitals, spaces, underscores, invisible characters and the way that accents are encoded, to
    compare names; "1" and "01" are the same number, "-1" and "1" are not.

    >>> _spelt("Red mug") == _spelt("red_mug"), _spelt("1e2") == _spelt("0100"), _spelt("-1") == _spelt("1")
    (True, True, False)
    >>> _spelt("caf\N{LATIN SMALL LETTER E WITH ACUTE}") == _spelt("cafe\N{COMBINING ACUTE ACCENT}")
    True
    """
    seen = "".join(sign for sign in unicodedata.normalize("NFKC", name) if unicodedata.category(sign) != "Cf")
    squeezed = re.sub(r"[\s_]+", "", seen).casefold()
    value = number_in(name)
    return squeezed if value is None or not math.isfinite(value) else repr(value + 0.0)


def check_source(domain: Domain, target_columns: Sequence[str] = ()) -> Domain:
    """`domain` if it can be a source: every row is labelled, and there are at least two classes. Empty classes are left
    out.

    A class with a single sample is allowed: the stratified sampler repeats it. A warning names classes that differ only
    in spelling. `target_columns` are the columns of the target: one that it lacks may be the labels.
    """
    if domain.labels is None and domain.values is None:
        if domain.roles is not None and domain.roles.features:
            own = [column for column in domain.roles.features if column not in target_columns] if target_columns else []
            perhaps = f" {own[0]!r} is the only one that the target lacks." if len(own) == 1 else ""
            raise ArgumentError(
                f"{domain.name}: the source has no labels; name their column with label (--label). There are "
                f"{few(domain.roles.features, 12)}.{perhaps}",
                remedy={"label": own[0]} if perhaps else {},
            )
        raise ArgumentError(
            f"{domain.name}: the source has no labels; pass a folder with one subfolder per class, a table with a "
            "column of labels, or a pair (X, y)."
        )
    missing = np.flatnonzero(~domain.known)
    if missing.size:
        which = domain.ids[missing[0]] if domain.ids is not None else f"row {missing[0]}"
        raise ArgumentError(
            f"{domain.name}: {missing.size} of {len(domain)} source samples have no label, the first is {which}; "
            "label them or leave them out."
        )
    if domain.values is not None:
        return domain
    present = np.flatnonzero(domain.counts())
    if len(present) < 2:
        only = domain.classes[present[0]] if len(present) else "none"
        raise ArgumentError(
            f"{domain.name}: the source has only one class ({only}); a classifier needs two. If the classes are "
            "folders further down, pass the folder that contains them."
        )
    if len(present) < len(domain.classes):
        domain = match_classes(domain, [domain.classes[i] for i in present])
    first: dict[str, str] = {}
    for name in domain.classes:
        if (other := first.setdefault(_spelt(name), name)) != name:
            remark(
                f"{domain.name}: {other!r} and {name!r} are two classes; rename one if they are the same.",
                stacklevel=3,
            )
    return domain
