"""`jumbot predict RUN DATA`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

from jumbot.cli.arguments import Argument
from jumbot.cli.command import Command
from jumbot.cli.parsing import parse
from jumbot.data.reading import ReadingOptions
from jumbot.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class Predict(ReadingOptions, Command):
    """Predict the class of each sample with the model of a run."""

    examples: ClassVar = (
        ("into predictions.csv: id, label, confidence", "jumbot predict run new/"),
        ("into a file of your own", "jumbot predict run new.csv --csv labels.csv"),
        ("to another program", "jumbot predict run new.csv --csv - | head"),
    )
    matter: ClassVar = ("csv",)
    run: Annotated[Path, Argument("RUN")]
    """Folder of a run, or of a saved model."""
    data: Annotated[str, Argument("DATA")]
    """Samples, in any form that `jumbot adapt` takes."""
    csv: Path = Path("predictions.csv")
    """File for id, label and confidence; an existing one is not overwritten. "-" is standard output."""


def main(arguments: Sequence[str]) -> int:
    wanted = parse(Predict, arguments, "jumbot predict")
    if not wanted.run.exists():
        raise ArgumentError(f"{wanted.run}: there is no such folder; RUN is that of a run, or of a saved model.")
    from jumbot.adaptation.model import load

    model = load(wanted.run)
    if wanted.csv == Path("-"):
        model.write_predictions(wanted.data, sys.stdout, **reading(wanted))
        return 0
    if wanted.csv.exists():
        raise ArgumentError(f"{wanted.csv}: exists already; give another name with --csv.")
    model.write_predictions(wanted.data, wanted.csv, **reading(wanted))
    print(f"predictions: {wanted.csv}")
    return 0


def reading(wanted: ReadingOptions, cls: type[ReadingOptions] = ReadingOptions) -> dict[str, Any]:
    """The options of reading alone, as the functions take them."""
    return {field.name: getattr(wanted, field.name) for field in fields(cls)}
