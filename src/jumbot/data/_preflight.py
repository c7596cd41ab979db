"""All problems of two tables at once: each is found, put right by its remedy, and the next one looked for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from jumbot._settings.reading import Reading
from jumbot.data._frames import is_frame
from jumbot.data._labels import match_classes
from jumbot.data._pair import prepare
from jumbot.data._remarks import joined, one_error, problems_in
from jumbot.data._sources import Given, read_data
from jumbot.data._tablefiles import FORMATS, ending, tables_cached
from jumbot.errors import ArgumentError

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
        """The first that reading and preparing meet."""
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
        read, encoded = ({n: v for n, v in joined(old, {n: remedy[n] for n in old}).items()} for old in (how, what))
        return replace(self, reading=replace(self.reading, **read), encoding=replace(self.encoding, **encoded))


@contextmanager
def collecting_problems(given: Given, reading: Reading, encoding: Encoding) -> Iterator[None]:
    """Where this block meets a problem of tables, list all of them, and options that solve them."""
    try:
        yield
    except ArgumentError as error:
        found = _every_problem(error, Attempt(given, reading, encoding))
        if found is error:
            raise
        raise found from None


def _every_problem(met: ArgumentError, attempt: Attempt) -> ArgumentError:
    """The error to raise where `met` was met; itself for other data, and where reading tables meets nothing."""
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
