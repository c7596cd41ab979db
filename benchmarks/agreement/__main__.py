"""``python -m benchmarks.agreement``: writes docs/agreement/agreement.md."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

from benchmarks.agreement import compare, divergence
from benchmarks.agreement.page import page
from benchmarks.agreement.problems import problems
from benchmarks.agreement.solvers import SOLVERS


def main() -> int:
    """Solve, compare, write the page, and print what it found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreement", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/agreement/agreement.md"))
    options = parser.parse_args()
    absent = [name for name in SOLVERS if name not in compare.installed()]
    results = [(problem, compare.compare(problem)) for problem in problems()]
    text = page(results, divergence.compare(), absent, datetime.date.today().isoformat())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text)
    marked = sum(bool(row.remark) for _, rows in results for row in rows)
    answers = sum(len(rows) for _, rows in results)
    print(f"{options.out}: {len(results)} problems, {answers} answers, {marked} of them off")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
