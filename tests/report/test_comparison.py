"""The table, ranks and tests against published values, brute force and scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from jumbot.report._comparison import compare, draw_comparison, format_table, rank
from tests.refusals import refused


@pytest.fixture
def accuracies(rng: np.random.Generator) -> dict[str, dict[str, list[float]]]:
    return {
        method: {f"task {t}": rng.uniform(0.5, 0.9, 3).tolist() for t in range(6)}
        for method in ("source-only", "jumbot", "deepjdot", "dann")
    }


def test_table_is_mean_and_sample_deviation(accuracies: dict[str, dict[str, list[float]]]) -> None:
    table = compare(accuracies)
    for i, method in enumerate(table.methods):
        for j, task in enumerate(table.tasks):
            cell = table.cells[i][j]
            assert cell is not None
            assert cell.spread is not None
            assert cell.mean == pytest.approx(np.mean(accuracies[method][task]))
            assert cell.spread == pytest.approx(np.std(accuracies[method][task], ddof=1))
            assert cell.best == (cell.mean == max(np.mean(accuracies[m][task]) for m in table.methods))
        mean = table.means[i]
        assert mean is not None
        # one table of 6 tasks a seed: mean and deviation of the three tables' means
        tables = np.mean([accuracies[method][task] for task in table.tasks], axis=0)
        assert (mean.mean, mean.spread) == pytest.approx((tables.mean(), tables.std(ddof=1)))


def test_missing_tasks_leave_no_mean() -> None:
    table = compare({"a": {"s": [0.5], "t": [0.6]}, "b": {"s": [0.7]}})
    assert table.cells[1][1] is None
    assert table.means[1] is None
    assert "–" in format_table({"a": {"s": [0.5], "t": [0.6]}, "b": {"s": [0.7]}})  # noqa: RUF001


def test_what_stands_aside_is_never_best() -> None:
    table = compare({"a": {"s": [0.5]}, "b": {"s": [0.6]}, "oracle": {"s": [0.9]}}, aside=["oracle"])
    assert [row[0].best for row in table.cells if row[0]] == [False, True, False]


def test_text_and_markdown() -> None:
    values = {"a|b": {"s": [0.5, 0.7], "t": [0.5]}, "c": {"s": [0.8], "t": [0.4]}}
    markdown = format_table(values).splitlines()
    assert len(markdown) == 4
    assert markdown[2].startswith(r"| a\|b ")
    assert "**80.0**" in markdown[3]
    assert "80.0 *" in format_table(values, style="text")
    with refused("style"):
        format_table(values, style="html")  # type: ignore[arg-type]


# Demsar (2006), table 5a: q for alpha = .05
@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_critical_difference_is_demsars(k: int, q: float, rng: np.random.Generator) -> None:
    tasks = 7
    found = rank({f"m{i}": {str(t): [rng.random()] for t in range(tasks)} for i in range(k)})
    assert found.critical_difference == pytest.approx(q * np.sqrt(k * (k + 1) / (6 * tasks)), rel=1e-3)


def test_ranks_wins_and_friedman(accuracies: dict[str, dict[str, list[float]]]) -> None:
    found = rank(accuracies)
    means = {m: [np.mean(values) for values in tasks.values()] for m, tasks in accuracies.items()}
    for i, method in enumerate(found.methods):
        ranks = [1 + sum(means[other][t] > means[method][t] for other in means) for t in range(6)]
        assert found.mean_ranks[i] == pytest.approx(np.mean(ranks))
    for (i, first), (j, second) in itertools.product(enumerate(found.methods), repeat=2):
        assert found.wins[i, j] == sum(a > b for a, b in zip(means[first], means[second], strict=True))
    assert (np.diff(found.mean_ranks) >= 0).all()
    assert found.p_value == pytest.approx(stats.friedmanchisquare(*means.values()).pvalue)


def test_ties_share_their_rank() -> None:
    found = rank({"a": {"s": [0.1 + 0.2]}, "b": {"s": [0.3]}, "c": {"s": [0.2]}})
    assert found.mean_ranks.tolist() == [1.5, 1.5, 3.0]
    assert found.wins[0, 1] == found.wins[1, 0] == 0


def test_methods_that_are_alike_everywhere() -> None:
    found = rank({name: {"s": [0.5], "t": [0.5], "u": [0.5]} for name in "abc"})
    assert found.p_value is None
    assert found.mean_ranks.tolist() == [2.0, 2.0, 2.0]


def test_ranks_use_tasks_of_all_methods() -> None:
    found = rank({"a": {"s": [0.5], "t": [0.1]}, "b": {"s": [0.4]}})
    assert found.tasks == ("s",)
    assert found.methods == ("a", "b")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "empty"),
        ({"a": {"s": []}}, "empty"),
        ({"a": {"s": [98.2]}}, "between 0 and 1"),
        ({"a": {"s": [0.5]}}, "two or more"),
        ({"a": {"s": [0.5]}, "b": {"t": [0.5]}}, "no task was run with every method"),
    ],
)
def test_errors(values: dict[str, dict[str, list[float]]], message: str) -> None:
    with refused(message):
        rank(values)


def test_picture(accuracies: dict[str, dict[str, list[float]]]) -> None:
    figure = draw_comparison(accuracies)
    above, below = figure.axes
    assert [text.get_text() for text in above.get_yticklabels()] == list(rank(accuracies).methods)
    assert "6 tasks" in above.get_xlabel()
    assert "6 tasks" in below.get_title(loc="left")
