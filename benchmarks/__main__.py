"""``python -m benchmarks [--quick] [--only REGIME ...] [--out results/]``: the speed table of the README."""

from __future__ import annotations

import argparse
import datetime
import math
import pickle
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import everyday, machine, report
from benchmarks.regimes import REGIMES, Regime
from benchmarks.run import FULL, QUICK, Effort, Row, run_regime


def main(argv: list[str] | None = None) -> int:
    """Run the regimes, print a line each, write the record."""
    arguments = sys.argv[1:] if argv is None else argv
    names = [*(regime.name for regime in REGIMES), "everyday"]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Time jumbot against its peers.")
    parser.add_argument("--quick", action="store_true", help="about a minute: few problems, no tuned peers")
    parser.add_argument("--only", nargs="+", choices=names, metavar="REGIME", help=f"some of: {', '.join(names)}")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of bench.json, bench.md, bench.png")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="begin no row after so many; the same command continues"
    )
    parser.add_argument("--verbose", action="store_true", help="tell what calibration finds")
    options = parser.parse_args(arguments)

    effort = QUICK if options.quick else FULL
    about = machine.describe()
    print(f"{about['processor']}, {about['cores']} cores, {about['torch threads']} torch threads")
    print(", ".join(f"{name} {version}" for name, version in about["versions"].items()))
    begin, kept = time.perf_counter(), _Kept(options.out / "bench.unfinished", (arguments, about))
    verbose = print if options.verbose else lambda _: None
    for name, make in _rows(effort, options.quick, options.only, verbose):
        if kept.has(name):
            continue
        if time.perf_counter() - begin > 60 * options.minutes:
            print(f"{len(kept.found)} rows after {options.minutes:g} minutes; the same command continues")
            return 0
        kept.add(name, make())
    rows, common = kept.of(Row), kept.of(dict)
    for remark in sorted({remark for row in rows for remark in row.remarks}):
        print(remark)
    failed = sum(len(row.failures) for row in rows)
    print(f"{sum(row.certified for row in rows)} random problems, {failed} not certified")
    command = shlex.join(["python", "-m", "benchmarks", *arguments])
    report.write(rows, common, about, command, datetime.date.today().isoformat(), options.out)
    kept.forget()
    print(f"{options.out}/bench.json, bench.md, bench.png written after {time.perf_counter() - begin:.0f} s")
    return 0


def _rows(
    effort: Effort, quick: bool, only: list[str] | None, verbose: Callable[[str], None]
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name and maker of each row."""
    for regime in REGIMES:
        if (only and regime.name not in only) or regime.m > effort.largest:
            continue
        yield regime.name, partial(_regime, regime, effort, verbose)
    if not only or "everyday" in only:
        for number, make in enumerate(everyday.tasks(quick)):
            yield f"everyday {number}", partial(everyday.run, make, quick, partial(print, flush=True))


def _regime(regime: Regime, effort: Effort, verbose: Callable[[str], None]) -> Row:
    row = run_regime(regime, effort, verbose)
    print(summary(row), flush=True)
    return row


class _Kept:
    """Rows of a run that may end and be continued, in a file that goes when the record is written.

    Of another command, machine or version nothing is taken over.
    """

    def __init__(self, file: Path, key: object) -> None:
        self.file, self.key, self.found = file, key, {}
        if file.exists():
            key, found = pickle.loads(file.read_bytes())
            self.found: dict[str, Any] = found if key == self.key else {}

    def has(self, name: str) -> bool:
        return name in self.found

    def add(self, name: str, row: Any) -> None:
        self.found[name] = row
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(pickle.dumps((self.key, self.found)))

    def of(self, kind: type) -> list[Any]:
        return [row for row in self.found.values() if isinstance(row, kind)]

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)


def summary(row: Row) -> str:
    """One line a regime."""
    best, ratio = row.best(tuned=False), report.ratio_text(row)
    against = f"{best.name} {report.milliseconds(best)} ms" if best else "no peer reached the gap"
    extra = f", {row.ratio(tuned=True):.1f}x the best tuned" if row.accelerated else ""
    count = f", {row.certified - len(row.failures)} of {row.certified} certified" if row.certified else ""
    ours = "/".join(report.milliseconds(entry) for entry in row.ours)
    return f"{row.regime.name:22s} jumbot {ours} ms; {against}, {ratio} (floor {report.verdict(row)}){extra}{count}"


if __name__ == "__main__":
    raise SystemExit(main())
