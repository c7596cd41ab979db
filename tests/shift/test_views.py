"""Every statistic of the test against its definition, written down another way."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import anderson_ksamp, energy_distance, gamma

import jumbot
from jumbot._shift import permutations, views
from jumbot._shift.permutations import exchange
from tests.refusals import refused

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(30, 3)), RNG.normal(size=(20, 3)) + 0.5
ROWS, CURRENT = np.concatenate([X, Y]), np.repeat([False, True], [30, 20])[:, None]


def test_the_blurred_limit_of_the_divergence() -> None:
    """S at large epsilon against the quadratic form, for both kinds of cost."""
    squared = views.squared_distances(ROWS)
    np.testing.assert_allclose(squared, cdist(ROWS, ROWS, "sqeuclidean"), atol=1e-4)
    kernel, energy = views.blurred_distances(squared, views.signed_weights(CURRENT), (1.0,), 2.0)

    def cost(width: float | None):
        def ground(u, v):
            d = (u[..., :, None, :] - v[..., None, :, :]).square().sum(-1)
            return (d + 1e-12).sqrt() if width is None else 1 - (-d / width).exp()

        return ground

    # <C, (alpha - beta) x (alpha - beta)> = -(alpha - beta)' K (alpha - beta), of which S tends to minus a half
    for found, width in ((kernel, 2.0), (energy, None)):
        far = jumbot.sinkhorn_divergence(X, Y, cost=cost(width), epsilon=1e4, tol=1e-13)
        assert float(found[0]) / 2 == pytest.approx(float(far), rel=2e-3)


def test_energy_of_one_column_is_that_of_scipy() -> None:
    *_, found = views.blurred_distances(views.squared_distances(ROWS[:, :1]), views.signed_weights(CURRENT), (), 1.0)
    assert float(found[0]) == pytest.approx(energy_distance(X[:, 0], Y[:, 0]) ** 2, rel=1e-4)


def test_columns_by_the_integral() -> None:
    """The sum over steps of the distribution functions, and ties that do not depend on the order of rows."""
    values = np.round(ROWS * 2)
    found = views.column_distances(values, views.signed_weights(CURRENT))[:, 0]
    for place in range(3):
        x, y, pool = values[:30, place], values[30:, place], values[:, place]
        steps = np.unique(pool)[:-1]
        expected, before = 0.0, 0.0
        heights = np.append([(pool <= s).mean() for s in steps], 1.0)
        for k, s in enumerate(steps):
            wide = (heights[k + 1] - before) / 2
            expected += ((x <= s).mean() - (y <= s).mean()) ** 2 / (heights[k] * (1 - heights[k])) * wide
            before = heights[k]
        assert found[place] == pytest.approx(expected, rel=1e-5)
    again = views.column_distances(values[::-1], views.signed_weights(CURRENT[::-1]))[:, 0]
    np.testing.assert_allclose(found, again, rtol=1e-5)


def test_columns_rank_exchanges_as_anderson_and_darling_do() -> None:
    current = exchange(CURRENT[:, 0], np.arange(50), 40, np.random.default_rng(1))
    ours = views.column_distances(ROWS[:, :1], views.signed_weights(current))[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of p-values beyond its table
        theirs = [anderson_ksamp([ROWS[~c, 0], ROWS[c, 0]], variant="midrank").statistic for c in current.T]
    assert np.corrcoef(ours, theirs)[0, 1] > 0.999


def test_minibatches_are_those_of_the_divergence() -> None:
    """With sets no larger than a minibatch the mean is the divergence of the sets."""
    (found,) = views.minibatch_divergences(ROWS[10:], CURRENT[10:], 2.0, ((0.1, 0.5),), np.random.default_rng(0))
    expected = jumbot.sinkhorn_divergence(X[10:], Y, epsilon=0.2, tau=1.0)
    assert float(found[0]) == pytest.approx(float(expected), rel=1e-3)


def test_means_are_those_of_hotelling() -> None:
    current = exchange(CURRENT[:, 0], np.arange(50), 40, np.random.default_rng(1))
    ours = views.mean_distances(views.whitened(views.principal_directions(ROWS)), views.signed_weights(current))
    spread = np.linalg.inv(np.cov(ROWS.T, bias=True))
    apart = [ROWS[c].mean(0) - ROWS[~c].mean(0) for c in current.T]
    np.testing.assert_allclose(ours, [a @ spread @ a for a in apart], rtol=1e-4)
    twice = np.concatenate([ROWS, ROWS], axis=1)  # a direction in which nothing varies counts for nothing
    again = views.mean_distances(views.whitened(views.principal_directions(twice)), views.signed_weights(current))
    np.testing.assert_allclose(again, ours, rtol=1e-4)


def test_radii_and_extremes_by_hand() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, -2.0], [0.0, 0.0], [3.0, 4.0]])
    found = views.radii(rows, rows, views.squared_distances(rows), count=1)
    np.testing.assert_allclose(found[:, 0], [0, 1, 4, 0, 25])
    np.testing.assert_allclose(found[:, 1], [0, 1, 2, 0, 7])
    np.testing.assert_allclose(found[:, 2], [0, 1, 2, 0, 4])
    np.testing.assert_allclose(found[:, 3], [0, 1, 4, 0, 25])  # of the rows that are called whitened here
    np.testing.assert_allclose(found[:, 4], [0, 1, 4, 0, 20])
    values = np.array([[5.0], [4.0], [4.0], [4.0], [1.0], [0.0]])
    current = np.array([[True], [True], [True], [False], [False], [False]])
    (extreme,) = views.exceedances(values, views.signed_weights(current), (0.01,))
    assert float(extreme[0]) == pytest.approx((3 / 3 - 1 / 3) ** 2)  # three at least, and the tie


def test_neighbours_by_hand() -> None:
    rows = np.array([[0.0], [0.1], [0.2], [10.0], [10.1], [10.2]])
    current = np.array([[False, True], [False, False], [False, True], [True, False], [True, True], [True, False]])
    found = views.neighbour_shares(views.squared_distances(rows), current, count=2)
    assert found[0] == pytest.approx(2.0)
    assert found[1] == pytest.approx(2 * np.mean([0.5, 0.0, 0.5]))


def test_log_tail_is_the_gamma_tail() -> None:
    values = np.random.default_rng(0).gamma(3.0, size=200_000)
    at = np.array([100, 2000, 30_000])
    np.testing.assert_allclose(permutations.log_tail(values)[at], gamma.logsf(values[at], 3.0), atol=0.05)
    np.testing.assert_array_equal(permutations.log_tail(np.full(5, 2.0)), 0.0)


def test_exchange_keeps_groups_whole_and_pairs_swapped() -> None:
    units = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8])
    current = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 0, 1], bool)  # 6 is in both
    found = exchange(current, units, 200, np.random.default_rng(0))
    assert (found[:, 0] == current).all()
    for unit in (0, 1, 2, 3, 4, 5):
        assert (found[units == unit][0] == found[units == unit][1]).all()
    assert (found[12] != found[13]).all()
    assert 70 < found[12].sum() < 130
    assert (found[[0, 2, 4, 6, 8, 10, 14, 15]].sum(0) == 4).all()


def test_too_few_groups_are_refused() -> None:
    with refused("6 ways") as error:
        exchange(np.repeat([False, True], 20), np.arange(40) // 10, 9, np.random.default_rng(0))
    assert error.value.argument == "groups"


@pytest.mark.parametrize("views_of", [1, 8])
def test_the_aggregated_p_value_is_uniform(views_of: int) -> None:
    """Of views that depend on each other and are as skewed as can be."""
    rng = np.random.default_rng(3)
    p = []
    for _ in range(600):
        common = rng.normal(size=40)
        p.append(permutations.aggregate([np.exp(common + rng.normal(size=40) * k) for k in range(1, views_of + 1)]))
    shares = [np.mean(np.array(p) <= level) for level in (0.05, 0.1, 0.5)]
    np.testing.assert_allclose(shares, (0.05, 0.1, 0.5), atol=3 * np.sqrt(0.25 * 0.8 / 600))


def test_a_large_value_does_not_widen_its_own_tail() -> None:
    values = np.random.default_rng(0).gamma(2.0, size=300)
    for far in (12.0, 24.0):
        values[0] = far
        assert permutations.log_tail(values)[0] == pytest.approx(gamma.logsf(far, 2.0), rel=0.2)


def test_views_that_agree_count_more_than_one_of_them() -> None:
    rng = np.random.default_rng(3)
    views_of = rng.gamma(2.0, size=(6, 200))
    views_of[:, 0] = np.median(views_of)
    alone, together = views_of.copy(), views_of.copy()
    alone[0, 0] = together[:, 0] = np.quantile(views_of, 0.95)
    assert permutations.aggregate(list(together)) <= 0.05 < permutations.aggregate(list(alone))


def test_tails_of_many_views_are_those_of_each() -> None:
    values = np.concatenate([np.random.default_rng(0).gamma(2.0, size=(3, 50)), np.full((1, 50), 2.0)])
    np.testing.assert_allclose(permutations.log_tail(values), [permutations.log_tail(row) for row in values])


def test_columns_that_are_mostly_zero_are_as_others() -> None:
    """Most rows tie, and their steps come from the shorter end."""
    rng = np.random.default_rng(2)
    rows = np.where(rng.random((60, 3)) < 0.8, 0.0, rng.integers(-3, 4, size=(60, 3)))
    current = exchange(np.arange(60) < 25, np.arange(60), 5, rng)
    found = views.column_distances(rows, views.signed_weights(current))
    for place, values in enumerate(rows.T):
        for number, side in enumerate(current.T):
            at = np.unique(values)
            f, g, h = (
                np.searchsorted(np.sort(v), at, side="right") / len(v) for v in (values[side], values[~side], values)
            )
            wide = np.diff(np.concatenate([[0.0], h]))
            wide = (wide[:-1] + wide[1:]) / 2
            expected = (((f - g) ** 2)[:-1] * wide / (h * (1 - h + (h == 1)))[:-1]).sum()
            assert found[place, number] == pytest.approx(expected, rel=1e-4)


def test_wide_rows_keep_their_distances_and_directions(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 4)) * (8, 6, 4, 2) @ rng.normal(size=(4, 700)) + 0.01 * rng.normal(size=(80, 700))
    near = views.squared_distances(views.narrowed(rows)) / (views.squared_distances(rows) + np.eye(80))
    assert views.narrowed(rows).shape == (80, 256)
    assert np.abs(near[np.triu_indices(80, 1)] - 1).max() < 0.35
    found = views.principal_directions(rows, most=4)
    monkeypatch.setattr(views, "WIDE", 1000)
    exact = views.principal_directions(rows, most=4)
    np.testing.assert_allclose(np.abs(found), np.abs(exact), atol=1e-3 * np.abs(exact).max())
    assert views.narrowed(rows) is rows


def test_shapes_are_orthogonal_and_see_tails() -> None:
    """Legendre polynomials of uniform ranks: means 0, <P_k, P_l> = 1 / (2 k + 1) where k = l."""
    tied = views.shapes(np.ones((20, 2)))
    np.testing.assert_allclose(tied, np.broadcast_to([0, -0.5, 0, 0.375], (20, 2, 4)), atol=1e-12)
    z = views.shapes(np.random.default_rng(0).normal(size=(4000, 1)))[:, 0]
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(z.T @ z / 4000, np.diag(1 / (2 * np.arange(1, 5) + 1)), atol=1e-3)


def test_shape_distances_by_the_definition(monkeypatch) -> None:
    rows = np.round(ROWS * 2)
    weights = views.signed_weights(exchange(CURRENT[:, 0], np.arange(50), 6, np.random.default_rng(1)))
    above = (rows[:, None] > rows[None]).sum(1) + (rows[:, None] == rows[None]).sum(1) / 2
    z = 2 * above / 50 - 1
    expected = [
        ((of(z).sum(1) - of(z).sum(1).mean()) @ weights) ** 2
        for of in (lambda t: 1.5 * t**2, lambda t: 2.5 * t**3 - 1.5 * t, lambda t: (35 * t**4 - 30 * t**2) / 8)
    ]
    np.testing.assert_allclose(views.shape_distances(rows, weights), expected, rtol=1e-4, atol=1e-9)
    monkeypatch.setattr(views, "_NARROW", 2)  # column by column block is the same
    np.testing.assert_allclose(views.shape_distances(rows, weights), expected, rtol=1e-4, atol=1e-9)


def test_moments_do_not_change_with_the_units_and_are_white() -> None:
    directions = views.principal_directions(ROWS)
    found = views.moments(ROWS, directions)
    np.testing.assert_allclose(found.T @ found / 50, np.eye(found.shape[1]), atol=1e-6)
    assert found.shape == (50, 12)
    again = views.moments(np.exp(ROWS), directions)
    np.testing.assert_allclose(np.abs(again), np.abs(found), atol=1e-6)


def every_view(rows: np.ndarray, current: np.ndarray) -> dict[str, np.ndarray]:
    weights, squared = views.signed_weights(current), views.squared_distances(rows)
    directions = views.principal_directions(rows)
    white = views.whitened(directions)
    out = views.radii(rows, white, squared)
    kernels = np.stack(list(views.blurred_distances(squared, weights, (0.5,), views.typical(squared))))
    return {
        "columns": views.column_distances(rows, weights),
        "directions": views.column_distances(directions, weights),
        "means": views.mean_distances(white, weights),
        "kernels": kernels,
        "radii": views.column_distances(out, weights),
        "extremes": views.exceedances(out, weights),
        "shapes": views.shape_distances(rows, weights),
        "moments": views.mean_distances(views.moments(rows, directions), weights),
        "neighbours": views.neighbour_shares(views.squared_distances(white), current),
    }


@pytest.mark.parametrize("columns", [1, 6, 600])
def test_no_view_knows_the_order_of_the_pool(columns: int) -> None:
    """What makes the test exact: each is the same for rows in another order, as for labels that were exchanged."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(60, columns)) * np.linspace(3, 1, columns)
    current = exchange(np.arange(60) < 25, np.arange(60), 9, rng)
    order = rng.permutation(60)
    for (name, one), other in zip(
        every_view(rows, current).items(), every_view(rows[order], current[order]).values(), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-5 * np.abs(one).max(), err_msg=name)
