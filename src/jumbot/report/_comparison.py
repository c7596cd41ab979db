"""Methods over tasks: a table with mean and spread, mean ranks with their critical difference, wins and losses.

All take `{method: {task: [one accuracy per seed]}}`, accuracies as shares between 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jumbot._base.options import check_word
from jumbot._base.text_tables import aligned, line_of, moments, padded, with_deviation
from jumbot.errors import ArgumentError
from jumbot.report._style import BLUE, FAINT, INK, VERMILION, label_text, method_colours, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Accuracies = Mapping[str, Mapping[str, Sequence[float]]]
NONE = "\N{EN DASH}"
TIE = 1e-9
_LEVEL = 0.05  # of Nemenyi's test


@dataclass(frozen=True)
class Cell:
    """Mean and spread (sample standard deviation, None for one seed) of a method on a task."""

    mean: float
    spread: float | None
    seeds: int
    best: bool = False

    def __str__(self) -> str:
        return with_deviation(100 * self.mean, None if self.spread is None else 100 * self.spread)


@dataclass(frozen=True)
class Table:
    """`cells[i][j]` of method i on task j, None where it was not run; `means` over tasks, None where one is missing."""

    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    cells: tuple[tuple[Cell | None, ...], ...]
    means: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Ranking:
    """Ranks over the tasks that every method was run on, 1 = best, ties share the mean of their ranks.

    `p_value`: Friedman's test that all methods are alike. `critical_difference`: two mean ranks further apart than this
    differ by Nemenyi's test, q sqrt(k (k + 1) / (6 N)) for k methods on N tasks (Demsar, 2006).
    """

    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    mean_ranks: np.ndarray
    wins: np.ndarray
    p_value: float | None
    critical_difference: float | None


def compare(accuracies: Accuracies, aside: Collection[str] = ()) -> Table:
    """The table of means and spreads; the best mean of each task is marked, but never a method in `aside`.

    >>> table = compare({"a": {"t": [0.5, 0.7]}, "b": {"t": [0.8]}})
    >>> [str(row[0]) for row in table.cells], table.cells[1][0].best
    (['60.0 ± 14.1', '80.0'], True)
    """
    _check(accuracies)
    methods = tuple(accuracies)
    tasks = tuple(dict.fromkeys(task for values in accuracies.values() for task in values))
    rows = [[_cell(accuracies[method].get(task)) for task in tasks] for method in methods]
    means = [_mean_cell([accuracies[method].get(task) for task in tasks]) for method in methods]
    fair = [method not in aside for method in methods]
    columns = [_mark_best(column, fair) for column in [*zip(*rows, strict=True), means]]
    cells = tuple(zip(*columns[:-1], strict=True))
    return Table(methods, tasks, cells, tuple(columns[-1]))


def format_table(accuracies: Accuracies, style: Literal["markdown", "text"] = "markdown") -> str:
    """A table of accuracies in per cent, `mean ± spread` over seeds.

    The best of each column is bold (markdown) or starred (text).  A column says how many seeds a row has, where not all
    have one.

    Parameters
    ----------
    accuracies : dict
        `{method: {task: [one accuracy per seed]}}`.
    style : {"markdown", "text"}, default "markdown"
        How the table is written.

    Returns
    -------
    str
        The table.

    Raises
    ------
    jumbot.ArgumentError
        If there are no accuracies, or the style is unknown.

    Examples
    --------
    >>> print(format_table({"a": {"t": [0.5, 0.7]}, "b": {"t": [0.8]}}))
    | method | seeds | t           |
    | ---    | ---   | ---         |
    | a      | 2     | 60.0 ± 14.1 |
    | b      | 1     | **80.0**    |
    """
    check_word("style", style, ("markdown", "text"))
    table = compare(accuracies)
    several = len(table.tasks) > 1
    seeds = [sorted({cell.seeds for cell in row if cell is not None}) for row in table.cells]
    counted = any(counts != [1] for counts in seeds)
    lines = [["method", *(["seeds"] * counted), *table.tasks, *(["mean"] * several)]]
    for method, counts, row, mean in zip(table.methods, seeds, table.cells, table.means, strict=True):
        number = [f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])] * counted
        lines.append([method, *number, *(_format(cell, style) for cell in [*row, *([mean] * several)])])
    if style == "markdown":
        lines = [[text.replace("|", r"\|") for text in line] for line in lines]
        lines.insert(1, ["---"] * len(lines[0]))
        return "\n".join(map(line_of, padded(lines)))
    return aligned(lines)


def rank(accuracies: Accuracies) -> Ranking:
    """Mean ranks, wins and the two tests, methods in the order of their mean rank.

    >>> found = rank({"a": {"s": [0.1], "t": [0.2]}, "b": {"s": [0.3], "t": [0.4]}})
    >>> found.methods, found.mean_ranks.tolist()
    (('b', 'a'), [1.0, 2.0])
    """
    from scipy.stats import friedmanchisquare, rankdata, studentized_range

    _check(accuracies)
    if len(accuracies) < 2:
        raise ArgumentError(f"accuracies: one method, {next(iter(accuracies))!r}; ranks need two or more.")
    first = next(iter(accuracies.values()))
    tasks = tuple(task for task in first if all(values.get(task) for values in accuracies.values()))
    if not tasks:
        raise ArgumentError("accuracies: no task was run with every method; ranks compare methods on the same tasks.")
    means = np.array([[np.mean(values[task]) for task in tasks] for values in accuracies.values()])
    # Means that differ by rounding alone are ties.
    ranks = rankdata(-np.round(means / TIE), axis=0)
    order = np.argsort(ranks.mean(1), kind="stable")
    means, ranks = means[order], ranks[order]
    k, n = means.shape
    p_value = critical = None
    if n >= 2:
        critical = float(studentized_range.ppf(1 - _LEVEL, k, np.inf) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * n)))
        if k >= 3:
            p_value = None if (ranks == ranks[:1]).all() else float(friedmanchisquare(*(-ranks)).pvalue)
    return Ranking(
        methods=tuple(list(accuracies)[place] for place in order),
        tasks=tasks,
        mean_ranks=ranks.mean(1),
        wins=(means[:, None] > means[None] + TIE).sum(-1),
        p_value=p_value,
        critical_difference=critical,
    )


def draw_comparison(accuracies: Accuracies) -> Figure:
    """Draw the mean ranks of methods and, below, the wins of row over column.

    Parameters
    ----------
    accuracies : dict
        `{method: {task: [one accuracy per seed]}}`.

    Returns
    -------
    matplotlib.figure.Figure
        Above, the ranks and which of them Nemenyi's test distinguishes from the best; below, the wins.

    Raises
    ------
    jumbot.ArgumentError
        If there are too few methods or tasks to rank.
    """
    found = rank(accuracies)
    with styled():
        figure = new_figure(6.4, 1.2 + 0.62 * len(found.methods) + 1.5)
        heights = [1.1 + 0.22 * len(found.methods), 1 + 0.4 * len(found.methods)]
        above, below = figure.subfigures(2, 1, height_ratios=heights, squeeze=False)[:, 0]
        fill_ranks(above.subplots(), found)
        fill_wins(below.subplots(), found)
        return figure


def draw_ranks(found: Ranking, colours: Mapping[str, str] | None = None) -> Figure:
    """The mean ranks alone."""
    figure = new_figure(4.9, 0.9 + 0.3 * len(found.methods))
    fill_ranks(figure.subplots(), found, colours)
    return figure


def draw_wins(found: Ranking) -> Figure:
    """Wins and losses alone."""
    figure = new_figure(4.9, 1.3 + 0.36 * len(found.methods))
    fill_wins(figure.subplots(), found)
    return figure


def fill_ranks(axes: Axes, found: Ranking, colours: Mapping[str, str] | None = None) -> None:
    """One row per method at its mean rank; a grey bar reaches as far as the critical difference from the best."""
    count = len(found.methods)
    colours = colours or method_colours(found.methods)
    critical = found.critical_difference
    if critical is not None:
        best = float(found.mean_ranks[0])
        axes.axvspan(best, min(best + critical, count + 0.25), color=FAINT, alpha=0.6, linewidth=0, zorder=0)
        axes.annotate(
            "not distinguishable from the best",
            (best, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(2, 3),
            textcoords="offset points",
            fontsize=8.5,
        )
    for row, (method, value) in enumerate(zip(found.methods, found.mean_ranks, strict=True)):
        axes.plot([value], [row], marker="o", markersize=8, color=colours[method], clip_on=False, zorder=3)
        axes.annotate(
            f"{value:.2f}", (value, row), xytext=(8, 0), textcoords="offset points", va="center", fontsize=9.5
        )
    axes.set_yticks(range(count), [label_text(method, 28) for method in found.methods])
    axes.set_ylim(count - 0.4, -0.6)
    axes.set_xlim(0.75, count + 0.25)
    axes.set_xticks(range(1, count + 1))
    axes.set_xlabel(f"mean rank over {len(found.tasks)} task{'s' * (len(found.tasks) != 1)} (1 = best)")
    axes.grid(axis="y", visible=False)


def fill_wins(axes: Axes, found: Ranking) -> None:
    """Cell (row, column): on how many tasks the row's mean accuracy is above the column's."""
    from matplotlib.colors import LinearSegmentedColormap

    count, tasks = len(found.methods), len(found.tasks)
    margin: Any = (found.wins - found.wins.T) / tasks
    loses, wins = BLUE, VERMILION
    shades = LinearSegmentedColormap.from_list("margin", [loses + "cc", loses + "00", wins + "00", wins + "cc"])
    axes.imshow(margin, cmap=shades, vmin=-1, vmax=1, interpolation="none", aspect="auto")
    for i in range(count):
        for j in range(count):
            text = NONE if i == j else str(found.wins[i, j])
            axes.text(j, i, text, ha="center", va="center", fontsize=9.5)
    names = [label_text(method, 20) for method in found.methods]
    axes.set_xticks(range(count), names, rotation=0 if sum(map(len, names)) < 40 else 40, ha="center")
    if sum(map(len, names)) >= 40:
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    axes.set_yticks(range(count), names)
    axes.set_title(f"wins of row over column, of {tasks} task{'s' * (tasks != 1)}", loc="left", color=INK, fontsize=10)
    axes.grid(False)
    axes.spines[:].set_visible(False)


def _check(accuracies: Accuracies) -> None:
    if not accuracies or not any(values for tasks in accuracies.values() for values in tasks.values()):
        raise ArgumentError("accuracies: empty; pass {method: {task: [one accuracy per seed]}}.")
    for method, tasks in accuracies.items():
        for task, values in tasks.items():
            if not all(isinstance(value, int | float) and 0 <= value <= 1 for value in values):
                raise ArgumentError(
                    f"accuracies: {method!r} on {task!r} contains {list(values)}; give shares between 0 and 1."
                )


def _cell(values: Sequence[float] | None) -> Cell | None:
    if not values:
        return None
    return Cell(*moments(values), len(values))


def _mean_cell(rows: Sequence[Sequence[float] | None]) -> Cell | None:
    # The spread of the mean over tasks is over seeds; that needs the same number of seeds everywhere.
    if any(not row for row in rows):
        return None
    filled = [row for row in rows if row]
    if len({len(row) for row in filled}) == 1:
        return _cell([float(value) for value in np.mean(filled, axis=0)])
    return Cell(float(np.mean([np.mean(row) for row in filled])), None, min(map(len, filled)))


def _mark_best(column: Sequence[Cell | None], fair: Sequence[bool]) -> list[Cell | None]:
    known = [cell.mean for cell, counts in zip(column, fair, strict=True) if cell is not None and counts]
    if len(known) < 2:
        return list(column)
    top = max(known) - TIE
    return [cell and replace(cell, best=counts and cell.mean >= top) for cell, counts in zip(column, fair, strict=True)]


def _format(cell: Cell | None, style: str) -> str:
    if cell is None:
        return NONE
    if not cell.best:
        return str(cell)
    return f"**{cell}**" if style == "markdown" else f"{cell} *"
