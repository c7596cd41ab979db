"""``python -m benchmarks [--quick] [--only REGIME ...] [--out results/]``: the speed table of the README."""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
import time
from pathlib import Path

from benchmarks import everyday, machine, report
from benchmarks.regimes import REGIMES
from benchmarks.run import FULL, QUICK, Row, run_regime


def main(argv: list[str] | None = None) -> int:
    """Run the regimes, print a line each, write the record."""
    arguments = sys.argv[1:] if argv is None else argv
    names = [*(regime.name for regime in REGIMES), "everyday"]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Time jumbot beside its peers.")
    parser.add_argument("--quick", action="store_true", help="about a minute: few problems, no tuned peers")
    parser.add_argument("--only", nargs="+", choices=names, metavar="REGIME", help=f"some of: {', '.join(names)}")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of bench.json, bench.md, bench.png")
    parser.add_argument("--verbose", action="store_true", help="tell what calibration finds")
    options = parser.parse_args(arguments)

    effort = QUICK if options.quick else FULL
    about = machine.describe()
    print(f"{about['processor']}, {about['cores']} cores, {about['torch threads']} torch threads")
    print(", ".join(f"{name} {version}" for name, version in about["versions"].items()))
    rows: list[Row] = []
    begin = time.perf_counter()
    for regime in REGIMES:
        if (options.only and regime.name not in options.only) or regime.m > effort.largest:
            continue
        start = time.perf_counter()
        rows.append(run_regime(regime, effort, print if options.verbose else lambda _: None))
        print(summary(rows[-1]), flush=True)
        if options.verbose:
            print(f"    {time.perf_counter() - start:.0f} s")
    common = everyday.run(options.quick, print) if not options.only or "everyday" in options.only else []
    for remark in sorted({remark for row in rows for remark in row.remarks}):
        print(remark)
    failed = sum(len(row.failures) for row in rows)
    print(f"{sum(row.certified for row in rows)} random problems, {failed} not certified")
    command = shlex.join(["python", "-m", "benchmarks", *arguments])
    report.write(rows, common, about, command, datetime.date.today().isoformat(), options.out)
    print(f"{options.out}/bench.json, bench.md, bench.png written after {time.perf_counter() - begin:.0f} s")
    return 0


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
