"""Draw cases until the time is up; each is a function of (seed, number) alone."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .families import FAMILIES
from .report import Report
from .watch import Fault, Refused, Watch

_EVERY = 30.0  # seconds between two words on how far it is


def run_case(seed: int, number: int, family: str | None = None) -> tuple[str, Report, Watch]:
    """(family, report, watch) of one case; no exception leaves it."""
    rng = np.random.default_rng([seed, number])
    names = list(FAMILIES)
    shares = np.array([FAMILIES[name][1] for name in names])
    drawn = str(rng.choice(names, p=shares / shares.sum()))
    name, watch, report = family or drawn, Watch(), Report()
    try:
        FAMILIES[name][0](rng, watch, report)
    except (Fault, Refused) as fault:
        report.faults.append(str(fault))
    except Exception as error:
        report.faults.append(f"the judges broke down: {type(error).__name__}: {error}")
    report.faults += watch.faults
    return name, report, watch


@dataclass
class Tally:
    """Counts of a campaign."""

    cases: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    converged: int = 0
    refused: int = 0
    calls: int = 0
    longest: tuple[float, int] = (0.0, -1)
    failures: list[str] = field(default_factory=list)

    def add(self, number: int, name: str, report: Report, watch: Watch) -> None:
        self.cases[name] += 1
        self.problems[name] += report.problems
        self.converged += report.converged
        self.refused += report.refused
        self.calls += watch.calls
        self.longest = max(self.longest, (watch.longest, number))

    def __str__(self) -> str:
        lines = [
            f"  {name:20} {self.cases[name]:7,} cases {self.problems[name]:9,} problems" for name in sorted(self.cases)
        ]
        total = sum(self.problems.values())
        lines.append(
            f"{sum(self.cases.values()):,} cases, {self.calls:,} calls, {total:,} problems judged, {self.converged:,} "
            f"of them converged, {self.refused:,} cases refused by name; the longest call took {self.longest[0]:.1f} s "
            f"(case {self.longest[1]}); {len(self.failures)} cases failed"
        )
        return "\n".join(lines)


def reproduction(seed: int, number: int, family: str | None = None) -> str:
    """A line for the shell that runs the case again."""
    python = os.path.relpath(sys.executable)
    python = sys.executable if python.startswith("..") else python
    return f"{python} -m tests.fuzz --seed {seed} --case {number}" + (
        f" --family {shlex.quote(family)}" if family else ""
    )


def campaign(
    seed: int,
    *,
    seconds: float | None = None,
    cases: int | None = None,
    first: int = 0,
    family: str | None = None,
    say: Callable[[str], None] = print,
) -> Tally:
    """Cases first, first + 1, ... until `seconds` are over or `cases` are done; a failure is said as it is found."""
    tally, start, number = Tally(), time.monotonic(), first
    reported = start
    while (seconds is None or time.monotonic() - start < seconds) and (cases is None or number < first + cases):
        name, report, watch = run_case(seed, number, family)
        tally.add(number, name, report, watch)
        if report.faults:
            line = reproduction(seed, number, family)
            tally.failures.append(line)
            say("\n".join([line, f"    # {report.label or name}", *(f"    # {fault}" for fault in report.faults[:5])]))
        number += 1
        if time.monotonic() > reported + _EVERY:
            reported = time.monotonic()
            say(f"{reported - start:.0f} s: {number - first} cases, {len(tally.failures)} failed")
    return tally
