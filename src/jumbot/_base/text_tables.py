"""Tables as text: Markdown, or columns for a terminal; and a mean with its deviation."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]], words: int = 1, last: int = 0) -> str:
    """A table whose first columns, `words` of them, and the `last` ones are text, and the others numbers.

    >>> print(markdown(["method", "accuracy"], [["jumbot", 98.2]]), end="")
    | method | accuracy |
    | --- | ---: |
    | jumbot | 98.2 |
    """
    marks = ["---"] * words + ["---:"] * (len(head) - words - last) + ["---"] * last
    return "".join(f"{line_of(map(str, line))}\n" for line in (head, marks, *rows))


def line_of(cells: Iterable[str]) -> str:
    """One line of a table in Markdown."""
    return "| " + " | ".join(cells) + " |"


def aligned(lines: Sequence[Sequence[str]], right: bool = False) -> str:
    """Columns as wide as their longest text; the first on the left, the others there too or on the right.

    >>> print(aligned([["method", "evidence"], ["dann", "0.5"]], right=True))
    method  evidence
    dann         0.5
    """
    return "\n".join("  ".join(line).rstrip() for line in padded(lines, right))


def padded(lines: Sequence[Sequence[str]], right: bool = False) -> list[list[str]]:
    """The cells of `aligned`."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        [t.rjust(w) if right and place else t.ljust(w) for place, (t, w) in enumerate(zip(line, widths, strict=True))]
        for line in lines
    ]


def mean_and_deviation(values: Sequence[float], mean: str = ".1f", deviation: str = ".1f", factor: float = 100) -> str:
    """The mean, and the sample deviation where there are several; by default in per cent.

    >>> mean_and_deviation([0.9, 0.92]), mean_and_deviation([0.9]), mean_and_deviation([])
    ('91.0 ± 1.4', '90.0', '-')
    >>> mean_and_deviation([1.25, 1.5], ".4g", ".2g", 1)
    '1.375 ± 0.18'
    """
    if not values:
        return "-"
    centre, spread = moments(values)
    return with_deviation(factor * centre, None if spread is None else factor * spread, mean, deviation)


def moments(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and the sample deviation if there are several values.

    >>> moments([1.0, 3.0]), moments([1.0])
    ((2.0, 1.414213...), (1.0, None))
    """
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def with_deviation(value: float, spread: float | None, form: str = ".1f", of_spread: str = ".1f") -> str:
    """A mean and its deviation, None where there is none."""
    return f"{value:{form}}" + ("" if spread is None else f" ± {spread:{of_spread}}")
