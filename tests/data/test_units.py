"""Columns in other units are named with the factor; drifts and shifts are not."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jumbot
from jumbot.data import as_domain, prepare
from jumbot.data._other_units import other_units
from jumbot.data._remarks import noting

SHIFTS = Path("../shared/data/shifts")


def _people(seed: int, n: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 12, n).clip(18).round(),
            "weight": rng.normal(75, 13, n),
            "glucose": rng.lognormal(1.7, 0.25, n),
            "income": rng.lognormal(10, 0.9, n),
            "balance": rng.normal(0, 300, n),
            "sex": rng.integers(0, 2, n),
            "visits": rng.poisson(2, n),
            "label": rng.integers(0, 2, n),
        }
    )


def _remarks(source: pd.DataFrame, target: pd.DataFrame) -> list[str]:
    with noting() as noted, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepare(as_domain(source, name="s"), as_domain(target.drop(columns="label"), name="t"))
    return noted


@pytest.mark.parametrize("factor", [2.2046, 1 / 2.2046, 0.62, 10, 12, 20, 100, 0.01, 1000])
@pytest.mark.parametrize("column", ["weight", "glucose", "age"])
def test_factors_of_units(column: str, factor: float) -> None:
    source, target = _people(0), _people(1)
    target[column] = target[column] * factor
    (remark,) = _remarks(source, target)
    many = max(factor, 1 / factor)
    where = "target as in the source" if factor > 1 else "source as in the target"
    assert remark.startswith(f"t: column '{column}' varies ")
    assert f" times as much in the {where}; are its units others than the source's? " in remark
    assert " Its median is " in remark
    assert float(remark.split("varies ")[1].split()[0]) == pytest.approx(many, rel=0.15)


@pytest.mark.parametrize(("column", "factor"), [("income", 10), ("income", 0.01), ("balance", 2.5), ("balance", 12)])
def test_wide_columns_and_those_of_both_signs(column: str, factor: float) -> None:
    target = _people(1)
    target[column] *= factor
    (remark,) = _remarks(_people(0), target)
    assert f"column '{column}' varies" in remark


def test_likely_units_are_named() -> None:
    target = _people(1).assign(weight=_people(1)["weight"] * 2.2046)
    assert "are its units others than the source's? 2.2046 is pounds for kilograms." in _remarks(_people(0), target)[0]


@pytest.mark.parametrize(("a", "b", "words"), [(1.8, 32, "Fahrenheit"), (1, 273.15, "kelvins")])
@pytest.mark.parametrize("swapped", [False, True])
def test_other_zeros(a: float, b: float, words: str, swapped: bool) -> None:
    rng = np.random.default_rng(0)
    here, there = rng.normal(37, 1.5, (80, 1)), a * rng.normal(37, 1.5, (90, 1)) + b
    (remark,) = other_units(there, here, ["1"]) if swapped else other_units(here, there, ["1"])
    assert words in remark


@pytest.mark.parametrize("n", [20, 60, 1000])
def test_two_samples_of_one_place_have_the_same_units(n: int) -> None:
    alarms = sum(len(_remarks(_people(seed, n), _people(seed + 100, n))) for seed in range(20))
    assert alarms <= 20 * 7 / 20


def test_all_columns_together() -> None:
    rows = np.random.default_rng(0).normal(5, 1, (100, 12))
    (remark,) = other_units(rows, 1000 * rows, [str(i) for i in range(12)])
    assert remark.startswith("nearly every column varies 1000 times as much in the target")
    assert other_units(rows, rows * np.linspace(0.5, 3, 12), [str(i) for i in range(12)]) == []  # they drift


def test_missing_numbers_and_huge_ones_play_no_part() -> None:
    rows = np.random.default_rng(0).normal(5, 1, (100, 2))
    holes = rows.copy()
    holes[:90, 0], holes[0, 1] = np.nan, 1e300
    assert other_units(rows, holes, ["a", "b"]) == []


@pytest.mark.skipif(not SHIFTS.is_dir(), reason="no real shifts beside the repository")
def test_real_shifts_are_no_units() -> None:
    """What docs/adaptation/data.md records: at most one column in twenty."""
    from benchmarks.units import count, cuts, tasks

    for found in (tasks(SHIFTS), cuts(SHIFTS)):
        counted = count(one for one in found if one[0] != "amazon")
        alarms, columns = (sum(pair[i] for pair in counted.values()) for i in (0, 1))
        assert columns > 400
        assert alarms <= columns / 20


def test_an_absent_class_is_no_unit() -> None:
    """The small ones are gone: every column has three times its median, as the proportions of the classes say."""
    rng = np.random.default_rng(0)
    sizes, labels = np.array([1.0, 1.1, 3.0]), np.arange(300) % 3
    rows = np.exp(0.5 * rng.normal(size=(300, 4))) * sizes[labels][:, None] * [1, 5, 20, 1]
    rows[:, 3] = rng.normal(10, 1, 300)
    target = np.exp(0.5 * rng.normal(size=(80, 4))) * 3.0 * [1, 5, 20, 1]
    target[:, 3] = rng.normal(10, 1, 80)
    names = ["a", "b", "c", "d"]
    assert len(other_units(rows, target, names)) >= 2, "without labels nothing tells"
    assert other_units(rows, target, names, labels) == []
    assert other_units(rows, target, names, sizes[labels] * 7) == [], "nor where labels are numbers"
    target[:, 3] *= 2.2046
    (remark,) = other_units(rows, target, names, labels)
    assert remark.startswith("column d varies 2.2 times")


def test_a_run_says_so_first_everywhere(tmp_path: Path) -> None:
    source, target = _people(0), _people(1)
    target = target.assign(
        weight=target["weight"] * 2.2046, age=target["age"].where(target.index % 100 == 0), kind="x", visits=-9
    )
    target["visits"] = np.where(target.index % 10 == 0, -9, _people(1)["visits"])
    source["kind"] = "y"
    with pytest.warns(jumbot.DataWarning):
        jumbot.adapt(
            source,
            target.drop(columns="label"),
            steps=20,
            tau=1e-4,
            out=tmp_path / "run",
            seed=0,
            source_steps=10,
            judge=False,
        )
    results = (tmp_path / "run" / "results.json").read_text()
    assert results.index("data_remarks") < 10
    page, card = ((tmp_path / "run" / name).read_text() for name in ("report.html", "README.md"))
    for what in ("weight", "age", "kind", "visits"):
        for text in (results, card):
            assert f"column '{what}'" in text, what
        assert f"column &#39;{what}&#39;" in page
    assert page.index("Check the data first") < page.index('class="answer')
    assert card.index("Check the data first") < card.index("## Data")
    for text in (results, card, page.partition('<div class="figure-row')[0], page.partition('id="warnings"')[2][:800]):
        assert "raise tau" not in text
    assert "fix the problems in the data" in results
