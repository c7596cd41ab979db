"""``python -m tests.fuzz``: run the campaign, or one case of it again."""

from __future__ import annotations

import argparse
import secrets
import sys

from .campaign import campaign, run_case
from .families import FAMILIES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, help="of all cases; drawn and printed if not given")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--cases", type=int, help="stop after so many, whatever the time")
    parser.add_argument("--case", type=int, help="run this case again, alone")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--family", choices=sorted(FAMILIES), help="draw from this one only")
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    if options.case is not None:
        name, report, watch = run_case(seed, options.case, options.family)
        print(f"seed {seed}, case {options.case} ({name}): {report.label}")
        print(f"{report.problems} problems, {report.converged} converged, longest call {watch.longest:.2f} s")
        print("\n".join(report.faults) or "nothing wrong")
        return bool(report.faults)
    print(f"fuzz: seed {seed}, {options.minutes:g} minutes", flush=True)
    tally = campaign(
        seed,
        seconds=60 * options.minutes,
        cases=options.cases,
        first=options.first,
        family=options.family,
        say=lambda text: print(text, flush=True),
    )
    print(tally)
    return bool(tally.failures)


if __name__ == "__main__":
    sys.exit(main())
