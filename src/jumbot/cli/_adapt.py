"""`jumbot adapt SRC TGT --out RUN`."""

from __future__ import annotations

import shlex
import signal
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from jumbot._base.options import Positive
from jumbot._settings.places import CONFIG, check_run_place, first_process, needed_start, settings_file
from jumbot._settings.reading import Reading
from jumbot.adaptation._config import check_changes
from jumbot.cli._arguments import Argument, Option
from jumbot.cli._help import Command
from jumbot.cli._parsing import UsageError, parse_with, usage_errors
from jumbot.cli._run_options import METHOD, DataOptions, groups, reading
from jumbot.cli._terminal import say, summary
from jumbot.errors import NegativeTransferWarning, Stopped
from jumbot.methods import METHODS


@dataclass(frozen=True, kw_only=True)
class Adapt(DataOptions, Command):
    """Train a classifier on a labelled source and adapt it to a target whose labels training never sees."""

    examples: ClassVar = (
        ("two folders of photographs, a folder per class", "jumbot adapt shop/ phone/ --out run"),
        (
            "two tables; the column to predict is only in the first",
            "jumbot adapt 2023.csv 2024.csv --label sold --out run",
        ),
        ("continue an interrupted run", "jumbot adapt --resume --out run"),
    )
    matter: ClassVar = (
        "out",
        "label",
        "evaluate_on",
        "method",
        "recipe",
        "backbone",
        "steps",
        "seed",
        "resume",
        "config",
    )
    trains: ClassVar = True
    source: Annotated[str | None, Argument("[SRC]")] = None
    """Labelled data: a folder of images (class/name.jpg), a table (.csv, .parquet, .xlsx, .npz; "FILE:DOMAIN" takes one
    domain of it), or digits: usps, mnist, mnistm, svhn."""
    target: Annotated[str | None, Argument("[TGT]")] = None
    """Data to adapt to, labelled or not; its labels are used for evaluation only."""
    out: Path
    """Folder of the run; existing files are never overwritten."""
    method: Annotated[str | None, Option(METHOD)] = None
    """The adaptation method; by default the better of source-only and jumbot, or as in --config."""
    minutes: Positive | None = None
    """Time budget in minutes: training stops early enough to write the figures and files; parts for which there is no
    time, such as the report, are left out.
    """
    unknown: bool = False
    """Mark target samples whose class seems absent from the source in the column `unknown` of predictions.csv."""
    resume: bool = False
    """Resume the interrupted run in this folder; its data and settings need not be given again."""
    start_from: Path | None = None
    """A run with the same steps on the source: they are reused instead of repeated."""
    config: Path | None = None
    """The config.json of a run: its settings, except those given here, and its data if none are given."""


def main(arguments: Sequence[str]) -> int:
    wanted, changes = parse_with(
        Adapt,
        arguments,
        lambda given: groups([given.get("method") or "jumbot"], given.get("recipe")),
    )
    known = wanted.config is not None or wanted.resume
    for name, value in (("SRC", wanted.source), ("TGT", wanted.target)):
        if value is None and (wanted.source is not None or not known):
            raise UsageError(f"{name} is missing.")
    if wanted.source is not None and wanted.config is None:  # otherwise a file may provide it
        with usage_errors({"method", "recipe", *changes}, f"--method {wanted.method}" * (wanted.method in METHODS)):
            check_changes(wanted.method or "jumbot", wanted.recipe, changes, wanted.task)
    wanted.check_places()
    settings_file(wanted.config, wanted.out, wanted.resume, data=wanted.source is not None)
    needed_start(wanted.start_from, wanted.out, wanted.resume)
    if first_process():
        check_run_place(wanted.out, wanted.resume)
    from jumbot._base.distributed import group
    from jumbot.adaptation._adapt import adapt
    from jumbot.adaptation._training.accelerator import keep_freed_memory

    keep_freed_memory()
    given = {} if wanted.source is None else reading(wanted, Reading)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NegativeTransferWarning)  # the summary has it
            model = adapt(
                wanted.sources,
                wanted.target,
                labelled_target=wanted.labelled_target,
                method=wanted.method,
                recipe=wanted.recipe,
                evaluate_on=wanted.evaluate_on,
                out=wanted.out,
                resume=wanted.resume,
                start_from=wanted.start_from,
                config=wanted.config,
                minutes=wanted.minutes,
                unknown=wanted.unknown,
                show=True,
                command=shlex.join(["jumbot", "adapt", *arguments]),
                **given,
                **changes,
            )
    except KeyboardInterrupt as stop:
        begun = (wanted.out / CONFIG).exists()
        how = [str(stop)] * bool(str(stop)) + ["pass --resume to continue it" if begun else "nothing was begun"]
        raise Stopped("; ".join(how), getattr(stop, "signal", signal.SIGINT)) from stop
    if group()[0] == 0:
        say(summary(model, model._record))
        page = wanted.out / "report.html"
        say(f"predictions: {wanted.out / 'predictions.csv'}" + f"\nreport: {page}" * page.exists())
        return int(not page.exists() and wanted.minutes is None)
    return 0
