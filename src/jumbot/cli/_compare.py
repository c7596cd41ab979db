"""`jumbot compare SRC [TGT] --methods ...`."""

from __future__ import annotations

import math
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from jumbot._base.files import drawn, time_for_a_page, write_text
from jumbot._base.options import Count, Positive
from jumbot._base.progress import progress
from jumbot._settings.places import check_comparison_place
from jumbot._settings.reading import Reading
from jumbot.adaptation._config import check_changes
from jumbot.adaptation._variants import read_variant, share_changes
from jumbot.cli._arguments import Argument, Option
from jumbot.cli._help import Command
from jumbot.cli._parsing import UsageError, parse_with, usage_errors
from jumbot.cli._run_options import DataOptions, groups, reading
from jumbot.cli._terminal import say
from jumbot.methods import METHODS

if TYPE_CHECKING:
    from jumbot.adaptation._queue import Pair

THREE = ("source-only", "deepjdot", "jumbot")


@dataclass(frozen=True, kw_only=True)
class Compare(DataOptions, Command):
    """Train several methods and seeds on the same data and print a table; finished runs are reused."""

    examples: ClassVar = (
        ("three methods on two tables, three seeds each", "jumbot compare 2023.csv 2024.csv --label sold --seeds 3"),
        ("every pair of the domains in a folder, two at a time", "jumbot compare photos/ --jobs 2 --out comparison"),
        (
            "selected methods, one of them with another setting",
            "jumbot compare a.npz b.npz --methods jumbot jumbot:tau=0.1 mcc",
        ),
    )
    matter: ClassVar = (
        "out",
        "methods",
        "seeds",
        "jobs",
        "minutes",
        "label",
        "evaluate_on",
        "recipe",
        "backbone",
        "steps",
        "batch_size",
    )
    trains: ClassVar = True
    source: Annotated[str, Argument("SRC")]
    """Labelled data, as for `jumbot adapt`; without TGT, a table or a folder of several domains: every ordered pair is
    a task."""
    target: Annotated[str | None, Argument("[TGT]")] = None
    """Data to adapt to."""
    out: Path = Path("comparison")
    """Folder for the runs and the table."""
    methods: Annotated[tuple[str, ...], Option("METHOD ...", choices=tuple(METHODS))] = THREE
    """Methods to compare; `jumbot adapt --help` lists them. NAME:OPTION=VALUE,... adds a variant as a separate row,
    such as dann:reversal_steps=none."""
    seeds: Count = 1
    """Number of runs of each method, with seeds 0, 1, ..."""
    jobs: Count = 1
    """Number of runs at the same time, each on one thread."""
    minutes: Positive | None = None
    """Time budget in minutes: unfinished runs are left out and listed; run the same command to continue them."""
    reports: bool = True
    """Also write a report for each run (about six seconds each)."""


def main(arguments: Sequence[str]) -> int:
    wanted, changes = parse_with(
        Compare,
        arguments,
        lambda given: groups([read_variant(m).method for m in given.get("methods") or THREE], given.get("recipe")),
    )
    with usage_errors({"methods", "recipe", *changes}):
        for variant, own in share_changes(wanted.methods, wanted.recipe, changes):
            check_changes(variant.method, wanted.recipe, own, wanted.task)
    if wanted.target is None and (wanted.more_sources or wanted.labelled_target):
        raise UsageError(
            "--more-sources and --labelled-target need SRC and TGT; they cannot be used with all pairs of domains."
        )
    wanted.check_places()
    check_comparison_place(wanted.out)
    from jumbot.adaptation._grid import compare, folder_of
    from jumbot.adaptation._training.accelerator import keep_freed_memory

    keep_freed_memory()
    begun = time.monotonic()
    pairs = _pairs(wanted)
    record = compare(
        pairs,
        wanted.methods,
        wanted.out,
        seeds=wanted.seeds,
        jobs=wanted.jobs,
        show=True,
        recipe=wanted.recipe,
        reading=Reading(**reading(wanted, Reading)),
        command=shlex.join(["jumbot", "compare", *arguments]),
        minutes=wanted.minutes,
        **changes,
    )
    _say_what_is_missing(record)
    folders = [folder_of(wanted.out, row["task"], row["method"], row["seed"]) for row in record["runs"]]
    if wanted.reports:
        _write_reports(folders, begun, math.inf if wanted.minutes is None else 60 * wanted.minutes)
    page = _write_tables(wanted, record, pairs, folders)
    if page is not None:
        say(f"overview: {page}; {_about_reports(wanted, folders)}")
    return 1 if record["failed"] or page is None else 0


def _pairs(wanted: Compare) -> list[Pair]:
    from jumbot.adaptation._grid import all_pairs
    from jumbot.adaptation._queue import Pair

    if wanted.target is None:
        return all_pairs(wanted.source, wanted.domain_column)
    name = f"{Path(wanted.source).name}-{Path(wanted.target).name}".replace(":", "_")
    return [Pair(name, wanted.sources, wanted.target, wanted.evaluate_on, wanted.labelled_target)]


def _say_what_is_missing(record: dict[str, Any]) -> None:
    for folder, why in record["failed"].items():
        say(f"jumbot compare: {folder}: {why}", sys.stderr)
    if left := record["not_run"]:
        say(
            f"jumbot compare: the time budget ended before {len(left)} of {len(left) + len(record['runs'])} runs were "
            f"done: {', '.join(left)}; run the same command again to continue",
            sys.stderr,
        )


def _write_reports(folders: Sequence[Path], begun: float, seconds: float) -> None:
    """A report for every run that has none, as long as there is time."""
    from jumbot.report._adaptation import write_report

    with progress(len(folders), "reports", least=1, slow=True) as advance:
        for folder in folders:
            if not (folder / "report.html").exists() and time_for_a_page(begun, seconds):
                drawn(f"{folder}: the report", partial(write_report, [folder], folder))
            advance(1)


def _write_tables(
    wanted: Compare, record: dict[str, Any], pairs: Sequence[Pair], folders: Sequence[Path]
) -> Path | None:
    """Print and write the table, and the page of all runs, whose path is returned."""
    from jumbot.adaptation._grid import accuracies, evidence_of, numbers_table, rules_table
    from jumbot.report._adaptation import write_report
    from jumbot.report._comparison import draw_comparison, format_table
    from jumbot.report._top import format_evidence

    found, numbers = accuracies(record), numbers_table(record)
    page: Path | None = None
    with progress(None, "overview", slow=True):
        evidence = {} if found or numbers else evidence_of(record, pairs, wanted.out, reading(wanted, Reading))
        if folders:
            page = drawn(
                f"{wanted.out}: the overview", partial(write_report, folders, wanted.out, "Comparison", evidence)
            )
    if numbers:
        say(numbers, end="")
        write_text(wanted.out / "table.md", numbers)
    elif found:
        say(format_table(found, "text"))
        text = f"{format_table(found)}\n\nMean accuracy by the rule that chooses the model:\n\n{rules_table(record)}"
        write_text(wanted.out / "table.md", text)
        if len(found) > 1:
            draw_comparison(found).savefig(wanted.out / "comparison.png", dpi=150)
    elif evidence:
        say("no target labels were given: ranked by a label-free score (higher is better)")
        say(format_evidence(evidence))
        write_text(wanted.out / "table.md", f"```text\n{format_evidence(evidence)}\n```\n")
    return page


def _about_reports(wanted: Compare, folders: Sequence[Path]) -> str:
    if not wanted.reports:
        return "the runs have no reports of their own"
    if all((folder / "report.html").exists() for folder in folders):
        return "each run folder contains its own report.html"
    return "the time budget left no time for a report of every run"
