"""Rows of numbers in one scale: units play no part, and no column is magnified that carries nothing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from jumbot.data import as_domain, prepare
from jumbot.data._domain import ArraySamples, Domain
from jumbot.data._scaling import Scaling, few_dominate, learn_scaling
from tests.refusals import refused


def learn(rows: np.ndarray, standardise: str = "auto") -> Scaling:
    found = learn_scaling(Domain("rows", ArraySamples(rows)), standardise)
    assert found is not None
    return found


def apply(rows: np.ndarray, found: Scaling) -> np.ndarray:
    std = np.ones(rows.shape[1]) if found.std is None else np.array(found.std)
    return found.scale * np.divide(rows - found.mean, std, out=np.zeros_like(rows), where=std > 0)


@pytest.fixture
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(300, 20)) * np.linspace(0.5, 2.0, 20) + rng.normal(size=20)


@pytest.mark.parametrize("standardise", ["auto", "source"])
@pytest.mark.parametrize("factor", [1e-6, 0.01, 7.0, 1e6])
def test_units_of_the_whole_play_no_part(rows: np.ndarray, standardise: str, factor: float) -> None:
    one, other = apply(rows, learn(rows, standardise)), apply(factor * rows, learn(factor * rows, standardise))
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_an_offset_plays_no_part(rows: np.ndarray) -> None:
    np.testing.assert_allclose(apply(rows, learn(rows)), apply(rows + 50, learn(rows + 50)), atol=1e-4)


def test_columns_keep_their_relation_unless_a_few_dominate(rows: np.ndarray) -> None:
    assert learn(rows).std is None
    rows[:, 3] *= 1e6
    found = learn(rows)
    assert found.std is not None
    np.testing.assert_allclose(apply(rows, found).std(0), found.scale, rtol=1e-5)


@pytest.mark.parametrize("columns", [1, 3, 64, 2048])
def test_total_deviation(columns: int) -> None:
    rows = np.random.default_rng(1).normal(size=(500, columns)) * 33
    total = np.sqrt(apply(rows, learn(rows)).var(0).sum())
    assert total == pytest.approx(10 * np.sqrt((columns + 256) / 2304), rel=1e-4)


@pytest.mark.parametrize("standardise", ["auto", "source"])
def test_what_is_constant_on_the_source_is_left_out(rows: np.ndarray, standardise: str) -> None:
    found = learn(rows, standardise)
    rows[:, 0] = 2023.0
    without = learn(rows, standardise)
    later = rows + np.array([1.0, *np.zeros(rows.shape[1] - 1)])
    assert (apply(later, without)[:, 0] == 0).all()
    np.testing.assert_allclose(
        apply(rows, without)[:, 1:] / without.scale, apply(rows, found)[:, 1:] / found.scale, rtol=1e-5, atol=1e-6
    )


def test_constant_and_rare_columns_are_not_magnified(rows: np.ndarray) -> None:
    rows[:, 0] = 3.0
    rows[:, 1] = 0.0
    rows[:2, 1] = 1.0  # two rows of 300 use it
    found = learn(rows, "source")
    scaled = apply(rows, found) / found.scale
    assert found.std is not None
    assert found.std[0] == 0.0
    assert (scaled[:, 0] == 0).all()
    assert 1 < np.abs(scaled[:, 1]).max() < 2.5  # by its own deviation it would be 12
    np.testing.assert_allclose(scaled[:, 2:].std(0), 1.0, rtol=1e-5)  # what is used by all comes to deviation 1


def test_heavy_tails_count_for_less_in_any_unit() -> None:
    rng = np.random.default_rng(3)
    rows = np.stack([rng.normal(size=5000), rng.uniform(size=5000), rng.standard_t(5, size=5000) ** 3], axis=1)
    found = [(x, learn(x, "source")) for x in (rows, rows * [1e9, 1e-9, 1e12])]
    deviations = [(apply(x, scaling) / scaling.scale).std(0) for x, scaling in found]
    np.testing.assert_allclose(deviations[0], deviations[1], rtol=1e-4)
    np.testing.assert_allclose(deviations[0][:2], 1.0, rtol=1e-4)
    assert deviations[0][2] < 0.5


def test_a_scaler_in_front_changes_nothing(rows: np.ndarray) -> None:
    rows[:, 0] = 3.0
    rows[:, 1:5] = np.random.default_rng(4).standard_t(3, size=(300, 4)) ** 3
    before = StandardScaler().fit_transform(rows)
    np.testing.assert_allclose(apply(before, learn(before)), apply(rows, learn(rows, "source")), rtol=1e-4, atol=1e-4)


def test_none_changes_nothing(rows: np.ndarray) -> None:
    assert learn_scaling(Domain("rows", ArraySamples(rows)), "none") is None


def test_unknown_word(rows: np.ndarray) -> None:
    with refused("standardise"):
        learn(rows, "yes")


def test_many_rows_are_read_in_parts() -> None:
    rows = np.random.default_rng(2).normal(size=(9000, 3)) * [1.0, 2.0, 3.0] + 5
    found = learn(rows, "source")
    assert found.std is not None
    np.testing.assert_allclose(found.mean, rows.mean(0), rtol=1e-4)
    np.testing.assert_allclose(found.std, rows.std(0), rtol=1e-4)


def test_few_dominate() -> None:
    assert not few_dominate(np.ones(1))
    assert not few_dominate(np.zeros(3))
    assert few_dominate(np.r_[np.ones(18), 100.0, 100.0])
    assert not few_dominate(np.r_[np.ones(200), 100.0])


@pytest.mark.parametrize(
    ("factor", "shift", "match"),
    [
        (1000, 0, "t: column 2 varies 1000 times as much in the target as in the source; does it use other units"),
        (0.001, 0, "t: column 2 varies 1000 times as much in the source as in the target; does it use other units"),
        (
            1,
            30,
            "t: column 2 has medians in the two domains that are 2[0-9] times as far apart as it varies",
        ),
    ],
)
def test_other_units_are_named_in_a_warning(rows: np.ndarray, factor: float, shift: float, match: str) -> None:
    source, other = as_domain((rows, np.arange(len(rows)) % 2)), rows.copy()
    other[:, 1] = factor * rows[:, 1] + shift * rows[:, 1].std()
    with pytest.warns(UserWarning, match=match):
        prepare(source, as_domain(other, name="t"))
    other = 3 * rows + 1
    other[:, 2] *= np.arange(len(rows)) % 9 == 0  # rarely used
    other[0, 3] = 1e6
    prepare(source, as_domain(other))
