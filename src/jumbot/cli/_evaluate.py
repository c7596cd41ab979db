"""`jumbot evaluate RUN DATA`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from jumbot._settings.reading import ReadingOptions
from jumbot.cli._arguments import Argument
from jumbot.cli._help import RunCommand
from jumbot.cli._parsing import parse
from jumbot.cli._run_options import reading
from jumbot.cli._terminal import rule_line, say


@dataclass(frozen=True, kw_only=True)
class Evaluate(ReadingOptions, RunCommand):
    """Evaluate the model of a run on labelled data: accuracy, accuracy per class, confusion matrix."""

    examples: ClassVar = (
        ("on a folder with a folder per class", "jumbot evaluate run labelled/"),
        ("on a table, with the column of its labels", "jumbot evaluate run labelled.csv --label sold"),
        ("as JSON, for another program", "jumbot evaluate run labelled.csv --json"),
    )
    matter: ClassVar = ("label", "json")
    data: Annotated[str, Argument("DATA")]
    """Labelled samples."""
    json: bool = False
    """Print JSON instead of text."""


def main(arguments: Sequence[str]) -> int:
    wanted = parse(Evaluate, arguments)
    model = wanted.load()
    found = model.evaluate(wanted.data, **reading(wanted))
    if wanted.json:
        say(json.dumps(found.to_json() | {"rule": model.results.get("rule"), "oracle": model.results.get("oracle")}))
    else:
        say(found)
        say(rule_line(model.results))
    return 0
