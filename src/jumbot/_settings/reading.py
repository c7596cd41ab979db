"""How data are read: the options that Python and the commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from jumbot._base.options import Options, check
from jumbot.errors import ArgumentError, suggest_option

Corrupt = Literal["refuse", "skip"]
Kind = Literal["signal", "raw"]
TaskName = Literal["classification", "regression"]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(Options):
    """How data are read: the same in every command."""

    label: str | None = None
    """Column of the labels in a table; by default label, labels, y, target or class. The target may lack it. For
    several numbers, separate the columns by commas: "height,weight"."""
    id: str | None = None
    """Column that identifies the rows of a table; by default a column named id."""
    domain: str | None = None
    """Domain to use if the data (with two data sets, the source) contain several: a folder of class folders, or a value
    of the column `domain`; "all" makes each a separate source, "none" treats them as classes or as a feature."""
    domain_column: str | None = None
    """Column with the domain of each row of a table; by default domain or domains."""
    corrupt: Corrupt = "refuse"
    """What to do with image files that cannot be read."""
    root: str | None = None
    """Folder of the digits; by default JUMBOT_DATA."""


@dataclass(frozen=True, kw_only=True)
class Reading(ReadingOptions):
    """How data are read: the value of `reading=` in `jumbot.adapt` and `jumbot.tune`.

    Parameters
    ----------
    label : str, optional
        Column of the labels; several are separated by commas.
    id : str, optional
        Column of the row names.
    domain : str, optional
        The domain to use; "all" makes each a source, "none" treats them as classes or as a feature.
    domain_column : str, optional
        Column of the domains.
    corrupt : {"refuse", "skip"}, default "refuse"
        What to do with image files that cannot be read.
    root : str, optional
        Folder of the digits.
    drop : tuple of str
        Columns to leave out.
    task : {"classification", "regression"}, optional
        Whether labels are classes or numbers; by default classes, unless they have fractions.
    kind : {"signal", "raw"}, optional
        What arrays contain if not features or images.

    Raises
    ------
    jumbot.ArgumentError
        If a value is not of its kind.

    Examples
    --------
    >>> Reading(label="sold", drop=("notes",)).label
    'sold'
    """

    drop: tuple[str, ...] = ()
    """Columns of a table to leave out."""
    task: TaskName | None = None
    """Whether labels are classes or numbers to predict ("regression"); by default classes, unless they have
    fractions."""
    kind: Kind | None = None
    """What arrays contain if not rows of numbers or images: "signal", (n, channels, length), or "raw", tensors that are
    passed unchanged to your own backbone."""


def make_reading(
    *,
    label: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
    root: str | Path | None = None,
    **values: Any,
) -> Reading:
    """A `Reading` from what users pass: one column of labels or several, one to leave out or several, any path.

    >>> make_reading(drop="notes").drop, make_reading(label=["height", "weight"]).label
    (('notes',), 'height,weight')
    """
    if label is not None and not isinstance(label, str):
        names = check("label", label, tuple[str, ...])
        if odd := [name for name in names if "," in name]:
            raise ArgumentError(f"label: got {odd[0]!r}; names of several columns must not contain commas. Rename it.")
        label = ",".join(names)
    given = (drop,) if isinstance(drop, str) else drop
    path = str(root) if isinstance(root, Path) else root
    return Reading(label=label, drop=given, root=path, **values)  # type: ignore[arg-type]


def take_reading(
    reading: Reading | Mapping[str, Any] | None, options: dict[str, Any], task: TaskName | None = None
) -> dict[str, Any]:
    """The reading options of a call: those in `reading`, and keywords, which are removed from `options`.

    >>> options = {"drop": "notes", "steps": 9}
    >>> take_reading({"label": "sold"}, options), options
    ({'label': 'sold', 'drop': 'notes'}, {'steps': 9})
    >>> take_reading({"label": "sold"}, {"label": "price"})
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: label is given twice, in reading ('sold') and as a keyword ('price'); pass it once.
    """
    usual = {field.name: field.default for field in fields(Reading)}
    if isinstance(reading, Reading):
        found = {name: getattr(reading, name) for name in usual if getattr(reading, name) != usual[name]}
    elif isinstance(reading, Mapping | None):
        found = dict(reading or {})
    else:
        raise ArgumentError(f"reading must be a jumbot.data.Reading or a dict of its options, got {reading!r}.")
    for name in found:
        if name not in usual:
            raise ArgumentError(f"reading has no option {name!r}; {suggest_option(str(name), usual)}")
    keywords = {name: options.pop(name) for name in usual if name in options}
    if task is not None:
        keywords["task"] = task
    for name, value in keywords.items():
        if name in found and found[name] != value:
            raise ArgumentError(
                f"{name} is given twice, in reading ({found[name]!r}) and as a keyword ({value!r}); pass it once."
            )
    return found | keywords
