"""The `jumbot` command: reads arguments, calls the package, prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import jumbot


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see '{self.prog} --help'\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0 done, 1 something is missing, 2 bad input."""
    parser = _Parser(prog="jumbot", description="Certified optimal transport: balanced, unbalanced, partial.")
    parser.add_argument("--version", action="version", version=f"jumbot {jumbot.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    demo = commands.add_parser(
        "demo",
        help="solve the two-cluster example, print a table, write a picture",
        description="Ten points against ten, in two clusters of unequal proportions: what exact OT is forced "
        "to do, and what a finite tau changes. Prints a table and writes two_clusters.png.",
    )
    demo.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="folder (default: demo)")
    options = parser.parse_args(arguments)
    return _demo(options.out)


def _demo(folder: Path) -> int:
    from rich.console import Console
    from rich.table import Table

    from jumbot.report.two_clusters import make_points, save_two_clusters, solve_two_clusters

    points = make_points()
    results = solve_two_clusters(points)
    table = Table(title="Two clusters: source 5 + 5 points, target 3 + 7 points, epsilon = 0")
    for column in ("problem", "tau", "mass", "value", "relative gap", "mass between clusters"):
        table.add_column(column, justify="left" if column == "problem" else "right")
    for result in results:
        table.add_row(
            result.problem,
            f"{result.tau:g}",
            f"{result.mass:.4f}",
            f"{result.value:.4f}",
            f"{result.relative_gap:.1e}",
            f"{result.mass_between:.4f}",
        )
    Console().print(table)

    picture = folder / "two_clusters.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_two_clusters(str(picture), points, results)
    except ImportError as error:
        print(f"jumbot demo: no picture written: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"jumbot demo: cannot write {picture}: {error.strerror or error}", file=sys.stderr)
        return 2
    print(f"picture: {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
