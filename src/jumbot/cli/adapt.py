"""`jumbot adapt SRC TGT --out RUN`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from jumbot.adaptation.config import check_changes
from jumbot.cli.arguments import Argument, Option
from jumbot.cli.parsing import parse_with, usage_errors
from jumbot.cli.predict import reading
from jumbot.cli.run_options import METHOD, RECIPE, every_option, groups
from jumbot.data.reading import Reading


@dataclass(frozen=True, kw_only=True)
class Adapt(Reading):
    """Train a classifier on a labelled source and adapt it to a target whose labels training never sees."""

    source: Annotated[str, Argument("SRC")]
    """Labelled data: a folder of images (class/name.jpg), a table (.csv, .parquet, .xlsx, .npz; "FILE:DOMAIN" takes one
    domain of it), or digits: usps, mnist, mnistm, svhn."""
    target: Annotated[str, Argument("TGT")]
    """Data to adapt to, labelled or not; its labels serve for evaluation alone."""
    out: Path
    """Folder of the run; nothing that is there is overwritten."""
    method: Annotated[str, Option(METHOD)] = "jumbot"
    """How to adapt."""
    recipe: Annotated[str | None, Option(RECIPE)] = None
    """Settings that fit a kind of data; by default it follows the data."""
    evaluate_on: Annotated[str | None, Option(aliases=("--labelled",))] = None
    """Another, labelled part of the target, to evaluate on."""
    resume: bool = False
    """Go on with the run that was stopped in this folder."""


def main(arguments: Sequence[str]) -> int:
    wanted, changes = parse_with(
        Adapt, arguments, "jumbot adapt", every_option(),
        lambda given: groups([given.get("method", "jumbot")], given.get("recipe")),
    )  # fmt: skip
    with usage_errors({"method", "recipe", *changes}):
        check_changes(wanted.method, wanted.recipe, changes)
    from jumbot.adaptation.adapt import adapt
    from jumbot.adaptation.training.memory import keep_freed_memory
    from jumbot.cli.summary import summary
    from jumbot.minibatch.distributed import group

    keep_freed_memory()
    model = adapt(
        wanted.source, wanted.target, method=wanted.method, recipe=wanted.recipe, evaluate_on=wanted.evaluate_on,
        out=wanted.out, resume=wanted.resume, show=True, command=shlex.join(["jumbot", "adapt", *arguments]),
        **reading(wanted, Reading), **changes,
    )  # fmt: skip
    if group()[0] == 0:
        print(summary(model))
        print(f"predictions: {wanted.out / 'predictions.csv'}\nreport: {wanted.out / 'report.html'}")
    return 0
