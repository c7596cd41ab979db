"""Every trick against the truth: left-out blocks, coarse starts, float32 tiles; clouds made to break them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import jumbot
from jumbot.cost import COSTS
from jumbot.transport._certificate import certify
from jumbot.transport._points import engine_choice as coarse
from jumbot.transport._points.kd_cells import Cells, split_in_cells
from jumbot.transport._points.point_tiles import Tiles
from jumbot.transport._points.rounding import exponents, prove
from jumbot.transport._points.tile_math import ground_of, scaled
from jumbot.transport._problem import Problem, Terms, make_problem

N = 900


def clouds(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two clouds and their weights, each family made to break some trick."""
    draw = np.random.default_rng(seed)
    x, y = draw.random((N, 2)), draw.random((N - 100, 2)) ** 1.5
    a, b = np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y))
    if name == "outliers":
        x[:7] += draw.normal(size=(7, 2)) * 20
        y[:3] -= 30
    elif name == "duplicates":
        x, y = np.repeat(x[:9], 100, axis=0), np.repeat(y[:8], 100, axis=0)
    elif name == "one cell":
        x, y = x[:40] * 1e-3, y[:30] * 1e-3
        a, b = a[:40] * N / 40, b[:30] * (N - 100) / 30
    elif name == "collinear":
        x[:, 1] = y[:, 1] = 0.5
    elif name == "zero weights":
        a[::3], b[:200] = 0, 0
        a, b = a / a.sum(), b / b.sum()
    elif name == "unequal masses":
        a, b = a * 5, b * draw.random(len(b))
    elif name == "far apart":
        y += 4
    elif name == "clusters":
        x, y = x * 0.05 + draw.integers(3, size=(N, 1)), y * 0.05 + draw.integers(3, size=(N - 100, 1))
    return x, y, a, b


FAMILIES = (
    "uniform",
    "outliers",
    "duplicates",
    "one cell",
    "collinear",
    "zero weights",
    "unequal masses",
    "far apart",
    "clusters",
)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("tau", [10.0, 0.5])
@pytest.mark.parametrize("cost", ["sqeuclidean", "euclidean", "wfr"])
def test_the_optimum_lies_in_the_gap(name: str, tau: float, cost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tiles.__init__, "__defaults__", (32,))
    monkeypatch.setattr(coarse, "FEWEST", 200)
    x, y, a, b = clouds(name, 1)
    epsilon = {"sqeuclidean": 4e-3, "euclidean": 2e-2, "wfr": 4e-3}[cost]
    settings = {"epsilon": epsilon, "tau": tau * epsilon}
    found = jumbot.solve_sample(x, y, a, b, cost=cost, **settings, tol=1e-4)
    matrix = COSTS[cost](torch.from_numpy(x), torch.from_numpy(y))
    truth = jumbot.solve(matrix, torch.from_numpy(a), torch.from_numpy(b), **settings, tol=1e-9)
    assert found.converged
    slack = 1e-9 * abs(float(truth.value)) + 1e-15
    assert float(truth.dual) - slack <= found.value
    assert found.value - found.gap <= float(truth.value) + slack
    # the certificate of the whole plan of these potentials, in float64: left-out blocks and float32 hide nothing
    problem = make_problem(matrix, torch.from_numpy(a), torch.from_numpy(b), Terms(**settings))
    if problem.closed is None:
        f, g = (torch.from_numpy(p)[None] for p in found.potentials)
        whole = certify(problem, f, g)
        dual = float(whole.objective - whole.gap + problem.constant)
        assert found.dual <= dual + slack
    if name in ("uniform", "clusters", "outliers") and cost == "sqeuclidean":
        assert found.kept < 0.8


@pytest.mark.parametrize("tau", [math.inf, (math.inf, 0.05)])
@pytest.mark.parametrize("name", ["uniform", "duplicates", "clusters"])
def test_exact_marginals_with_blocks_left_out(name: str, tau: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tiles.__init__, "__defaults__", (32,))
    monkeypatch.setattr(coarse, "FEWEST", 200)
    x, y, a, b = clouds(name, 2)
    found = jumbot.solve_sample(x, y, a, b, epsilon=0.01, tau=tau, tol=1e-3)
    matrix = ((x[:, None] - y) ** 2).sum(-1)
    truth = jumbot.solve(matrix, a, b, epsilon=0.01, tau=tau, tol=1e-8)
    assert found.converged
    np.testing.assert_allclose(found.marginals[0], a, rtol=1e-9, atol=1e-15)
    slack = 1e-8 * abs(float(truth.value))
    assert found.value - found.gap - slack <= truth.value <= found.value + slack


@pytest.mark.filterwarnings("ignore::jumbot.NotConvergedWarning")
def test_a_gap_that_stays_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    """Balanced, with outliers at a hundred times the spread: sweeps may stop short, and say by how much."""
    monkeypatch.setattr(coarse, "FEWEST", 200)
    x, y, a, b = clouds("outliers", 2)
    found = jumbot.solve_sample(x / 5, y / 5, a, b, epsilon=0.01, tol=1e-3, max_iterations=60)
    truth = jumbot.solve(((x[:, None] - y) ** 2).sum(-1) / 25, a, b, epsilon=0.01, tol=1e-8)
    assert found.value - found.gap <= truth.value * (1 + 1e-8)
    assert truth.value * (1 - 1e-8) <= found.value


def problem_of(x: np.ndarray, y: np.ndarray, epsilon: float, tau: float) -> Problem:
    cost = ((torch.from_numpy(x)[:, None] - torch.from_numpy(y)) ** 2).sum(-1)
    return make_problem(cost, None, None, Terms(epsilon, tau))


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_on_left_out_blocks_is_one(seed: int) -> None:
    """At potentials that are far from optimal too: nothing that is proved rests on them."""
    draw = np.random.default_rng(seed)
    x, y = draw.random((500, 2)), draw.random((400, 2))
    problem = problem_of(x, y, 1e-3, 1e-2)
    ground = ground_of("sqeuclidean", 1e-3, 2)
    f, g = (torch.from_numpy(draw.normal(size=(1, k)) * 2e-3) for k in (500, 400))
    tiles = Tiles(*scaled(ground, x, y), ground, 32)
    F, G = exponents(problem, tiles.closed, f, g)
    plan = np.exp(F[:, None] + G - problem.cost[0].numpy() / 1e-3)
    for budget in (1e-12, 1e-6, 1e-3, 0.1):
        tiles.choose(F, G, budget * plan.sum())
        assert tiles.kept < 1
        kept = np.zeros_like(plan, dtype=bool)
        first, last, met = tiles.lists[0]
        rows, columns = (c.at // c.width for c in tiles.cells)
        for k in range(tiles.cells[0].count):
            kept[np.ix_(rows == k, np.isin(columns, met[first[k] : last[k]]))] = True
        left = plan[~kept].sum()
        assert left <= tiles.left_out <= 2 * budget * plan.sum() + left
        p, q, linear, _ = tiles.plan_sums(F, G)
        np.testing.assert_allclose(p, np.where(kept, plan, 0).sum(1), rtol=1e-9)
        np.testing.assert_allclose(q, np.where(kept, plan, 0).sum(0), rtol=1e-9)
        assert linear == pytest.approx((np.where(kept, plan, 0) * problem.cost[0].numpy()).sum() / 1e-3, rel=1e-9)
        np.testing.assert_allclose(
            tiles.log_sums(1, F, None, np.float32), np.log(np.where(kept, plan, 0).sum(0)) - G, atol=2e-5
        )
        proof = prove(problem, tiles, f, g)
        whole = certify(problem, f, g)
        assert proof.objective - proof.gap <= float(whole.objective - whole.gap) + 1e-13 * abs(proof.objective)
        assert proof.gap >= 0


def test_a_wrong_bound_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above fails where blocks are left out and not accounted for."""
    draw = np.random.default_rng(0)
    x, y = draw.random((500, 2)), draw.random((400, 2))
    problem, ground = problem_of(x, y, 1e-3, 1e-2), ground_of("sqeuclidean", 1e-3, 2)
    zero = torch.zeros(1, 500, dtype=torch.float64), torch.zeros(1, 400, dtype=torch.float64)
    tiles = Tiles(*scaled(ground, x, y), ground, 32)
    tiles.choose(*exponents(problem, tiles.closed, *zero), 1e-4)
    tiles.left_out = 0.0
    proof, whole = prove(problem, tiles, *zero), certify(problem, *zero)
    assert proof.objective - proof.gap > float(whole.objective - whole.gap)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 9, 30])
@pytest.mark.parametrize("cost", ["sqeuclidean", "euclidean"])
def test_float32_tiles(d: int, cost: str) -> None:
    draw = np.random.default_rng(d)
    x, y = draw.normal(size=(300, d)), draw.normal(size=(200, d)) + 100
    x += 100  # far from the origin: coordinates are centred first
    ground = ground_of(cost, 0.5, d)
    tiles = Tiles(*scaled(ground, x, y), ground)
    z = ((x[:, None] - y) ** 2).sum(-1)
    cost_matrix = (z if cost == "sqeuclidean" else np.sqrt(z)) / 0.5
    G = draw.normal(size=200)
    truth = np.log(np.exp(G - cost_matrix + cost_matrix.min(1, keepdims=True)).sum(1)) - cost_matrix.min(1)
    np.testing.assert_allclose(tiles.log_sums(0, G, None, np.float64), truth, rtol=1e-12, atol=1e-11)
    single = tiles.log_sums(0, G, None, np.float32)
    assert np.abs(single - truth).max() < 20 * tiles.noise + 1e-6
    # a guess that is far off is found out
    np.testing.assert_allclose(
        tiles.log_sums(0, G, np.full(300, 500.0), np.float32), truth, atol=20 * tiles.noise + 1e-5
    )


def test_cells_hold_every_point_once() -> None:
    points = np.random.default_rng(0).integers(3, size=(1000, 2)).astype(float)  # many ties
    order, sizes = split_in_cells(points, 20)
    assert sorted(order.tolist()) == list(range(1000))
    assert sizes.sum() == 1000
    assert sizes.max() <= 20
    cells = Cells.of(points, 20)
    assert len(set(cells.at.tolist())) == 1000
    np.testing.assert_array_equal(cells.taken(cells.padded(np.arange(1000.0), -1)), np.arange(1000.0))
    low, high = cells.boxes
    cell = cells.at // cells.width
    assert (points >= low[cell]).all()
    assert (points <= high[cell]).all()


def test_a_coarse_start_changes_the_way_and_not_the_answer() -> None:
    draw = np.random.default_rng(0)
    x, y = draw.random((3000, 3)), draw.random((2500, 3)) ** 1.3
    settings = {"epsilon": 2e-3, "tau": 2e-2, "tol": 1e-6}
    plain = jumbot.solve_sample(x, y, **settings, init=(np.zeros(3000), np.zeros(2500)))
    begun = jumbot.solve_sample(x, y, **settings)
    assert begun.iterations < plain.iterations
    assert abs(begun.value - plain.value) <= plain.gap + begun.gap


def test_under_ones_a_coarse_point_counts_for_all_of_its_points() -> None:
    draw = np.random.default_rng(0)
    x, y = draw.random((3000, 2)), draw.random((2500, 2))
    found = jumbot.solve_sample(x, y, epsilon=2e-3, tau=2e-2, reference="ones", tol=1e-5)
    assert found.iterations <= 6
    matrix = ((x[:, None] - y) ** 2).sum(-1)
    truth = jumbot.solve(matrix, epsilon=2e-3, tau=2e-2, reference="ones", tol=1e-8)
    assert found.value - found.gap <= truth.value <= found.value + 1e-9


@pytest.mark.parametrize("m", [1, 60])
def test_coarse_points_that_stand_for_several_under_ones_keep_their_mass(
    m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Balanced, the sweeps of a coarse problem with another mass on each side would drift without end."""
    monkeypatch.setattr(coarse, "FEWEST", 20)
    draw = np.random.default_rng(0)
    x, y, a = draw.random((130, 2)), draw.random((m, 2)), draw.random(130) + 0.05
    a[draw.random(130) < 0.3] = 0
    a, b = a / a.sum(), np.full(m, 1 / m)
    found = jumbot.solve_sample(x, y, a, b, epsilon=0.01, reference="ones", tol=1e-5)
    truth = jumbot.solve(((x[:, None] - y) ** 2).sum(-1), a, b, epsilon=0.01, reference="ones")
    assert found.converged
    assert abs(found.potentials[1]).max() < 10
    assert found.value - found.gap - 1e-9 <= truth.value <= found.value + 1e-9


def test_nothing_of_the_size_of_the_matrix_is_made() -> None:
    import tracemalloc

    draw = np.random.default_rng(0)
    x, y = draw.random((20_000, 2)), draw.random((20_000, 2))
    tracemalloc.start()
    found = jumbot.solve_sample(x, y, epsilon=2e-3, tau=2e-2, memory=100_000_000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.converged
    assert most < 100_000_000  # the matrix would have 3.2 GB


def test_rows_that_nothing_can_reach() -> None:
    """-log cos^2 is infinite from pi/2 on: such points lose all of their mass, and the value says so."""
    x = np.concatenate([np.random.default_rng(0).random((50, 2)), np.full((3, 2), 50.0)])
    y = np.random.default_rng(1).random((40, 2))
    found = jumbot.solve_sample(x, y, cost="wfr", epsilon=0.05, tau=1.0, tol=1e-8)
    truth = jumbot.solve(
        COSTS["wfr"](torch.from_numpy(x), torch.from_numpy(y)).numpy(), epsilon=0.05, tau=1.0, tol=1e-10
    )
    assert found.value == pytest.approx(float(truth.value), rel=1e-7)
    np.testing.assert_array_equal(found.marginals[0][50:], 0)
    assert np.isnan(found.barycentric_map()[50:]).all()


@pytest.mark.parametrize("far", [30.0, 300.0])
def test_far_outliers_do_not_stall_balanced_transport(far: float) -> None:
    """Their costs are the scale of the gap: measured by it, blocks that hold all other mass could be left out, and
    groups that hardly touch each other need potentials that sweeps take thousands of steps to reach."""
    draw = np.random.default_rng(0)
    x, y = draw.random((2200, 2)), draw.random((2100, 2)) ** 1.3
    y[:21] += far
    solution = jumbot.solve_sample(x, y, epsilon=0.001)
    assert solution.converged
    assert solution.iterations < 400
    assert solution.kept < 1
    sums = solution.marginals
    np.testing.assert_allclose(sums[0], 1 / 2200, rtol=1e-6)
    np.testing.assert_allclose(sums[1], 1 / 2100, rtol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tau": (math.inf, 0.5)},
        {"tau": (0.5, math.inf), "divergence": "chi2"},
        {"tau": 0.5},
        {"divergence": "range(0.7,1.4)"},
    ],
    ids=str,
)
def test_points_without_weight_under_ones(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """They get no mass, by potentials of -inf, which are no numbers to go on with."""
    monkeypatch.setattr(coarse, "FEWEST", 40)
    x, y, a, b = clouds("zero weights", 3)
    x, y, a, b = x[:150], y[150:270], a[:150] / a[:150].sum(), b[150:270] / b[150:270].sum()
    settings = {"epsilon": 0.02, "reference": "ones", **settings}
    found = jumbot.solve_sample(x, y, a, b, **settings, tol=1e-6)
    truth = jumbot.solve(((x[:, None] - y) ** 2).sum(-1), a, b, **settings, tol=1e-9)
    assert found.converged
    assert found.value - found.gap - 1e-9 <= truth.value <= found.value + 1e-9
    for potential, marginal, weights in zip(found.potentials, found.marginals, (a, b), strict=True):
        assert (weights == 0).any()
        np.testing.assert_array_equal(potential == -math.inf, weights == 0)
        np.testing.assert_array_equal(marginal[weights == 0], 0)


@pytest.mark.parametrize("divergence", ["range(0.7,1.4)", "tv", "chi2", "kl"])
@pytest.mark.parametrize("far", [1e3, 1e8])
def test_a_start_that_is_far_off_by_a_translation(divergence: str, far: float) -> None:
    """Sweeps alone would come back by an epsilon or so each."""
    draw = np.random.default_rng(0)
    x, y = draw.random((150, 2)), draw.random((120, 2))
    settings = {"epsilon": 0.02, "divergence": divergence, "tau": math.inf if "range" in divergence else 0.3}
    settings["reference"] = "ones"
    plain = jumbot.solve_sample(x, y, **settings)
    f, g = plain.potentials
    moved = jumbot.solve_sample(x, y, **settings, init=(f - far, g + far))
    assert moved.converged
    assert moved.iterations <= plain.iterations + 60
    assert abs(moved.value - plain.value) <= moved.gap + plain.gap + 1e-12


def test_coarse_points_that_nothing_can_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """-log cos^2 is infinite from pi/2 on: the potentials of such points are no start for the points around them."""
    monkeypatch.setattr(coarse, "FEWEST", 20)
    draw = np.random.default_rng(5)
    x = 0.03 * draw.random((200, 2)) + 1.3 * draw.integers(3, size=(200, 1))
    y = draw.random((420, 2))
    y[:7] += 20 * draw.normal(size=(7, 2))
    x[:2] -= 1.2
    settings = {"epsilon": 0.19, "tau": 2.3}
    found = jumbot.solve_sample(x, y, cost="wfr", **settings, tol=1e-5)
    truth = jumbot.solve(COSTS["wfr"](torch.from_numpy(x), torch.from_numpy(y)).numpy(), **settings, tol=1e-9)
    assert found.converged
    assert found.value - found.gap - 1e-9 <= truth.value <= found.value + 1e-9


@pytest.mark.parametrize(("away", "tau", "divergence"), [(1.6, 30.0, "kl"), (2.0, 1.0, "kl"), (2.2, 1.0, "chi2")])
def test_points_that_a_fine_point_reaches_and_no_coarse_one(
    away: float, tau: float, divergence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the border of what is within reach a coarse start knows nothing of some points that have mass."""
    monkeypatch.setattr(coarse, "FEWEST", 32)
    draw = np.random.default_rng(0)
    x, y = draw.random((600, 1)), draw.random((600, 1)) + away
    settings: dict[str, Any] = {"epsilon": 0.1, "tau": (1.0, tau), "divergence": divergence}
    found = jumbot.solve_sample(x, y, cost="wfr", **settings)
    truth = jumbot.solve(COSTS["wfr"](torch.from_numpy(x), torch.from_numpy(y)).numpy(), **settings, tol=1e-8)
    assert found.converged
    assert found.value - found.gap - 1e-9 <= truth.value <= found.value + truth.gap + 1e-9


@pytest.mark.parametrize("family", ["t(1.5)", "t(1.1)", "range"])
def test_heavy_tails_do_not_stall(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No point stands for the farthest ones: epsilon is larger first, and smaller step by step."""
    monkeypatch.setattr(coarse, "FEWEST", 100)
    draw, settings = np.random.default_rng(3), {"epsilon": 0.1}
    if family == "range":
        x, y, settings = draw.random((400, 2)), draw.random((360, 2)) ** 1.3, {"epsilon": 0.01}
        settings |= {"divergence": "range(0.8,1.25)"}
        y[:4] += 30
    else:
        x, y = (draw.standard_t(float(family[2:5]), (k, 2)) for k in (400, 360))
    found = jumbot.solve_sample(x, y, **settings)
    truth = jumbot.solve(((x[:, None] - y) ** 2).sum(-1), **settings, tol=1e-6)
    assert found.converged
    assert found.iterations < 300
    slack = 1e-6 * abs(float(truth.value))
    assert found.value - found.gap - slack <= truth.value <= found.value + slack


@pytest.mark.parametrize("cost", ["sqeuclidean", "euclidean", "wfr"])
def test_a_larger_epsilon_is_the_same_problem(cost: str) -> None:
    """What annealing warms up has the costs of the points, over the larger epsilon."""
    draw = np.random.default_rng(0)
    x, y = draw.random((30, 2)), draw.random((20, 2))
    ground = ground_of(cost, 0.01, 2)
    problem = problem_of(x, y, 0.01, 0.1)
    sides = [coarse.Side(z, np.full(len(z), 1 / len(z)), np.ones(len(z))) for z in scaled(ground, x, y)]
    warm, warm_sides, warm_ground = coarse._warmed(problem, (sides[0], sides[1]), ground, 9.0)
    full = coarse.with_costs(warm, *(side.points for side in warm_sides), warm_ground)
    truth = COSTS[cost](torch.from_numpy(x), torch.from_numpy(y))
    assert warm.epsilon == pytest.approx(0.09)
    torch.testing.assert_close(full.cost[0], truth, rtol=1e-9, atol=1e-12)


def test_a_start_beyond_the_price_of_all_mass_proves_nothing() -> None:
    """The dual of total variation is -inf below -tau: a plan of no mass once passed for the optimum there."""
    x = np.zeros((2, 1))
    settings: dict[str, Any] = {"epsilon": 0.1, "tau": (1e6, 1.0), "divergence": "tv"}
    found = jumbot.solve_sample(x, x, **settings, init=(np.zeros(2), np.full(2, -1e9)))
    truth = jumbot.solve(np.zeros((2, 2)), **settings)
    assert found.converged
    assert abs(found.value - truth.value) <= found.gap + truth.gap + 1e-9
