"""`jumbot predict RUN DATA`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, TextIO, cast

from jumbot._base.options import Bounds
from jumbot._settings.reading import ReadingOptions
from jumbot.cli._arguments import Argument
from jumbot.cli._help import RunCommand
from jumbot.cli._parsing import parse
from jumbot.cli._run_options import reading
from jumbot.cli._terminal import Screen, say
from jumbot.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class Predict(ReadingOptions, RunCommand):
    """Predict the class of each sample with the model of a run."""

    examples: ClassVar = (
        ("write predictions.csv: id, label, confidence, received mass", "jumbot predict run new/"),
        ("write another file", "jumbot predict run new.csv --csv labels.csv"),
        ("predict image files", "jumbot predict run *.jpg"),
        ("with the classes that cannot be excluded at 90 %", "jumbot predict run new.csv --coverage 0.9"),
        ("pipe the predictions to another program", "jumbot predict run new.csv --csv - | head"),
    )
    matter: ClassVar = ("csv", "coverage")
    data: Annotated[tuple[str, ...], Argument("DATA ...")]
    """Samples, in any form that `jumbot adapt` takes, or several image files."""
    csv: Path = Path("predictions.csv")
    """File for id, label and confidence; an existing one is not overwritten. "-" is standard output."""
    coverage: Annotated[float, Bounds(above=0, below=1)] | None = None
    """Also write a set of classes for each sample, or an interval for each number. This share of them contains the
    true value, provided that labels shift only with the features."""


def main(arguments: Sequence[str]) -> int:
    wanted = parse(Predict, arguments)
    data = wanted.data[0] if len(wanted.data) == 1 else list(wanted.data)
    model = wanted.load()
    how = reading(wanted) | {"coverage": wanted.coverage}
    if wanted.coverage is not None:
        from jumbot.adaptation._evaluation.sets import promise_of

        model.check_guarantee()
        assert model.guarantee is not None
        say(promise_of(model.guarantee, wanted.coverage), sys.stderr)
    if wanted.csv == Path("-"):
        model.write_predictions(data, cast(TextIO, Screen()), **how)
        return 0
    if wanted.csv.exists():
        raise ArgumentError(f"{wanted.csv}: already exists; choose another name with --csv.")
    model.write_predictions(data, wanted.csv, **how)
    say(f"predictions: {wanted.csv}")
    return 0
