"""Two domains as input of one network: `prepare` finds the `InputFormat` of both.

If the two do not fit, all problems are reported at once: each is found, put right by its remedy, and the next one
looked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from jumbot._base.options import check_word
from jumbot._settings.reading import Reading
from jumbot.data._column_kinds import too_fine
from jumbot.data._domain import MOST_CHANNELS, ArraySamples, Domain, Samples
from jumbot.data._fitting import find_columns, warn_of_digits
from jumbot.data._frames import is_frame
from jumbot.data._inputs import (
    PHOTOGRAPH,
    PIXELS,
    PLURAL,
    SMALL,
    InputFormat,
    Transform,
    check_channels,
    holds_whole,
    image_facts,
    kind_of,
    largest_side,
    largest_size,
    scaled,
)
from jumbot.data._labels import check_source, match_classes
from jumbot.data._remarks import few_of_each, joined, one_error, problems_in
from jumbot.data._scaling import STANDARDISE
from jumbot.data._screening import screen, screen_source
from jumbot.data._sources import Given, read_data
from jumbot.data._tablefiles import FORMATS, ending, tables_cached
from jumbot.data._tables import TableSamples
from jumbot.errors import ArgumentError


def prepare(
    source: Domain,
    target: Domain,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    *,
    pixels: str = "symmetric",
    standardise: str = "auto",
    columns: str = "same",
    dates: Sequence[str] | None = None,
    text: Sequence[str] | None = None,
    transform: Transform | None = None,
) -> tuple[Domain, Domain, InputFormat]:
    """Both domains as input of one network, and the format that does the same to later data.

    A warning says if the numbers of a column differ between the domains as they do in other units.

    Parameters
    ----------
    source, target : Domain
        The domains.  Labels of the target are matched to the source's classes by name; others become -1.
    size : int or pair of int, optional
        Size of the images; by default the larger height and width of the two, 224 for photographs that differ.
    channels : int, optional
        Channels of the images; by default the larger number of the two.
    pixels : {"symmetric", "imagenet", "unit", "as-is"}, default "symmetric"
        How pixels are scaled.
    standardise : {"auto", "source", "none"}, default "auto"
        How features are scaled, learned on the source; signals channel by channel.
    columns : {"same", "shared"}, default "same"
        Columns of tables are matched by name and must be the same, in any order; "shared" uses those that both domains
        have.
    dates, text : sequence of str, optional
        Columns whose dates or free text become numbers; an empty list means all such columns.
    transform : callable, optional
        The crops of images, for training and for prediction.

    Returns
    -------
    tuple of Domain, Domain and InputFormat
        The prepared source and target, and the format.

    Raises
    ------
    jumbot.ArgumentError
        If a domain is empty, or the two hold different kinds of samples or columns.

    Examples
    --------
    >>> from jumbot.data._domain import ArraySamples
    >>> grey = Domain("usps", ArraySamples(np.zeros((2, 16, 16), np.uint8)), np.array([0, 1]), ("0", "1"))
    >>> colour = Domain("svhn", ArraySamples(np.full((2, 32, 32, 3), 255, np.uint8)))
    >>> a, b, format = prepare(grey, colour)
    >>> a.shape, float(a.samples.batch(np.array([0])).max()), float(b.samples.batch(np.array([0])).min())
    ((3, 32, 32), -1.0, 1.0)
    """
    for domain in (source, target):
        if not len(domain):
            raise ArgumentError(f"{domain.name}: contains no samples.")
    check_word("pixels", pixels, PIXELS)
    check_word("standardise", standardise, STANDARDISE)
    check_word("columns", columns, ("same", "shared"))
    source = check_source(source, target.roles.features if target.roles is not None else ())
    target = match_classes(target, source.classes)
    kinds = kind_of(source), kind_of(target)
    if kinds[0] != kinds[1]:
        raise ArgumentError(
            f"the source {source.name} contains {PLURAL[kinds[0]]} and the target {target.name} {PLURAL[kinds[1]]}; "
            "extract features of the images first, with the network that made the others."
        )
    if kinds[0] == "features":
        format = _feature_format(source, target, standardise, columns, dates, text)
        screen_source(source)
        screen(source, target)
    elif kinds[0] == "image":
        format = _image_format(source, target, size, channels, pixels)
    else:
        format = _tensor_format(source, kinds[0], standardise)
    return format.apply(source, transform), format.apply(target, transform), format


def _feature_format(
    source: Domain,
    target: Domain,
    standardise: str,
    columns: str,
    dates: Sequence[str] | None,
    text: Sequence[str] | None,
) -> InputFormat:
    tables = [d.samples.table if isinstance(d.samples, TableSamples) else None for d in (source, target)]
    if columns == "shared" and not all(table is not None and table.named for table in tables):
        raise ArgumentError("columns: got 'shared', but at least one of the domains has no column names.")
    for option, asked in (("dates", dates), ("text", text)):
        if asked is not None and tables[0] is None:
            raise ArgumentError(f"{option} must be left out if the source is not a table.")
    format = InputFormat("features", width=source.shape[0])
    if isinstance(source.samples, TableSamples):
        found = find_columns(
            source.samples.table, tables[1], (source.name, target.name), columns, dates=dates, text=text
        )
        if source.roles is not None:
            found = replace(found, label=source.roles.label, id=source.roles.id)
        format = replace(format, width=len(found.features), columns=found)
    elif isinstance(source.samples, ArraySamples) and not np.can_cast(source.samples.array.dtype, np.float32):
        with few_of_each(source.name):
            for column in np.flatnonzero(too_fine(source.samples.array)):
                warn_of_digits(source.name, str(column + 1), source.samples.array[:, column])
    return scaled(format, source.with_samples(format.numbers(source)), standardise)


def _tensor_format(source: Domain, kind: str, standardise: str) -> InputFormat:
    format = InputFormat(kind, sample=source.shape, whole=kind == "raw" and holds_whole(source))  # type: ignore[arg-type]
    if kind == "raw" and standardise == "source":
        raise ArgumentError("standardise: got 'source', but raw tensors are passed unchanged; scale them first.")
    if kind == "raw" or standardise == "none":
        return format
    mean = _mean_of_channels(source.samples, np.zeros(format.shape[0]), 1)
    std = np.sqrt(_mean_of_channels(source.samples, mean, 2))
    std[std <= 1e-7 * np.abs(mean)] = 0.0
    return replace(format, mean=tuple(mean.tolist()), std=tuple(std.tolist()))


def _mean_of_channels(samples: Samples, centre: np.ndarray, power: int) -> np.ndarray:
    """Mean over samples and time of (x - centre)^power, for each channel."""
    total = np.zeros_like(centre)
    for rows in np.array_split(np.arange(len(samples)), len(samples) // 4096 + 1):
        total += ((samples.batch(rows).double().numpy() - centre[:, None]) ** power).mean(2).sum(0)
    return total / len(samples)


def _image_format(
    source: Domain, target: Domain, size: int | tuple[int, int] | None, channels: int | None, pixels: str
) -> InputFormat:
    facts = [image_facts(domain) for domain in (source, target)]
    if channels is None:
        channels = 3 if pixels == "imagenet" else max(count for count, _ in facts)
    if channels not in range(1, MOST_CHANNELS + 1) or (pixels == "imagenet" and channels != 3):
        raise ArgumentError(
            f"channels: got {channels}; images have 1 to {MOST_CHANNELS}, and 3 with pixels='imagenet'."
        )
    for domain in (source, target):
        check_channels(domain, channels)
    if size is None:
        sizes = [known for _, known in facts if known is not None]
        if len(sizes) < 2 and max(map(largest_side, (source, target))) > SMALL:
            size = (PHOTOGRAPH, PHOTOGRAPH)
        else:
            both = [largest_size(domain) for domain in (source, target)]
            size = (max(s[0] for s in both), max(s[1] for s in both))
    elif isinstance(size, int):
        size = (size, size)
    if len(size) != 2 or min(size) < 1:
        raise ArgumentError(f"size: got {size}; pass one side or (height, width), in pixels.")
    return InputFormat("image", size=(int(size[0]), int(size[1])), channels=channels, pixels=pixels)  # type: ignore[arg-type]


_MOST = 50  # remedies tried one after another


@dataclass(frozen=True)
class Encoding:
    """What `prepare` is asked to do with columns."""

    columns: str = "same"
    dates: Sequence[str] | None = None
    text: Sequence[str] | None = None

    @classmethod
    def of(cls, inputs: Any) -> Encoding:
        """The part of the options of inputs."""
        return cls(inputs.columns, inputs.dates, inputs.text)


@dataclass(frozen=True)
class Attempt:
    """The data of a call and how they are read."""

    given: Given
    reading: Reading
    encoding: Encoding

    def problem(self) -> ArgumentError | None:
        """The first problem in reading and preparing the data."""
        try:
            read, how = read_data(self.given, self.reading), self.encoding
            source, _, form = prepare(read.source, read.target, columns=how.columns, dates=how.dates, text=how.text)
            for part in (read.evaluate_on, read.labelled_target):
                if part is not None:
                    form.apply(match_classes(part, source.classes))
        except ArgumentError as error:
            return error
        return None

    def repaired(self, remedy: dict[str, Any]) -> Attempt:
        """With the options of a remedy."""
        own = {field.name for field in fields(Reading)}
        how = {name: getattr(self.reading, name) for name in own & {*remedy}}
        what = {name: getattr(self.encoding, name) or () for name in {*remedy} - own}
        read, encoded = (joined(old, {name: remedy[name] for name in old}) for old in (how, what))
        return replace(self, reading=replace(self.reading, **read), encoding=replace(self.encoding, **encoded))


@contextmanager
def collecting_problems(given: Given, reading: Reading, encoding: Encoding) -> Iterator[None]:
    """If a problem with tables occurs in this block, list all problems, and the options that solve them."""
    try:
        yield
    except ArgumentError as error:
        found = _every_problem(error, Attempt(given, reading, encoding))
        if found is error:
            raise
        raise found from None


def _every_problem(met: ArgumentError, attempt: Attempt) -> ArgumentError:
    """The error to raise instead of `met`; `met` itself for other data, or if reading the tables finds no problem."""
    if not any(map(_is_table, _flat(attempt.given.source))):
        return met
    problems: list[str] = []
    remedy: dict[str, Any] = {}
    solved = False
    with tables_cached(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(_MOST):
            error = attempt.problem()
            if error is None:
                solved = True
                break
            problems = list(dict.fromkeys([*problems, *problems_in(error)]))
            more = dict(error.remedy)
            if "id" in more and attempt.reading.id is not None:
                more["drop"] = (*more.get("drop", ()), more.pop("id"))
            repaired = attempt.repaired(more)
            if (repaired.reading, repaired.encoding) == (attempt.reading, attempt.encoding):
                break
            attempt, remedy = repaired, joined(remedy, more)
    if not problems:
        return met
    name = problems[0].partition(":")[0]
    return one_error(name, problems, remedy, solved)


def _flat(source: Any) -> list[Any]:
    return source if isinstance(source, list) else [source]


def _is_table(data: Any) -> bool:
    data = data[0] if isinstance(data, tuple) and data else data
    if isinstance(data, str | Path):
        path = str(data) if Path(data).exists() else str(data).rpartition(":")[0] or str(data)
        return ending(path) in FORMATS
    return is_frame(data)
