"""`jumbot tune SRC TGT --out DIR`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from jumbot._base.options import Count, Positive, Seed
from jumbot._settings.places import check_tuning_place
from jumbot._settings.reading import Reading
from jumbot.adaptation._variants import Candidates, check_shared
from jumbot.cli._arguments import Argument
from jumbot.cli._help import Command
from jumbot.cli._parsing import parse_with, usage_errors
from jumbot.cli._run_options import DataOptions, groups, reading
from jumbot.cli._terminal import say


@dataclass(frozen=True, kw_only=True)
class Tune(DataOptions, Command):
    """Try fifteen candidates (eight for regression), including no adaptation, and pick one without target labels."""

    examples: ClassVar = (
        ("all fifteen candidates, one per core at a time", "jumbot tune shop/ phone/ --out tuned"),
        ("what fits into half an hour", "jumbot tune 2023.csv 2024.csv --label sold --minutes 30 --out tuned"),
        ("predict new samples with the chosen model", "jumbot predict tuned new.csv"),
    )
    matter: ClassVar = (
        "out",
        "minutes",
        "runs",
        "jobs",
        "label",
        "evaluate_on",
        "recipe",
        "backbone",
        "steps",
        "seed",
    )
    trains: ClassVar = True
    chooses: ClassVar = True
    source: Annotated[str, Argument("SRC")]
    """Labelled data, as for `jumbot adapt`."""
    target: Annotated[str, Argument("TGT")]
    """Data to adapt to, labelled or not; its labels only add a column to the table."""
    out: Path
    """Folder for the runs, the table and the page; run the same command to resume, and pass the folder to `jumbot
    predict` to use the chosen model."""
    minutes: Positive | None = None
    """Time budget in minutes: source-only and the recipe's JUMBOT come first, others follow while there is time."""
    runs: Candidates | None = None
    """Maximum number of candidates; by default all."""
    jobs: Count | None = None
    """Number of runs at the same time, each on one thread; by default one per core."""
    seed: Seed = 0
    """Random seed."""
    whole: bool = False
    """Train every candidate to the end; by default the worse half is stopped at a third of the steps."""


def main(arguments: Sequence[str]) -> int:
    wanted, changes = parse_with(Tune, arguments, lambda given: groups(["jumbot"], given.get("recipe"))[1:])
    with usage_errors({"recipe", *changes}):
        check_shared(wanted.recipe, changes, wanted.task)
    wanted.check_places()
    check_tuning_place(wanted.out)
    from jumbot.adaptation._training.accelerator import keep_freed_memory
    from jumbot.adaptation._tune import tune
    from jumbot.report._tuning import text_table

    keep_freed_memory()
    best = tune(
        wanted.sources,
        wanted.target,
        labelled_target=wanted.labelled_target,
        out=wanted.out,
        minutes=wanted.minutes,
        runs=wanted.runs,
        jobs=wanted.jobs,
        seed=wanted.seed,
        recipe=wanted.recipe,
        evaluate_on=wanted.evaluate_on,
        stop_early=not wanted.whole,
        show=True,
        command=shlex.join(["jumbot", "tune", *arguments]),
        **reading(wanted, Reading),
        **changes,
    )
    say(text_table(best.table.to_dict("records")))
    say(best)
    say(f"model, predictions, report: {best.model.run}\nevery candidate: {wanted.out / 'tune.html'}")
    return 0
