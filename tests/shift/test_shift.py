"""`jumbot.shift` on data whose answer is known."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

import jumbot
from jumbot._shift import effect, found, permutations, pooled, whereabouts
from jumbot.data import as_domain
from jumbot.data._other_units import ASKED
from tests.refusals import refused

pandas = pytest.importorskip("pandas", reason="pandas is not installed")


def cloud(n: int, seed: int, d: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def pool_of(x, y, **more) -> pooled.Pool:
    given = {"groups": None, "blocks": None, "columns": "same"} | more
    return pooled.make_pool(as_domain(x, name="x"), as_domain(y, name="y"), **given, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def moved() -> jumbot.Shift:
    y = cloud(200, 1)
    y[:, 2] += 1.5
    return jumbot.shift(cloud(200, 0), y)


def test_a_moved_column_is_found(moved) -> None:
    assert moved.shifted
    assert moved.p_value == 1 / 400
    first = moved.columns[0]
    assert (first.name, first.p_value <= 0.01) == ("3", True)
    assert first.without > 0.8
    assert 0.7 < first.moved < 1.3  # 1.5, in deviations of the pool, less what is left rather than moved
    assert all(column.p_value > 0.05 for column in moved.columns[1:])
    assert moved.interval[0] <= moved.effect <= moved.interval[1]
    assert moved.distance_interval[0] > 1
    assert moved.next.startswith("Adapt")


def test_numbers_keep_all_their_digits() -> None:
    """Of seconds since 1970 float32 has only each 128th."""
    x, y = cloud(100, 0), cloud(100, 1) + np.array([0, 0, 2, 0])
    plain, far = jumbot.shift(x, y), jumbot.shift(x + 1.7e9, y + 1.7e9)
    assert far.shifted
    assert (far.p_value, far.columns[0].name) == (plain.p_value, plain.columns[0].name)


def test_nothing_to_do_where_nothing_has_shifted() -> None:
    same = jumbot.shift(cloud(200, 4), cloud(150, 5))
    assert same.p_value > 0.05
    assert same.effect < 0.1
    assert 0.7 < same.distance < 1.4
    assert same.next.startswith("Nothing to do")


def test_the_identical_call_is_the_same(moved) -> None:
    y = cloud(200, 1)
    y[:, 2] += 1.5
    assert jumbot.shift(cloud(200, 0), y) == moved


def test_foreign_samples_come_first_and_the_effect_is_their_share() -> None:
    y = cloud(400, 5)
    y[:60] = y[:60] * 0.3 + 7
    report = jumbot.shift(cloud(400, 4), y)
    assert {sample.row for sample in report.samples[:60]} == set(range(60))
    assert report.effect == pytest.approx(0.15, abs=0.05)
    assert report.interval[0] <= 0.15 <= report.interval[1]
    assert "have them labelled" in report.next
    assert [s.p_value for s in report.samples] == sorted(s.p_value for s in report.samples)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_interval_of_the_effect_covers(share: float) -> None:
    inside = 0
    for seed in range(12):
        rng = np.random.default_rng((seed, 9))
        x, y = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
        y[rng.random(200) < share] += 12
        pool = pool_of(x, y)
        result = effect.find_effect(pool.rows, pool.current, 6.0, rng)
        low, high = result.interval
        inside += low <= share <= high
    assert inside >= 9


def test_p_values_of_samples_are_uniform_without_a_shift() -> None:
    p = []
    for seed in range(40):
        pool = pool_of(cloud(60, seed), cloud(30, seed + 1000))
        p += [s.p_value for s in whereabouts.find_samples(pool, whereabouts.explain(pool, np.random.default_rng(seed)))]
    assert np.mean(np.array(p) <= 0.1) == pytest.approx(0.1, abs=0.035)


def labelled(n: int, shares, seed: int, offset: float = 0.0):
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=shares)
    return np.array([[0, 0], [3.5, 0], [0, 3.5]])[y] + rng.normal(size=(n, 2)) + offset, y


def test_proportions_cover_the_truth() -> None:
    inside = total = 0
    for seed in range(12):
        x, y = labelled(300, (0.5, 0.3, 0.2), seed)
        there, truth = labelled(300, (0.2, 0.3, 0.5), seed + 100)
        pool = pooled.make_pool(
            as_domain((x, y), name="x"), as_domain(there, name="y"), None, None, "same", np.random.default_rng(seed)
        )
        shares = whereabouts.find_proportions(
            pool, whereabouts.explain(pool, np.random.default_rng(seed)), np.random.default_rng(1)
        )
        for c, p in shares.items():
            assert p.value == pytest.approx(np.mean(truth == int(c)), abs=0.12)
            inside += p.low <= (0.2, 0.3, 0.5)[int(c)] <= p.high
            total += 1
        assert sum(p.value for p in shares.values()) == pytest.approx(1)
    assert inside >= 0.8 * total


def test_labels_features_or_both() -> None:
    reference = labelled(400, (0.5, 0.3, 0.2), 0)
    of_labels = jumbot.shift(reference, labelled(400, (0.2, 0.3, 0.5), 1)[0])
    assert of_labels.where == "labels"
    assert "proportions='estimated'" in of_labels.next
    assert jumbot.shift(reference, labelled(400, (0.5, 0.3, 0.2), 2, 0.8)[0]).where in ("features", "both")
    assert jumbot.shift(reference, labelled(400, (0.1, 0.2, 0.7), 3, 0.8)[0]).where == "both"


def test_tables_with_categories_and_gaps_are_level() -> None:
    """Rejections without a shift, of a test whose encoding sees both sets."""
    rejected = 0
    for trial in range(60):
        rng = np.random.default_rng((trial, 4))

        def table(n: int, rng=rng):
            return pandas.DataFrame(
                {
                    "colour": rng.choice(["red", "green", "blue", "rare"], n, p=[0.6, 0.3, 0.08, 0.02]),
                    "size": np.where(rng.random(n) < 0.15, np.nan, rng.gamma(2.0, size=n)),
                }
            )

        pool = pool_of(table(60), table(40))
        rejected += permutations.run_test(pool, rng, count=39).p_value <= 0.05
    assert rejected <= 9  # P(more | .05) < .01 %


def test_the_pool_does_not_know_which_set_is_which() -> None:
    rng = np.random.default_rng(0)

    def table(n: int, low: float):
        size = np.where(rng.random(n) < 0.2, np.nan, rng.gamma(2.0, size=n) + low)
        return pandas.DataFrame({"colour": rng.choice(["red", "blue", "rare"], n, p=[0.6, 0.38, 0.02]), "size": size})

    for x, y in ((table(60, 0.0), table(40, 1.0)), (cloud(60, 0), cloud(40, 1) ** 3), (cloud(60, 0, 300) > 1.5,) * 2):
        one, other = pool_of(x, y), pool_of(y, x)
        np.testing.assert_array_equal(one.rows, np.concatenate([other.rows[len(y) :], other.rows[: len(y)]]))


def test_missing_numbers_and_new_categories_are_a_shift() -> None:
    rng = np.random.default_rng(0)
    x, y = (
        pandas.DataFrame({"a": rng.normal(size=150), "b": rng.choice(["u", "v"], 150), "c": rng.normal(size=150)})
        for _ in range(2)
    )
    gaps = y.copy()
    gaps.loc[::3, "a"] = np.nan
    assert jumbot.shift(x, gaps).columns[0].name == "a"
    new = y.assign(b=np.where(rng.random(150) < 0.3, "w", y.b))
    found = jumbot.shift(x, new)
    assert (found.shifted, found.columns[0].name) == (True, "b")


def test_other_units_are_the_advice() -> None:
    rng = np.random.default_rng(0)
    x, y = (pandas.DataFrame({"kg": rng.normal(70, 10, 150), "age": rng.normal(40, 9, 150)}) for _ in range(2))
    found = jumbot.shift(x, y.assign(kg=y.kg * 2.2046))
    assert found.next.startswith("Check the units first")
    assert "'kg'" in found.next


def test_groups_make_dependent_rows_harmless() -> None:
    """Rows of 20 in a group are alike: by rows the test rejects too often, by groups it does not."""
    rows = groups = 0
    for trial in range(40):
        rng = np.random.default_rng((trial, 6))
        centres = np.repeat(rng.normal(size=(12, 2)), 10, axis=0) * 2
        x, y = np.split(centres + 0.3 * rng.normal(size=(120, 2)), 2)
        names = (np.arange(60) // 10, np.arange(60) // 10 + 6)
        rows += permutations.run_test(pool_of(x, y), rng, count=39).p_value <= 0.05
        groups += permutations.run_test(pool_of(x, y, groups=names), rng, count=39).p_value <= 0.05
    assert rows >= 25
    assert groups <= 7


def test_groups_as_a_column_and_blocks() -> None:
    frame = pandas.DataFrame(cloud(120, 0), columns=list("abcd")).assign(patient=np.arange(120) // 6)
    result = jumbot.shift(frame, frame.assign(a=frame.a + 2), groups="patient")
    assert result.p_value <= 0.01
    assert result.columns[0].name == "a"
    assert "patient" not in [column.name for column in result.columns]
    assert jumbot.shift(cloud(120, 0), cloud(120, 1) + 3, blocks=10).p_value <= 0.01


def test_a_large_set_is_subsampled_and_says_so(monkeypatch) -> None:
    monkeypatch.setattr(pooled, "MOST", 100)
    result = jumbot.shift(cloud(500, 0), cloud(300, 1) + 2)
    assert (result.sizes, result.looked_at) == ((500, 300), (100, 100))
    assert result.shifted


def test_signals_and_small_pictures() -> None:
    rng = np.random.default_rng(0)
    still, fast = rng.normal(size=(60, 2, 40)), rng.normal(size=(60, 2, 40)).cumsum(-1)
    result = jumbot.shift(still, fast, kind="signal")
    assert (result.shifted, result.columns) == (True, ())
    dark = rng.integers(0, 100, size=(50, 12, 12), dtype=np.uint8)
    assert jumbot.shift(dark, dark[::-1] // 2 + 120).shifted


@pytest.mark.parametrize(
    ("given", "argument", "pattern"),
    [
        ({"blocks": 0}, "blocks", "0"),
        ({"minutes": -1}, "minutes", "-1"),
        ({"seed": -1}, "seed", "-1"),
        ({"groups": "patient"}, "groups", "source"),
        ({"groups": ([0], [1])}, "groups", "one value per row"),
        ({"groups": (np.zeros(60), np.zeros(60)), "blocks": 2}, "groups", "left out"),
        ({"groups": (np.where(np.arange(60) == 7, np.nan, 1), np.zeros(60))}, "groups", "row 7"),
        ({"groups": (np.array([None, *"ab" * 29, "c"], object), np.zeros(60))}, "groups", "row 0"),
        ({"groups": (np.ma.masked_array(np.arange(60), np.arange(60) < 3), np.zeros(60))}, "groups", "masked"),
        ({"columns": "shard"}, "columns", "shared"),
        ({"colour": 1}, "colour", "Known"),
        ({"kind": "raw"}, "kind", "raw"),
    ],
)
def test_bad_options_are_refused_by_name(given, argument, pattern) -> None:
    with refused(pattern) as error:
        jumbot.shift(cloud(60, 0), cloud(60, 1), **given)
    assert error.value.argument == argument


def test_bad_data_are_refused_by_name() -> None:
    with refused("target"):
        jumbot.shift(cloud(60, 0), cloud(5, 1))
    with refused(r"\b3\b.*\b4\b"):
        jumbot.shift(cloud(60, 0), cloud(60, 1, 3))
    x = pandas.DataFrame({"a": np.arange(30.0), "b": 1.0})
    with refused("'b'"):
        jumbot.shift(x, x[["a"]])
    with refused("'a'.*'many'"):
        jumbot.shift(x, x.assign(a=["many", *map(str, range(29))]))
    with refused("groups"):
        jumbot.shift(x, x, groups="who")


def test_ctrl_c_keeps_the_exchanges_that_are_done(monkeypatch) -> None:
    calls = []

    def divergences(*arguments, real=permutations.minibatch_divergences):
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(permutations, "minibatch_divergences", divergences)
    result = jumbot.shift(cloud(60, 0), cloud(60, 1) + 2)
    assert (result.interrupted, result.exchanges) == (True, 79)
    assert result.p_value == pytest.approx(1 / 80)
    assert (result.effect, result.samples) == (None, ())
    with pytest.raises(KeyboardInterrupt):  # before there is anything
        jumbot.shift(cloud(60, 0), cloud(60, 1))


def test_a_budget_of_time_ends_the_test(monkeypatch) -> None:
    start = time.monotonic()
    ticks = iter(range(1000))
    monkeypatch.setattr(permutations.time, "monotonic", lambda: start + 20 * next(ticks))
    result = jumbot.shift(cloud(60, 0), cloud(60, 1) + 2, minutes=1)
    assert 19 <= result.exchanges < permutations.EXCHANGES
    assert not result.interrupted


def test_json_and_page(moved, tmp_path) -> None:
    saved = json.loads(moved.save(tmp_path / "shift.json").read_text())
    assert saved["p_value"] == moved.p_value
    assert saved["columns"][0]["name"] == "3"
    page = moved.report(tmp_path).read_text()
    for text in ("There is a shift.", "Which columns moved", "Unexplained rows", "Adapt:"):
        assert text in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert repr(moved).startswith("Shift(p_value=0.0025")


def test_advice_on_a_small_shift() -> None:
    tested = permutations.Tested(0.01, 399, {}, np.zeros(0), 1.0)
    small = effect.Effect(0.01, (0.0, 0.02), 1.1, (1.0, 1.2))
    assert "small" in found._advice(tested, small, (), (), None)
    assert "proportions" in found._advice(tested, small, (), (), "labels")
    further = effect.Effect(0.01, (0.0, 0.02), 1.6, (1.4, 1.8))
    assert found._advice(tested, further, (), (), None).startswith("Adapt")


def test_odd_rows_beside_a_shift_of_all_rows_are_not_the_advice() -> None:
    """Twenty foreign rows alone: look at them. With all other rows moved too: adapt."""
    x, y = cloud(400, 4), cloud(400, 5)
    y[:20] = y[:20] * 0.3 + 7
    assert "have them labelled" in jumbot.shift(x, y).next
    y[20:] += 0.6
    moved = jumbot.shift(x, y)
    assert moved.next.startswith("Adapt")
    assert {sample.row for sample in moved.samples[:20]} == set(range(20))


def test_a_column_called_units_is_no_reason_to_check_units() -> None:
    rng = np.random.default_rng(0)
    x = pandas.DataFrame({"units": rng.normal(size=150), "b": rng.normal(size=150)})
    y = pandas.DataFrame({"units": np.where(rng.random(150) < 0.8, np.nan, 0.5), "b": rng.normal(size=150)})
    report = jumbot.shift(x, y)
    assert any("'units' is missing in" in text for text in report.remarks)
    assert not any("replaced by the source's median" in text for text in report.remarks)  # as it does for a model
    assert report.next.startswith("Adapt")


def test_other_units_of_a_column_that_has_not_moved_are_not_the_advice() -> None:
    tested = permutations.Tested(0.01, 399, {}, np.array([0.5, 0.01]), 1.0)
    texts = [f"y: column {name} varies 2.2 times as much; {ASKED}" for name in ("'a'", "'b'")]
    assert found._units([*texts, "y: column 'c' is missing"], ("a", "b"), tested) == texts[1:]


def test_rows_that_are_all_the_same_have_not_shifted() -> None:
    """Only rounding differs, which is no chance."""
    for x, y in ((np.ones((40, 2)), np.ones((40, 2))), (np.zeros((60, 3)), np.zeros((45, 3)))):
        report = jumbot.shift(x, y)
        assert (report.p_value, report.distance, report.effect) == (1.0, 1.0, 0.0)
    other = jumbot.shift(np.ones((40, 2)), np.zeros((40, 2)))
    assert (other.shifted, other.effect) == (True, 1.0)
    assert other.distance < 1e4


def test_copies_of_rows_are_remarked_on() -> None:
    x, y = cloud(20, 0), cloud(80, 1)
    copied = jumbot.shift(np.repeat(x, 4, axis=0), y)
    assert len(copied.remarks) == 1
    assert "80 of 80 rows are copies" in copied.remarks[0]
    assert not jumbot.shift(
        np.repeat(x, 4, axis=0), y, groups=(np.repeat(np.arange(20), 4), np.arange(80) + 20)
    ).remarks
    assert not jumbot.shift(np.round(cloud(80, 0, 2)), np.round(y[:, :2])).remarks  # ties of few values


def texts(n: int, rates: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.poisson(rates * rng.gamma(3.0, size=(n, 1)) / 3).astype(float)


def test_counts_of_words_are_compared_by_direction() -> None:
    """Texts of nearly the same words are near however long they are; words that came up are found."""
    rates = np.random.default_rng(0).gamma(0.3, size=600) * 0.1
    assert pooled.are_counts(texts(50, rates, 1))
    assert not pooled.are_counts(texts(50, rates, 1) - 1)
    assert not pooled.are_counts(texts(50, rates, 1)[:, :200])
    other = rates.copy()
    other[:40] += 0.3
    base = texts(150, rates * 4, 1)
    pool = pool_of(base, 3 * base)
    near = np.linalg.norm(pool.rows[:150] - pool.rows[150:], axis=1)
    apart = np.linalg.norm(pool.rows[:150] - pool.rows[:150][::-1], axis=1)
    assert np.median(near) < 0.4 * np.median(apart)
    moved = jumbot.shift(base, texts(150, other * 4, 3))
    assert moved.shifted
    assert all(int(column.name) <= 40 for column in moved.columns[:10] if column.name != pooled.TOTAL)
    longer = jumbot.shift(base, texts(150, rates * 8, 4))
    assert (longer.shifted, longer.columns[0].name) == (True, pooled.TOTAL)
    frame = pandas.DataFrame(base).add_prefix("w")
    np.testing.assert_array_equal(pool_of(frame, 3 * frame).rows, pool.rows)
